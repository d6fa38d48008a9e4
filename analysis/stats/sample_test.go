package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestOutlying(t *testing.T) {
	near(t, "from 1, 2, 3, 4, 100", Outlying([]float64{1, 2, 3, 4, 100}, 100), 97/1.4826, 1e-9)
	if !math.IsInf(Outlying([]float64{5, 5, 5}, 6), 1) || Outlying([]float64{5, 5, 5}, 5) != 0 {
		t.Error("a constant sample")
	}
	if v := Outlying([]float64{0, 0, 0, 0, 1}, 1); v < 3.5 || math.IsInf(v, 0) { // mean deviation 0.2·1.2533
		t.Error("half the sample is one value:", v)
	}
}

// Of three values there are 27 resamples: the median is the smallest in 7 of them, the middle one in 13.
func TestQuantileDrawsEveryResampleAlike(t *testing.T) {
	value, low, high := Quantile([]float64{3, 1, 2}, 0.5, 1)
	if value != 2 || low != 1 || high != 3 {
		t.Error("7 of 27 are more than 2.5 % at either end:", value, low, high)
	}
	// Of eleven, the median is the smallest with chance P(at least 6 of 11 draws hit it) = 1.3e-4: no bound.
	_, low, high = Quantile([]float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, 0.5, 1)
	// The k-th smallest or less has P(B(11, k/11) ≥ 6): 0.021 for k = 3 − hence 4 at the 2.5th per cent, within an order.
	chance := func(k int) float64 { return binomialTail(6, 11, float64(k)/11) }
	if chance(2) > tail || chance(4) < tail {
		t.Fatal("the enumeration is wrong:", chance(2), chance(4))
	}
	if low < 3 || low > 4 || high < 8 || high > 9 {
		t.Error("eleven values:", low, high)
	}
	if v, low, high := Quantile([]float64{0, 10}, 0.25, 1); v != 2.5 || low != 0 || high != 10 {
		t.Error("interpolation:", v, low, high)
	}
}

func TestQuantileIsTheSameAgain(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	sample := make([]float64, 200)
	for i := range sample {
		sample[i] = r.ExpFloat64()
	}
	v, low, high := Quantile(slices.Clone(sample), 0.9, 7)
	v2, low2, high2 := Quantile(slices.Clone(sample), 0.9, 7)
	_, low3, _ := Quantile(slices.Clone(sample), 0.9, 8)
	if v != v2 || low != low2 || high != high2 || low == low3 {
		t.Error(v, low, high, v2, low2, high2, low3)
	}
	covered := 0
	for seed := range uint64(200) {
		for i := range sample {
			sample[i] = r.ExpFloat64()
		}
		if _, low, high := Quantile(sample, 0.9, seed); low <= math.Ln10 && math.Ln10 <= high { // the 0.9-quantile of Exp(1)
			covered++
		}
	}
	if covered < 179 { // 95 % of 200 less 3.5 standard deviations
		t.Errorf("the interval held the truth %d times of 200", covered)
	}
}

func TestMannWhitney(t *testing.T) {
	// Hollander and Wolfe (1973), p. 69, the example of R's wilcox.test: W = 35, one-sided p = 0.1272.
	x := []float64{0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46}
	y := []float64{1.15, 0.88, 0.90, 0.74, 1.21}
	p, superior := MannWhitney(x, y)
	near(t, "p", p, 2*0.1272, 1e-4)
	near(t, "W", superior*50, 35, 1e-9)
	// Four above four: 2 of the 70 arrangements are as far apart.
	p, superior = MannWhitney([]float64{5, 6, 7, 8}, []float64{1, 2, 3, 4})
	near(t, "four above four", p, 2./70, 1e-12)
	near(t, "superiority", superior, 1, 0)
	if p, superior := MannWhitney([]float64{1, 1, 1}, []float64{1, 1}); p != 1 || superior != 0.5 {
		t.Error("all ties:", p, superior)
	}
	if p, _ := MannWhitney(nil, y); p != 1 {
		t.Error("of nothing:", p)
	}
	if p, _ := MannWhitney([]float64{math.NaN()}, y); math.IsNaN(p) {
		t.Error("not a number:", p)
	}
}

// Where both forms hold they agree, and of two samples of one distribution one in twenty seems different.
func TestMannWhitneyInLargeSamples(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	wrong := 0
	for range 1000 {
		x, y := make([]float64, 20), make([]float64, 30)
		for i := range x {
			x[i] = math.Floor(r.ExpFloat64() * 10)
		}
		for i := range y {
			y[i] = math.Floor(r.ExpFloat64() * 10)
		}
		if p, _ := MannWhitney(x, y); p < 0.05 {
			wrong++
		}
	}
	if wrong < 25 || wrong > 75 { // 50 ± 3.6 standard deviations
		t.Errorf("%d of 1,000 at the level of 5 %%", wrong)
	}
}
