package analysis

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// ticks are n times in nanoseconds, each so many seconds after the one before.
func ticks(n int, gap func(i int) float64) []int64 {
	out := []int64{1_780_000_000_000_000_000}
	for i := 1; i < n; i++ {
		out = append(out, out[i-1]+int64(gap(i)*1e9))
	}
	return out
}

func TestRhythm(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	late := 0.0
	for name, c := range map[string]struct {
		times  []int64
		period float64
		method string
	}{
		"a timer": {ticks(40, func(int) float64 { // late by up to a fifth, but in phase
			was := late
			late = 2 * r.Float64()
			return 10 + late - was
		}), 10, methodRhythm},
		"a loop":                                {ticks(60, func(int) float64 { return 0.4 * (0.8 + 0.5*r.Float64()) }), 0.42, methodEcho},
		"a timer whose every turn writes twice": {ticks(40, func(i int) float64 { return []float64{0.01, 4.99}[i%2] }), 5, ""},
	} {
		p := PeriodOf(c.times)
		if p == nil {
			t.Errorf("%s: no rhythm", name)
			continue
		}
		if math.Abs(p.Seconds/c.period-1) > 0.05 || p.P >= certain || p.P < 0 || c.method != "" && p.Method != c.method || p.Strength <= 0 || p.Strength > 1 {
			t.Errorf("%s: %+v", name, p)
		}
	}
	for name, times := range map[string][]int64{
		"nothing": nil, "few": ticks(7, func(int) float64 { return 1 }), "one time": ticks(30, func(int) float64 { return 0 }),
		"two bursts": ticks(40, func(i int) float64 { return 0.01 + 500*float64(i/20*(1-min(1, i%20))) }),
	} {
		if p := PeriodOf(times); p != nil {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

// What comes by chance has a rhythm no more often than the level says.
func TestNoRhythmInChance(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	const runs = 600
	wrong := map[string]int{}
	for range runs {
		if p := PeriodOf(ticks(begunPlaces, func(int) float64 { return r.ExpFloat64() })); p != nil {
			wrong[p.Method]++
		}
	}
	if n := wrong[methodRhythm] + wrong[methodEcho]; float64(n) > 2.5*certain*runs { // two tests, and their spread
		t.Errorf("%d of %d: %v", n, runs, wrong)
	}
}

// Evidence says since when the rate is another, and doesn't where it is one.
func TestRateChanges(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	of := func(gap func(i int) float64) ([]int64, Evidence) {
		var p places
		times := ticks(600, gap)
		for i, ts := range times {
			p.add(int64(i), ts, "x", 0, 0)
		}
		return times, p.evidence()
	}
	times, e := of(func(i int) float64 {
		if i >= 300 {
			return r.ExpFloat64() / 4
		}
		return r.ExpFloat64()
	})
	if len(e.Changes) != 1 {
		t.Fatalf("changes: %+v", e.Changes)
	}
	c := e.Changes[0]
	if off := c.At.Sub(at(times[300])).Seconds(); math.Abs(off) > 2*e.OverSeconds || c.After < 3*c.Before || c.P >= certain {
		t.Errorf("%.1f s off: %+v", off, c)
	}
	for name, gap := range map[string]func(int) float64{
		"by chance": func(int) float64 { return r.ExpFloat64() }, "a timer": func(int) float64 { return 0.7 },
	} {
		if _, e := of(gap); len(e.Changes) != 0 {
			t.Errorf("%s: %+v", name, e.Changes)
		}
	}
}

// Retries say their rhythm and their backoff.
func TestRetriesHaveRhythm(t *testing.T) {
	c := newCluster(t, "op")
	for range 30 {
		c.begin("op", "list", "", ref{configs, ""}).refuse(403, "Forbidden")
		c.sleep(2 * time.Second)
	}
	f := c.analyze(NewRetryStorm()).only(t, "retry-storm")
	p, b := f.Evidence.Period, f.Evidence.Backoff
	if p == nil || math.Abs(p.Seconds-2) > 0.1 || p.P >= certain {
		t.Errorf("period: %+v", p)
	}
	if b == nil || len(b.DelaysSeconds) != 29 || math.Abs(b.Ratio-1) > 0.01 || b.Fitted != 29 || !strings.Contains(b.Method, "Student") {
		t.Errorf("backoff: %+v", b)
	}
}

// Of a backoff with a cap the part that grows is fitted.
func TestCappedBackoff(t *testing.T) {
	c := newCluster(t, "op")
	wait := 500 * time.Millisecond
	for range 20 {
		c.begin("op", "list", "", ref{configs, ""}).refuse(403, "Forbidden")
		c.sleep(wait)
		wait = min(2*wait, 16*time.Second)
	}
	f := c.analyze(NewRetryStorm()).only(t, "retry-storm")
	if b := f.Evidence.Backoff; b == nil || math.Abs(b.Ratio-2) > 0.05 || b.Fitted != 6 || b.Fit < 0.99 || len(b.DelaysSeconds) != 19 {
		t.Errorf("backoff: %+v", b)
	}
}

// A storm says of its first delays how they grew, and is judged by its last.
func TestFirstDelaysOfAStorm(t *testing.T) {
	c := newCluster(t, "op")
	s, wait := site(c, "front"), 10*time.Millisecond
	for range 90 {
		c.failed("op", s, "no route")
		c.sleep(wait)
		wait = min(2*wait, 640*time.Millisecond)
	}
	f := c.analyze(NewRetryStorm()).only(t, "retry-storm")
	b := f.Evidence.Backoff
	if b == nil || math.Abs(b.Ratio-2) > 0.05 || b.Fitted != 7 || len(b.DelaysSeconds) != begunPlaces-1 || b.DelaysSeconds[0] > 0.02 {
		t.Errorf("backoff: %+v", b)
	}
	if g := f.statistic(t, "growth of the interval"); math.Abs(g.Value-1) > 0.01 {
		t.Errorf("judged by a growth of %v", g.Value)
	}
}

// The curve to draw has the period's strength at the period, and a periodogram stands above its line only near it, or a
// multiple or part of it.
func TestCurve(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	late := 0.0
	for name, times := range map[string][]int64{
		"a timer": ticks(40, func(int) float64 {
			was := late
			late = 2 * r.Float64()
			return 10 + late - was
		}),
		"a loop": ticks(60, func(int) float64 { return 0.4 * (0.8 + 0.5*r.Float64()) }),
	} {
		p := PeriodOf(times)
		c := p.Curve()
		if c.Lags != (p.Method == methodEcho) || len(c.Seconds) != len(c.Strength) || c.Line <= 0 || c.Line >= p.Strength {
			t.Fatalf("%s: %+v of %+v", name, c, p)
		}
		best := 0.0
		for i, x := range c.Seconds {
			if math.Abs(x/p.Seconds-1) < 0.34 { // of lags the neighbours too
				best = max(best, c.Strength[i])
			}
			whole := max(x/p.Seconds, p.Seconds/x)
			if x > 0 && c.Strength[i] > c.Line && math.Abs(whole-math.Round(whole)) > 0.35 && !c.Lags {
				t.Errorf("%s: %v at %v, over the line of %v", name, c.Strength[i], x, c.Line)
			}
		}
		if math.Abs(best-p.Strength) > 1e-9 {
			t.Errorf("%s: the curve has %v at the period, whose strength is %v", name, best, p.Strength)
		}
	}
	if c := (&Period{Method: methodRhythm}).Curve(); len(c.Seconds) > 0 {
		t.Errorf("a period that was read has a curve: %+v", c)
	}
}
