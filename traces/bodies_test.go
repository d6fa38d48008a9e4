package traces

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// answer is a call that got the object of watch row i of event().
func answer(i int64, body string) *Request {
	r := &Request{Identity: event(i, "").Identity, Verb: "update", Code: 200, ResponseBody: body}
	return r
}

func body(i int64) string { return fmt.Sprintf(`{"metadata":{"resourceVersion":"%d"}}`, i) }

// An answer that is byte for byte an object of the watch table is stored once, whether the event came
// before the call's end or after it, and reads the same.
func TestAnswersReferToWatchRows(t *testing.T) {
	w, dir := mustCreate(t, WriterOptions{RowGroupRows: 50, RotateBytes: 4 << 10})
	other := `{"metadata":{"resourceVersion":"1"},"kind":"Table"}`
	var want []string
	for i := range int64(1000) {
		var rows []Record
		switch i % 4 {
		case 0: // the event first
			rows = []Record{event(i, body(i)), answer(i, body(i))}
			want = append(want, body(i))
		case 1: // the answer first
			rows = []Record{answer(i, body(i)), event(i, body(i))}
			want = append(want, body(i))
		case 2: // the same version in other bytes
			rows = []Record{event(i, body(i)), answer(i, other)}
			want = append(want, other)
		case 3: // the same bytes under another uid
			stranger := answer(i, body(i))
			stranger.UID = "another"
			rows = []Record{event(i, body(i)), stranger, answer(i, "")}
			want = append(want, body(i), "")
		}
		appendAll(t, w, rows...)
	}
	mustClose(t, w)
	tr := mustOpen(t, dir)
	mustVerify(t, tr)
	var i, kept int
	for r, err := range Rows[Request](context.Background(), tr, Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		if r.ResponseBody != "" {
			kept++
		}
		got, err := tr.ResponseBody(context.Background(), r)
		if err != nil || got != want[i] {
			t.Fatalf("request %d answered %q, %v; want %q", i, got, err, want[i])
		}
		i++
	}
	// Kept: the 250 tables and the 250 strangers, and those whose event came in the next row group.
	if i != len(want) || kept < 500 || kept > 500+30 {
		t.Errorf("%d requests, %d with a body of their own; want %d and little more than 500", i, kept, len(want))
	}
}

// At no moment does the manifest list a request whose answer cannot be found, though requests fill
// their files faster than watch rows do.
func TestRequestsWaitForTheirWatchRows(t *testing.T) {
	w, dir := mustCreate(t, WriterOptions{RowGroupRows: 20, RotateBytes: 1, RotateAge: -1})
	appendAll(t, w, event(1, body(1)))
	for range 30 {
		appendAll(t, w, answer(1, body(1)))
	}
	// The encoder works in order and its queue holds one: when the last of these groups was taken, the
	// requests' group is done.
	for range 3 * 20 {
		appendAll(t, w, &Log{Message: "x"})
	}
	m := mustOpen(t, dir).Manifest()
	if len(fileNames(m, TableLogs)) == 0 || len(fileNames(m, TableRequests)) != 0 {
		t.Errorf("listed: logs %v, requests %v; want some and none", fileNames(m, TableLogs), fileNames(m, TableRequests))
	}
	if err := w.Rotate(); err != nil {
		t.Fatal(err)
	}
	tr := mustOpen(t, dir)
	if got := fileNames(tr.Manifest(), TableRequests); len(got) != 2 {
		t.Errorf("requests %v after rotation, want both files", got)
	}
	for r, err := range Rows[Request](context.Background(), tr, Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		if got, err := tr.ResponseBody(context.Background(), r); err != nil || got != body(1) || r.ResponseBody != "" {
			t.Errorf("answer %q (own body %q), %v", got, r.ResponseBody, err)
		}
	}
	mustClose(t, w)
}

// What was seen too long ago is forgotten; then the answer keeps its body.
func TestSeenBodiesAreBounded(t *testing.T) {
	w, dir := mustCreate(t, WriterOptions{SeenObjects: 10})
	for i := range int64(100) {
		appendAll(t, w, event(i, body(i)))
	}
	appendAll(t, w, answer(1, body(1)), answer(99, body(99)))
	if n := len(w.seen.young) + len(w.seen.old); n > 10 {
		t.Errorf("%d objects are remembered, want at most 10", n)
	}
	mustClose(t, w)
	rows := readAll(t, mustOpen(t, dir), Range{Tables: []Table{TableRequests}})
	if rows[0].(*Request).ResponseBody != body(1) || rows[1].(*Request).ResponseBody != "" {
		t.Errorf("bodies %q and %q, want the old one kept and the new one referred to", rows[0].(*Request).ResponseBody, rows[1].(*Request).ResponseBody)
	}
}

// What is asked for again is not forgotten.
func TestSeenBodiesKeepWhatIsUsed(t *testing.T) {
	s := newSeenBodies(10)
	often, _ := keyOf("often", 1, "{}")
	s.add(often, 1)
	for i := range int64(100) {
		k, _ := keyOf("u", i, "{}")
		s.add(k, i+2)
		if row, ok := s.get(often); !ok || row != 1 {
			t.Fatalf("forgot after %d others", i)
		}
	}
}

func TestDanglingReference(t *testing.T) {
	w, dir := mustCreate(t, WriterOptions{})
	r := answer(5, "")
	r.ResponseHash = HashObject("{}")
	appendAll(t, w, event(5, body(5)), r)
	mustClose(t, w)
	tr := mustOpen(t, dir)
	rows := readAll(t, tr, Range{Tables: []Table{TableRequests}})
	_, err := tr.ResponseBody(context.Background(), rows[0].(*Request))
	var bad *FormatError
	if !errors.As(err, &bad) || !strings.Contains(err.Error(), "request 2") {
		t.Errorf("error %v, want a FormatError that names request 2", err)
	}
	problems, err := tr.Verify(context.Background())
	if err != nil || len(problems) != 1 || !strings.Contains(problems[0].Detail, "seq 2") {
		t.Errorf("verify: %v, %v; want the one dangling reference", problems, err)
	}
}

func TestHashObject(t *testing.T) {
	// sha256sum of "abc" begins so (FIPS 180-2, appendix B.1).
	if got := HashObject("abc"); got != "ba7816bf8f01cfea" {
		t.Errorf("HashObject(abc) = %s", got)
	}
	if got := HashObject(""); got != "" {
		t.Errorf("HashObject of nothing = %q", got)
	}
}
