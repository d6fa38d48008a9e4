package stats

import (
	"math"
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

func TestWilson(t *testing.T) {
	// Newcombe, Statistics in Medicine 17 (1998) 857–872, table I, method 3.
	for _, c := range []struct {
		k, n      int64
		low, high float64
	}{{81, 263, 0.2553, 0.3662}, {15, 148, 0.0624, 0.1605}, {0, 20, 0, 0.1611}, {1, 29, 0.0061, 0.1718}} {
		_, low, high := Wilson(c.k, c.n)
		near(t, "low", low, c.low, 5e-5)
		near(t, "high", high, c.high, 5e-5)
	}
	if _, low, high := Wilson(0, 0); low != 0 || high != 1 {
		t.Error("of nothing nothing is known:", low, high)
	}
	if _, _, high := Wilson(5, 5); high != 1 {
		t.Error("all of 5, high:", high)
	}
}

func TestCompareRates(t *testing.T) {
	// The example of R's poisson.test: 11 of 800 woman-years against 21 of 3,011; R says p = 0.07967.
	near(t, "p", CompareRates(11, 800, 21, 3011), 0.07967, 5e-6)
	// 5 against 0 in the same time: (1/2)^5 in each direction.
	near(t, "5 and 0", CompareRates(5, 1, 0, 1), 2./32, 1e-12)
	near(t, "equal", CompareRates(7, 1, 7, 1), 1, 1e-9)
	near(t, "nothing", CompareRates(0, 1, 0, 1), 1, 0)
	// Beyond the exact sum the two forms must agree: √2·2 standard deviations of a difference of 8,192 + 8,193.
	exact, normal := CompareRates(8092, 1, 8292, 1), CompareRates(8093, 1, 8293, 1)
	near(t, "at the seam", normal/exact, 1, 0.02)
}

func TestCompareShares(t *testing.T) {
	// Fisher's lady tasting tea: 3 of 4 against 1 of 4 right, (16 + 16 + 1 + 1)/70.
	near(t, "tea", CompareShares(3, 4, 1, 4), 34./70, 1e-12)
	near(t, "all and none", CompareShares(4, 4, 0, 4), 2./70, 1e-12)
	near(t, "no failures at all", CompareShares(0, 4, 0, 9), 1, 0)
}
