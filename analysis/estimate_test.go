package analysis

import (
	"math"
	"slices"
	"testing"
)

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if math.IsNaN(got) || math.Abs(got-want) > within {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// binomialTail is P(X ≥ k) for n trials of chance p, summed term by term.
func binomialTail(k, n int64, p float64) float64 {
	sum := 0.0
	for i := k; i <= n; i++ {
		lg := func(x int64) float64 { v, _ := math.Lgamma(float64(x) + 1); return v }
		sum += math.Exp(lg(n) - lg(i) - lg(n-i) + float64(i)*math.Log(p) + float64(n-i)*math.Log1p(-p))
	}
	return sum
}

func TestProportion(t *testing.T) {
	// For k = 0 the upper bound has a closed form: 1 − (α/2)^(1/n).
	_, low, high := Proportion(0, 10)
	near(t, "0 of 10, low", low, 0, 0)
	near(t, "0 of 10, high", high, 1-math.Pow(0.025, 0.1), 1e-9)
	// The defining property: at each bound the tail beyond the observation is 2.5 %.
	for _, c := range [][2]int64{{1, 3}, {5, 20}, {12, 36}, {81, 263}, {999, 1000}, {3, 100000}} {
		p, low, high := Proportion(c[0], c[1])
		near(t, "share", p, float64(c[0])/float64(c[1]), 1e-12)
		near(t, "tail at the lower bound", binomialTail(c[0], c[1], low), 0.025, 1e-6)
		near(t, "tail at the upper bound", 1-binomialTail(c[0]+1, c[1], high), 0.025, 1e-6)
	}
	// Newcombe, Statistics in Medicine 17 (1998) 857–872, table I, method 5: 81 of 263 and 15 of 148.
	_, low, high = Proportion(81, 263)
	near(t, "81 of 263, low", low, 0.2527, 5e-5)
	near(t, "81 of 263, high", high, 0.3676, 5e-5)
	_, low, high = Proportion(15, 148)
	near(t, "15 of 148, low", low, 0.0578, 5e-5)
	near(t, "15 of 148, high", high, 0.1617, 5e-5)
}

func TestRate(t *testing.T) {
	// Garwood's table for the expectation of a Poisson variable, 95 %: 0 gives 3.689, 10 gives 4.795 to 18.39.
	_, low, high := Rate(0, 1)
	near(t, "none, low", low, 0, 0)
	near(t, "none, high", high, 3.689, 5e-4)
	r, low, high := Rate(10, 2)
	near(t, "rate", r, 5, 0)
	near(t, "low", low*2, 4.795, 5e-4)
	near(t, "high", high*2, 18.39, 5e-3)
}

func TestMedian(t *testing.T) {
	// For n = 10 the 2nd and the 9th value bound the median with 97.85 % (the 3rd and 8th only with 89.06 %).
	sample := []float64{10, 1, 9, 2, 8, 3, 7, 4, 6, 5}
	m, low, high := Median(sample)
	near(t, "median", m, 5.5, 0)
	near(t, "low", low, 2, 0)
	near(t, "high", high, 9, 0)
	m, low, high = Median([]float64{3, 1, 2})
	if m != 2 || low != 1 || high != 3 {
		t.Error("three values have no interval but their extremes:", m, low, high)
	}
	// One wild value moves neither the median nor the spread.
	near(t, "spread", Spread([]float64{1, 2, 3, 4, 1e9}, 3), 1.4826, 1e-9)
}

func TestReservoir(t *testing.T) {
	var r, again reservoir
	for i := range 100000 {
		r.add(float64(i))
		again.add(float64(i))
	}
	if len(r.sample) != reservoirSize || r.n != 100000 || !slices.Equal(r.sample, again.sample) {
		t.Fatal("the sample is not bounded, or not the same twice")
	}
	m, _, _ := Median(r.sample)
	near(t, "median of the sample", m, 50000, 5000) // 4 standard errors of a median of 512 uniform values: 4·1e5/(2√512) = 8,800
}

// The remission times in weeks of the 21 leukaemia patients treated with 6-MP (Freireich et al., Blood 21, 1963), the
// textbooks' example; a minus marks a censored time.
var remissions = []float64{6, 6, 6, -6, 7, -9, 10, -10, -11, 13, 16, -17, -19, -20, 22, 23, -25, -32, -32, -34, -35}

func TestKaplanMeier(t *testing.T) {
	var lives []Lifetime
	for i := len(remissions) - 1; i >= 0; i-- {
		lives = append(lives, Lifetime{Seconds: math.Abs(remissions[i]), Ended: remissions[i] > 0})
	}
	curve := KaplanMeier(lives)
	// Klein and Moeschberger, Survival Analysis, 2nd ed. 2003, table 4.1A: time, at risk, ended, survival, standard error.
	want := [][5]float64{
		{6, 21, 3, 0.857, 0.076},
		{7, 17, 1, 0.807, 0.087},
		{10, 15, 1, 0.753, 0.096},
		{13, 12, 1, 0.690, 0.107},
		{16, 11, 1, 0.627, 0.114},
		{22, 7, 1, 0.538, 0.128},
		{23, 6, 1, 0.448, 0.135},
	}
	if len(curve) != len(want) {
		t.Fatalf("%d steps, want %d", len(curve), len(want))
	}
	for i, w := range want {
		p := curve[i]
		if p.Seconds != w[0] || float64(p.AtRisk) != w[1] || float64(p.Ended) != w[2] {
			t.Errorf("step %d: %+v, want %v", i, p, w)
		}
		near(t, "survival", p.Survival, w[3], 5e-4)
		// log(−log S) ± 1.96·SE/(S·|ln S|), from the table's own rounded numbers.
		half := 1.96 * w[4] / (w[3] * math.Abs(math.Log(w[3])))
		near(t, "low", p.Low, math.Pow(w[3], math.Exp(half)), 6e-3)
		near(t, "high", p.High, math.Pow(w[3], math.Exp(-half)), 6e-3)
	}
	// The median is 23 weeks; by log(−log) its interval is from 13 weeks to beyond the data.
	m, low, high := MedianSurvival(curve)
	if m != 23 || low != 13 || !math.IsInf(high, 1) {
		t.Error("median", m, low, high)
	}
}

func TestKaplanMeierOfNothing(t *testing.T) {
	if c := KaplanMeier(nil); c != nil {
		t.Error(c)
	}
	if c := KaplanMeier([]Lifetime{{Seconds: 3}}); len(c) != 0 {
		t.Error("nothing ended, yet there are steps:", c)
	}
	c := KaplanMeier([]Lifetime{{1, true}, {2, true}})
	if last := c[len(c)-1]; last.Survival != 0 || math.IsNaN(last.Low) || math.IsNaN(last.High) {
		t.Errorf("%+v", last)
	}
}
