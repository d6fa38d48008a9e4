package cluster

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A program that knows only rest.InClusterConfig works, over TLS, and its runs are one.
func TestInCluster(t *testing.T) {
	t.Run("static", func(t *testing.T) { inCluster(t, guest("incluster")) })
	t.Run("cgo", func(t *testing.T) {
		if _, err := exec.LookPath("cc"); err != nil {
			t.Skip("SKIPPED: the cgo guest needs a C compiler, and there is none on the PATH")
		}
		bin := filepath.Join(t.TempDir(), "incluster")
		if err := build("1", bin, "./testdata/incluster"); err != nil {
			t.Fatal(err)
		}
		inCluster(t, bin)
	})
}

func inCluster(t *testing.T, bin string) {
	same(t, 3, func(t *testing.T) string {
		w := begin(t, Options{Seed: 3})
		p, err := w.Start(Program{Name: "pod", Path: bin, InCluster: true, ServiceAccount: ServiceAccount{"default", "robot"}})
		if err != nil {
			t.Fatal(err)
		}
		hash := play(t, w, time.Hour)
		if status, ended := p.Exited(); !ended || status.Code != 0 {
			t.Fatalf("ended: %v, %+v\n%s", ended, status, w.Output())
		}
		for _, want := range []string{"ADDED m-2 80000 ", "https://10.96.0.1:443 true default\n", "2026-01-01T00:20:00Z"} {
			if !strings.Contains(w.Output(), want) {
				t.Errorf("the output lacks %q:\n%s", want, w.Output())
			}
		}
		return hash
	})
}
