package export_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opreplay/opreplay/analysis/report/export"
	"github.com/opreplay/opreplay/traces"
)

// trace has the rows.
func trace(t *testing.T, rows ...traces.Record) *traces.Trace {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "t.optrace")
	w, err := traces.Create(dir, traces.Manifest{Tool: "test", Source: "run"}, traces.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if err := w.Append(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	tr, err := traces.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tr.Close() })
	return tr
}

// Go's own tool reads it, and finds the table's totals, by function, line and key.
func TestPprof(t *testing.T) {
	loop := traces.Frame{Function: "main.loop", File: "main.go", Line: 7}
	reconcile := traces.Frame{Function: "main.(*R).Reconcile", File: "main.go", Line: 20}
	tr := trace(t,
		&traces.Stack{StackID: 1, Frames: []traces.Frame{loop, reconcile}},
		&traces.Stack{StackID: 2, Frames: []traces.Frame{reconcile}},
		&traces.Stack{StackID: 3, Kernel: true, Frames: []traces.Frame{{Function: "do_syscall_64"}}},
		&traces.Reconcile{Process: "op", Controller: "site", Namespace: "web", Name: "shop"}, // seq 4
		&traces.Sample{StackID: 1, Weight: 1, ReconcileID: 4},
		&traces.Sample{StackID: 1, Weight: 2, ReconcileID: 4},
		&traces.Sample{StackID: 1, Weight: 3},
		&traces.Sample{StackID: 2, KernelStackID: 3, Weight: 4, ReconcileID: 4},
		&traces.Sample{Weight: 5},
	)
	file := filepath.Join(t.TempDir(), "pprof.pb.gz")
	var b bytes.Buffer
	n, err := export.Pprof(t.Context(), tr, &b)
	if err != nil || n != 15 {
		t.Fatalf("%d periods, %v", n, err)
	}
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		want []string
	}{
		{"-top", []string{"6 40.00% 40.00%", "main.loop", "main.(*R).Reconcile", "4 26.67%", "do_syscall_64", "15 total"}},
		{"-top -lines", []string{"main.loop main.go:7"}},
		{"-top -tagfocus=key=web/shop", []string{"3 20.00%", "main.loop", "7, 46.67% of 15 total"}},
		{"-tags", []string{"controller: Total 7", "site"}},
	} {
		out, err := exec.Command("go", append(append([]string{"tool", "pprof"}, strings.Fields(c.args)...), file)...).Output()
		if err != nil {
			t.Fatalf("%s: %v", c.args, err)
		}
		for _, want := range c.want {
			if !strings.Contains(string(out), want) {
				t.Errorf("%s: no %q in\n%s", c.args, want, out)
			}
		}
	}
}

func TestNoSamples(t *testing.T) {
	if _, err := export.Pprof(t.Context(), trace(t, &traces.Log{Message: "x"}), &bytes.Buffer{}); !errors.Is(err, export.ErrNoSamples) {
		t.Error(err)
	}
}
