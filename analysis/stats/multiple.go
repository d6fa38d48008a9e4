package stats

import (
	"cmp"
	"slices"
)

// BenjaminiHochberg is which of many tests to believe so that of those believed no more than the share alpha is
// wrong, in expectation: the step-up procedure of Benjamini and Hochberg, "Controlling the false discovery rate",
// Journal of the Royal Statistical Society B 57 (1995) 289–300.
func BenjaminiHochberg(p []float64, alpha float64) []bool {
	order := inOrder(p)
	last := -1
	for i, at := range order {
		if p[at] <= alpha*float64(i+1)/float64(len(p)) {
			last = i
		}
	}
	return firstOf(order, last+1)
}

// Holm is which of many tests to believe so that the chance of a single wrong one is no more than alpha: the
// step-down procedure of Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of
// Statistics 6 (1979) 65–70.
func Holm(p []float64, alpha float64) []bool {
	order := inOrder(p)
	n := 0
	for n < len(order) && p[order[n]] <= alpha/float64(len(p)-n) {
		n++
	}
	return firstOf(order, n)
}

// Adjusted are the p-values of BenjaminiHochberg: each is the smallest alpha by which its test would be believed.
func Adjusted(p []float64) []float64 {
	order := inOrder(p)
	out := make([]float64, len(p))
	least := 1.0
	for i := len(order) - 1; i >= 0; i-- {
		least = min(least, p[order[i]]*float64(len(p))/float64(i+1))
		out[order[i]] = least
	}
	return out
}

// inOrder are the places of p from the smallest value to the greatest.
func inOrder(p []float64) []int {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p[a], p[b]) })
	return order
}

func firstOf(order []int, n int) []bool {
	out := make([]bool, len(order))
	for _, i := range order[:n] {
		out[i] = true
	}
	return out
}
