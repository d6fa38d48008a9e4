package analysis

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/opreplay/opreplay/analysis/stats"
)

const (
	// certain is how unlikely a rhythm, or a change of a rate, must be by chance to be told. There are as many tests as
	// findings, and what one says should be true.
	certain = 0.01
	// minBeats is how many places a rhythm must have: of fewer none is beyond chance.
	minBeats = 8
	// changedBy is by which factor a rate must have changed to be worth telling.
	changedBy = 1.5
)

// Texts of the methods, as findings cite them.
const (
	methodRhythm = "periodogram of the times (Bartlett, JRSS B 25, 1963), Rayleigh's test (Mardia and Jupp 2000, §6.3), Šidák's correction"
	methodEcho   = "autocorrelation of the counts, Bartlett's bound (JRSS Suppl. 8, 1946), Bonferroni's correction; the period is the median interval"
)

// PeriodOf is at which interval times come, given in nanoseconds and in no order; nil when they seem to come by chance. A
// timer ticks in phase to the end, which a periodogram shows; a loop, whose every turn begins when the last one ends,
// drifts, and shows better in the correlation with what was a turn ago.
func PeriodOf(ns []int64) *Period {
	times := beats(ns)
	if len(times) < minBeats {
		return nil
	}
	n := int64(len(times))
	peak := stats.Rhythm(times, len(times))
	gaps := make([]float64, len(times)-1)
	for i := range gaps {
		gaps[i] = times[i+1] - times[i]
	}
	typical, _, _ := stats.Median(gaps)
	r, p := echo(times, typical)
	best := &Period{Seconds: peak.Period, Strength: peak.Power, P: peak.P, N: n, Method: methodRhythm}
	if p < peak.P {
		best = &Period{Seconds: typical, Strength: r, P: p, N: n, Method: methodEcho}
	}
	if best.P = min(1, 2*best.P); best.P >= certain { // the better of two tests
		return nil
	}
	best.times = times
	return best
}

// beats are the times in seconds from the first, sorted, those close together taken for one: the writes of one pass are
// one beat, and would else seem like many independent ones that agree.
func beats(ns []int64) []float64 {
	ns = slices.Clone(ns)
	slices.Sort(ns)
	if len(ns) < minBeats {
		return nil
	}
	near := (ns[len(ns)-1] - ns[0]) / int64(10*len(ns))
	var out []float64
	last := int64(math.MinInt64)
	for _, t := range ns {
		if len(out) == 0 || t-last > near {
			out = append(out, float64(t-ns[0])/1e9)
		}
		last = t
	}
	return out
}

// maxCounts bounds the series that is correlated with itself: times whose whole is so many times their typical interval
// are in bursts.
const maxCounts = 2048

// echo is how well the counts of the times, in spans of a third of their typical interval, agree with those of about one
// interval ago, and how likely chance makes the best of the lags tried.
func echo(times []float64, typical float64) (r, p float64) {
	width := typical / 3
	span := times[len(times)-1]
	if width <= 0 || span/width >= maxCounts {
		return 0, 1
	}
	counts := counted(times, width)
	const from, to = 2, 4 // lags: two thirds to four thirds of the interval
	all, bound := stats.Autocorrelation(counts, to)
	if len(all) <= to || bound <= 0 {
		return 0, 1
	}
	r = slices.Max(all[from:])
	z := distuv.UnitNormal.Quantile(1-(1-confidence)/2) * r / bound
	return r, min(1, (to-from+1)*distuv.UnitNormal.Survival(z))
}

// counted are how many times fall into each span of a width.
func counted(times []float64, width float64) []float64 {
	counts := make([]float64, int(times[len(times)-1]/width)+1)
	for _, t := range times {
		counts[int(t/width)]++
	}
	return counts
}

// Curve is what a rhythm shows in, to be drawn.
type Curve struct {
	// Strength is, of each of the periods in Seconds, what Period.Strength measures: how strongly the places come with it or,
	// of Lags, how well their counts agree with those of so long ago.
	Seconds, Strength []float64
	Lags              bool
	// Line is what places without a rhythm exceed once in a hundred times.
	Line float64
}

// Curve is the periodogram, or the autocorrelation, that the period was found in; it is empty for a Period that Analyze
// has not made.
func (p *Period) Curve() Curve {
	var c Curve
	if len(p.times) == 0 {
		return c
	}
	if p.Method == methodRhythm {
		for _, w := range stats.Waves(p.times, len(p.times)) {
			c.Seconds, c.Strength = append(c.Seconds, w.Period), append(c.Strength, w.Power)
		}
		c.Line = stats.RhythmBound(len(p.times), len(p.times), certain/2)
		return c
	}
	const turns = 5
	width := p.Seconds / 3
	counts := counted(p.times, width)
	all, bound := stats.Autocorrelation(counts, min(3*turns, len(counts)/2))
	for k, r := range all {
		c.Seconds, c.Strength = append(c.Seconds, float64(k)*width), append(c.Strength, r)
	}
	c.Lags = true
	c.Line = bound * distuv.UnitNormal.Quantile(1-certain/2/3) / distuv.UnitNormal.Quantile(1-(1-confidence)/2)
	return c
}

// changes are the times at which the rate changed, given the time of the last place.
func (o *overTime) changes(last int64) []RateChange {
	n := min(o.used, int((last-o.begin)/o.width)) // the last span may not be full
	if n < minBeats {
		return nil
	}
	steady := make([]float64, n) // counts with one variance (Anscombe, Biometrika 35, 1948)
	for i := range steady {
		steady[i] = 2 * math.Sqrt(float64(o.counts[i])+3.0/8)
	}
	places := stats.MeanChanges(steady)
	bounds := []int{0}
	for _, c := range places {
		bounds = append(bounds, c.At)
	}
	bounds = append(bounds, n)
	var out []RateChange
	var ps []float64
	width := float64(o.width) / 1e9
	for i := 1; i+1 < len(bounds); i++ {
		a, ta := o.in(bounds[i-1], bounds[i]), width*float64(bounds[i]-bounds[i-1])
		b, tb := o.in(bounds[i], bounds[i+1]), width*float64(bounds[i+1]-bounds[i])
		p := min(1, float64(n-1)*stats.CompareRates(a, ta, b, tb)) // it could have been at any of the others
		ps = append(ps, p)
		out = append(out, RateChange{At: at(o.begin + int64(bounds[i])*o.width), Before: float64(a) / ta, After: float64(b) / tb, P: p})
	}
	var told []RateChange
	for i, believed := range stats.Holm(ps, certain) {
		if c := out[i]; believed && max(c.Before, c.After) >= changedBy*min(c.Before, c.After) {
			told = append(told, c)
		}
	}
	return told
}

// in is how many places are in the spans from one up to another.
func (o *overTime) in(from, to int) (n int64) {
	for _, c := range o.counts[from:to] {
		n += c
	}
	return n
}

// delays are the seconds between the first places.
func (p *places) delays() []float64 {
	out := make([]float64, 0, begunPlaces)
	for i := 1; i < len(p.begun); i++ {
		out = append(out, float64(p.begun[i]-p.begun[i-1])/1e9)
	}
	return out
}
