package stats

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// Median estimates the median of a sample with the distribution-free interval between order statistics
// (David and Nagaraja, Order Statistics, 3rd ed. 2003, §7.1): the widest ranks whose binomial tails stay
// under the level. Under 6 values there is none, and low and high are the extremes. The sample is sorted.
func Median(sample []float64) (m, low, high float64) {
	if len(sample) == 0 {
		return 0, 0, 0
	}
	slices.Sort(sample)
	n := len(sample)
	// gonum's Quantile interpolates between other points than the textbook's median of an even sample.
	if n%2 == 1 {
		m = sample[n/2]
	} else {
		m = (sample[n/2-1] + sample[n/2]) / 2
	}
	low, high = sample[0], sample[n-1]
	b := distuv.Binomial{N: float64(n), P: 0.5}
	for k := 1; k <= n/2 && b.CDF(float64(k-1)) <= tail; k++ {
		low, high = sample[k-1], sample[n-k]
	}
	return m, low, high
}

// Spread is the median absolute deviation, scaled by 1.4826 so that it estimates the standard deviation of
// a normal sample (Rousseeuw and Croux, JASA 88 (1993) 1273–1283). It ignores up to half the sample gone wild.
func Spread(sample []float64, median float64) float64 {
	if len(sample) == 0 {
		return 0
	}
	dev := make([]float64, len(sample))
	for i, x := range sample {
		dev[i] = math.Abs(x - median)
	}
	m, _, _ := Median(dev)
	return 1.4826 * m
}

// Outlying is how many robust standard deviations x lies from the middle of the sample: the modified z-score of
// Iglewicz and Hoaglin, How to Detect and Handle Outliers, 1993, who call 3.5 an outlier. Where half the sample is
// one value the deviation is taken from the mean absolute deviation about the median, as they do; ±Inf where all of it
// is and x isn't.
func Outlying(sample []float64, x float64) float64 {
	if len(sample) == 0 {
		return 0
	}
	s := slices.Clone(sample)
	m, _, _ := Median(s)
	spread := Spread(s, m)
	if spread == 0 {
		for _, v := range s {
			spread += 1.253314 * math.Abs(v-m) / float64(len(s))
		}
	}
	if x == m {
		return 0
	}
	return (x - m) / spread
}

// resamples is how many times the bootstrap draws: the ends of a 95 % interval then are the 25th of each side, which
// repeats to within a few per cent of the interval's width.
const resamples = 1000

// Quantile estimates the q-quantile of a sample, by linear interpolation between order statistics (type 7 of Hyndman
// and Fan, The American Statistician 50 (1996) 361–365), with the percentile bootstrap interval of Efron, "Bootstrap
// methods: another look at the jackknife", Annals of Statistics 7 (1979) 1–26. The seed makes the drawing repeatable.
// The sample is sorted.
func Quantile(sample []float64, q float64, seed uint64) (value, low, high float64) {
	n := len(sample)
	if n == 0 {
		return 0, 0, 0
	}
	slices.Sort(sample)
	value = quantile(sample, q)
	r := rand.New(rand.NewPCG(seed, uint64(n)))
	draws, again := make([]float64, resamples), make([]int, n)
	at := q * float64(n-1)
	i := int(at)
	for d := range draws {
		// Of a resample only two order statistics matter, which are found by counting rather than sorting.
		clear(again)
		for range n {
			again[r.IntN(n)]++
		}
		draws[d] = pick(sample, again, i, at-float64(i))
	}
	slices.Sort(draws)
	return value, quantile(draws, tail), quantile(draws, 1-tail)
}

// pick interpolates between the i-th and the next of a sorted sample in which each value stands count times.
func pick(sorted []float64, count []int, i int, part float64) float64 {
	seen := 0
	for k, c := range count {
		if seen += c; seen > i {
			if part == 0 || seen > i+1 {
				return sorted[k]
			}
			for l := k + 1; l < len(count); l++ {
				if count[l] > 0 {
					return sorted[k] + part*(sorted[l]-sorted[k])
				}
			}
			return sorted[k]
		}
	}
	return sorted[len(sorted)-1]
}

func quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

// MannWhitney is the probability that two samples of one distribution are as far apart in rank as these: the test of
// Mann and Whitney, Annals of Mathematical Statistics 18 (1947) 50–60, two-sided. Up to 30 values in all without ties
// it is exact by their recurrence; else by the normal distribution with the correction for ties and continuity
// (Lehmann, Nonparametrics, 1975, §1.4). superiority is the chance that a value of x is greater than one of y, ties
// counting one half: the effect size. The samples are sorted.
func MannWhitney(x, y []float64) (p, superiority float64) {
	m, n := len(x), len(y)
	if m == 0 || n == 0 {
		return 1, 0.5
	}
	slices.Sort(x)
	slices.Sort(y)
	u, ties := ranks(x, y)
	superiority = u / float64(m*n)
	if ties == 0 && m+n <= 30 {
		return exactU(min(u, float64(m*n)-u), m, n), superiority
	}
	all := float64(m + n)
	variance := float64(m*n) / 12 * (all + 1 - ties/(all*(all-1)))
	if variance <= 0 {
		return 1, superiority
	}
	d := max(math.Abs(u-float64(m*n)/2)-0.5, 0)
	return min(1, 2*distuv.UnitNormal.Survival(d/math.Sqrt(variance))), superiority
}

// ranks is how many pairs have the x greater, ties counting one half, and Σ(t³−t) over the ties of t values.
func ranks(x, y []float64) (u, ties float64) {
	for i, j := 0, 0; i < len(x) || j < len(y); {
		v := math.Inf(1)
		if i < len(x) {
			v = x[i]
		}
		if j < len(y) {
			v = min(v, y[j])
		}
		a, b := i, j
		for i < len(x) && x[i] == v {
			i++
		}
		for j < len(y) && y[j] == v {
			j++
		}
		if i == a && j == b { // NaN
			return float64(len(x)*len(y)) / 2, 0
		}
		u += float64(i-a) * (float64(b) + float64(j-b)/2)
		t := float64(i - a + j - b)
		ties += t*t*t - t
	}
	return u, ties
}

// exactU is twice the chance of U ≤ u.
func exactU(u float64, m, n int) float64 {
	// counts[k] is how many arrangements of the values so far have U = k: multiplying by (1−q^(n+i))/(1−q^i) adds the
	// i-th of x.
	counts := make([]float64, m*n+1)
	counts[0] = 1
	for i := 1; i <= m; i++ {
		for k := m * n; k >= n+i; k-- {
			counts[k] -= counts[k-n-i]
		}
		for k := i; k <= m*n; k++ {
			counts[k] += counts[k-i]
		}
	}
	sum, all := 0.0, 0.0
	for k, c := range counts {
		all += c
		if float64(k) <= u {
			sum += c
		}
	}
	return min(1, 2*sum/all)
}
