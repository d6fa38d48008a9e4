package cluster

import (
	"os"
	"strings"
	"testing"
	"time"
)

// A client that is not Go's, with threads and OpenSSL, watches and writes; its runs are one, or it is said that
// they may not be.
func TestPython(t *testing.T) {
	const python = "/usr/bin/python3"
	if _, err := os.Stat(python); err != nil {
		t.Skipf("SKIPPED: %s is needed: %v", python, err)
	}
	program, err := os.ReadFile("testdata/watcher.py")
	if err != nil {
		t.Fatal(err)
	}
	var first string
	for i := range 3 {
		w := begin(t, Options{Seed: 4})
		// -I: nothing of the user's; -B: no files left behind.
		p, err := w.Start(Program{Name: "python", Path: python, Args: []string{"-I", "-B", "-c", string(program)}, InCluster: true})
		if err != nil {
			t.Fatal(err)
		}
		hash := play(t, w, time.Hour)
		if status, ended := p.Exited(); !ended || status.Code != 0 {
			t.Fatalf("ended %v, %+v\n%s", ended, status, w.Output())
		}
		if !strings.Contains(w.Output(), "['w0-0', 'w0-1', 'w0-2', 'w0-3', 'w0-4', 'w1-0', 'w1-1', 'w1-2', 'w1-3', 'w1-4']\n00:10\n") {
			t.Errorf("it says:\n%s", w.Output())
		}
		if i == 0 {
			first = hash
		} else if hash != first && w.Stats().Deterministic {
			t.Errorf("run %d differs, and is said to be deterministic", i+1)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
