package html

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/opreplay/opreplay/analysis"
	"github.com/opreplay/opreplay/traces"
)

// made is a trace of rows that the tests know.
type made struct {
	t    testing.TB
	w    *traces.Writer
	dir  string
	now  int64
	last int64 // seq
	// madeBy is the reconcile of the calls.
	madeBy int64
}

var begin = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newMade(t testing.TB, losses ...traces.Loss) *made {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "made.optrace")
	w, err := traces.Create(dir, traces.Manifest{
		Created: begin, Tool: "test", Source: "capture", Losses: losses, Operators: []traces.Operator{{Process: "op"}}, Cluster: traces.Cluster{Version: "v1.37.2"},
	}, traces.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return &made{t: t, w: w, dir: dir, now: begin.UnixNano()}
}

// add appends a record, d later than the last one.
func (m *made) add(d time.Duration, r traces.Record) int64 {
	m.t.Helper()
	m.now += d.Nanoseconds()
	r.Header().TS = m.now
	if err := m.w.Append(r); err != nil {
		m.t.Fatal(err)
	}
	m.last = r.Header().Seq
	return m.last
}

func (m *made) open() *traces.Trace {
	m.t.Helper()
	if err := m.w.Close(); err != nil {
		m.t.Fatal(err)
	}
	trace, err := traces.Open(m.dir)
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { _ = trace.Close() })
	return trace
}

func pod(name string, version int64) traces.Identity {
	return traces.Identity{Version: "v1", Resource: "pods", Namespace: "shop", Name: name, UID: "uid-" + name, ResourceVersion: version}
}

func (m *made) state(d time.Duration, typ traces.EventType, name string, version int64, object string) int64 {
	return m.add(d, &traces.WatchEvent{Identity: pod(name, version), Stream: "w1", Process: "oprec", Type: string(typ), Object: object})
}

func (m *made) call(d, took time.Duration, verb, name string, code int32) int64 {
	return m.add(d, &traces.Request{Identity: pod(name, 0), Process: "op", Verb: verb, Code: code, ReconcileID: m.madeBy, Start: m.now + d.Nanoseconds() - took.Nanoseconds()})
}

// everything is a trace with something for each chart, of about n events, and what was found in it.
func everything(t testing.TB, n int) (*traces.Trace, *analysis.Result) {
	m := newMade(t, traces.Loss{Source: "samples", Count: 3, Reason: "the ring was full"})
	m.add(0, &traces.Stack{StackID: 1, Frames: []traces.Frame{{Function: "main.(*Reconciler).busy", File: "main.go", Line: 42}, {Function: "main.(*Reconciler).Reconcile", File: "main.go", Line: 30}, {Function: "main.main", File: "main.go", Line: 7}}})
	m.add(0, &traces.Stack{StackID: 2, Frames: []traces.Frame{{Function: "net/http.(*Client).Do", File: "client.go", Line: 1}, {Function: "main.main", File: "main.go", Line: 9}}})
	var evidence []analysis.Item
	for i := range n/3 + 1 {
		name := fmt.Sprintf("front-%d", i%40)
		seq := m.state(time.Millisecond, traces.Modified, name, int64(i+1), fmt.Sprintf(`{"spec":{"replicas":%d},"metadata":{"name":%q,"resourceVersion":"%d"}}`, i%7, name, i+1))
		if i%40 == 0 && len(evidence) < 6 {
			evidence = append(evidence, analysis.Item{Seq: seq, Time: time.Unix(0, m.now).UTC(), What: "replicas changed"})
		}
		m.madeBy = seq + 2 // the reconcile, which is the next row but one
		m.call(time.Millisecond, time.Duration(1+i%20)*time.Millisecond, []string{"update", "patch", "get", "create"}[i%4], name, []int32{200, 409, 500, 201}[i%4])
		pass := m.add(time.Millisecond, &traces.Reconcile{Process: "op", Trigger: seq, Controller: "pods", Namespace: "shop", Name: name, Start: m.now - int64(i%30)*int64(time.Millisecond), Outcome: []string{"success", "success", "error"}[i%3]})
		if i%50 == 0 {
			m.add(0, &traces.Sample{PID: 1, StackID: int64(1 + i/50%2), Weight: 1, ReconcileID: pass})
			m.add(0, &traces.KernelEvent{Kind: "refused", Address: "10.0.0.1", Port: 443, Count: int64(1 + i%3)})
		}
	}
	last := time.Unix(0, m.now).UTC()
	r := &analysis.Result{Findings: []analysis.Finding{{
		ID: "F1", Group: "F1", Detector: "self-loop", Severity: analysis.Error, Certainty: analysis.Sure, Process: "op", Manager: "op", Field: "spec.replicas", Stack: 1,
		What: "pods shop/front-0 is written again and again", Cause: "op queues itself by its own write", Reproduce: "opsim replay made.optrace --operator op",
		Objects: []analysis.Object{{Version: "v1", Resource: "pods", Namespace: "shop", Name: "front-0"}}, Total: 3,
		Statistics: []analysis.Statistic{{Name: "period", Value: 0.12, Unit: "s", Low: 0.11, High: 0.13, Confidence: 0.95, N: 12, Method: "median"}},
		Code:       "main.go:42 (main.(*Reconciler).busy)",
		Path: []analysis.Step{
			{Seq: 9, Kind: "write", What: "op updated pods shop/front-0 to version 3", Code: "main.go:42", Known: ""},
			{Seq: 7, Kind: "reconcile", What: "op reconciled pods shop/front-0", Known: "recorded", By: "the row of the write names the reconcile", Confidence: 1},
			{Seq: 5, Kind: "event", What: "op was told of version 2 of pods shop/front-0", Known: "inferred", Confidence: 0.93, By: "the last event of the key before"},
		},
		Survival: []analysis.SurvivalPoint{{Seconds: 0, AtRisk: 4, Survival: 1, Low: 1, High: 1}, {Seconds: 2, AtRisk: 4, Ended: 1, Survival: 0.75, Low: 0.3, High: 0.95}, {Seconds: 5, AtRisk: 2, Ended: 1, Survival: 0.375, Low: 0.1, High: 0.8}},
		Evidence: analysis.Evidence{Total: 20, Items: evidence, Period: analysis.PeriodOf(ticks(40, true)), Changes: []analysis.RateChange{{At: begin.Add(400 * time.Millisecond), Before: 12, After: 5, P: 1e-4}}}, First: begin, Last: last, Effect: analysis.Effect{Value: 12, Unit: "writes", Weight: 4},
	}, {
		ID: "F2", Group: "F1", Detector: "churn", Severity: analysis.Warning, Certainty: analysis.Likely, What: "writes change nothing", Cause: "the same object is sent",
		Objects: []analysis.Object{{Version: "v1", Resource: "pods", Namespace: "shop", Name: "front-1"}}, Total: 1, First: begin, Last: last,
		Evidence: analysis.Evidence{Total: 9, Period: analysis.PeriodOf(ticks(60, false)), Backoff: &analysis.Backoff{
			DelaysSeconds: []float64{0.005, 0.011, 0.019, 0.041, 0.08, 0.16, 0.16, 0.16}, FirstSeconds: 0.005, Ratio: 2, Low: 1.9, High: 2.1, Fitted: 6, Fit: 0.997, Method: "regression",
		}},
	}}, Notes: []analysis.Note{{Detector: "churn", What: "a lease is renewed"}}, Caveats: []string{"3 samples were lost"}}
	return m.open(), r
}

// ticks are times that come every 10 s, or thereabouts: those of a timer stay in phase, those of a loop drift.
func ticks(n int, phase bool) []int64 {
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same each time
	list := make([]int64, n)
	at := 0.0
	for i := range list {
		late := 2 * r.Float64()
		list[i] = int64((at + late) * 1e9)
		if at += 10; !phase {
			at += 2*late - 2
		}
	}
	return list
}

func write(t testing.TB, trace *traces.Trace, r *analysis.Result, o Options) string {
	t.Helper()
	return pageOf(t, o, Run{trace, r})
}

func pageOf(t testing.TB, o Options, runs ...Run) string {
	t.Helper()
	var out bytes.Buffer
	if err := Write(t.Context(), &out, o, runs...); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// body is the page but for its scripts.
func body(page string) string {
	text, _, _ := strings.Cut(page, `<script type="application/json"`)
	return text
}
