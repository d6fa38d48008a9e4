package recorder_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/opreplay/opreplay/internal/livecluster"
	"github.com/opreplay/opreplay/recorder"
	"github.com/opreplay/opreplay/traces"
)

func TestMain(m *testing.M) {
	if word := os.Getenv("RECORDER_GUEST"); word != "" {
		guest(word) // the test binary is its own operator
	}
	code := m.Run()
	livecluster.StopShared()
	os.Exit(code)
}

// live is the cluster that the tests of this package share; its audit log is on.
func live(t testing.TB) *livecluster.Cluster {
	t.Helper()
	return livecluster.Shared(t, livecluster.Options{AuditLog: true})
}

// recording is a recorder under way.
type recording struct {
	t      testing.TB
	out    string
	stop   context.CancelFunc
	result chan error
	rows   chan traces.Record
	seen   []traces.Record // taken from rows so far
	notes  chan string     // what the recorder told its user
	recorder.Result
}

// record starts f, a Capture, Proxy or Run, which is to end when its context does.
func record(t testing.TB, f func(ctx context.Context, o recorder.Options) (*recorder.Result, error), o recorder.Options) *recording {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	r := &recording{
		t: t, out: filepath.Join(t.TempDir(), "t.optrace"), stop: stop,
		result: make(chan error, 1), rows: make(chan traces.Record, 100000), notes: make(chan string, 1000),
	}
	o.Out, o.Tool = r.out, "test"
	o.Note = func(format string, args ...any) {
		note := fmt.Sprintf(format, args...)
		t.Log(note)
		r.notes <- note
	}
	o.WhenAppended(func(row traces.Record) { r.rows <- row })
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		result, err := f(ctx, o)
		if result != nil {
			r.Result = *result
		}
		r.result <- err
	}()
	t.Cleanup(func() { // before the folder goes
		stop()
		<-ended
	})
	return r
}

// await returns the first row from now on that match takes.
func await[T any](r *recording, what string, match func(*T) bool) *T {
	r.t.Helper()
	deadline := time.After(time.Minute)
	for {
		select {
		case row := <-r.rows:
			r.seen = append(r.seen, row)
			if row, ok := any(row).(*T); ok && match(row) {
				return row
			}
		case err := <-r.result:
			r.t.Fatalf("the recording ended before %s: %v", what, err)
		case <-deadline:
			r.t.Fatalf("%s did not come within a minute; rows so far: %d", what, len(r.seen))
		}
	}
}

// awaitNote returns when the recorder has told its user something that contains TEXT.
func awaitNote(r *recording, text string) {
	r.t.Helper()
	deadline := time.After(time.Minute)
	for {
		select {
		case note := <-r.notes:
			if strings.Contains(note, text) {
				return
			}
		case <-deadline:
			r.t.Fatalf("the recorder never said %q", text)
		}
	}
}

// awaitEvent waits for an event of an object.
func awaitEvent(r *recording, t traces.EventType, resource, name string) *traces.WatchEvent {
	r.t.Helper()
	return await(r, string(t)+" "+resource+"/"+name, func(e *traces.WatchEvent) bool {
		return e.Type == string(t) && e.Resource == resource && e.Name == name
	})
}

// end ends the recording and opens its trace.
func (r *recording) end() *traces.Trace {
	r.t.Helper()
	r.stop()
	if err := <-r.result; err != nil {
		r.t.Fatal(err)
	}
	return open(r.t, r.out)
}

func open(t testing.TB, dir string) *traces.Trace {
	t.Helper()
	tr, err := traces.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tr.Close() })
	problems, err := tr.Verify(t.Context())
	if err != nil || len(problems) > 0 {
		t.Fatalf("the trace is not sound: %v %v", problems, err)
	}
	return tr
}

// rows are all rows of a table.
func rows[T any](t testing.TB, tr *traces.Trace) []*T {
	t.Helper()
	var out []*T
	for r, err := range traces.Rows[T](t.Context(), tr, traces.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

// startProxy starts a recording proxy and returns the config of its clients.
func startProxy(t testing.TB, config *rest.Config, o recorder.ProxyOptions) (*recording, *rest.Config) {
	t.Helper()
	ready := make(chan recorder.Endpoint, 1)
	common := o.Options
	common.Config = config
	r := record(t, func(ctx context.Context, common recorder.Options) (*recorder.Result, error) {
		o := o
		o.Options, o.Ready = common, func(e recorder.Endpoint) { ready <- e }
		return recorder.Proxy(ctx, o)
	}, common)
	select {
	case e := <-ready:
		client, _, err := recorder.Access{Kubeconfig: e.Kubeconfig}.Load()
		if err != nil {
			t.Fatal(err)
		}
		client.QPS = -1
		return r, client
	case err := <-r.result:
		t.Fatalf("the proxy ended: %v", err)
	case <-time.After(time.Minute):
		t.Fatal("no proxy within a minute")
	}
	return nil, nil
}
