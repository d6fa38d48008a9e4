package recorder_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/opreplay/opreplay/recorder"
	"github.com/opreplay/opreplay/traces"
)

// newCRD is a CRD of a group of its own, so that tests don't meet.
func newCRD(group string) *unstructured.Unstructured {
	crd := apiextensionsv1.CustomResourceDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: "widgets." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{
				{Name: "v1beta1", Served: true, Schema: anything()},
				{Name: "v1", Served: true, Storage: true, Schema: anything(), Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}}},
			},
		},
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&crd)
	if err != nil {
		panic(err)
	}
	return &unstructured.Unstructured{Object: object}
}

func anything() *apiextensionsv1.CustomResourceValidation {
	return &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
		Type: "object", XPreserveUnknownFields: ptr.To(true),
	}}
}

var crds = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

func TestCaptureFollowsCRDs(t *testing.T) {
	config := live(t).Config()
	ns := newNamespace(t, config)
	client := must[*dynamic.DynamicClient](t)(dynamic.NewForConfig(config))
	r := record(t, recorder.Capture, recorder.Options{Config: config})
	awaitEvent(r, traces.Sync, "namespaces", ns)

	group := ns + ".example.com"
	gvr := schema.GroupVersionResource{Group: group, Version: "v1", Resource: "widgets"}
	live := func(generation int) {
		must[*unstructured.Unstructured](t)(client.Resource(crds).Create(t.Context(), newCRD(group), metav1.CreateOptions{}))
		await(r, "the CRD's establishing", func(e *traces.WatchEvent) bool {
			return e.Name == "widgets."+group && e.Type == "MODIFIED" && strings.Contains(e.Object, `"type":"Established"`)
		})
		widgets := client.Resource(gvr).Namespace(ns)
		name := fmt.Sprintf("w%d", generation)
		w := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": group + "/v1", "kind": "Widget", "metadata": map[string]any{"name": name}, "spec": map[string]any{"z": 1, "a": 2},
		}}
		eventually(t, "a widget", func() error {
			_, err := widgets.Create(t.Context(), w, metav1.CreateOptions{})
			return err
		})
		// The first may come with the list or with the watch.
		await(r, "the widget", func(e *traces.WatchEvent) bool {
			return e.Name == name && (e.Type == "SYNC" || e.Type == "ADDED") && e.Stream == "capture/"+group+"/widgets"
		})
		changed := must[*unstructured.Unstructured](t)(widgets.Patch(t.Context(), name, types.MergePatchType, []byte(`{"spec":{"z":3}}`), metav1.PatchOptions{FieldManager: "me"}))
		e := awaitEvent(r, traces.Modified, "widgets", name)
		if e.UID != string(changed.GetUID()) || e.Generation != 2 || fmt.Sprint(e.ResourceVersion) != changed.GetResourceVersion() || e.Process != "oprec" || e.Writer != "me" && e.Writer != "" {
			t.Errorf("%+v", e)
		}
		if err := client.Resource(crds).Delete(t.Context(), "widgets."+group, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		awaitEvent(r, traces.Deleted, "widgets", name)
		awaitEvent(r, traces.Deleted, "customresourcedefinitions", "widgets."+group)
	}
	live(1)
	live(2) // the same CRD again: the watch of its first life has ended

	trace := r.end()
	i := slices.IndexFunc(trace.Manifest().Resources, func(r traces.Resource) bool { return r.Group == group })
	if i < 0 {
		t.Fatalf("the manifest lacks the CRD's resource: %+v", trace.Manifest().Resources)
	}
	got := trace.Manifest().Resources[i]
	if got.Version != "v1" || got.Kind != "Widget" || !got.Namespaced || !slices.Equal(got.Subresources, []string{"status"}) {
		t.Errorf("%+v", got)
	}
	if m := trace.Manifest(); m.Source != "capture" || m.Cluster.Version != "v1.37.2" || m.Redaction.Secrets != "hmac-sha256" || !m.Complete {
		t.Errorf("%+v", m)
	}
	wholeWorld(t, config, trace)
}

// eventually is for what a server does in its own time after it said that it did.
func eventually(t testing.TB, what string, f func() error) {
	t.Helper()
	var err error
	for range 100 {
		if err = f(); err == nil {
			return
		}
		select {
		case <-t.Context().Done():
		case <-tick():
		}
	}
	t.Fatalf("%s: %v", what, err)
}

// wholeWorld: the trace has the API server's own answer for objects that did not change, byte for byte.
func wholeWorld(t *testing.T, config *rest.Config, trace *traces.Trace) {
	t.Helper()
	hashes := map[string]string{}
	for _, e := range rows[traces.WatchEvent](t, trace) {
		hashes[e.UID+"@"+fmt.Sprint(e.ResourceVersion)] = e.ObjectHash
	}
	client := must[*kubernetes.Clientset](t)(kubernetes.NewForConfig(config))
	for _, path := range []string{
		"/api/v1/namespaces/default", "/api/v1/namespaces/default/services/kubernetes",
		"/apis/rbac.authorization.k8s.io/v1/clusterroles/cluster-admin", "/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical",
	} {
		body := must[[]byte](t)(client.RESTClient().Get().AbsPath(path).DoRaw(t.Context()))
		var o struct {
			Metadata struct{ UID, ResourceVersion string }
		}
		if err := json.Unmarshal(body, &o); err != nil {
			t.Fatal(err)
		}
		want := traces.HashObject(strings.TrimSpace(string(body)))
		if got := hashes[o.Metadata.UID+"@"+o.Metadata.ResourceVersion]; got != want {
			t.Errorf("%s: the trace's row has hash %q, the answer %q", path, got, want)
		}
	}
}

// faulty stands between a recorder and the cluster.
type faulty struct {
	*httptest.Server
	down, gone atomic.Bool
	refused    chan struct{} // a call came while down
}

func newFaulty(t *testing.T, config *rest.Config) *faulty {
	t.Helper()
	target := must[*url.URL](t)(url.Parse(config.Host))
	proxy := &httputil.ReverseProxy{
		Transport: must[http.RoundTripper](t)(rest.TransportFor(config)), FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
	}
	f := &faulty{refused: make(chan struct{}, 1)}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		switch {
		case f.down.Load():
			select {
			case f.refused <- struct{}{}:
			default:
			}
			panic(http.ErrAbortHandler) // the connection breaks
		case f.gone.Load() && q.Get("watch") == "true" && q.Get("sendInitialEvents") == "":
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintln(w, `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",`+
				`"message":"too old resource version: 1 (2)","reason":"Expired","code":410}}`)
		default:
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(f.Close)
	return f
}

// cut breaks all connections and lets none come about while during runs, and until one was tried.
func (f *faulty) cut(t *testing.T, during func()) {
	t.Helper()
	f.down.Store(true)
	f.CloseClientConnections()
	during()
	select {
	case <-f.refused:
	case <-time.After(time.Minute):
		t.Fatal("nobody tried to connect again")
	}
	f.down.Store(false)
}

func TestCaptureResumes(t *testing.T) {
	config := live(t).Config()
	ns := newNamespace(t, config)
	f := newFaulty(t, config)
	deployments := must[*kubernetes.Clientset](t)(kubernetes.NewForConfig(config)).AppsV1().Deployments(ns)
	create := func(name string) {
		labels := map[string]string{"app": name}
		must[*appsv1.Deployment](t)(deployments.Create(t.Context(), &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "none"}}},
			}},
		}, metav1.CreateOptions{}))
	}
	scale := func(name string, replicas ...int) {
		for _, n := range replicas {
			must[*appsv1.Deployment](t)(deployments.Patch(t.Context(), name, types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, n), metav1.PatchOptions{}))
		}
	}
	remove := func(name string) {
		if err := deployments.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	create("a")
	create("b")
	r := record(t, recorder.Capture, recorder.Options{Config: &rest.Config{Host: f.URL}, Resources: []string{"deploy"}, Namespaces: []string{ns}})
	awaitEvent(r, traces.Sync, "deployments", "a")

	// A broken connection: nothing is lost.
	f.cut(t, func() { scale("a", 2, 3, 4) })
	for generation := int64(2); generation <= 4; generation++ {
		if e := awaitEvent(r, traces.Modified, "deployments", "a"); e.Generation != generation {
			t.Errorf("generation %d instead of %d", e.Generation, generation)
		}
	}

	// 410: relisted, and said so. The sentinel "a" shows that the watch is up again.
	f.gone.Store(true)
	f.cut(t, func() { scale("a", 5, 6, 7); remove("b"); create("c") })
	if e := awaitEvent(r, traces.Error, "deployments", ""); !strings.Contains(e.Object, "Expired") {
		t.Errorf("%+v", e)
	}
	await(r, "the relist's rows", func(e *traces.WatchEvent) bool {
		return e.Type == "DELETED" && e.Name == "b" && e.Object == "" && e.UID != ""
	})
	f.gone.Store(false)
	scale("a", 8)
	awaitEvent(r, traces.Modified, "deployments", "a")
	trace := r.end()

	var story []string
	for _, e := range rows[traces.WatchEvent](t, trace) {
		if e.Stream != "capture/apps/deployments/"+ns {
			t.Errorf("stream %q", e.Stream)
		}
		if e.Type == "ERROR" {
			continue // as many as there were tries
		}
		story = append(story, fmt.Sprintf("%s %s %d", e.Type, e.Name, e.Generation))
	}
	slices.Sort(story[:2])     // a list has no order that counts
	slices.Sort(story[5:][:2]) // nor has a relist
	want := []string{
		"SYNC a 1", "SYNC b 1", "MODIFIED a 2", "MODIFIED a 3", "MODIFIED a 4",
		"SYNC a 7", "SYNC c 1", "DELETED b 1", "MODIFIED a 8",
	}
	if !slices.Equal(story, want) {
		t.Errorf("\n got %q\nwant %q", story, want)
	}
	losses := trace.Manifest().Losses
	if len(losses) != 1 {
		t.Fatalf("losses: %+v", losses)
	}
	// Two states of a (5 and 6) and the last one of b.
	if l := losses[0]; l.Count != 3 || !l.Relisted() || !strings.Contains(l.Reason, "410 Expired") || !l.From.Before(l.To) || l.Source != "capture/apps/deployments/"+ns {
		t.Errorf("%+v", l)
	}
}

func TestCaptureSaysWhatItMayNotSee(t *testing.T) {
	cluster := live(t)
	ns := newNamespace(t, cluster.Config())
	rbac := must[*kubernetes.Clientset](t)(kubernetes.NewForConfig(cluster.Config()))
	mayView(t, rbac, "viewer-"+ns)
	r := record(t, recorder.Capture, recorder.Options{Config: cluster.ConfigFor("viewer-" + ns), Resources: []string{"ns", "secrets"}})
	awaitEvent(r, traces.Sync, "namespaces", ns)
	awaitNote(r, "capture/core/secrets is not recorded") // the two lists come in any order
	trace := r.end()
	losses := trace.Manifest().Losses
	if len(losses) != 1 || losses[0].Source != "capture/core/secrets" || !strings.Contains(losses[0].Reason, "may not list") {
		t.Errorf("losses: %+v", losses)
	}
}
