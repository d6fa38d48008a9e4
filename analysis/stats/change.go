package stats

import (
	"math"
	"slices"
)

// Change is a place from which on a series has another mean.
type Change struct {
	At            int // index of the first value of the new mean
	Before, After float64
}

// MeanChanges finds where the mean of a series changes, by PELT (Killick, Fearnhead and Eckley, "Optimal detection of
// changepoints with a linear computational cost", JASA 107 (2012) 1590–1598): the partition whose squared deviations
// from its means, in units of the noise, plus a penalty of 2·ln n for each change (Yao, Statistics & Probability
// Letters 6 (1988) 181–189) are least. The noise is estimated from the differences of neighbours, robustly, so that
// the changes themselves don't count as noise (Rice, Annals of Statistics 12 (1984) 1215–1230, with the median absolute
// deviation).
func MeanChanges(series []float64) []Change {
	n := len(series)
	if n < 4 {
		return nil
	}
	diffs := make([]float64, n-1)
	for i := range diffs {
		diffs[i] = series[i+1] - series[i]
	}
	noise := Spread(diffs, 0) / math.Sqrt2
	if noise == 0 { // most neighbours are equal: what isn't is no noise, or very rare
		noise = max(1e-9, 1e-6*math.Abs(slices.Max(series)-slices.Min(series)))
	}
	return changes(series, pelt(series, 2*math.Log(float64(n))*noise*noise))
}

// pelt are the places of the changes of the partition with the least squared deviations plus penalties.
func pelt(series []float64, penalty float64) []int {
	n := len(series)
	sum, squares := make([]float64, n+1), make([]float64, n+1)
	mean := 0.0
	for _, x := range series {
		mean += x / float64(n)
	}
	for i, x := range series { // about the mean: sums of large squares would cancel
		sum[i+1], squares[i+1] = sum[i]+x-mean, squares[i]+(x-mean)*(x-mean)
	}
	cost := func(from, to int) float64 {
		s := sum[to] - sum[from]
		return max(0, squares[to]-squares[from]-s*s/float64(to-from))
	}
	best, from := make([]float64, n+1), make([]int, n+1)
	best[0] = -penalty
	candidates := []int{0}
	for to := 1; to <= n; to++ {
		best[to] = math.Inf(1)
		for _, c := range candidates {
			if v := best[c] + cost(c, to) + penalty; v < best[to] {
				best[to], from[to] = v, c
			}
		}
		kept := candidates[:0]
		for _, c := range candidates {
			if best[c]+cost(c, to) <= best[to] {
				kept = append(kept, c)
			}
		}
		candidates = append(kept, to)
	}
	var at []int
	for to := n; from[to] > 0; to = from[to] {
		at = append(at, from[to])
	}
	slices.Reverse(at)
	return at
}

func changes(series []float64, at []int) []Change {
	mean := func(part []float64) (m float64) {
		for _, x := range part {
			m += x / float64(len(part))
		}
		return m
	}
	var out []Change
	for i, c := range at {
		before, end := 0, len(series)
		if i > 0 {
			before = at[i-1]
		}
		if i+1 < len(at) {
			end = at[i+1]
		}
		out = append(out, Change{At: c, Before: mean(series[before:c]), After: mean(series[c:end])})
	}
	return out
}
