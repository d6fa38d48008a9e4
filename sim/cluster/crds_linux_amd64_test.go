package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/opreplay/opreplay/sim/apiserver"
)

// Kinds that come, change and go while a process watches them, whose objects' finalizers hold them back: each
// run is the same, with an API server of its own.
func TestCRDs(t *testing.T) {
	old := base
	old.Close()
	defer func() {
		fresh(t)
		if err := setUp(context.Background()); err != nil {
			t.Fatal(err)
		}
		base.Keep()
	}()
	same(t, runs(3), func(t *testing.T) string {
		fresh(t)
		defer base.Close()
		w := begin(t, Options{Seed: 2})
		if _, err := w.Start(Program{Name: "crds", Path: guest("crds")}); err != nil {
			t.Fatal(err)
		}
		c, err := dynamic.NewForConfig(w.User("user"))
		if err != nil {
			t.Fatal(err)
		}
		kinds := c.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
		for round := range 2 {
			at := time.Duration(round)*2*time.Minute + 10*time.Second
			w.Script(at, "create kind", func() error {
				_, err := kinds.Create(context.Background(), thingCRD(round == 0), metav1.CreateOptions{})
				return err
			})
			w.Script(at+10*time.Second, "change kind", func() error {
				_, err := kinds.Patch(context.Background(), "things.example.com", "application/merge-patch+json",
					fmt.Appendf(nil, `{"spec":{"names":{"shortNames":["t%d"]}}}`, round), metav1.PatchOptions{})
				return err
			})
			w.Script(at+time.Minute, "delete kind", func() error {
				return kinds.Delete(context.Background(), "things.example.com", metav1.DeleteOptions{})
			})
		}
		hash := play(t, w, 5*time.Minute)
		for want, times := range map[string]int{"ADDED things": 2, "create <nil>": 6, "free thing-2 <nil>": 1, "DELETED things": 2} {
			if n := strings.Count(w.Output(), want); n != times {
				t.Errorf("%q %d times:\n%s", want, n, w.Output())
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := base.Begin(Options{}); !errors.Is(err, apiserver.ErrCRDsChanged) {
			t.Errorf("a world after one that wrote CRDs: %v", err)
		}
		return hash
	})
}

// fresh starts an API server in the place of one that was closed.
func fresh(t *testing.T) {
	t.Helper()
	var err error
	if base, err = NewBase(context.Background(), 1); err != nil {
		t.Fatal(err)
	}
}

// thingCRD is a kind; HOLD has its objects held by finalizers, which costs a run five seconds of wall time.
func thingCRD(hold bool) *unstructured.Unstructured {
	crd := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "things.example.com"},
		"spec": map[string]any{
			"group": "example.com", "scope": "Namespaced",
			"names": map[string]any{"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
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
