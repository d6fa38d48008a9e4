package cluster

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// Kinds that come, change and go while a process watches them, whose objects' finalizers hold them back, by
// the world's clock for longer than any wall clock's patience. Each run is the same, whether the API server
// is new or has seen other runs write other kinds.
func TestCRDs(t *testing.T) {
	same(t, runs(3), func(t *testing.T) string {
		hash := playCRDs(t, 2, "things")
		if other := playCRDs(t, 2, "others"); other == hash {
			t.Error("runs with other kinds have one hash")
		}
		return hash
	})
	warm := playCRDs(t, 2, "things")
	old := base
	old.Close()
	var err error
	if base, err = NewBase(context.Background(), 1); err != nil {
		t.Fatal(err)
	}
	if err := setUp(context.Background()); err != nil {
		t.Fatal(err)
	}
	base.Keep()
	if cold := playCRDs(t, 2, "things"); cold != warm {
		t.Errorf("on a new API server: %s, want %s", cold, warm)
	}
}

// playCRDs has a kind come, change and go, twice; the first time its objects are held.
func playCRDs(t *testing.T, seed uint64, plural string) string {
	t.Helper()
	w := begin(t, Options{Seed: seed})
	if _, err := w.Start(Program{Name: "crds", Path: guest("crds")}); err != nil {
		t.Fatal(err)
	}
	c, err := dynamic.NewForConfig(w.User("user"))
	if err != nil {
		t.Fatal(err)
	}
	kinds := c.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	for round := range 2 {
		at := time.Duration(round)*4*time.Minute + 10*time.Second
		w.Script(at, "create kind", func() error {
			_, err := kinds.Create(context.Background(), thingCRD(plural, round == 0), metav1.CreateOptions{})
			return err
		})
		w.Script(at+10*time.Second, "change kind", func() error {
			_, err := kinds.Patch(context.Background(), plural+".example.com", "application/merge-patch+json",
				fmt.Appendf(nil, `{"spec":{"names":{"shortNames":["t%d"]}}}`, round), metav1.PatchOptions{})
			return err
		})
		w.Script(at+time.Minute, "delete kind", func() error {
			return kinds.Delete(context.Background(), plural+".example.com", metav1.DeleteOptions{})
		})
	}
	hash := play(t, w, 12*time.Minute)
	for want, times := range map[string]int{"ADDED " + plural: 2, "create <nil>": 6, "free thing-2 <nil>": 1, "DELETED " + plural: 2} {
		if n := strings.Count(w.Output(), want); n != times {
			t.Errorf("%q %d times:\n%s", want, n, w.Output())
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return hash
}

// thingCRD is a kind; HOLD has its objects held by finalizers.
func thingCRD(plural string, hold bool) *unstructured.Unstructured {
	crd := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": plural + ".example.com"},
		"spec": map[string]any{
			"group": "example.com", "scope": "Namespaced",
			"names": map[string]any{"plural": plural, "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
			}},
		},
	}}
	if hold {
		crd.SetLabels(map[string]string{"hold": "yes"})
	}
	return crd
}
