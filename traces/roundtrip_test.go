package traces

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// oneOfEach is a row of every table with every field set.
func oneOfEach(i int64) []Record {
	id := Identity{
		Group: "apps", Version: "v1", Resource: "deployments", Namespace: "ns", Name: fmt.Sprintf("web-%d", i),
		UID: fmt.Sprintf("uid-%d", i), ResourceVersion: 1000 + i, Generation: i,
	}
	head := Head{TS: 1_700_000_000_000_000_000 + i*1_000_001}
	return []Record{
		&WatchEvent{Head: head, Identity: id, Stream: "s1", Process: "op", Type: string(Modified), Object: fmt.Sprintf(`{"n":%d}`, i), Writer: "mgr"},
		&Request{
			Head: head, Identity: id, StartSeq: i, Start: head.TS - 5, Process: "op", User: "u", UserAgent: "ua/1", Verb: "update", Subresource: "status",
			Path: "/healthz", Query: "a=b", FieldManager: "mgr", ContentType: "application/json", RequestBody: `{"spec":1}`, Code: 200, Reason: "Conflict",
			ResponseBody: fmt.Sprintf(`{"other":%d}`, i), Attempt: 2, StackID: 7, ReconcileID: 8, AuditID: fmt.Sprint("audit-", i),
		},
		&Reconcile{
			Head: head, Process: "op", Controller: "web", Namespace: "ns", Name: "web", Start: head.TS - 9, GoID: 12, Trigger: 3, Outcome: "error",
			Error: "no such thing", RequeueAfter: int64(time.Second), KnownBy: "probe",
		},
		&Sample{Head: head, PID: 1, TID: 2, GoID: 3, CPU: 4, StackID: 5, KernelStackID: 6, Weight: 7, ReconcileID: 8},
		&Stack{Head: head, StackID: i, Kernel: i%2 == 1, Frames: []Frame{{Function: "main.main", File: "main.go", Line: int32(i), Inlined: true}, {Function: "runtime.main"}}},
		&KernelEvent{Head: head, Kind: "refused", PID: 1, TID: 2, Address: "10.0.0.1", Port: 443, FD: 7, Errno: 111, Count: 9, StackID: 1},
		&Log{Head: head, Process: "op", Stream: "stderr", Level: "info", Message: "hello", Fields: `{"a":1}`},
		&Metric{Head: head, Process: "op", Name: "workqueue_depth", Type: "gauge", Labels: []Label{{Name: "name", Value: "web"}, {Name: "le", Value: "0.5"}}, Value: 1.5},
		&Decision{Head: head, Step: i, Kind: "deliver", Subject: "MODIFIED web", Choice: 1, Of: 3, Rule: "hold: {}"},
	}
}

func mustCreate(t testing.TB, o WriterOptions) (*Writer, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "t.optrace")
	return mustCreateIn(t, dir, o), dir
}

func mustCreateIn(t testing.TB, dir string, o WriterOptions) *Writer {
	t.Helper()
	w, err := Create(dir, Manifest{Tool: "test", Source: "capture"}, o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func appendAll(t testing.TB, w Appender, rows ...Record) {
	t.Helper()
	for _, r := range rows {
		if err := w.Append(r); err != nil {
			t.Fatal(err)
		}
	}
}

func mustClose(t testing.TB, w *Writer) {
	t.Helper()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func mustOpen(t testing.TB, dir string) *Trace {
	t.Helper()
	tr, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tr.Close() })
	return tr
}

func readAll(t testing.TB, tr *Trace, r Range) []Record {
	t.Helper()
	var all []Record
	for rec, err := range tr.Records(context.Background(), r) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, rec)
	}
	return all
}

func TestRoundTrip(t *testing.T) {
	w, dir := mustCreate(t, WriterOptions{RowGroupRows: 16, RotateBytes: 8 << 10})
	var want []Record
	for i := range int64(100) {
		rows := oneOfEach(i)
		appendAll(t, w, rows...)
		want = append(want, rows...)
	}
	mustClose(t, w)
	tr := mustOpen(t, dir)
	if !tr.Manifest().Complete {
		t.Error("a closed trace is not complete")
	}
	if diff := cmp.Diff(want, readAll(t, tr, Range{})); diff != "" {
		t.Errorf("read back (-written +read):\n%s", diff)
	}
}
