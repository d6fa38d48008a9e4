package clitest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/opreplay/opreplay/traces"
)

// Trace writes a small sound trace and returns its folder.
func Trace(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "small.optrace")
	w, err := traces.Create(dir, traces.Manifest{Tool: "test", Source: "capture"}, traces.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	for i := range int64(100) {
		object := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"n","name":"a","uid":"u","resourceVersion":"%d"}}`, i+1)
		err := w.Append(&traces.WatchEvent{
			Head: traces.Head{TS: start + i*int64(time.Millisecond)},
			Identity: traces.Identity{
				Version: "v1", Resource: "configmaps", Namespace: "n", Name: "a", UID: "u", ResourceVersion: i + 1,
			},
			Stream: "capture/configmaps", Process: "oprec", Type: string(traces.Modified),
			Object: object, ObjectHash: traces.HashObject(object),
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// BadTrace is a folder that no command may take for a trace.
type BadTrace struct {
	Name, Dir string
	// Mentions are what the error must name.
	Mentions []string
}

// BadTraces are the ways in which a trace that a user names can be none.
func BadTraces(t testing.TB) []BadTrace {
	t.Helper()
	missing := filepath.Join(t.TempDir(), "nosuch.optrace")
	empty := t.TempDir()
	file := filepath.Join(t.TempDir(), "file.optrace")
	if err := os.WriteFile(file, []byte("no folder\n"), 0o600); err != nil {
		t.Fatal(err)
	}

	truncated := Trace(t)
	parquet := filepath.Join(truncated, "watch-0001.parquet")
	info, err := os.Stat(parquet)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(parquet, info.Size()/2); err != nil {
		t.Fatal(err)
	}

	newer := Trace(t)
	rewrite(t, newer, fmt.Sprintf(`"major": %d`, traces.FormatMajor), fmt.Sprintf(`"major": %d`, traces.FormatMajor+1))
	garbled := Trace(t)
	rewrite(t, garbled, `{`, `}`)

	return []BadTrace{
		{"missing folder", missing, []string{missing}},
		{"folder that is no trace", empty, []string{empty, "manifest.json"}},
		{"file", file, []string{file}},
		{"truncated Parquet", truncated, []string{"watch-0001.parquet"}},
		{"manifest of a newer major version", newer, []string{newer, fmt.Sprint(traces.FormatMajor + 1)}},
		{"garbled manifest", garbled, []string{garbled, "manifest.json"}},
	}
}

// rewrite puts the text to in place of from in a trace's manifest.
func rewrite(t testing.TB, dir, from, to string) {
	t.Helper()
	path := filepath.Join(dir, "manifest.json")
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := bytes.Replace(old, []byte(from), []byte(to), 1)
	if bytes.Equal(old, changed) {
		t.Fatalf("%s has no %s", path, from)
	}
	if err := os.WriteFile(path, changed, 0o600); err != nil {
		t.Fatal(err)
	}
}
