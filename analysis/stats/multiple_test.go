package stats

import (
	"testing"
)

// The fifteen tests of Benjamini and Hochberg's own example (1995, §4): at 0.05 their procedure believes four, Bonferroni
// and Holm the first three.
var thrombolysis = []float64{0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1}

func TestMultiple(t *testing.T) {
	shuffled := make([]float64, len(thrombolysis))
	for i, p := range thrombolysis {
		shuffled[(i*7+3)%len(shuffled)] = p
	}
	for name, c := range map[string]struct {
		of   func([]float64, float64) []bool
		want float64 // the greatest that is believed
	}{"Benjamini–Hochberg": {BenjaminiHochberg, 0.0095}, "Holm": {Holm, 0.0019}} {
		for i, believed := range c.of(shuffled, 0.05) {
			if believed != (shuffled[i] <= c.want) {
				t.Errorf("%s: p = %v, believed: %v", name, shuffled[i], believed)
			}
		}
		if got := c.of(nil, 0.05); len(got) != 0 {
			t.Error(name, "of nothing:", got)
		}
	}
	for i, p := range Adjusted(shuffled) {
		if (p <= 0.05) != (shuffled[i] <= 0.0095) {
			t.Errorf("adjusted %v of %v is on the other side of 0.05", p, shuffled[i])
		}
	}
	near(t, "adjusted", Adjusted([]float64{0.01, 0.02, 0.03})[0], 0.03, 1e-12)
}
