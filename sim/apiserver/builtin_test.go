package apiserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	applyapps "k8s.io/client-go/applyconfigurations/apps/v1"
	"k8s.io/utils/ptr"
)

func deployment(name string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "example.com/c:1"}}},
			},
		},
	}
}

func TestDeploymentOverProtobuf(t *testing.T) {
	w := newWorld(t, Options{})
	ctx := t.Context()
	api := w.kub.AppsV1().Deployments("default")
	d, err := api.Create(ctx, deployment("web"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// Defaults of the real API, in all depths.
	if *d.Spec.Replicas != 1 || d.Spec.Strategy.RollingUpdate.MaxSurge.String() != "25%" || *d.Spec.RevisionHistoryLimit != 10 ||
		d.Spec.Template.Spec.Containers[0].ImagePullPolicy != corev1.PullIfNotPresent || d.Generation != 1 {
		t.Errorf("not defaulted: %+v", d.Spec)
	}
	// Strategic merge: containers are merged by name.
	patch := `{"spec":{"template":{"spec":{"containers":[{"name":"d","image":"example.com/d:1"}]}}}}`
	d, err = api.Patch(ctx, "web", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil || len(d.Spec.Template.Spec.Containers) != 2 || d.Generation != 2 {
		t.Errorf("strategic merge patch: %v, %+v", err, d.Spec.Template.Spec.Containers)
	}
	scale, err := api.GetScale(ctx, "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	scale.Spec.Replicas = 5
	if _, err := api.UpdateScale(ctx, "web", scale, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	d, _ = api.Get(ctx, "web", metav1.GetOptions{})
	stale := d.DeepCopy()
	d.Status.ReadyReplicas, d.Status.Replicas = 5, 5
	d.Spec.Replicas = ptr.To[int32](9)
	d, err = api.UpdateStatus(ctx, d, metav1.UpdateOptions{})
	if err != nil || d.Status.ReadyReplicas != 5 || *d.Spec.Replicas != 5 {
		t.Errorf("status update: %v, ready %d, replicas %d", err, d.Status.ReadyReplicas, *d.Spec.Replicas)
	}
	if _, err := api.Update(ctx, stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("stale update: %v", err)
	}
	ac := applyapps.Deployment("web", "default").WithSpec(applyapps.DeploymentSpec().WithReplicas(7))
	if _, err := api.Apply(ctx, ac, metav1.ApplyOptions{FieldManager: "applier"}); !apierrors.IsConflict(err) {
		t.Errorf("apply over another's field: %v", err)
	}
	d, err = api.Apply(ctx, ac, metav1.ApplyOptions{FieldManager: "applier", Force: true})
	if err != nil || *d.Spec.Replicas != 7 {
		t.Errorf("forced apply: %v", err)
	}
	if _, err := api.Create(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "bad"}}, metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("invalid deployment: %v", err)
	}
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Labels: map[string]string{"app": "x"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "c"}}},
	}
}

// Nobody runs pods here: a pod on a node stays until somebody deletes it for good, as a kubelet would.
func TestPodDeletion(t *testing.T) {
	w := newWorld(t, Options{})
	ctx := t.Context()
	api := w.kub.CoreV1().Pods("default")
	running := pod("running")
	running.Spec.NodeName = "node-1"
	for _, p := range []*corev1.Pod{running, pod("pending")} {
		if _, err := api.Create(ctx, p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := api.Delete(ctx, p.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := api.Get(ctx, "pending", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a pod without node: %v, want it gone", err)
	}
	p, err := api.Get(ctx, "running", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := p.DeletionTimestamp.Time, DefaultTime.Add(30*time.Second); !got.Equal(want) || *p.DeletionGracePeriodSeconds != 30 {
		t.Errorf("deletion at %v, want %v", got, want)
	}
	if err := api.Delete(ctx, "running", metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0), Preconditions: &metav1.Preconditions{UID: ptr.To(types.UID("other"))}}); !apierrors.IsConflict(err) {
		t.Errorf("deletion of another incarnation: %v", err)
	}
	if err := api.Delete(ctx, "running", metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}); err != nil {
		t.Fatal(err)
	}
	if _, err := api.Get(ctx, "running", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after deletion without grace: %v", err)
	}
}

func TestEvictionHonoursBudget(t *testing.T) {
	w := newWorld(t, Options{})
	ctx := t.Context()
	p := pod("a")
	p.Spec.NodeName = "node-1"
	if _, err := w.kub.CoreV1().Pods("default").Create(ctx, p, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	if _, err := w.kub.CoreV1().Pods("default").UpdateStatus(ctx, p, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "b"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: ptr.To(intstr.FromInt32(1)),
			Selector:     &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}},
		},
	}
	if _, err := w.kub.PolicyV1().PodDisruptionBudgets("default").Create(ctx, budget, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// By hand: client-go would try again for as long as it is told to.
	code, text := w.do(http.MethodPost, "/api/v1/namespaces/default/pods/a/eviction", "application/json",
		`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"a","namespace":"default"}}`)
	if code != http.StatusTooManyRequests {
		t.Errorf("eviction: %d %s, want the budget to refuse", code, text)
	}
}

func TestGenerateName(t *testing.T) {
	names := func(seed uint64) (out []string) {
		w := newWorld(t, Options{Seed: seed})
		for range 3 {
			cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "cm-"}}
			cm, err := w.kub.CoreV1().ConfigMaps("default").Create(t.Context(), cm, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, cm.Name, string(cm.UID))
		}
		w.Close()
		return out
	}
	a, b, c := names(1), names(1), names(2)
	if strings.Join(a, " ") != strings.Join(b, " ") {
		t.Errorf("same seed, other names: %v, %v", a, b)
	}
	if a[0] == a[2] || a[0] == c[0] || a[1] == c[1] || len(a[0]) != len("cm-12345") {
		t.Errorf("names: %v, %v", a, c)
	}
}

func service(name, ip string, port int32) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeNodePort, ClusterIP: ip,
			Ports: []corev1.ServicePort{{Port: 80, NodePort: port}},
		},
	}
}

func TestServiceAddresses(t *testing.T) {
	w := newWorld(t, Options{ServiceCIDR: "10.7.0.0/24"})
	ctx := t.Context()
	api := w.kub.CoreV1().Services("default")
	create := func(s *corev1.Service) (*corev1.Service, error) {
		return api.Create(ctx, s, metav1.CreateOptions{})
	}
	a, err := create(service("a", "", 0))
	if err != nil {
		t.Fatal(err)
	}
	b, err := create(service("b", "", 0))
	if err != nil {
		t.Fatal(err)
	}
	// The first 16 addresses and 86 ports are for those who ask.
	for _, c := range []struct{ got, want any }{
		{a.Spec.ClusterIP, "10.7.0.17"},
		{b.Spec.ClusterIP, "10.7.0.18"},
		{a.Spec.Ports[0].NodePort, int32(30086)},
		{b.Spec.Ports[0].NodePort, int32(30087)},
	} {
		if c.got != c.want {
			t.Errorf("got %v, want %v", c.got, c.want)
		}
	}
	for name, s := range map[string]*corev1.Service{
		"address in use": service("c", "10.7.0.17", 0), "address of the API server": service("c", "10.7.0.1", 0),
		"address out of range": service("c", "10.8.0.1", 0), "port in use": service("c", "", 30086), "port out of range": service("c", "", 80),
	} {
		if _, err := create(s); !apierrors.IsInvalid(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Refused Services hold nothing, deleted ones give back.
	if err := api.Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	d, err := create(service("d", "", 0))
	if err != nil || d.Spec.ClusterIP != "10.7.0.17" || d.Spec.Ports[0].NodePort != 30086 {
		t.Errorf("after a deletion: %v, %v", err, d.Spec)
	}
}

func TestNamespaceLifecycle(t *testing.T) {
	w := newWorld(t, Options{})
	ctx := t.Context()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "cm"}}
	if _, err := w.kub.CoreV1().ConfigMaps("nowhere").Create(ctx, cm, metav1.CreateOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("create in no namespace: %v", err)
	}
	if err := w.kub.CoreV1().Namespaces().Delete(ctx, "default", metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("deletion of default: %v", err)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}
	if _, err := w.kub.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.kub.CoreV1().ConfigMaps("team").Create(ctx, cm, metav1.CreateOptions{}); err != nil {
		t.Errorf("create in a new namespace: %v", err)
	}
	if err := w.kub.CoreV1().Namespaces().Delete(ctx, "team", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	cm.Name = "late"
	_, err := w.kub.CoreV1().ConfigMaps("team").Create(ctx, cm, metav1.CreateOptions{})
	if !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		t.Errorf("create in a terminating namespace: %v", err)
	}
	got, err := w.kub.CoreV1().Namespaces().Get(ctx, "team", metav1.GetOptions{})
	if err != nil || got.Status.Phase != corev1.NamespaceTerminating {
		t.Errorf("namespace: %v, phase %s", err, got.Status.Phase)
	}
}

// Both API groups of events show the same objects.
func TestEventsCohabit(t *testing.T) {
	w := newWorld(t, Options{})
	ev := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: "e", Namespace: "default"},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "p"}, Reason: "Because", Type: corev1.EventTypeNormal,
	}
	if _, err := w.kub.CoreV1().Events("default").Create(t.Context(), ev, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	got, err := w.kub.EventsV1().Events("default").Get(t.Context(), "e", metav1.GetOptions{})
	if err != nil || got.Regarding.Name != "p" {
		t.Errorf("events.k8s.io: %v, %+v", err, got)
	}
	if at, ok := w.Store().NextExpiry(); !ok || !at.Equal(DefaultTime.Add(time.Hour)) {
		t.Errorf("the event's time to live ends at %v, %v", at, ok)
	}
}

func TestQuantitiesAreNormalised(t *testing.T) {
	w := newWorld(t, Options{})
	d := deployment("q")
	d.Spec.Template.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"cpu": resource.MustParse("1000m")}
	if _, err := w.kub.AppsV1().Deployments("default").Create(t.Context(), d, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, text := w.do(http.MethodGet, "/apis/apps/v1/namespaces/default/deployments/q", "", "")
	if !strings.Contains(text, `"limits":{"cpu":"1"}`) {
		t.Errorf("not normalised: %s", text)
	}
}

// The document of an API group is the answer to any method, for those who may; but for the aggregator's own group, and for
// the document of a version.
func TestGroupDocumentByAnyMethod(t *testing.T) {
	w := newWorld(t, Options{RBAC: true})
	_, want := w.do(http.MethodGet, "/apis/apps", "", "")
	for _, method := range []string{http.MethodPost, http.MethodDelete} {
		if code, got := w.do(method, "/apis/apps/", jsonType, "{}"); code != http.StatusOK || got != want || !strings.Contains(got, `"APIGroup"`) {
			t.Errorf("%s: %d, %s", method, code, got)
		}
	}
	if code, text := w.do(http.MethodPost, "/apis/apps", jsonType, "{}", "X-Remote-User", "alice"); code != http.StatusForbidden {
		t.Errorf("somebody who may not: %d, %s", code, text)
	}
	for path, want := range map[string]int{
		"/apis/apiregistration.k8s.io": http.StatusMethodNotAllowed, "/apis/apps/v1": http.StatusMethodNotAllowed, "/apis/nothing.example.com": http.StatusNotFound,
	} {
		if code, text := w.do(http.MethodPost, path, jsonType, "{}"); code != want {
			t.Errorf("%s: %d, want %d: %s", path, code, want, text)
		}
	}
}

func TestDiscovery(t *testing.T) {
	w := newWorld(t, Options{})
	w.addWidgets()
	groups, err := w.kub.ServerGroups() // aggregated
	if err != nil {
		t.Fatal(err)
	}
	var plain metav1.APIGroupList
	_, text := w.do(http.MethodGet, "/apis", "", "")
	if err := json.Unmarshal([]byte(text), &plain); err != nil {
		t.Fatal(err)
	}
	if !has(groups.Groups, "example.com", "v1") || !has(groups.Groups, "apps", "v1") {
		t.Errorf("aggregated: %v", groups)
	}
	if !has(plain.Groups, "example.com", "v1") || !has(plain.Groups, "apps", "v1") || len(plain.Groups)+1 != len(groups.Groups) {
		t.Errorf("plain: %v", plain.Groups) // without the core group, which /api has
	}
	for _, path := range []string{"/openapi/v3", "/openapi/v3/apis/apps/v1", "/openapi/v2"} {
		code, text := w.do(http.MethodGet, path, "", "")
		if code != http.StatusOK || !strings.Contains(text, "apps") {
			t.Errorf("%s: %d, %.100s", path, code, text)
		}
	}
	if code, text := w.do(http.MethodGet, "/openapi/v3/apis/example.com/v1", "", ""); !strings.Contains(text, "too many replicas") {
		t.Errorf("OpenAPI v3: %d, %.100s", code, text)
	}
	if code, text := w.do(http.MethodGet, "/openapi/v2", "", ""); !strings.Contains(text, "com.example.v1.Widget") || !strings.Contains(text, "io.k8s.api.apps.v1.Deployment") {
		t.Errorf("OpenAPI v2: %d, %.100s", code, text)
	}
	doc, err := w.kub.OpenAPISchema() // protobuf
	if err != nil || len(doc.GetDefinitions().GetAdditionalProperties()) < 100 {
		t.Errorf("OpenAPI v2 as protobuf: %v", err)
	}
}

func has(groups []metav1.APIGroup, name, version string) bool {
	for _, g := range groups {
		if g.Name == name && g.PreferredVersion.Version == version {
			return true
		}
	}
	return false
}

// The finalizers of a namespace that is deleted stay in their order; the one that the policy adds comes last.
func TestFinalizersOfNamespacesKeepTheirOrder(t *testing.T) {
	w := newWorld(t, Options{})
	for i := range 20 { // the registry has them from a map
		name := fmt.Sprintf("n%d", i)
		w.post("/api/v1/namespaces", `{"metadata":{"name":"`+name+`","finalizers":["example.com/b","example.com/c","example.com/a"]}}`)
		u := w.must(http.StatusOK, http.MethodDelete, "/api/v1/namespaces/"+name, jsonType, `{"propagationPolicy":"Orphan"}`)
		if got, want := field(u, "metadata.finalizers"), "[example.com/b example.com/c example.com/a orphan]"; got != want {
			t.Fatalf("%s, want %s", got, want)
		}
	}
}
