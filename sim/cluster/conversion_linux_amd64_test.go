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

// cups is a version of the converter's kind, for a user.
func cups(t *testing.T, w *World, version string) dynamic.ResourceInterface {
	t.Helper()
	c, err := dynamic.NewForConfig(w.User("user"))
	if err != nil {
		t.Fatal(err)
	}
	return c.Resource(schema.GroupVersionResource{Group: "example.com", Version: version, Resource: "cups"}).Namespace("default")
}

func cup(version, name, field string, n int64) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{field: n}}}
	u.SetAPIVersion("example.com/" + version)
	u.SetKind("Cup")
	u.SetName(name)
	return u
}

// A process of the world converts: for reads, for writes, and for the events of its own watch.
func TestConversionWebhook(t *testing.T) {
	same(t, runs(3), func(t *testing.T) string {
		w := begin(t, Options{Seed: 11})
		p, err := w.Start(Program{Name: "converter", Path: guest("converter")})
		if err != nil {
			t.Fatal(err)
		}
		play(t, w, 5*time.Second)
		var told []string
		ctx := context.Background()
		do := func(f func() (*unstructured.Unstructured, error)) {
			w.Script(0, "use cups", func() error {
				began := w.Nanos()
				u, err := f()
				took := time.Duration(w.Nanos() - began)
				if err != nil {
					told = append(told, fmt.Sprintf("%s after %v", err, took.Round(time.Second)))
					return nil
				}
				told = append(told, fmt.Sprint(u.GetAPIVersion(), u.Object["spec"], took > 5*time.Millisecond))
				return nil
			})
			play(t, w, 50*time.Second)
		}
		v1, v2 := cups(t, w, "v1"), cups(t, w, "v2")
		do(func() (*unstructured.Unstructured, error) {
			return v1.Create(ctx, cup("v1", "a", "decilitres", 3), metav1.CreateOptions{})
		})
		do(func() (*unstructured.Unstructured, error) { return v2.Get(ctx, "a", metav1.GetOptions{}) })
		do(func() (*unstructured.Unstructured, error) {
			return v2.Create(ctx, cup("v2", "b", "millilitres", 500), metav1.CreateOptions{})
		})
		do(func() (*unstructured.Unstructured, error) { return v1.Get(ctx, "b", metav1.GetOptions{}) })
		do(func() (*unstructured.Unstructured, error) {
			return v2.Patch(ctx, "a", "application/merge-patch+json", []byte(`{"spec":{"millilitres":700}}`), metav1.PatchOptions{})
		})
		do(func() (*unstructured.Unstructured, error) {
			return &unstructured.Unstructured{}, v1.Delete(ctx, "b", metav1.DeleteOptions{})
		})
		do(func() (*unstructured.Unstructured, error) {
			return v2.Create(ctx, cup("v2", "slow", "millilitres", 100), metav1.CreateOptions{})
		})
		w.Kill(p)
		do(func() (*unstructured.Unstructured, error) {
			return v2.Create(ctx, cup("v2", "c", "millilitres", 100), metav1.CreateOptions{})
		})
		want := []string{
			"example.com/v1map[decilitres:3] true",     // the watcher's event is converted meanwhile
			"example.com/v2map[millilitres:300] false", // and is at hand
			"example.com/v2map[millilitres:500] true",
			"example.com/v1map[decilitres:5] false",
			"example.com/v2map[millilitres:700] true",
			"map[] false",
			`conversion webhook for example.com/v2, Kind=Cup failed: Post "https://busy.default.svc:443/convert?timeout=30s": ` +
				"context deadline exceeded after 30s",
			"connect: connection refused after 0s",
		}
		for i := range want {
			if i >= len(told) || !strings.Contains(strings.ReplaceAll(told[i], "<nil>", "map[]"), want[i]) {
				t.Errorf("%d: want %s in\n%s", i, want[i], strings.Join(told, "\n"))
				break
			}
		}
		if got, want := w.Output(), "ADDED example.com/v2 a map[millilitres:300]\nADDED example.com/v2 b map[millilitres:500]\n"+
			"MODIFIED example.com/v2 a map[millilitres:700]\nDELETED example.com/v2 b map[millilitres:500]\n"; got != want {
			t.Errorf("the watch saw:\n%s", got)
		}
		return play(t, w, time.Second)
	})
}
