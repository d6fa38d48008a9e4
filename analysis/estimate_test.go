package analysis

import (
	"math"
	"slices"
	"testing"

	"github.com/opreplay/opreplay/analysis/stats"
)

func TestReservoir(t *testing.T) {
	var r, again reservoir
	for i := range 100000 {
		r.add(float64(i))
		again.add(float64(i))
	}
	if len(r.sample) != reservoirSize || r.n != 100000 || !slices.Equal(r.sample, again.sample) {
		t.Fatal("the sample is not bounded, or not the same twice")
	}
	m, _, _ := stats.Median(r.sample)
	if math.Abs(m-50000) > 8800 { // 4 standard errors of a median of 512 uniform values: 4·1e5/(2√512) = 8,800
		t.Error("median of the sample", m)
	}
}
