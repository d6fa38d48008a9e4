package analysis

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// confidence is the level of every interval.
const confidence = 0.95

// Proportion estimates the share k of n with the exact interval of Clopper and Pearson, "The use of
// confidence or fiducial limits illustrated in the case of the binomial", Biometrika 26 (1934) 404–413, by
// the quantiles of the beta distribution. It never covers less than its level, which is what a detector
// that compares the lower bound with a threshold needs.
func Proportion(k, n int64) (p, low, high float64) {
	if n <= 0 {
		return 0, 0, 1
	}
	low, high = 0, 1
	const tail = (1 - confidence) / 2
	if k > 0 {
		low = distuv.Beta{Alpha: float64(k), Beta: float64(n - k + 1)}.Quantile(tail)
	}
	if k < n {
		high = distuv.Beta{Alpha: float64(k + 1), Beta: float64(n - k)}.Quantile(1 - tail)
	}
	return float64(k) / float64(n), low, high
}

// Rate estimates events per second from n events in the given seconds with the exact Poisson interval of
// Garwood, "Fiducial limits for the Poisson distribution", Biometrika 28 (1936) 437–442, by the quantiles
// of the gamma distribution. What repeats more evenly than a Poisson process has a narrower interval.
func Rate(n int64, seconds float64) (r, low, high float64) {
	if seconds <= 0 {
		return 0, 0, 0
	}
	const tail = (1 - confidence) / 2
	if n > 0 {
		low = distuv.Gamma{Alpha: float64(n), Beta: 1}.Quantile(tail) / seconds
	}
	high = distuv.Gamma{Alpha: float64(n + 1), Beta: 1}.Quantile(1-tail) / seconds
	return float64(n) / seconds, low, high
}

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
	for k := 1; k <= n/2 && b.CDF(float64(k-1)) <= (1-confidence)/2; k++ {
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

// Texts of the methods, as findings cite them.
const (
	methodProportion = "share, Clopper–Pearson interval (Biometrika 26, 1934)"
	methodRate       = "events over time, exact Poisson interval (Garwood, Biometrika 28, 1936)"
	methodMedian     = "median, order-statistic interval (David and Nagaraja 2003, §7.1)"
)

func proportion(name string, k, n int64) Statistic {
	p, low, high := Proportion(k, n)
	return Statistic{Name: name, Value: p, Unit: "share", Low: low, High: high, Confidence: confidence, N: n, Method: methodProportion}
}

func rate(name string, n int64, seconds float64) Statistic {
	r, low, high := Rate(n, seconds)
	return Statistic{Name: name, Value: r, Unit: "1/s", Low: low, High: high, Confidence: confidence, N: n, Method: methodRate}
}

// median is the statistic of a sample of n values, of which the reservoir kept some.
func median(name, unit string, sample []float64, n int64) Statistic {
	m, low, high := Median(sample)
	level := confidence
	if len(sample) < 6 {
		level = 0
		low, high = m, m
	}
	return Statistic{Name: name, Value: m, Unit: unit, Low: low, High: high, Confidence: level, N: n, Method: methodMedian}
}

// reservoirSize bounds a sample: the interval of a median of 512 values is narrower than any decision needs.
const reservoirSize = 512

// reservoir keeps a uniform sample of a stream (Vitter, "Random sampling with a reservoir", algorithm R, ACM
// TOMS 11 (1985) 37–57). The generator is its own, with a fixed seed: the same stream gives the same sample.
type reservoir struct {
	n      int64
	size   int // 0 means reservoirSize
	sample []float64
	state  uint64
}

func (r *reservoir) add(x float64) {
	r.n++
	size := cmp.Or(r.size, reservoirSize)
	if len(r.sample) < size {
		r.sample = append(r.sample, x)
		return
	}
	if i := r.next() % uint64(r.n); i < uint64(size) {
		r.sample[i] = x
	}
}

// next is SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
func (r *reservoir) next() uint64 {
	r.state += 0x9e3779b97f4a7c15
	z := r.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
