package stats

import (
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Line is a straight line through points, with the interval of its slope.
type Line struct {
	Intercept, Slope, Low, High float64
	// P is the chance that points without a slope show one as steep.
	P float64
	N int64
}

// Regress fits a line by least squares, with Student's interval for the slope (Draper and Smith, Applied Regression
// Analysis, 3rd ed. 1998, §1.4). Under 3 points, or where all x are one, P is 1 and the slope 0.
func Regress(x, y []float64) Line {
	n := len(x)
	if n < 3 || n != len(y) {
		return Line{P: 1, N: int64(n)}
	}
	mean, variance := stat.PopMeanVariance(x, nil)
	sxx := variance * float64(n)
	if sxx <= 0 || math.IsNaN(sxx+mean) {
		return Line{P: 1, N: int64(n)}
	}
	l := Line{N: int64(n)}
	l.Intercept, l.Slope = stat.LinearRegression(x, y, nil, false)
	rest := 0.0
	for i := range x {
		d := y[i] - l.Intercept - l.Slope*x[i]
		rest += d * d
	}
	student := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(n - 2)}
	err := math.Sqrt(rest / float64(n-2) / sxx)
	half := student.Quantile(1-tail) * err
	l.Low, l.High, l.P = l.Slope-half, l.Slope+half, 0
	switch {
	case err > 0:
		l.P = 2 * student.Survival(math.Abs(l.Slope)/err)
	case l.Slope == 0:
		l.P = 1
	}
	return l
}

// Backoff is the factor by which each of a series of waits exceeds the one before, by regression of the logarithms of
// the waits on their number: 2 for a doubling back-off, 1 for none. What has reached its cap no longer grows, so the
// waits should be the first few after a success. Waits that aren't positive are left out.
func Backoff(waits []float64) (factor, low, high float64, p float64) {
	var x, y []float64
	for i, w := range waits {
		if w > 0 && !math.IsInf(w, 1) {
			x, y = append(x, float64(i)), append(y, math.Log(w))
		}
	}
	l := Regress(x, y)
	if l.N < 3 || len(x) == 0 {
		return 1, 0, math.Inf(1), 1
	}
	return math.Exp(l.Slope), math.Exp(l.Low), math.Exp(l.High), l.P
}
