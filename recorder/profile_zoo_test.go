package recorder_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/opreplay/opreplay/recorder"
	"github.com/opreplay/opreplay/traces"
)

const zoo = "../examples/operators/statusloop/"

// sourceLine is the line of the source that holds TEXT.
func sourceLine(t testing.TB, text string) int32 {
	t.Helper()
	for i, line := range strings.Split(string(must[[]byte](t)(os.ReadFile(zoo+"main.go"))), "\n") {
		if strings.Contains(line, text) {
			return int32(i + 1)
		}
	}
	t.Fatalf("%s is not in the operator's source", text)
	return 0
}

// installSites has the cluster serve the zoo's Sites.
func installSites(t *testing.T, client dynamic.Interface) {
	t.Helper()
	crd := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(must[[]byte](t)(os.ReadFile(zoo+"crd.yaml")), &crd.Object); err != nil {
		t.Fatal(err)
	}
	must[*unstructured.Unstructured](t)(client.Resource(crds).Create(t.Context(), crd, metav1.CreateOptions{}))
	t.Cleanup(func() {
		if err := client.Resource(crds).Delete(context.Background(), crd.GetName(), metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		for range 200 { // the test's context is over, and so eventually does not wait
			if _, err := client.Resource(crds).Get(context.Background(), crd.GetName(), metav1.GetOptions{}); apierrors.IsNotFound(err) {
				return
			}
			<-tick()
		}
		t.Error("the definition of sites does not go away")
	})
	eventually(t, "sites are served", func() error {
		_, err := client.Resource(sites).List(t.Context(), metav1.ListOptions{})
		return err
	})
}

var (
	sites      = schema.GroupVersionResource{Group: "web.example.com", Version: "v1", Resource: "sites"}
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
)

// An operator of the zoo, stripped: each pass goes back to the event that a user or the operator itself caused,
// each write to its line and its pass.
func TestRunExplainsTheZoo(t *testing.T) {
	needEBPF(t)
	config := live(t).Config()
	client := must[*dynamic.DynamicClient](t)(dynamic.NewForConfig(config))
	ns := newNamespace(t, config)
	installSites(t, client)
	path := stripped(t, "statusloop", zoo)
	r := record(t, func(ctx context.Context, o recorder.Options) (*recorder.Result, error) {
		return recorder.Run(ctx, recorder.RunOptions{Options: o, Command: []string{path, "--fixed"}, NoCapture: true})
	}, recorder.Options{Config: config, EBPF: recorder.EBPFOn})

	// Each thing that the user does leads to a pass, whose write of the page leads to another one.
	var planted []string
	two := func(o *unstructured.Unstructured, err error) {
		t.Helper()
		planted = append(planted, must[*unstructured.Unstructured](t)(o, err).GetResourceVersion())
		for range 2 {
			await(r, "a pass", func(p *traces.Reconcile) bool { return p.Namespace == ns && p.Name == "shop" })
		}
	}
	site, page := client.Resource(sites).Namespace(ns), client.Resource(configMaps).Namespace(ns)
	two(site.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "web.example.com/v1", "kind": "Site", "metadata": map[string]any{"name": "shop"},
		"spec": map[string]any{"host": "shop.example.com", "title": "Soon"},
	}}, metav1.CreateOptions{}))
	two(site.Patch(t.Context(), "shop", types.MergePatchType, []byte(`{"spec":{"title":"Now"}}`), metav1.PatchOptions{}))
	two(page.Patch(t.Context(), "shop-page", types.MergePatchType, []byte(`{"data":{"index.html":"rubbish"}}`), metav1.PatchOptions{}))

	trace := r.end()
	x := indexOf(t, trace)
	events := map[int64]*traces.WatchEvent{}
	for _, e := range rows[traces.WatchEvent](t, trace) {
		events[e.Seq] = e
	}
	written := map[int64]bool{} // versions
	for _, q := range rows[traces.Request](t, trace) {
		if !write(q.Verb) {
			continue
		}
		written[q.ResourceVersion] = true
		want := sourceLine(t, "controllerutil.CreateOrUpdate(")
		if q.Resource == "sites" {
			want = sourceLine(t, "r.Status().Patch(")
		}
		function, line := lineIn(x.stacks[q.StackID], "statusloop/main.go")
		if line != want || function != "main.(*SiteReconciler).Reconcile" {
			t.Errorf("%s %s came from line %d of %s, not from line %d", q.Verb, q.Resource, line, function, want)
		}
		if p := x.reconciles[q.ReconcileID]; p == nil || p.Namespace != ns || p.Name != "shop" || p.Controller != "site" {
			t.Errorf("%s %s belongs to %+v", q.Verb, q.Resource, p)
		}
	}
	passes := rows[traces.Reconcile](t, trace)
	// Pages that an earlier run of the test left behind queue their sites once.
	passes = slices.DeleteFunc(passes, func(p *traces.Reconcile) bool { return p.Namespace != ns })
	if len(passes) != 2*len(planted) || len(written) < 4 {
		t.Fatalf("%d passes of %d things that happened, and %d writes", len(passes), len(planted), len(written))
	}
	for i, p := range passes {
		e := events[p.Trigger]
		switch {
		case e == nil || e.Process != "statusloop":
			t.Errorf("pass %d goes back to %+v", i, e)
		case i%2 == 0 && fmt.Sprint(e.ResourceVersion) != planted[i/2]:
			t.Errorf("pass %d goes back to %s %s in version %d, not to version %s, which the user made", i, e.Resource, e.Name, e.ResourceVersion, planted[i/2])
		case i%2 == 1 && (e.Resource != "configmaps" || !written[e.ResourceVersion]):
			t.Errorf("pass %d goes back to %s %s in version %d, not to the operator's own page", i, e.Resource, e.Name, e.ResourceVersion)
		}
	}
	for _, l := range trace.Manifest().Losses {
		t.Errorf("%+v", l)
	}
}
