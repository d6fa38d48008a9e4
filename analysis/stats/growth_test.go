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
	factor, low, high, p := Backoff(doubling)
	near(t, "factor", factor, 2, 1e-9)
	if p > 1e-9 || low < 1.99 || high > 2.01 {
		t.Error("exact doubling:", low, high, p)
	}
	for i := range doubling { // jitter of up to half, as client-go's Backoff has
		doubling[i] *= 1 + 0.5*math.Abs(math.Sin(float64(i)))
	}
	if factor, low, high, p = Backoff(doubling); low > 2 || high < 2 || p > 1e-3 {
		t.Error("with jitter:", factor, low, high, p)
	}
	if factor, low, high, _ := Backoff([]float64{1, 1.01, 0.99, 1, 1.02, 0.98}); math.Abs(factor-1) > 0.01 || low > 1 || high < 1 {
		t.Error("none:", factor, low, high)
	}
	if factor, _, _, p := Backoff([]float64{1, 0, math.Inf(1)}); factor != 1 || p != 1 {
		t.Error("too few:", factor, p)
	}
}
