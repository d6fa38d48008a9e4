package analysis

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/opreplay/opreplay/analysis/stats"
	"github.com/opreplay/opreplay/traces"
)

// ComparisonSchema names the form of a Comparison's JSON, as Schema does a Result's.
const ComparisonSchema = "opreplay.comparison/v1"

// Comparison says what changed from a baseline to another trace, beyond noise.
type Comparison struct {
	Schema   string `json:"schema"`
	Baseline Looked `json:"baseline"`
	Looked   Looked `json:"looked"`
	// New are findings that the baseline doesn't have, Worse those that it has with less effect.
	New   []Finding      `json:"new"`
	Worse []FindingShift `json:"worse"`
	// Better are findings with less effect than in the baseline, Gone those of the baseline that are no more.
	Better []FindingShift `json:"better"`
	Gone   []Finding      `json:"gone"`
	// Shifts are measures that differ, the largest first. Tested is how many were compared.
	Shifts []Shift `json:"shifts"`
	Tested int     `json:"tested"`
	// Caveats are those of both traces, and what limits the comparison.
	Caveats []string `json:"caveats"`
}

// FindingShift is a finding of both traces whose effect differs: ID is that in the trace, Ratio the effect by the
// baseline's.
type FindingShift struct {
	Finding  Finding `json:"finding"`
	Baseline Effect  `json:"baseline"`
	Ratio    float64 `json:"ratio"`
	// P, of effects that are counts, is the chance that one rate makes counts over the two traces that differ as much
	// (the exact conditional test of Przyborowski and Wilenski). Holm's correction, over all findings that both traces have,
	// decides which to believe; it is not in P.
	P float64 `json:"p,omitempty"`
}

// Shift is one measure in both traces.
type Shift struct {
	// Measure is what is measured, of what: "latency of update of status, sites.web.example.com".
	Measure string `json:"measure"`
	Process string `json:"process,omitempty"`
	Unit    string `json:"unit"`
	// Before and After are its value in the baseline and in the trace, with their intervals.
	Before Statistic `json:"before"`
	After  Statistic `json:"after"`
	// SlowBefore and SlowAfter are, of what takes time, the 0.95th quantile of either.
	SlowBefore *Statistic `json:"slowBefore,omitempty"`
	SlowAfter  *Statistic `json:"slowAfter,omitempty"`
	// Ratio is After by Before; 0 when Before is 0.
	Ratio float64 `json:"ratio"`
	// P is the chance that traces that don't differ do so as much, after the correction for how many were tested (the
	// adjusted p of Benjamini and Hochberg); Test names the test.
	P    float64 `json:"p"`
	Test string  `json:"test"`
}

// What a difference must reach to be told, beside its test: traces are of different days, and a difference that is sure
// but small is nobody's concern.
const (
	// shiftRatio is by which factor a measure must have grown or shrunk.
	shiftRatio = 1.25
	// shiftShare is by how much a share must have changed.
	shiftShare = 0.05
	// falseShifts is the share of the shifts told that may be chance.
	falseShifts = 0.05
	// slow is the quantile that stands for the slow ones.
	slow = 0.95
	// minSample is how many values a measure must have in each trace.
	minSample = 8
)

// Names of the tests, with their sources.
const (
	testRate  = "rates with the dispersion of their counts (McCullagh and Nelder, Generalized Linear Models, 1989, §6.2), or the exact conditional test (Przyborowski and Wilenski, Biometrika 31, 1940), whichever is less sure"
	testRank  = "rank test of Mann and Whitney (Annals of Mathematical Statistics 18, 1947)"
	testShare = "Fisher's exact test (1935)"
	testLives = "log-rank test (Mantel, Cancer Chemotherapy Reports 50, 1966)"
)

// Compare analyzes both traces, and says what the second has or does that the baseline doesn't.
func Compare(ctx context.Context, baseline, t *traces.Trace, o Options) (*Comparison, error) {
	before, old, err := profiled(ctx, baseline, o)
	if err != nil {
		return nil, err
	}
	after, now, err := profiled(ctx, t, o)
	if err != nil {
		return nil, err
	}
	c := &Comparison{Schema: ComparisonSchema, Baseline: before.Looked, Looked: after.Looked}
	rename := func(p string) string { return p }
	if len(before.Looked.Processes) == 1 && len(after.Looked.Processes) == 1 { // an operator under another name
		from, to := before.Looked.Processes[0], after.Looked.Processes[0]
		rename = func(p string) string {
			if p == from {
				return to
			}
			return p
		}
	}
	c.findings(before.Findings, after.Findings, rename)
	c.Caveats = slices.Concat(about("baseline", before.Caveats), about("trace", after.Caveats))
	c.shifts(old, now, rename)
	if !slices.Equal(before.Looked.Processes, after.Looked.Processes) {
		c.Caveats = append(c.Caveats, fmt.Sprintf("the recorded processes differ: %s; %s", strings.Join(before.Looked.Processes, ", "), strings.Join(after.Looked.Processes, ", ")))
	}
	return c, nil
}

func about(which string, caveats []string) (out []string) {
	for _, c := range caveats {
		out = append(out, which+": "+c)
	}
	return out
}

// profiled is an analysis with a profile.
func profiled(ctx context.Context, t *traces.Trace, o Options) (*Result, *profile, error) {
	p := newProfile()
	if o.Detectors == nil {
		o.Detectors = All()
	} else {
		names := make([]string, len(o.Detectors))
		for i, d := range o.Detectors {
			names[i] = d.Name()
		}
		var err error
		if o.Detectors, err = Select(names); err != nil { // each trace has its own: they keep what they saw
			return nil, nil, err
		}
	}
	o.Detectors = append(o.Detectors, p)
	r, err := Analyze(ctx, t, o)
	if err != nil {
		return nil, nil, err
	}
	r.Looked.Detectors = r.Looked.Detectors[:len(r.Looked.Detectors)-1]
	return r, p, nil
}

// same is whether two findings of different traces are about the same fault: objects may have other names.
func same(a, b *Finding, rename func(string) string) bool {
	kind := func(f *Finding) string {
		if len(f.Objects) == 0 {
			return ""
		}
		return resourceName(f.Objects[0].Group, f.Objects[0].Resource)
	}
	return a.Detector == b.Detector && rename(a.Process) == b.Process && kind(a) == kind(b) && a.Field == b.Field
}

// findings pairs the findings of both traces.
func (c *Comparison) findings(before, after []Finding, rename func(string) string) {
	paired := make([]bool, len(before))
	var up []bool
	var shifts []FindingShift
	var ps []float64
	for i := range after {
		f := &after[i]
		j := 0
		for j < len(before) && (paired[j] || !same(&before[j], f, rename)) {
			j++ // each of the baseline's stands for one
		}
		if j == len(before) {
			c.New = append(c.New, *f)
			continue
		}
		paired[j] = true
		g := &before[j]
		s := FindingShift{Finding: *f, Baseline: g.Effect}
		if g.Effect.Value > 0 {
			s.Ratio = f.Effect.Value / g.Effect.Value
		}
		p := 0.0 // of what has no counts, the intervals or the ratio decide alone
		if f.Effect.count && g.Effect.count {
			s.P = stats.CompareRates(int64(g.Effect.Value), c.Baseline.seconds(), int64(f.Effect.Value), c.Looked.seconds())
			p = s.P
		}
		ps = append(ps, p)
		shifts = append(shifts, s)
		more, known := beyond(g, f)
		if !known {
			ps[len(ps)-1] = 1
		}
		up = append(up, more)
	}
	for i, believed := range stats.Holm(ps, falseShifts) {
		switch {
		case !believed:
		case up[i]:
			c.Worse = append(c.Worse, shifts[i])
		default:
			c.Better = append(c.Better, shifts[i])
		}
	}
	for j := range before {
		if !paired[j] {
			c.Gone = append(c.Gone, before[j])
		}
	}
}

// seconds is how long what was looked at took, at least a little.
func (l *Looked) seconds() float64 { return max(l.To.Sub(l.From).Seconds(), 1e-3) }

// beyond is whether the effect of a finding differs beyond noise, and in which direction: what decided has intervals
// that don't overlap, or where there are none the effect is twice or half as large.
func beyond(before, after *Finding) (up, known bool) {
	a, b := before.Effect.Value, after.Effect.Value
	if len(before.Statistics) > 0 && len(after.Statistics) > 0 {
		x, y := &before.Statistics[0], &after.Statistics[0]
		if x.Name == y.Name && x.Confidence > 0 && y.Confidence > 0 && x.Low <= y.High && y.Low <= x.High {
			return false, false
		}
	}
	switch {
	case b >= 2*a && b > 0:
		return true, true
	case a >= 2*b && a > 0:
		return false, true
	}
	return false, false
}

// shifts compares the measures of both profiles.
func (c *Comparison) shifts(old, now *profile, rename func(string) string) {
	t := &trial{old: old, now: now}
	// What one of the traces didn't record at all is no difference of the operators'.
	both := func(what string, a, b int64) bool {
		if (a == 0) != (b == 0) {
			c.Caveats = append(c.Caveats, what+" are in one of the traces only, and were not compared")
		}
		return a > 0 && b > 0
	}
	if both("requests", c.Baseline.Requests, c.Looked.Requests) {
		t.calls(rename)
		t.objects(rename)
	}
	if both("reconciles", c.Baseline.Reconciles, c.Looked.Reconciles) {
		t.reconciles(rename)
	}
	if both("log lines", c.Baseline.Logs, c.Looked.Logs) {
		t.errors(rename)
	}
	t.deletions()
	ps := make([]float64, len(t.shifts))
	for i := range t.shifts {
		ps[i] = t.shifts[i].P
	}
	believed, adjusted := stats.BenjaminiHochberg(ps, falseShifts), stats.Adjusted(ps)
	for i, s := range t.shifts {
		if s.P = adjusted[i]; believed[i] && s.large() {
			c.Shifts = append(c.Shifts, s)
		}
	}
	c.Tested = len(t.shifts)
	slices.SortStableFunc(c.Shifts, func(a, b Shift) int {
		return cmp.Or(cmp.Compare(b.size(), a.size()), cmp.Compare(a.P, b.P), cmp.Compare(a.Measure, b.Measure), cmp.Compare(a.Process, b.Process))
	})
}

func (s *Shift) large() bool {
	if s.Unit == "share" {
		return math.Abs(s.After.Value-s.Before.Value) >= shiftShare
	}
	return s.size() >= math.Log(shiftRatio)
}

// size is the logarithm of the ratio, without its sign. What begins or ends counts as a hundredfold.
func (s *Shift) size() float64 {
	if s.Before.Value <= 0 || s.After.Value <= 0 {
		if s.Before.Value == s.After.Value {
			return 0
		}
		return math.Log(100)
	}
	return math.Abs(math.Log(s.After.Value / s.Before.Value))
}

// trial collects the tests.
type trial struct {
	old, now *profile
	shifts   []Shift
}

func (t *trial) add(s Shift) {
	if s.Before.Value > 0 {
		s.Ratio = s.After.Value / s.Before.Value
	}
	t.shifts = append(t.shifts, s)
}

// rate compares how often something happens.
func (t *trial) rate(measure, process string, a, b *bins) {
	x, y := rate(measure, a.n(), t.old.seconds()), rate(measure, b.n(), t.now.seconds())
	if x.N+y.N < minSample {
		return
	}
	va := a.dispersion(t.old.from, t.old.to) * max(x.Value, 1/t.old.seconds()) / t.old.seconds()
	vb := b.dispersion(t.now.from, t.now.to) * max(y.Value, 1/t.now.seconds()) / t.now.seconds()
	p := 2 * distuv.UnitNormal.Survival(math.Abs(x.Value-y.Value)/math.Sqrt(va+vb))
	p = max(p, stats.CompareRates(a.n(), t.old.seconds(), b.n(), t.now.seconds())) // few counts are not normal
	t.add(Shift{Measure: measure, Process: process, Unit: "1/s", Before: x, After: y, P: min(1, p), Test: testRate})
}

// sample compares how long something takes, or how many there are of something.
func (t *trial) sample(measure, process, unit string, a, b *reservoir) {
	if a.n < minSample || b.n < minSample {
		return
	}
	x, y := slices.Clone(a.sample), slices.Clone(b.sample)
	p, _ := stats.MannWhitney(x, y)
	s := Shift{Measure: measure, Process: process, Unit: unit, Before: median(measure, unit, x, a.n), After: median(measure, unit, y, b.n), P: p, Test: testRank}
	if unit == "s" {
		before, after := percentile(t.old.seed, measure, unit, slow, x, a.n), percentile(t.now.seed, measure, unit, slow, y, b.n)
		s.SlowBefore, s.SlowAfter = &before, &after
	}
	t.add(s)
}

// share compares how many of something fail.
func (t *trial) share(measure, process string, a, m, b, n int64) {
	if m < minSample || n < minSample || a+b == 0 {
		return
	}
	t.add(Shift{Measure: measure, Process: process, Unit: "share", Before: share(measure, a, m), After: share(measure, b, n), P: stats.CompareShares(a, m, b, n), Test: testShare})
}

func (t *trial) calls(rename func(string) string) {
	before := map[callKind]*callProfile{}
	for k, x := range t.old.calls {
		k.process = rename(k.process)
		before[k] = x
	}
	for _, k := range union(before, t.now.calls, callKind.compare) {
		a, b := cmp.Or(before[k], &callProfile{}), cmp.Or(t.now.calls[k], &callProfile{})
		what := k.verb
		if k.subresource != "" {
			what += " of " + k.subresource
		}
		what += ", " + resourceName(k.group, k.resource)
		t.rate("calls: "+what, k.process, &a.times, &b.times)
		t.sample("latency: "+what, k.process, "s", &a.latency, &b.latency)
		t.share("refused: "+what, k.process, a.failed, a.n, b.failed, b.n)
	}
}

func (t *trial) reconciles(rename func(string) string) {
	before := map[passKind]*passProfile{}
	for k, x := range t.old.passes {
		k.process = rename(k.process)
		before[k] = x
	}
	for _, k := range union(before, t.now.passes, func(a, b passKind) int {
		return cmp.Or(cmp.Compare(a.process, b.process), cmp.Compare(a.controller, b.controller))
	}) {
		a, b := cmp.Or(before[k], &passProfile{}), cmp.Or(t.now.passes[k], &passProfile{})
		t.rate("reconciles: "+k.controller, k.process, &a.times, &b.times)
		t.sample("duration of reconciles: "+k.controller, k.process, "s", &a.duration, &b.duration)
		t.share("failed reconciles: "+k.controller, k.process, a.failed, a.n, b.failed, b.n)
	}
}

func (t *trial) objects(rename func(string) string) {
	before := map[resourceKind]*objectProfile{}
	for k, x := range t.old.objects {
		k.process = rename(k.process)
		before[k] = x
	}
	for _, k := range union(before, t.now.objects, resourceKind.compare) {
		a, b := cmp.Or(before[k], &objectProfile{}), cmp.Or(t.now.objects[k], &objectProfile{})
		t.sample("writes per object: "+resourceName(k.group, k.resource), k.process, "writes", &a.writes, &b.writes)
	}
}

func (t *trial) errors(rename func(string) string) {
	before := map[string]*bins{}
	for process, x := range t.old.errors {
		before[rename(process)] = x
	}
	for _, process := range union(before, t.now.errors, cmp.Compare[string]) {
		t.rate("error lines", process, cmp.Or(before[process], &bins{}), cmp.Or(t.now.errors[process], &bins{}))
	}
}

// deletions compares how long deletions take, those that hang included.
func (t *trial) deletions() {
	for _, k := range union(t.old.ends, t.now.ends, resourceKind.compare) {
		a, b := t.old.ends[k], t.now.ends[k]
		if len(a) < minSample || len(b) < minSample {
			continue
		}
		_, p, _ := stats.LogRank(a, b)
		measure := "deletion takes: " + resourceName(k.group, k.resource)
		t.add(Shift{Measure: measure, Unit: "s", Before: lasting(measure, a), After: lasting(measure, b), P: p, Test: testLives})
	}
}

// lasting is the median survival, a lower bound where more than half were open at the end.
func lasting(name string, lives []stats.Lifetime) Statistic {
	curve := stats.KaplanMeier(lives)
	m, low, high := stats.MedianSurvival(curve)
	s := Statistic{Name: name, Value: m, Unit: "s", Low: low, High: high, Confidence: confidence, N: int64(len(lives)), Method: "Kaplan–Meier median (JASA 53, 1958), interval of Brookmeyer and Crowley (Biometrics 38, 1982)"}
	longest := lives[len(lives)-1].Seconds
	if math.IsInf(high, 1) {
		s.High, s.Unbounded = longest, true
	}
	if math.IsInf(low, 1) {
		s.Low = longest
	}
	if math.IsInf(m, 1) {
		s.Value, s.Confidence = longest, 0
	}
	return s
}

func (k resourceKind) compare(l resourceKind) int {
	return cmp.Or(cmp.Compare(k.process, l.process), cmp.Compare(k.group, l.group), cmp.Compare(k.resource, l.resource))
}

// union is the keys of both maps, sorted.
func union[K comparable, A, B any](a map[K]A, b map[K]B, order func(K, K) int) []K {
	var keys []K
	for k := range a {
		keys = append(keys, k)
	}
	for k := range b {
		if _, both := a[k]; !both {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, order)
	return keys
}
