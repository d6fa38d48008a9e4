package stats

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// Lifetime is how long something was open. Ended is false when it was still open when it was last seen:
// then the time is a lower bound (right-censored).
type Lifetime struct {
	Seconds float64
	Ended   bool
}

// SurvivalPoint is one step of a Kaplan–Meier curve.
type SurvivalPoint struct {
	Seconds  float64 `json:"seconds"`
	AtRisk   int64   `json:"atRisk"`
	Ended    int64   `json:"ended"`
	Survival float64 `json:"survival"` // share still open after Seconds
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
}

// KaplanMeier estimates the share that is still open after each time at which one ended: the product-limit
// estimator of Kaplan and Meier, JASA 53 (1958) 457–481. The variance is Greenwood's (Reports on Public
// Health and Medical Subjects 33, 1926); the intervals are pointwise on the log(−log) scale, which keeps them
// within 0 and 1 (Kalbfleisch and Prentice, The Statistical Analysis of Failure Time Data, 2nd ed. 2002, §1.4).
// What was censored at the time of an end counts as at risk then. The lifetimes are sorted.
func KaplanMeier(lives []Lifetime) []SurvivalPoint {
	slices.SortFunc(lives, func(a, b Lifetime) int { return cmp.Compare(a.Seconds, b.Seconds) })
	var curve []SurvivalPoint
	s, greenwood := 1.0, 0.0
	for i := 0; i < len(lives); {
		t, d, c := lives[i].Seconds, 0, 0
		for ; i < len(lives) && lives[i].Seconds == t; i++ {
			if lives[i].Ended {
				d++
			} else {
				c++
			}
		}
		if d == 0 {
			continue
		}
		n := len(lives) - i + d + c
		s *= 1 - float64(d)/float64(n)
		greenwood += float64(d) / (float64(n) * float64(n-d))
		low, high := logLog(s, greenwood)
		curve = append(curve, SurvivalPoint{Seconds: t, AtRisk: int64(n), Ended: int64(d), Survival: s, Low: low, High: high})
	}
	return curve
}

// logLog is the interval of a survival s with Greenwood's sum g: s^exp(±z·√g/ln s).
func logLog(s, g float64) (low, high float64) {
	if s <= 0 || s >= 1 {
		return s, s
	}
	w := z * math.Sqrt(g) / math.Abs(math.Log(s))
	return math.Pow(s, math.Exp(w)), math.Pow(s, math.Exp(-w))
}

// MedianSurvival is the time by which half have ended, with the interval of Brookmeyer and Crowley,
// Biometrics 38 (1982) 29–41: the times at which the curve's own bounds cross one half. +Inf where the curve
// or a bound never comes down to it.
func MedianSurvival(curve []SurvivalPoint) (m, low, high float64) {
	m, low, high = math.Inf(1), math.Inf(1), math.Inf(1)
	for _, p := range curve {
		if p.Survival <= 0.5 {
			m = min(m, p.Seconds)
		}
		if p.Low <= 0.5 {
			low = min(low, p.Seconds)
		}
		if p.High <= 0.5 {
			high = min(high, p.Seconds)
		}
	}
	return m, low, high
}

// LogRank is the probability that groups of one survival differ as much as these, by the log-rank test of Mantel,
// "Evaluation of survival data and two new rank order statistics arising in its consideration", Cancer Chemotherapy
// Reports 50 (1966) 163–170, for two groups: χ² with one degree of freedom, of the events of the first group less
// those expected of it. ratio is the ratio of observed to expected events of the first group over that of the second,
// above 1 when the first ends sooner.
func LogRank(a, b []Lifetime) (chi2, p, ratio float64) {
	var times []float64
	for _, l := range slices.Concat(a, b) {
		if l.Ended {
			times = append(times, l.Seconds)
		}
	}
	slices.Sort(times)
	times = slices.Compact(times)
	a, b = slices.Clone(a), slices.Clone(b)
	inTime := func(x, y Lifetime) int { return cmp.Compare(x.Seconds, y.Seconds) }
	slices.SortFunc(a, inTime)
	slices.SortFunc(b, inTime)
	observed, expected, all, variance := 0.0, 0.0, 0.0, 0.0
	for _, t := range times {
		da, na := endedAt(&a, t)
		db, nb := endedAt(&b, t)
		d, n := da+db, na+nb
		observed += da
		all += d
		expected += d * na / n
		if n > 1 {
			variance += d * (na / n) * (nb / n) * (n - d) / (n - 1)
		}
	}
	if variance <= 0 {
		return 0, 1, 1
	}
	chi2 = (observed - expected) * (observed - expected) / variance
	ratio = observed / expected / max((all-observed)/(all-expected), math.SmallestNonzeroFloat64)
	return chi2, distuv.ChiSquared{K: 1}.Survival(chi2), min(ratio, math.MaxFloat64)
}

// endedAt is how many of the sorted lives ended at t, and how many were at risk then; those before are dropped.
func endedAt(lives *[]Lifetime, t float64) (ended, atRisk float64) {
	list := *lives
	for len(list) > 0 && list[0].Seconds < t {
		list = list[1:]
	}
	*lives = list
	for _, l := range list {
		if l.Seconds > t {
			break
		}
		if l.Ended {
			ended++
		}
	}
	return ended, float64(len(list))
}
