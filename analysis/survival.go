package analysis

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
	z := distuv.UnitNormal.Quantile(1 - (1-confidence)/2)
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
