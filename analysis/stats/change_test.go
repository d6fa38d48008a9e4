package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// best is the least cost of any partition, and it, by trying them all.
func best(series []float64, penalty float64) (at []int) {
	least := math.Inf(1)
	for set := range 1 << (len(series) - 1) {
		cost, from := 0.0, 0
		var places []int
		for to := 1; to <= len(series); to++ {
			if to < len(series) && set>>(to-1)&1 == 0 {
				continue
			}
			mean := 0.0
			for _, x := range series[from:to] {
				mean += x / float64(to-from)
			}
			for _, x := range series[from:to] {
				cost += (x - mean) * (x - mean)
			}
			if to < len(series) {
				cost += penalty
				places = append(places, to)
			}
			from = to
		}
		if cost < least-1e-12 {
			least, at = cost, places
		}
	}
	return at
}

// Pruning loses nothing: the partition is the best of all that there are.
func TestPELTIsOptimal(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for range 60 {
		series := make([]float64, 11)
		for i := range series {
			series[i] = r.NormFloat64() + 3*float64(i/4)*r.Float64()
		}
		if got, want := pelt(series, 3), best(series, 3); !slices.Equal(got, want) {
			t.Errorf("%v: %v, the best is %v", series, got, want)
		}
	}
}

func TestMeanChanges(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	var series, noise []float64
	for i := range 300 {
		x := r.NormFloat64()
		noise = append(noise, x)
		switch {
		case i >= 200:
			x += 2
		case i >= 100:
			x += 10
		}
		series = append(series, x)
	}
	got := MeanChanges(series)
	if len(got) != 2 || got[0].At != 100 || math.Abs(float64(got[1].At-200)) > 2 {
		t.Fatalf("%+v", got)
	}
	near(t, "before", got[0].Before, 0, 0.4) // 4 standard errors of a mean of 100
	near(t, "after", got[0].After, 10, 0.4)
	if got := MeanChanges(noise); len(got) != 0 {
		t.Errorf("noise has no change: %+v", got)
	}
	if got := MeanChanges([]float64{0, 0, 0, 0, 7, 7, 7, 7}); len(got) != 1 || got[0].At != 4 {
		t.Errorf("without noise: %+v", got)
	}
	if got := MeanChanges([]float64{4, 4, 4, 4, 4}); len(got) != 0 {
		t.Errorf("a constant: %+v", got)
	}
	// Large numbers with small steps keep their digits.
	if got := MeanChanges([]float64{1e12, 1e12, 1e12, 1e12, 1e12 + 5, 1e12 + 5, 1e12 + 5, 1e12 + 5}); len(got) != 1 {
		t.Errorf("large numbers: %+v", got)
	}
}
