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

// Growth is how a series of waits grows: the i-th is about First·Factor^i.
type Growth struct {
	First float64
	// Factor is by how much each wait exceeds the one before, from Low to High.
	Factor, Low, High float64
	// Fit is the share of the waits' variance, on the logarithmic scale, that such a growth explains: R².
	Fit float64
	// P is the chance that waits that don't grow seem to grow or shrink as much.
	P float64
	N int64
}

// Backoff is the growth of waits by regression of their logarithms on their number: the factor is 2 for a doubling
// back-off, 1 for none. What has reached its cap no longer grows, so the waits should be the first few after a success
// (Growing). Waits that aren't positive are left out; of under 3 nothing is known, and Low and High are 0 and +Inf.
func Backoff(waits []float64) Growth {
	var x, y []float64
	for i, w := range waits {
		if w > 0 && !math.IsInf(w, 1) {
			x, y = append(x, float64(i)), append(y, math.Log(w))
		}
	}
	l := Regress(x, y)
	if l.N < 3 || len(x) == 0 {
		return Growth{Factor: 1, High: math.Inf(1), P: 1, N: l.N}
	}
	g := Growth{First: math.Exp(l.Intercept), Factor: math.Exp(l.Slope), Low: math.Exp(l.Low), High: math.Exp(l.High), P: l.P, N: l.N}
	if stat.Variance(y, nil) > 0 {
		g.Fit = stat.RSquared(x, y, nil, l.Intercept, l.Slope)
	}
	return g
}

// Growing is the part of a series of waits up to where they have reached nine tenths of the longest, all of them where
// that are fewer than 3: beyond it a back-off stays at its cap.
func Growing(waits []float64) []float64 {
	longest := 0.0
	for _, w := range waits {
		longest = max(longest, w)
	}
	for i, w := range waits {
		if w >= 0.9*longest && i >= 2 {
			return waits[:i+1]
		} else if w >= 0.9*longest {
			break
		}
	}
	return waits
}
