package apiserver

import (
	"fmt"
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	corelisters "k8s.io/client-go/listers/core/v1"
)

// What is kept of objects that are asked for by name does not grow with every change of one.
func TestStoreInformersForget(t *testing.T) {
	w := newWorld(t, Options{})
	f := newStoreInformers(w.Store(), nil)
	namespaces := corelisters.NewNamespaceLister(f.Core().V1().Namespaces().Informer().GetIndexer())
	for i := range 2 * maxSingles {
		n := fmt.Sprint(i)
		w.must(http.StatusOK, http.MethodPatch, "/api/v1/namespaces/default", mergePatch, `{"metadata":{"labels":{"n":"`+n+`"}}}`)
		ns, err := namespaces.Get("default")
		if err != nil {
			t.Fatal(err)
		}
		if ns.Labels["n"] != n {
			t.Fatalf("the lister shows %s, not %s", ns.Labels["n"], n)
		}
	}
	for _, i := range f.known {
		if len(i.converted) > maxSingles {
			t.Errorf("%d objects are kept", len(i.converted))
		}
	}
}

// countedDiscovery counts how often it is asked.
type countedDiscovery struct {
	discovery.DiscoveryInterface
	asked int
}

// ServerGroupsAndResources implements discovery.DiscoveryInterface.
func (d *countedDiscovery) ServerGroupsAndResources() ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	d.asked++
	return d.DiscoveryInterface.ServerGroupsAndResources()
}

// Policies with parameters ask for a mapping at each write: discovery is read once for the CRDs as they are.
func TestMapperReadsDiscoveryOnce(t *testing.T) {
	w := newWorld(t, Options{})
	d := &countedDiscovery{DiscoveryInterface: w.kub.Discovery()}
	m := &mapper{server: w.Server, discovery: d}
	widgets := schema.GroupKind{Group: "example.com", Kind: "Widget"}
	for range 2 {
		if got, err := m.RESTMapping(widgets, "v1"); err == nil {
			t.Errorf("a mapping of what is not served: %v", got)
		}
	}
	w.addWidgets()
	for range 2 {
		if got, err := m.RESTMapping(widgets, "v1"); err != nil || got.Resource != widgetGVR {
			t.Errorf("the mapping of a new kind: %v, %v", got, err)
		}
	}
	if d.asked != 2 {
		t.Errorf("discovery was read %d times, want once without the CRD and once with it", d.asked)
	}
}
