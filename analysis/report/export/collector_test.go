package export_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/opreplay/opreplay/analysis/report/export"
	"github.com/opreplay/opreplay/internal/otelcollector"
	"github.com/opreplay/opreplay/traces"
)

// received is what a test looks at in a batch of spans, as the OpenTelemetry Collector hands it on.
type received struct {
	ResourceSpans []struct {
		Resource struct {
			Attributes []struct{ Value struct{ StringValue string } }
		}
		ScopeSpans []struct{ Spans []receivedSpan }
	}
}

type receivedSpan struct {
	TraceID, SpanID, ParentSpanID, Name string
	Links                               []struct{ SpanID string }
	Status                              struct{ Code int }
}

// spans are the batch's spans, by process.
func (r received) spans() map[string][]receivedSpan {
	all := map[string][]receivedSpan{}
	for _, rs := range r.ResourceSpans {
		all[rs.Resource.Attributes[0].Value.StringValue] = slices.Clone(rs.ScopeSpans[0].Spans)
	}
	return all
}

func parse(t *testing.T, line string) received {
	t.Helper()
	var r received
	if err := json.Unmarshal([]byte(line), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// The OpenTelemetry Collector's own receiver takes what is sent, its own reader the file, and both hand on as many spans
// of each process as the tables have reconciles and calls, with their parents and links.
func TestCollectorReceives(t *testing.T) {
	bundled, err := traces.Open("../../../traces/cases/statusrace.optrace")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = bundled.Close() }()
	c := otelcollector.Start(t)
	for name, tr := range map[string]*traces.Trace{"made": loop(t), "bundled": bundled} {
		request, n, err := export.OTLP(t.Context(), tr)
		if err != nil {
			t.Fatal(err)
		}
		if err := export.SendOTLP(t.Context(), c.HTTP, request); err != nil {
			t.Fatal(err)
		}
		sent := parse(t, c.Next())
		file := filepath.Join(t.TempDir(), "t.otlp.json")
		var b bytes.Buffer
		if err := export.OTLPJSON(&b, request); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		read := parse(t, c.ReadFile(file))
		for way, got := range map[string]received{"sent": sent, "read from a file": read} {
			wantSpans(t, name+", "+way, tr, n, got)
		}
	}
}

func wantSpans(t *testing.T, name string, tr *traces.Trace, n export.Counts, got received) {
	t.Helper()
	want, rows := map[string]int{}, export.Counts{}
	for r, err := range traces.Rows[traces.Request](t.Context(), tr, traces.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Verb != "watch" {
			rows.Requests++
			want[cmp.Or(r.Process, "outsiders")]++
		}
	}
	for r, err := range traces.Rows[traces.Reconcile](t.Context(), tr, traces.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		rows.Reconciles++
		want[r.Process]++
	}
	if rows != n || rows.Requests == 0 {
		t.Errorf("%s: said to be %+v, the tables have %+v", name, n, rows)
	}
	byID, links, parents := map[string]receivedSpan{}, 0, 0
	for process, spans := range got.spans() {
		if len(spans) != want[process] {
			t.Errorf("%s: %d spans of %s, want %d", name, len(spans), process, want[process])
		}
		delete(want, process)
		for _, s := range spans {
			byID[s.SpanID] = s
		}
	}
	if len(want) > 0 {
		t.Errorf("%s: no spans of %v", name, want)
	}
	for _, s := range byID {
		if s.ParentSpanID != "" {
			parents++
			if p, ok := byID[s.ParentSpanID]; !ok || p.TraceID != s.TraceID || !strings.HasPrefix(p.Name, "reconcile ") {
				t.Errorf("%s: %s is a child of %+v", name, s.Name, p)
			}
		}
		for _, l := range s.Links {
			links++
			if _, ok := byID[l.SpanID]; !ok {
				t.Errorf("%s: %s links to a span that is not there", name, s.Name)
			}
		}
	}
	if int64(len(byID)) != rows.Requests+rows.Reconciles {
		t.Errorf("%s: %d spans have ids of their own, want %d", name, len(byID), rows.Requests+rows.Reconciles)
	}
	if rows.Reconciles > 0 && (links != 1 || parents != 2) {
		t.Errorf("%s: %d links and %d children, want 1 and 2", name, links, parents)
	}
}
