package stats

import (
	"math"
	"math/cmplx"
	"slices"

	"gonum.org/v1/gonum/dsp/fourier"
	"gonum.org/v1/gonum/stat"
)

// Autocorrelation is the sample autocorrelation of an evenly spaced series at the lags 0 to max, by the fast Fourier
// transform of the series padded with as many zeros (Box, Jenkins and Reinsel, Time Series Analysis, 4th ed. 2008,
// §2.1). bound is what 95 % of the values of a series without correlation stay within, 1.96/√n (Bartlett, Journal of
// the Royal Statistical Society, Supplement 8 (1946) 27–41).
func Autocorrelation(series []float64, lags int) (r []float64, bound float64) {
	n := len(series)
	lags = min(lags, n-1)
	if lags < 0 {
		return nil, 0
	}
	mean := stat.Mean(series, nil)
	padded := make([]float64, 2*n)
	for i, x := range series {
		padded[i] = x - mean
	}
	fft := fourier.NewFFT(len(padded))
	c := fft.Coefficients(nil, padded)
	for i := range c {
		c[i] = complex(real(c[i])*real(c[i])+imag(c[i])*imag(c[i]), 0)
	}
	sums := fft.Sequence(nil, c)
	r = make([]float64, lags+1)
	r[0] = 1
	for k := 1; k <= lags && sums[0] > 0; k++ {
		r[k] = sums[k] / sums[0]
	}
	return r, z / math.Sqrt(float64(n))
}

// Peak is the strongest period of a series.
type Peak struct {
	Period float64 // in the unit of the times
	// Power is the share of the series' variance that a wave of this period takes away, from 0 to 1.
	Power float64
	// P is the chance that noise has a peak as strong among the periods that were tried.
	P float64
}

// oversampling is how many frequencies are tried for each wave more in the whole time: between two that are a whole
// wave apart a peak keeps only 40 % of its power, between four times as many 95 % (the square of sin x/x).
const oversampling = 4

// LombScargle is the strongest period of values at any times, by the periodogram of Lomb, Astrophysics and Space
// Science 39 (1976) 447–462, and Scargle, Astrophysical Journal 263 (1982) 835–853, among frequencies of one to the given
// number of waves in the whole time; the significance is Baluev's bound, "Assessing the statistical
// significance of periodogram peaks", Monthly Notices of the Royal Astronomical Society 385 (2008) 1279–1285, formula
// 5 and table 1 for the power as a share of the variance. Without at least 5 values, or variance, P is 1.
func LombScargle(times, values []float64, waves int) Peak {
	n := len(times)
	if n < 5 || n != len(values) {
		return Peak{P: 1}
	}
	mean, variance := stat.PopMeanVariance(values, nil)
	span := slices.Max(times) - slices.Min(times)
	if variance <= 0 || span <= 0 {
		return Peak{P: 1}
	}
	best := Peak{P: 1}
	for k := oversampling; k <= waves*oversampling; k++ {
		f := float64(k) / (oversampling * span)
		if p := lomb(times, values, mean, 2*math.Pi*f) / (variance * float64(n)); p > best.Power {
			best.Power, best.Period = min(p, 1), 1/f
		}
	}
	best.P = baluev(best.Power, float64(waves)/span, times)
	return best
}

// lomb is the sum of squares that a wave of the angular frequency w takes away.
func lomb(times, values []float64, mean, w float64) float64 {
	var s2, c2 float64
	for _, t := range times {
		s, c := math.Sincos(2 * w * t)
		s2 += s
		c2 += c
	}
	tau := math.Atan2(s2, c2) / (2 * w)
	var yc, ys, cc, ss float64
	for i, t := range times {
		s, c := math.Sincos(w * (t - tau))
		y := values[i] - mean
		yc += y * c
		ys += y * s
		cc += c * c
		ss += s * s
	}
	sum := 0.0
	// At the highest frequency of an even series every sine is zero, but for rounding.
	if cc > 1e-9*float64(len(times)) {
		sum += yc * yc / cc
	}
	if ss > 1e-9*float64(len(times)) {
		sum += ys * ys / ss
	}
	return sum
}

func baluev(power, highest float64, times []float64) float64 {
	n := float64(len(times))
	_, spread := stat.PopMeanVariance(times, nil)
	freedom, left := n-1, n-3
	single := math.Pow(1-power, left/2)
	a, _ := math.Lgamma(freedom / 2)
	b, _ := math.Lgamma((freedom - 1) / 2)
	tau := math.Sqrt(2/freedom) * math.Exp(a-b) * highest * math.Sqrt(4*math.Pi*spread) *
		math.Pow(1-power, (left-1)/2) * math.Sqrt(freedom*power/2)
	// 1 − (1 − single)·e^(−tau), without losing what is far smaller than 1.
	return min(1, max(0, -math.Expm1(math.Log1p(-min(single, 1-1e-16))-tau)))
}

// Rhythm is the strongest period at which events come, given their times: the periodogram of a point process
// (Bartlett, Journal of the Royal Statistical Society B 25 (1963) 264–296), each frequency judged by Rayleigh's test
// for a direction (Mardia and Jupp, Directional Statistics, 2000, formula 6.3.3), among frequencies of one to the given
// number of waves in the whole time; P is corrected for how many were tried by Šidák's formula (JASA 62 (1967)
// 626–633). Power is the squared mean resultant length. Of a period and its half and third, which fit about as well,
// the longest wins.
func Rhythm(times []float64, waves int) Peak {
	best := Peak{P: 1}
	for _, w := range Waves(times, waves) {
		if w.Power > best.Power*1.05 {
			best.Power, best.Period = w.Power, w.Period
		}
	}
	if best.Power > 0 {
		best.P = rayleigh(best.Power, len(times), waves)
	}
	return best
}

// Wave is how strongly events come with one period, as Peak has it.
type Wave struct{ Period, Power float64 }

// Waves is the periodogram whose peak Rhythm is, the longest period first; nil without at least 5 events, or where all
// are at one time.
func Waves(times []float64, waves int) []Wave {
	if len(times) < 5 {
		return nil
	}
	span := slices.Max(times) - slices.Min(times)
	if span <= 0 {
		return nil
	}
	n := float64(len(times))
	list := make([]Wave, 0, waves*oversampling)
	for k := oversampling; k <= waves*oversampling; k++ {
		w := 2 * math.Pi * float64(k) / (oversampling * span)
		sum := complex(0, 0)
		for _, t := range times {
			sum += cmplx.Rect(1, w*t)
		}
		list = append(list, Wave{oversampling * span / float64(k), min(1, real(sum*cmplx.Conj(sum))/(n*n))})
	}
	return list
}

// RhythmBound is the power that n events without a rhythm exceed at any of the periods with the chance p: the line to
// draw through a periodogram.
func RhythmBound(n, waves int, p float64) float64 {
	low, high := 0.0, 1.0
	for range 50 {
		if mid := (low + high) / 2; rayleigh(mid, n, waves) > p {
			low = mid
		} else {
			high = mid
		}
	}
	return high
}

// rayleigh is the chance that any of so many waves has such a power by chance.
func rayleigh(power float64, events, waves int) float64 {
	n := float64(events)
	x := n * power
	one := math.Exp(-x) * (1 + (2*x-x*x)/(4*n) - (24*x-132*x*x+76*x*x*x-9*x*x*x*x)/(288*n*n))
	one = min(1, max(one, math.Exp(-x)/2))
	return -math.Expm1(float64(waves*oversampling) * math.Log1p(-min(one, 1-1e-16)))
}
