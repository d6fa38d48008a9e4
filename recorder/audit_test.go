package recorder_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	"github.com/opreplay/opreplay/recorder"
	"github.com/opreplay/opreplay/traces"
)

// must fails the test on an error; refused on anything but the refusal that it names.
func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func refused(t testing.TB, reason metav1.StatusReason, err error) {
	t.Helper()
	if apierrors.ReasonForError(err) != reason {
		t.Fatalf("want %s, got %v", reason, err)
	}
}

// busyClient makes writes of every kind through the proxy, in JSON or protobuf.
func busyClient(t testing.TB, config *rest.Config, ns string) {
	t.Helper()
	ctx := t.Context()
	c := must[*kubernetes.Clientset](t)(kubernetes.NewForConfig(config))
	cm := c.CoreV1().ConfigMaps(ns)
	m := must[*corev1.ConfigMap](t)(cm.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "a-"}, Data: map[string]string{"k": "1"}}, metav1.CreateOptions{}))
	old := m.DeepCopy()
	m.Data["k"] = "2"
	must[*corev1.ConfigMap](t)(cm.Update(ctx, m, metav1.UpdateOptions{}))
	_, err := cm.Update(ctx, old, metav1.UpdateOptions{})
	_, err2 := cm.Update(ctx, func() *corev1.ConfigMap { o := old.DeepCopy(); o.Data["k"] = "3"; return o }(), metav1.UpdateOptions{})
	refused(t, metav1.StatusReasonConflict, err)
	refused(t, metav1.StatusReasonConflict, err2)
	for patch, body := range map[types.PatchType]string{
		types.JSONPatchType:           `[{"op":"replace","path":"/data/k","value":"4"}]`,
		types.MergePatchType:          `{"data":{"k":"5","old":null}}`,
		types.StrategicMergePatchType: `{"metadata":{"labels":{"a":"b"}}}`,
	} {
		must[*corev1.ConfigMap](t)(cm.Patch(ctx, m.Name, patch, []byte(body), metav1.PatchOptions{FieldManager: "patcher"}))
	}
	must[*corev1.ConfigMap](t)(cm.Apply(ctx, corev1ac.ConfigMap("applied", ns).WithData(map[string]string{"x": "y"}), metav1.ApplyOptions{FieldManager: "applier", Force: true}))
	_, err = cm.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "applied"}}, metav1.CreateOptions{})
	refused(t, metav1.StatusReasonAlreadyExists, err)
	_, err = cm.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "No Name"}}, metav1.CreateOptions{})
	refused(t, metav1.StatusReasonInvalid, err)
	must[*corev1.ConfigMap](t)(cm.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "dry"}}, metav1.CreateOptions{DryRun: []string{"All"}}))
	refused(t, metav1.StatusReasonNotFound, cm.Delete(ctx, "nobody", metav1.DeleteOptions{}))
	if err := cm.Delete(ctx, m.Name, *metav1.NewPreconditionDeleteOptions(string(m.UID))); err != nil {
		t.Fatal(err)
	}
	if err := cm.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "nothing=here"}); err != nil {
		t.Fatal(err)
	}
	if err := cm.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	busyPods(t, c, ns)
	busyWorkloads(t, c, ns)
	refused(t, metav1.StatusReasonNotFound, func() error {
		_, err := must[*dynamic.DynamicClient](t)(dynamic.NewForConfig(config)).
			Resource(schema.GroupVersionResource{Group: "zoo.example.com", Version: "v1", Resource: "unknown"}).Namespace(ns).
			Create(ctx, &unstructured.Unstructured{Object: map[string]any{"apiVersion": "zoo.example.com/v1", "kind": "Unknown", "metadata": map[string]any{"name": "u"}}}, metav1.CreateOptions{})
		return err
	}())
}

func busyPods(t testing.TB, c *kubernetes.Clientset, ns string) {
	t.Helper()
	ctx, pods := t.Context(), c.CoreV1().Pods(ns)
	pod := must[*corev1.Pod](t)(pods.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Finalizers: []string{"zoo.example.com/keep"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "none"}}},
	}, metav1.CreateOptions{}))
	pod.Status.Phase = corev1.PodRunning
	pod = must[*corev1.Pod](t)(pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{}))
	if err := pods.Bind(ctx, &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Target: corev1.ObjectReference{Kind: "Node", Name: "n"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := pods.EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "p"}}); err != nil {
		t.Fatal(err)
	}
	zero := int64(0)
	if err := pods.Delete(ctx, "p", metav1.DeleteOptions{GracePeriodSeconds: &zero}); err != nil { // stays: its finalizer
		t.Fatal(err)
	}
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		_, err := pods.Patch(ctx, pod.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func busyWorkloads(t testing.TB, c *kubernetes.Clientset, ns string) {
	t.Helper()
	ctx, deployments := t.Context(), c.AppsV1().Deployments(ns)
	labels := map[string]string{"app": "d"}
	must[*appsv1.Deployment](t)(deployments.Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "d"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "none"}}},
			},
		},
	}, metav1.CreateOptions{}))
	scale := must[*autoscalingv1.Scale](t)(deployments.GetScale(ctx, "d", metav1.GetOptions{}))
	scale.Spec.Replicas = 3
	must[*autoscalingv1.Scale](t)(deployments.UpdateScale(ctx, "d", scale, metav1.UpdateOptions{}))
	foreground := metav1.DeletePropagationForeground
	if err := deployments.Delete(ctx, "d", metav1.DeleteOptions{PropagationPolicy: &foreground}); err != nil {
		t.Fatal(err)
	}
	must[*corev1.ServiceAccount](t)(c.CoreV1().ServiceAccounts(ns).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "sa"}}, metav1.CreateOptions{}))
	must[*authenticationv1.TokenRequest](t)(c.CoreV1().ServiceAccounts(ns).CreateToken(ctx, "sa", &authenticationv1.TokenRequest{}, metav1.CreateOptions{}))
	must[*corev1.Secret](t)(c.CoreV1().Secrets(ns).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, StringData: map[string]string{"password": "hunter2"}}, metav1.CreateOptions{}))
}

// newNamespace makes a namespace for a test.
func newNamespace(t testing.TB, config *rest.Config) string {
	t.Helper()
	c := must[*kubernetes.Clientset](t)(kubernetes.NewForConfig(config))
	ns := must[*corev1.Namespace](t)(c.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "t-"}}, metav1.CreateOptions{}))
	return ns.Name
}

// TestProxyHoldsWhatTheAuditLogHolds: the trace of a capture through the proxy holds every write that
// the API server's own audit log holds for that client in that time, compared one by one.
func TestProxyHoldsWhatTheAuditLogHolds(t *testing.T) {
	cluster := live(t)
	ns := newNamespace(t, cluster.Config())
	recording, config := startProxy(t, cluster.Config(), recorder.ProxyOptions{})
	agents := map[string]string{
		"json-" + ns + "/v1":  runtime.ContentTypeJSON,
		"proto-" + ns + "/v1": runtime.ContentTypeProtobuf,
	}
	for agent, contentType := range agents {
		c := rest.CopyConfig(config)
		c.UserAgent, c.ContentType = agent, contentType
		busyClient(t, c, newNamespace(t, cluster.Config()))
	}
	trace := recording.end()

	recorded := map[string]*traces.Request{}
	for _, r := range rows[traces.Request](t, trace) {
		if agents[r.UserAgent] == "" {
			t.Errorf("a call of nobody: %+v", r)
		}
		if r.AuditID == "" || recorded[r.AuditID] != nil {
			t.Errorf("a call without an audit id of its own: %+v", r)
		}
		recorded[r.AuditID] = r
	}
	writes := 0
	for _, e := range auditEvents(t, cluster.AuditLogFile(), agents) {
		r := recorded[string(e.AuditID)]
		if r == nil {
			t.Errorf("the audit log has a %s of %s that the trace lacks: %s", e.Verb, e.RequestURI, e.AuditID)
			continue
		}
		delete(recorded, string(e.AuditID))
		if write(e.Verb) {
			writes++
		}
		compare(t, e, r)
	}
	for id, r := range recorded {
		t.Errorf("the trace has a %s of %s %s that the audit log lacks: %s", r.Verb, r.Resource, r.Name, id)
	}
	if writes < 2*20 {
		t.Errorf("only %d writes were compared", writes)
	}
	t.Logf("%d writes compared", writes)
	for _, l := range trace.Manifest().Losses {
		t.Errorf("loss: %+v", l)
	}
	if n := len(trace.Manifest().Operators); n != 2 {
		t.Errorf("%d operators: %+v", n, trace.Manifest().Operators)
	}
}

func write(verb string) bool {
	switch verb {
	case "create", "update", "patch", "delete", "deletecollection":
		return true
	}
	return false
}

// auditEvents are the completed calls of the clients. The log is written before the answer goes
// (blocking mode), so all of it is there.
func auditEvents(t *testing.T, path string, agents map[string]string) (out []auditv1.Event) {
	t.Helper()
	f := must[*os.File](t)(os.Open(path))
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e auditv1.Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		if agents[e.UserAgent] != "" && e.Stage == auditv1.StageResponseComplete {
			out = append(out, e)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	if len(out) == 0 {
		t.Fatalf("%s has no call of ours", path)
	}
	return out
}

// compare holds a row against the API server's own account of the call.
func compare(t *testing.T, e auditv1.Event, r *traces.Request) {
	t.Helper()
	ref := e.ObjectRef
	got := fmt.Sprintf("%s %s/%s/%s/%s ns=%q code=%d user=%s agent=%s", r.Verb, r.Group, r.Version, r.Resource, r.Subresource, r.Namespace, r.Code, r.User, r.UserAgent)
	want := fmt.Sprintf("%s %s/%s/%s/%s ns=%q code=%d user=%s agent=%s", e.Verb, ref.APIGroup, ref.APIVersion, ref.Resource, ref.Subresource, ref.Namespace, e.ResponseStatus.Code, e.User.Username, e.UserAgent)
	if got != want {
		t.Errorf("%s:\n got %s\nwant %s", e.AuditID, got, want)
	}
	if ref.Name != "" && r.Name != ref.Name {
		t.Errorf("%s: name %q, want %q", e.AuditID, r.Name, ref.Name)
	}
	if e.ResponseStatus.Reason != "" && string(e.ResponseStatus.Reason) != r.Reason {
		t.Errorf("%s: reason %q, want %q", e.AuditID, r.Reason, e.ResponseStatus.Reason)
	}
	// The audit log's own clock, in the recorder's: within the call's span as the client saw it.
	if at := e.RequestReceivedTimestamp.UnixNano(); at < r.Start-int64(time.Millisecond) || at > r.TS {
		t.Errorf("%s: received at %d, recorded from %d to %d", e.AuditID, at, r.Start, r.TS)
	}
	if !write(e.Verb) || ref.Resource == "secrets" || ref.Subresource == "token" {
		return
	}
	sameJSON(t, e, "request", r.RequestBody, e.RequestObject)
	if e.ResponseObject != nil && e.Verb != "deletecollection" {
		if r.ResponseBody == "" && r.ResponseHash == "" {
			t.Errorf("%s: the answer is missing", e.AuditID)
		}
		if r.ResponseBody != "" {
			sameJSON(t, e, "answer", r.ResponseBody, e.ResponseObject)
		}
		sameIdentity(t, e, r)
	}
}

func sameJSON(t *testing.T, e auditv1.Event, what, got string, want *runtime.Unknown) {
	t.Helper()
	if want == nil {
		return
	}
	var g, w any
	if err := json.Unmarshal([]byte(got), &g); err != nil {
		t.Errorf("%s: the %s %q of %s %s is no JSON: %v", e.AuditID, what, got, e.Verb, e.RequestURI, err)
		return
	}
	if err := json.Unmarshal(want.Raw, &w); err != nil {
		t.Fatal(err)
	}
	prune(g)
	prune(w)
	if what == "request" && e.Verb != "patch" {
		// The log holds a request's object as the server understood it: in the internal version of
		// DeleteOptions, and defaulted. All that was sent must be in it.
		if m, ok := g.(map[string]any); ok && m["kind"] == "DeleteOptions" {
			delete(m, "apiVersion")
		}
		w = common(w, g)
	}
	gotText, wantText := string(must[[]byte](t)(json.Marshal(g))), string(must[[]byte](t)(json.Marshal(w)))
	if gotText != wantText {
		t.Errorf("%s: %s of %s %s:\n got %s\nwant %s", e.AuditID, what, e.Verb, e.RequestURI, gotText, wantText)
	}
}

// common is what of v has a counterpart in like.
func common(v, like any) any {
	switch v := v.(type) {
	case map[string]any:
		l, _ := like.(map[string]any)
		out := map[string]any{}
		for k, e := range v {
			if sub, ok := l[k]; ok {
				out[k] = common(e, sub)
			}
		}
		return out
	case []any:
		l, _ := like.([]any)
		if len(l) != len(v) {
			return v
		}
		out := []any{}
		for i, e := range v {
			out = append(out, common(e, l[i]))
		}
		return out
	}
	return v
}

// prune takes away what the audit log rewrites: it decodes a request and encodes it again, in a form in
// which the empty values of a type stand or not.
func prune(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if prune(e) {
				delete(v, k)
			}
		}
		return len(v) == 0
	case []any:
		for _, e := range v {
			prune(e)
		}
		return len(v) == 0
	case nil:
		return true
	case string:
		return v == ""
	}
	return false
}

func sameIdentity(t *testing.T, e auditv1.Event, r *traces.Request) {
	t.Helper()
	var o struct {
		Kind     string
		Metadata struct {
			UID, ResourceVersion, Name string
			ManagedFields              []metav1.ManagedFieldsEntry
		}
		Details struct{ UID string }
	}
	if err := json.Unmarshal(e.ResponseObject.Raw, &o); err != nil {
		t.Fatal(err)
	}
	if o.Kind == "Status" {
		if r.UID != o.Details.UID {
			t.Errorf("%s: uid %q, want %q", e.AuditID, r.UID, o.Details.UID)
		}
		return
	}
	if fields := o.Metadata.ManagedFields; len(fields) > 0 && r.FieldManager != "" {
		if !slices.ContainsFunc(fields, func(f metav1.ManagedFieldsEntry) bool { return f.Manager == r.FieldManager }) {
			t.Errorf("%s: field manager %q, the object's are %+v", e.AuditID, r.FieldManager, fields)
		}
	}
	rv := ""
	if r.ResourceVersion != 0 {
		rv = fmt.Sprint(r.ResourceVersion)
	}
	if r.UID != o.Metadata.UID || rv != o.Metadata.ResourceVersion {
		t.Errorf("%s %s: identity %s@%s, want %s@%s", e.AuditID, strings.TrimSpace(e.RequestURI), r.UID, rv, o.Metadata.UID, o.Metadata.ResourceVersion)
	}
}
