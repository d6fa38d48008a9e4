package stats

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Confidence is the level of every interval.
const Confidence = 0.95

// tail is what lies beyond each end of an interval.
const tail = (1 - Confidence) / 2

// z is the normal quantile of an interval's upper end, 1.96.
var z = distuv.UnitNormal.Quantile(1 - tail)

// Proportion estimates the share k of n with the exact interval of Clopper and Pearson, "The use of
// confidence or fiducial limits illustrated in the case of the binomial", Biometrika 26 (1934) 404–413, by
// the quantiles of the beta distribution. It never covers less than its level, which is what a detector
// that compares the lower bound with a threshold needs.
func Proportion(k, n int64) (p, low, high float64) {
	if n <= 0 {
		return 0, 0, 1
	}
	low, high = 0, 1
	if k > 0 {
		low = distuv.Beta{Alpha: float64(k), Beta: float64(n - k + 1)}.Quantile(tail)
	}
	if k < n {
		high = distuv.Beta{Alpha: float64(k + 1), Beta: float64(n - k)}.Quantile(1 - tail)
	}
	return float64(k) / float64(n), low, high
}

// Wilson estimates the share k of n with the score interval of Wilson, "Probable inference, the law of succession,
// and statistical inference", JASA 22 (1927) 209–212: narrower than the exact one, and right on average, which is what
// a share that is only reported needs (Brown, Cai and DasGupta, Statistical Science 16 (2001) 101–133).
func Wilson(k, n int64) (p, low, high float64) {
	if n <= 0 {
		return 0, 0, 1
	}
	m := float64(n)
	p = float64(k) / m
	centre := (p + z*z/(2*m)) / (1 + z*z/m)
	half := z / (1 + z*z/m) * math.Sqrt(p*(1-p)/m+z*z/(4*m*m))
	return p, max(0, min(centre-half, p)), min(1, max(centre+half, p))
}

// Rate estimates events per second from n events in the given seconds with the exact Poisson interval of
// Garwood, "Fiducial limits for the Poisson distribution", Biometrika 28 (1936) 437–442, by the quantiles
// of the gamma distribution. What repeats more evenly than a Poisson process has a narrower interval.
func Rate(n int64, seconds float64) (r, low, high float64) {
	if seconds <= 0 {
		return 0, 0, 0
	}
	if n > 0 {
		low = distuv.Gamma{Alpha: float64(n), Beta: 1}.Quantile(tail) / seconds
	}
	high = distuv.Gamma{Alpha: float64(n + 1), Beta: 1}.Quantile(1-tail) / seconds
	return float64(n) / seconds, low, high
}

// CompareRates is the probability that two Poisson processes of one rate differ as much as a events in ta seconds and
// b events in tb: the conditional test of Przyborowski and Wilenski, Biometrika 31 (1940) 313–323, two-sided by adding
// up all outcomes that are no likelier than the one seen.
func CompareRates(a int64, ta float64, b int64, tb float64) float64 {
	n := a + b
	if n == 0 || ta <= 0 || tb <= 0 {
		return 1
	}
	share := ta / (ta + tb)
	if n > 1<<14 { // exactness costs a sum over n; there the normal distribution is as good
		d := (float64(a) - float64(n)*share) / math.Sqrt(float64(n)*share*(1-share))
		return min(1, 2*distuv.UnitNormal.Survival(math.Abs(d)))
	}
	seen := binomial(a, n, share)
	sum := 0.0
	for k := range n + 1 {
		if p := binomial(k, n, share); p <= seen*(1+1e-7) {
			sum += p
		}
	}
	return min(1, sum)
}

// CompareShares is the probability that two groups of one share differ as much as a of m and b of n: Fisher's exact
// test (The Design of Experiments, 1935), two-sided as CompareRates is. Over 16,384 it is the pooled z test.
func CompareShares(a, m, b, n int64) float64 {
	k, all := a+b, m+n
	if m <= 0 || n <= 0 || k <= 0 || k >= all {
		return 1
	}
	if all > 1<<14 {
		p := float64(k) / float64(all)
		d := (float64(a)/float64(m) - float64(b)/float64(n)) / math.Sqrt(p*(1-p)*(1/float64(m)+1/float64(n)))
		return min(1, 2*distuv.UnitNormal.Survival(math.Abs(d)))
	}
	table := func(x int64) float64 {
		return math.Exp(choose(m, x) + choose(n, k-x) - choose(all, k))
	}
	seen, sum := table(a), 0.0
	for x := max(0, k-n); x <= min(k, m); x++ {
		if p := table(x); p <= seen*(1+1e-7) {
			sum += p
		}
	}
	return min(1, sum)
}

func binomial(k, n int64, p float64) float64 {
	return math.Exp(choose(n, k) + float64(k)*math.Log(p) + float64(n-k)*math.Log1p(-p))
}

// choose is the logarithm of the binomial coefficient.
func choose(n, k int64) float64 { return factorial(n) - factorial(k) - factorial(n-k) }

func factorial(n int64) float64 {
	v, _ := math.Lgamma(float64(n) + 1)
	return v
}
