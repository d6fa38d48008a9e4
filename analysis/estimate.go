package analysis

import (
	"cmp"
	"math"
	"slices"

	"github.com/opreplay/opreplay/analysis/stats"
)

// confidence is the level of every interval.
const confidence = stats.Confidence

// Texts of the methods, as findings cite them.
const (
	methodProportion = "share, Clopper–Pearson interval (Biometrika 26, 1934)"
	methodRate       = "events over time, exact Poisson interval (Garwood, Biometrika 28, 1936)"
	methodMedian     = "median, order-statistic interval (David and Nagaraja 2003, §7.1)"
	methodQuantile   = "quantile, percentile bootstrap interval (Efron, Annals of Statistics 7, 1979)"
	methodWilson     = "share, Wilson interval (JASA 22, 1927)"
)

func proportion(name string, k, n int64) Statistic {
	p, low, high := stats.Proportion(k, n)
	return Statistic{Name: name, Value: p, Unit: "share", Low: low, High: high, Confidence: confidence, N: n, Method: methodProportion}
}

func rate(name string, n int64, seconds float64) Statistic {
	r, low, high := stats.Rate(n, seconds)
	return Statistic{Name: name, Value: r, Unit: "1/s", Low: low, High: high, Confidence: confidence, N: n, Method: methodRate}
}

// median is the statistic of a sample of n values, of which the reservoir kept some.
func median(name, unit string, sample []float64, n int64) Statistic {
	m, low, high := stats.Median(sample)
	level := confidence
	if len(sample) < 6 {
		level = 0
		low, high = m, m
	}
	return Statistic{Name: name, Value: m, Unit: unit, Low: low, High: high, Confidence: level, N: n, Method: methodMedian}
}

// share is the statistic of a proportion that is only reported, not compared with a threshold.
func share(name string, k, n int64) Statistic {
	p, low, high := stats.Wilson(k, n)
	return Statistic{Name: name, Value: p, Unit: "share", Low: low, High: high, Confidence: confidence, N: n, Method: methodWilson}
}

// percentile is the statistic of a quantile of a sample, such as the 0.99th of latencies. Its bounds are drawn with the
// trace's seed.
func percentile(seed uint64, name, unit string, q float64, sample []float64, n int64) Statistic {
	v, low, high := stats.Quantile(sample, q, seed)
	level := confidence
	if len(sample) < 6 {
		level, low, high = 0, v, v
	}
	return Statistic{Name: name, Value: v, Unit: unit, Low: low, High: high, Confidence: level, N: n, Method: methodQuantile}
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

// add takes in a value, and says at which place of the sample it stands now, −1 when it is left out.
func (r *reservoir) add(x float64) int {
	r.n++
	size := cmp.Or(r.size, reservoirSize)
	if len(r.sample) < size {
		r.sample = append(r.sample, x)
		return len(r.sample) - 1
	}
	i := r.next() % uint64(r.n)
	if i >= uint64(size) {
		return -1
	}
	r.sample[i] = x
	return int(i)
}

// course is a sample of values with their times.
type course struct {
	reservoir
	times []float64 // seconds from the first on
	begin int64
}

func (c *course) add(ts int64, x float64) {
	if c.n == 0 {
		c.begin = ts
	}
	switch i := c.reservoir.add(x); {
	case i == len(c.times):
		c.times = append(c.times, float64(ts-c.begin)/1e9)
	case i >= 0:
		c.times[i] = float64(ts-c.begin) / 1e9
	}
}

// maxWaves bounds the periods that are looked for in a course.
const maxWaves = 128

// waves is the period in which the values rise and fall, 0 where they do so by chance: it must have come round at least
// three times.
func (c *course) waves() stats.Peak {
	if len(c.times) < minBeats {
		return stats.Peak{P: 1}
	}
	peak := stats.LombScargle(c.times, c.sample, min(maxWaves, len(c.times)/2))
	if peak.P >= certain || 3*peak.Period > slices.Max(c.times)-slices.Min(c.times) {
		return stats.Peak{P: peak.P}
	}
	return peak
}

const methodOutlying = "modified z-score of the median absolute deviation (Iglewicz and Hoaglin 1993), 3.5 and more is an outlier"

// outlier is from how many robust standard deviations on a value is none of the sample's (Iglewicz and Hoaglin).
const outlier = 3.5

// outlying is how far a value lies from a sample of n like it; ok is false where the sample says nothing of it.
func outlying(name string, sample []float64, n int64, x float64) (s Statistic, ok bool) {
	v := stats.Outlying(sample, x)
	if len(sample) < minSample || math.IsInf(v, 0) {
		return s, false
	}
	return Statistic{Name: name, Value: v, Unit: "robust standard deviations", Low: v, High: v, N: n, Method: methodOutlying}, true
}

// next is SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
func (r *reservoir) next() uint64 {
	r.state += 0x9e3779b97f4a7c15
	z := r.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
