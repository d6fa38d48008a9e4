package replay

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/opreplay/opreplay/traces"
)

var pastBegin = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// pastTrace is a cluster's history: one row a second from pastBegin.
//
//	1 SYNC a at 10, 2 ADDED b at 11, 3 MODIFIED a at 12, 4 DELETED b, 5 ADDED b anew at 14,
//	6 SYNC c at 5, created before the trace, 7 SYNC d at 6, created between rows 2 and 3
func pastTrace(t *testing.T) *traces.Trace {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "past.optrace")
	w, err := traces.Create(dir, traces.Manifest{Tool: "test", Source: "capture"}, traces.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range []struct {
		kind      traces.EventType
		name, uid string
		rv        int64
		created   time.Duration // since the beginning
	}{
		{traces.Sync, "a", "u1", 10, -time.Hour},
		{traces.Added, "b", "u2", 11, time.Second},
		{traces.Modified, "a", "u1", 12, -time.Hour},
		{traces.Deleted, "b", "u2", 13, time.Second},
		{traces.Added, "b", "u3", 14, 4 * time.Second},
		{traces.Sync, "c", "u4", 5, -time.Hour},
		{traces.Sync, "d", "u5", 6, 2 * time.Second},
	} {
		object := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"n","name":%q,"uid":%q,"resourceVersion":"%d","creationTimestamp":%q}}`,
			e.name, e.uid, e.rv, pastBegin.Add(e.created).Format(time.RFC3339))
		if err := w.Append(&traces.WatchEvent{
			Head: traces.Head{TS: pastBegin.Add(time.Duration(i) * time.Second).UnixNano()},
			Identity: traces.Identity{
				Version: "v1", Resource: "configmaps", Namespace: "n", Name: e.name, UID: e.uid, ResourceVersion: e.rv,
			},
			Stream: "capture/configmaps", Process: "oprec", Type: string(e.kind), Object: object, ObjectHash: traces.HashObject(object),
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	trace, err := traces.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = trace.Close() })
	return trace
}

func TestReadPast(t *testing.T) {
	trace := pastTrace(t)
	seqs := map[string]int64{"1": 1, "4": 4, "1s": 2, "3500ms": 4, "": 7} // 3.5 s: the end of b is the last row, 1 s: c and d are listed later
	for at, want := range map[string][]string{
		"1":                    {"a 10", "c 5"},
		"2":                    {"a 10", "b 11", "c 5"},
		"3":                    {"a 12", "b 11", "c 5", "d 6"},
		"4":                    {"a 12", "c 5", "d 6"},
		"5":                    {"a 12", "b 14", "c 5", "d 6"},
		"":                     {"a 12", "b 14", "c 5", "d 6"},
		"1s":                   {"a 10", "b 11", "c 5"},
		"3500ms":               {"a 12", "c 5", "d 6"},
		"2026-01-02T03:04:05Z": {"a 10", "c 5"},
	} {
		past, err := ReadPast(t.Context(), trace, at)
		if err != nil {
			t.Errorf("--at %q: %v", at, err)
			continue
		}
		var got []string
		for _, o := range past.Objects {
			var m struct {
				Metadata struct{ Name, ResourceVersion string }
			}
			if err := json.Unmarshal(o.Object, &m); err != nil {
				t.Fatal(err)
			}
			got = append(got, m.Metadata.Name+" "+m.Metadata.ResourceVersion)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("--at %q: %q, want %q", at, got, want)
		}
		if seq, ok := seqs[at]; ok && past.Seq != seq {
			t.Errorf("--at %q: row %d, want %d", at, past.Seq, seq)
		}
	}
	for _, at := range []string{"0", "8", "-1s", "7s", "2025-01-01T00:00:00Z", "soon"} {
		if past, err := ReadPast(t.Context(), trace, at); err == nil {
			t.Errorf("--at %q: %v, want an error", at, past)
		}
	}
}
