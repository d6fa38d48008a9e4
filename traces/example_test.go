package traces_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/opreplay/opreplay/traces"
)

// A trace is written with Append and read in the order of Seq, all tables together or one alone.
func Example() {
	base, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(base)
	dir := filepath.Join(base, "t.optrace")

	w, err := traces.Create(dir, traces.Manifest{Created: time.Now().UTC(), Tool: "example", Source: "capture"}, traces.WriterOptions{})
	if err != nil {
		log.Fatal(err)
	}
	pod := traces.Identity{Version: "v1", Resource: "pods", Namespace: "default", Name: "db-0", UID: "u1", ResourceVersion: 7}
	object := `{"metadata":{"name":"db-0"}}`
	for _, r := range []traces.Record{
		&traces.Log{Head: traces.Head{TS: 1}, Process: "op", Level: "info", Message: "creating db-0"},
		&traces.Request{Head: traces.Head{TS: 2}, Identity: pod, Process: "op", Verb: "create", Code: 201, ResponseBody: object},
		&traces.WatchEvent{Head: traces.Head{TS: 3}, Identity: pod, Stream: "s1", Process: "op", Type: string(traces.Added), Object: object},
	} {
		if err := w.Append(r); err != nil {
			log.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		log.Fatal(err)
	}

	ctx := context.Background()
	t, err := traces.Open(dir)
	if err != nil {
		log.Fatal(err)
	}
	defer t.Close()
	for r, err := range t.Records(ctx, traces.Range{FromSeq: 2}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(r.Header().Seq, r.Table())
	}
	for q, err := range traces.Rows[traces.Request](ctx, t, traces.Range{}) {
		if err != nil {
			log.Fatal(err)
		}
		body, err := t.ResponseBody(ctx, q)
		fmt.Println(q.Verb, q.Name, q.Code, body, err)
	}
	// Output:
	// 2 requests
	// 3 watch
	// create db-0 201 {"metadata":{"name":"db-0"}} <nil>
}
