package stats

import (
	"math"
	"testing"
)

func TestRegress(t *testing.T) {
	// Anscombe, "Graphs in statistical analysis", The American Statistician 27 (1973) 17–21, set I: the line is 3.00 +
	// 0.500·x with a standard error of 0.118, t = 4.24, p = 0.00217; Student's 97.5 % point with 9 degrees is 2.262.
	x := []float64{10, 8, 13, 9, 11, 14, 6, 4, 12, 7, 5}
	y := []float64{8.04, 6.95, 7.58, 8.81, 8.33, 9.96, 7.24, 4.26, 10.84, 4.82, 5.68}
	l := Regress(x, y)
	near(t, "slope", l.Slope, 0.5001, 5e-5)
	near(t, "intercept", l.Intercept, 3.0001, 5e-5)
	near(t, "p", l.P, 0.00217, 5e-6)
	near(t, "half the interval", (l.High-l.Low)/2, 2.262*0.1179, 5e-4)
	if l := Regress([]float64{1, 1, 1}, []float64{1, 2, 3}); l.P != 1 {
		t.Error("no x differs:", l)
	}
	if l := Regress([]float64{1, 2}, []float64{1, 2}); l.P != 1 {
		t.Error("two points:", l)
	}
}

func TestBackoff(t *testing.T) {
	doubling := []float64{0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32}
	g := Backoff(doubling)
	near(t, "factor", g.Factor, 2, 1e-9)
	near(t, "first", g.First, 0.005, 1e-9)
	near(t, "fit", g.Fit, 1, 1e-9)
	if g.P > 1e-9 || g.Low < 1.99 || g.High > 2.01 {
		t.Error("exact doubling:", g)
	}
	for i := range doubling { // jitter of up to half, as client-go's Backoff has
		doubling[i] *= 1 + 0.5*math.Abs(math.Sin(float64(i)))
	}
	if g = Backoff(doubling); g.Low > 2 || g.High < 2 || g.P > 1e-3 || g.Fit < 0.9 || g.Fit > 1 {
		t.Error("with jitter:", g)
	}
	if g := Backoff([]float64{1, 1.01, 0.99, 1, 1.02, 0.98}); math.Abs(g.Factor-1) > 0.01 || g.Low > 1 || g.High < 1 || g.Fit > 0.5 {
		t.Error("none:", g)
	}
	if g := Backoff([]float64{1, 0, math.Inf(1)}); g.Factor != 1 || g.P != 1 || g.Fit != 0 {
		t.Error("too few:", g)
	}
	if g := Backoff([]float64{2, 2, 2, 2}); g.Factor != 1 || g.P != 1 || g.Fit != 0 {
		t.Error("all the same:", g)
	}
}

// A back-off with a cap grows until it is there; what doesn't grow is taken as a whole.
func TestGrowing(t *testing.T) {
	capped := []float64{1, 2, 4, 8, 15, 14.8, 15, 15}
	if g := Growing(capped); len(g) != 5 {
		t.Error("capped:", g)
	}
	near(t, "factor", Backoff(Growing(capped)).Factor, 2, 0.05)
	for _, all := range [][]float64{{1, 1, 1, 1, 1}, {1, 2}, nil, {5, 1, 1, 1}} {
		if g := Growing(all); len(g) != len(all) {
			t.Error("of", all, g)
		}
	}
}
