package actor

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/opreplay/opreplay/sim/apiserver"
)

// doomed makes a namespace with a pod on a node, a ConfigMap and a Secret that is held, and deletes it.
func doomed(t *testing.T, name string) (ns Ref, inside func(resource, name string) Ref) {
	t.Helper()
	ns = Ref{Version: "v1", Resource: "namespaces", Name: name}
	inside = func(resource, one string) Ref {
		return Ref{Version: "v1", Resource: resource, Namespace: name, Name: one}
	}
	made(t, ns, `{"metadata":{}}`)
	made(t, inside("pods", "p"), `{"metadata":{},"spec":{"nodeName":"n","terminationGracePeriodSeconds":20,"containers":[{"name":"c","image":"i"}]}}`)
	made(t, inside("configmaps", "c"), `{"metadata":{}}`)
	made(t, inside("secrets", "s"), `{"metadata":{"finalizers":["example.com/hold"]}}`)
	ask(t, http.MethodDelete, ns.path(""), "", nil)
	return ns, inside
}

// ask makes a call that is to be answered well.
func ask(t *testing.T, method, path, contentType string, body any) {
	t.Helper()
	if a, err := world.call(t.Context(), method, path, nil, contentType, body); err != nil || !a.ok() {
		t.Fatalf("%s %s: %v %s", method, path, err, a.message())
	}
}

// conditions are a namespace's, as TYPE=STATUS REASON MESSAGE.
func conditions(t *testing.T, ns Ref) string {
	t.Helper()
	status, _ := got(t, ns)["status"].(map[string]any)
	var lines []string
	for _, c := range objects(status, "conditions") {
		if _, err := time.Parse(time.RFC3339, text(c, "lastTransitionTime")); err != nil {
			t.Errorf("%v: %v", c, err)
		}
		lines = append(lines, text(c, "type")+"="+text(c, "status")+" "+text(c, "reason")+" "+text(c, "message"))
	}
	return strings.Join(lines, "\n")
}

// TestNamespaces: pods go first, and are waited for; then the rest, and what finalizers hold is waited for; then the
// namespace.
func TestNamespaces(t *testing.T) {
	ns, inside := doomed(t, "doomed")
	now, err := time.Parse(time.RFC3339, metaText(got(t, ns), "deletionTimestamp"))
	if err != nil {
		t.Fatal(err)
	}
	admin := server.Outsider(apiserver.Admin)
	n := NewNamespaces(admin, admin, func() time.Time { return now })
	pass := func(want time.Duration) {
		t.Helper()
		if again, err := n.Finish(t.Context(), ns.Name); err != nil || again != want {
			t.Fatalf("again in %s, %v, want in %s", again, err, want)
		}
	}
	pass(11 * time.Second) // half of the pod's grace period and a second
	if got(t, inside("configmaps", "c")) == nil {
		t.Error("the ConfigMap went before the pod")
	}
	if metaText(got(t, inside("pods", "p")), "deletionTimestamp") == "" {
		t.Error("the pod was not deleted")
	}
	ask(t, http.MethodDelete, inside("pods", "p").path(""), "application/json", map[string]any{"gracePeriodSeconds": 0})
	pass(8 * time.Second)
	if got(t, inside("configmaps", "c")) != nil {
		t.Error("the ConfigMap is still there")
	}
	const waiting = `NamespaceDeletionDiscoveryFailure=False ResourcesDiscovered All resources successfully discovered
NamespaceDeletionGroupVersionParsingFailure=False ParsedGroupVersions All legacy kube types successfully parsed
NamespaceDeletionContentFailure=False ContentDeleted All content successfully deleted, may be waiting on finalization
NamespaceContentRemaining=True SomeResourcesRemain Some resources are remaining: secrets. has 1 resource instances
NamespaceFinalizersRemaining=True SomeFinalizersRemain Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances`
	if c := conditions(t, ns); c != waiting {
		t.Errorf("conditions:\n%s\nwant\n%s", c, waiting)
	}
	ask(t, http.MethodPatch, inside("secrets", "s").path(""), "application/merge-patch+json", map[string]any{"metadata": map[string]any{"finalizers": nil}})
	pass(0)
	if left := got(t, ns); left != nil {
		t.Errorf("the namespace is still there: %v", left["status"])
	}
	pass(0) // there is nothing to do
}

// TestPodThatStays: when its grace period is over, what stays is an error, and is looked at ever less often.
func TestPodThatStays(t *testing.T) {
	ns, _ := doomed(t, "stuck")
	admin := server.Outsider(apiserver.Admin)
	n := NewNamespaces(admin, admin, func() time.Time { return time.Now().Add(time.Hour) })
	for _, want := range []time.Duration{10, 20, 40} {
		if again, err := n.Finish(t.Context(), ns.Name); err != nil || again != want*time.Millisecond {
			t.Fatalf("again in %s, %v, want in %s", again, err, want*time.Millisecond)
		}
	}
	const want = "NamespaceDeletionContentFailure=True ContentDeletionFailed Failed to delete all resource types, 1 remaining: unexpected items still remain in namespace: stuck for gvr: /v1, Resource=pods"
	if c := conditions(t, ns); !strings.Contains(c, want) {
		t.Errorf("conditions:\n%s\nwant among them\n%s", c, want)
	}
}

// TestScriptedEndOfNamespace: the recorded end of a namespace waits for what this run has put into it.
func TestScriptedEndOfNamespace(t *testing.T) {
	ns, inside := doomed(t, "scripted")
	end := Step{Ref: ns, Kind: Delete, Before: `{"metadata":{"name":"scripted"}}`}
	if out := apply(t, nil, end); out.Result != Waiting {
		t.Fatalf("with a pod in it: %+v", out)
	}
	ask(t, http.MethodDelete, inside("pods", "p").path(""), "application/json", map[string]any{"gracePeriodSeconds": 0})
	ask(t, http.MethodPatch, inside("secrets", "s").path(""), "application/merge-patch+json", map[string]any{"metadata": map[string]any{"finalizers": nil}})
	if out := apply(t, nil, end); out.Result != Applied {
		t.Fatalf("%+v", out)
	}
	if got(t, ns) != nil || got(t, inside("configmaps", "c")) != nil {
		t.Error("there is something left")
	}
	if out := apply(t, nil, end); out.Result != Skipped {
		t.Errorf("a second time: %+v", out)
	}
}
