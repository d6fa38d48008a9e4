package live

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/opreplay/opreplay/traces"
)

// Prometheus' own parser finds the counts of a trace's tables, and rates of the trace's time.
func TestSummary(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "t.optrace")
	w, err := traces.Create(dir, traces.Manifest{Tool: "test", Source: "run", Losses: []traces.Loss{{Source: "samples", Count: 4}, {Source: "requests/op", Count: -1}}}, traces.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	const second = int64(time.Second)
	for i := range int64(600) { // one reconcile a second for ten minutes: a rate of 1/s, within its memory's 1/60
		if err := w.Append(&traces.Reconcile{Head: traces.Head{TS: (i + 1) * second}, Start: i * second, Process: "op", Controller: "site", Namespace: "ns", Name: "cart", Outcome: "success"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Append(&traces.Request{Head: traces.Head{TS: 600 * second}, Start: 598 * second, Process: "op", Verb: "update", Identity: traces.Identity{Resource: "pods"}, Code: 409}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	trace, err := traces.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = trace.Close() }()
	var b bytes.Buffer
	if rows, err := Summary(t.Context(), trace, &b); err != nil || rows != 601 {
		t.Fatalf("%d rows, %v", rows, err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	got, err := parser.TextToMetricFamilies(&b)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"oprec_reconciles_total":           "controller=site outcome=success process=op 600",
		"oprec_reconcile_duration_seconds": "controller=site process=op 600",
		"oprec_conflicts_total":            "process=op resource=pods verb=update 1",
		"oprec_request_duration_seconds":   "process=op verb=update 2",
	} {
		if s := one(t, got[name]); s != want {
			t.Errorf("%s: %s, want %s", name, s, want)
		}
	}
	if rate := got["oprec_key_reconciles_per_second"].GetMetric()[0].GetGauge().GetValue(); rate < 0.98 || rate > 1.02 {
		t.Errorf("a rate of %v, want 1/s", rate)
	}
	lost := map[string]float64{}
	for _, m := range got["oprec_lost_total"].GetMetric() {
		lost[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
	}
	if lost["samples"] != 4 || lost["requests"] != 1 {
		t.Errorf("lost %v", lost)
	}
}

// A trace's texts stay the values of labels: Prometheus' own parser finds as many series as there are, and no line of
// theirs.
func TestHostileSummary(t *testing.T) {
	const hostile = "</script><script>window.stolen=1</script>\"} 1\noprec_forks_total 666\n# HELP \x1b[2J\\ \xc3"
	dir := filepath.Join(t.TempDir(), "t.optrace")
	w, err := traces.Create(dir, traces.Manifest{Tool: "test", Source: "run"}, traces.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	id := traces.Identity{Version: "v1", Resource: hostile, Namespace: hostile, Name: hostile, UID: "u", ResourceVersion: 1}
	for _, r := range []traces.Record{
		&traces.WatchEvent{Head: traces.Head{TS: 1}, Identity: id, Type: "ADDED", Process: hostile, Object: "{}"},
		&traces.Request{Head: traces.Head{TS: 2}, Identity: id, Start: 1, Process: hostile, Verb: "update", Code: 409},
		&traces.Reconcile{Head: traces.Head{TS: 3}, Process: hostile, Controller: hostile, Namespace: hostile, Name: hostile, Start: 1, Outcome: hostile},
		&traces.KernelEvent{Head: traces.Head{TS: 4}, Kind: "refused", Address: hostile, Count: 1},
	} {
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
	defer func() { _ = tr.Close() }()
	var b bytes.Buffer
	if _, err := Summary(t.Context(), tr, &b); err != nil {
		t.Fatal(err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if got := one(t, families["oprec_watch_events_total"]); got != "process="+strings.ToValidUTF8(hostile, "\uFFFD")+" resource="+strings.ToValidUTF8(hostile, "\uFFFD")+" 1" {
		t.Errorf("%q", got)
	}
	for line := range strings.Lines(b.String()) {
		if strings.HasPrefix(line, "oprec_forks_total 666") || strings.HasPrefix(line, "# HELP \x1b") {
			t.Errorf("a line of the trace's own: %q", line)
		}
	}
}
