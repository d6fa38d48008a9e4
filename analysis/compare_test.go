package analysis

import (
	"context"
	"iter"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/opreplay/opreplay/analysis/internal/synth"
	"github.com/opreplay/opreplay/traces"
)

// onDisk writes records as a trace and opens it.
func onDisk(t *testing.T, rows iter.Seq[traces.Record]) *traces.Trace {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "t.optrace")
	w, err := traces.Create(dir, traces.Manifest{Source: "run"}, traces.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for r := range rows {
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
	t.Cleanup(func() { _ = tr.Close() })
	return tr
}

func compare(t *testing.T, before, after *traces.Trace) *Comparison {
	t.Helper()
	c, err := Compare(context.Background(), before, after, Options{Detectors: []Detector{NewSelfLoop(), NewChurn(), NewConflictStorm()}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func measures(c *Comparison) (out []string) {
	for _, s := range c.Shifts {
		out = append(out, s.Measure)
	}
	return out
}

// Two recordings of one operator differ by chance only, and that is no difference.
func TestTwoRecordingsOfOneOperator(t *testing.T) {
	before := onDisk(t, synth.Records(synth.Options{Rows: 20_000, Alive: 50, Seed: 1}))
	c := compare(t, before, onDisk(t, synth.Records(synth.Options{Rows: 15_000, Alive: 50, Seed: 2})))
	if len(c.New)+len(c.Worse)+len(c.Better)+len(c.Gone)+len(c.Shifts) > 0 {
		t.Errorf("new %d, worse %d, better %d, gone %d, shifts %q", len(c.New), len(c.Worse), len(c.Better), len(c.Gone), measures(c))
	}
	if c.Tested < 5 {
		t.Errorf("only %d measures were compared", c.Tested)
	}
}

// What one recording lacks as a whole was not done less often.
func TestTablesOfOneTraceOnly(t *testing.T) {
	without := func(yield func(traces.Record) bool) {
		for r := range synth.Records(synth.Options{Rows: 5000, Alive: 20, Seed: 1}) {
			if r.Table() != traces.TableReconciles && r.Table() != traces.TableLogs && !yield(r) {
				return
			}
		}
	}
	c := compare(t, onDisk(t, without), onDisk(t, synth.Records(synth.Options{Rows: 5000, Alive: 20, Seed: 2})))
	if len(c.Shifts) != 0 {
		t.Errorf("shifts %q", measures(c))
	}
	for _, what := range []string{"reconciles", "log lines"} {
		if !slices.ContainsFunc(c.Caveats, func(s string) bool { return strings.HasPrefix(s, what+" are in one") }) {
			t.Errorf("no word of %s: %q", what, c.Caveats)
		}
	}
}

// slower makes the passes of an operator take longer, and every third write of its be refused.
func slower(rows iter.Seq[traces.Record]) iter.Seq[traces.Record] {
	r := rand.New(rand.NewPCG(1, 2))
	n := 0
	return func(yield func(traces.Record) bool) {
		for x := range rows {
			switch x := x.(type) {
			case *traces.Reconcile:
				x.Start -= int64(r.ExpFloat64() * 3e6)
			case *traces.Request:
				if n++; n%3 == 0 {
					x.Code, x.Reason = 409, "Conflict"
				}
			}
			if !yield(x) {
				return
			}
		}
	}
}

func TestWhatChanged(t *testing.T) {
	before := onDisk(t, synth.Records(synth.Options{Rows: 20_000, Alive: 50, Seed: 1}))
	c := compare(t, before, onDisk(t, slower(synth.Records(synth.Options{Rows: 20_000, Alive: 50, Seed: 2}))))
	got := measures(c)
	for _, want := range []string{"duration of reconciles: site", "refused: patch of status, sites.web.example.com"} {
		i := slices.Index(got, want)
		if i < 0 {
			t.Errorf("%q is missing in %q", want, got)
			continue
		}
		s := c.Shifts[i]
		if s.After.Value <= s.Before.Value || s.P > 1e-6 || s.Test == "" || s.Process != "siteop" {
			t.Errorf("%+v", s)
		}
		if slow := s.SlowAfter; s.Unit == "s" && (slow == nil || slow.Value < s.After.Value || slow.Low > slow.Value || slow.High < slow.Value || slow.Low == slow.High) {
			t.Errorf("the slow ones: %+v", slow)
		}
	}
	for _, m := range got {
		if strings.HasPrefix(m, "latency") || strings.HasPrefix(m, "writes per object") {
			t.Errorf("%s did not change", m)
		}
	}
}

// A fault that came with an upgrade is new, one that went is gone, and by name they are the same for other objects.
func TestFindingsOfTwoTraces(t *testing.T) {
	scene := func(looping bool, name string, n int) *traces.Trace {
		c := newCluster(t, "loop", "race")
		s := site(c, name)
		d := database(c, "orders")
		for range n {
			race(c, d)
			if looping {
				c.sleep(20 * time.Millisecond)
				c.status("loop", s, m{"conditions": []any{condition("Served", "True", c.stamp())}})
			}
		}
		return onDisk(t, slices.Values(c.rows))
	}
	names := func(list []Finding) (out []string) {
		for _, f := range list {
			out = append(out, f.Detector)
		}
		slices.Sort(out)
		return out
	}
	good, bad := scene(false, "front", 20), scene(true, "shop", 20)
	c := compare(t, good, bad)
	if got := names(c.New); !slices.Equal(got, []string{"churn", "self-loop"}) || len(c.Gone) != 0 {
		t.Errorf("new %q, gone %q", got, names(c.Gone))
	}
	c = compare(t, bad, good)
	if got := names(c.Gone); !slices.Equal(got, []string{"churn", "self-loop"}) || len(c.New) != 0 {
		t.Errorf("gone %q, new %q", got, names(c.New))
	}
	if c = compare(t, bad, scene(true, "other", 20)); len(c.New)+len(c.Gone)+len(c.Worse)+len(c.Better) > 0 {
		t.Errorf("the same fault of another object: new %q, gone %q, worse %v", names(c.New), names(c.Gone), c.Worse)
	}
}

// A finding of the baseline stands for one of the trace: a second one that is alike is new.
func TestEachFindingOfTheBaselineIsPairedOnce(t *testing.T) {
	finding := func(effect float64) Finding {
		return Finding{Detector: "churn", Process: "op", Field: "spec", Effect: Effect{Value: effect, Unit: "s"}}
	}
	itself := func(p string) string { return p }
	var more, fewer, grown Comparison
	more.findings([]Finding{finding(10)}, []Finding{finding(10), finding(7)}, itself)
	if len(more.New) != 1 || more.New[0].Effect.Value != 7 || len(more.Gone)+len(more.Worse)+len(more.Better) != 0 {
		t.Errorf("two after one: %+v", more)
	}
	fewer.findings([]Finding{finding(10), finding(7)}, []Finding{finding(10)}, itself)
	if len(fewer.Gone) != 1 || fewer.Gone[0].Effect.Value != 7 || len(fewer.New)+len(fewer.Worse)+len(fewer.Better) != 0 {
		t.Errorf("one after two: %+v", fewer)
	}
	grown.findings([]Finding{finding(10), finding(2)}, []Finding{finding(10), finding(8)}, itself)
	if len(grown.Worse) != 1 || grown.Worse[0].Baseline.Value != 2 || len(grown.New)+len(grown.Gone)+len(grown.Better) != 0 {
		t.Errorf("two after two: %+v", grown)
	}
}

func TestBins(t *testing.T) {
	var steady, bursts bins
	r := rand.New(rand.NewPCG(5, 6))
	ts := int64(1e18)
	for range 5000 {
		ts += int64(r.ExpFloat64() * 1e8)
		steady.add(ts)
	}
	if len(steady.counts) > maxBins || steady.n() != 5000 {
		t.Fatalf("%d in %d bins", steady.n(), len(steady.counts))
	}
	if d := steady.dispersion(1e18, ts); d > 1.5 { // χ²/df of a hundred bins stays under 1.45 but once in a thousand
		t.Error("a Poisson process has dispersion", d)
	}
	for i := range 100 {
		for range 50 {
			bursts.add(int64(1e18) + int64(i/10)*50e9 + int64(i)*1e6)
		}
	}
	if d := bursts.dispersion(1e18, 1e18+500e9); d < 50 {
		t.Error("bursts of 500 have dispersion", d)
	}
}

// Findings that both traces have differ where their counts do beyond chance, all comparisons taken together.
func TestFindingsCountedInBothTraces(t *testing.T) {
	finding := func(process string, n int64) Finding {
		return Finding{Detector: "tombstone", Process: process, Effect: countOf(n, "objects left", float64(n))}
	}
	c := &Comparison{Baseline: Looked{From: start, To: start.Add(time.Minute)}, Looked: Looked{From: start, To: start.Add(time.Minute)}}
	before := []Finding{finding("few", 2), finding("many", 20), finding("less", 50), finding("slow", 0)}
	after := []Finding{finding("few", 5), finding("many", 60), finding("less", 10), finding("slow", 0)}
	// No count, whatever its unit is called.
	before[3].Effect, after[3].Effect = Effect{Value: 2, Unit: "seconds of waiting"}, Effect{Value: 5, Unit: "seconds of waiting"}
	c.findings(before, after, func(p string) string { return p })
	if len(c.Worse) != 2 || c.Worse[0].Finding.Process != "many" || c.Worse[1].Finding.Process != "slow" || len(c.Better) != 1 || c.Better[0].Finding.Process != "less" {
		t.Errorf("worse %+v, better %+v", c.Worse, c.Better)
	}
	if p := c.Worse[0].P; p <= 0 || p > 1e-4 {
		t.Errorf("p %g", p)
	}
	if p := c.Worse[1].P; p != 0 {
		t.Errorf("a time has the p of a count, %g", p)
	}
}
