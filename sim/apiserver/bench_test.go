package apiserver

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// cpu is the process's CPU time, user and system: client, HTTP and server together.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func reportCPU(b *testing.B, start time.Duration) {
	b.ReportMetric(float64((cpu()-start).Microseconds())/1000/float64(b.N), "cpu-ms/op")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
}

// BenchmarkCustomResource runs every verb of a custom resource with client-go over loopback HTTP, while
// a client watches the resource.
func BenchmarkCustomResource(b *testing.B) {
	w := newWorld(b, Options{})
	w.addWidgets()
	ctx := b.Context()
	api := w.dyn.Resource(widgetGVR).Namespace("default")
	in, err := api.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		b.Fatal(err)
	}
	go func() {
		for range in.ResultChan() {
		}
	}()
	n := 0
	fresh := func(b *testing.B) *unstructured.Unstructured {
		n++
		u := object(b, widget(fmt.Sprint("w", n), `,"spec":{"size":1}`))
		u, err := api.Create(ctx, u, metav1.CreateOptions{})
		if err != nil {
			b.Fatal(err)
		}
		return u
	}
	patch := func(kind types.PatchType, opts metav1.PatchOptions, body string, sub ...string) func(*testing.B, *unstructured.Unstructured, int) error {
		return func(_ *testing.B, u *unstructured.Unstructured, i int) error {
			text := strings.NewReplacer("NAME", u.GetName(), "NUM", fmt.Sprint(i)).Replace(body)
			_, err := api.Patch(ctx, u.GetName(), kind, []byte(text), opts, sub...)
			return err
		}
	}
	for _, v := range []struct {
		name string
		op   func(b *testing.B, u *unstructured.Unstructured, i int) error
	}{
		{"create", func(b *testing.B, _ *unstructured.Unstructured, _ int) error { fresh(b); return nil }},
		{"get", func(_ *testing.B, u *unstructured.Unstructured, _ int) error {
			_, err := api.Get(ctx, u.GetName(), metav1.GetOptions{})
			return err
		}},
		{"update", func(b *testing.B, u *unstructured.Unstructured, i int) error {
			_ = unstructured.SetNestedField(u.Object, int64(i), "spec", "size")
			next, err := api.Update(ctx, u, metav1.UpdateOptions{})
			if err == nil {
				*u = *next
			}
			return err
		}},
		{"status-patch", patch(types.MergePatchType, metav1.PatchOptions{}, `{"status":{"phase":"NUM"}}`, "status")},
		{"apply", patch(types.ApplyPatchType, metav1.PatchOptions{FieldManager: "b", Force: new(true)},
			`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"NAME"},"spec":{"size":NUM}}`)},
	} {
		b.Run(v.name, func(b *testing.B) {
			u := fresh(b)
			start := cpu()
			for i := 0; b.Loop(); i++ {
				if err := v.op(b, u, i); err != nil {
					b.Fatal(err)
				}
			}
			reportCPU(b, start)
		})
	}
	b.Run("delete", func(b *testing.B) {
		b.StopTimer()
		var names []string
		for range b.N {
			names = append(names, fresh(b).GetName())
		}
		start := cpu()
		b.StartTimer()
		for _, name := range names {
			if err := api.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
				b.Fatal(err)
			}
		}
		reportCPU(b, start)
	})
}

// BenchmarkConfigMap is the same for a small built-in kind over protobuf.
func BenchmarkConfigMap(b *testing.B) {
	w := newWorld(b, Options{})
	ctx := b.Context()
	api := w.kub.CoreV1().ConfigMaps("default")
	n := 0
	b.Run("create", func(b *testing.B) {
		start := cpu()
		for b.Loop() {
			n++
			w.addConfigMap(fmt.Sprint("c", n))
		}
		reportCPU(b, start)
	})
	b.Run("get", func(b *testing.B) {
		start := cpu()
		for b.Loop() {
			if _, err := api.Get(ctx, "c1", metav1.GetOptions{}); err != nil {
				b.Fatal(err)
			}
		}
		reportCPU(b, start)
	})
}

func BenchmarkStart(b *testing.B) {
	start := cpu()
	for b.Loop() {
		s, err := New(b.Context(), Options{})
		if err != nil {
			b.Fatal(err)
		}
		s.Close()
	}
	reportCPU(b, start)
}

func BenchmarkCRDToFirstObject(b *testing.B) {
	w := newWorld(b, Options{})
	crd, n := asJSON(b, widgetCRD), 0
	start := cpu()
	for b.Loop() {
		n++
		group := fmt.Sprintf("g%d.example.com", n)
		w.post(crdPath, strings.ReplaceAll(crd, "example.com", group))
		w.post(strings.ReplaceAll(widgetPath, "example.com", group), strings.ReplaceAll(widget("a", ""), "example.com", group))
	}
	reportCPU(b, start)
}

func BenchmarkSnapshotRestore(b *testing.B) {
	w := newWorld(b, Options{})
	w.addWidgets()
	for i := range 300 {
		w.post(widgetPath, widget(fmt.Sprint("w", i), ""))
	}
	b.Run("snapshot", func(b *testing.B) {
		for b.Loop() {
			w.Store().Snapshot()
		}
	})
	b.Run("restore", func(b *testing.B) {
		snap := w.Store().Snapshot()
		for b.Loop() {
			if err := w.Restore(snap); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("restore-and-write", func(b *testing.B) {
		snap := w.Store().Snapshot()
		for b.Loop() {
			if err := w.Restore(snap); err != nil {
				b.Fatal(err)
			}
			w.must(http.StatusCreated, http.MethodPost, widgetPath, "application/json", widget("new", ""))
		}
	})
}
