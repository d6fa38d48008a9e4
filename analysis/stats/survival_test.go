package stats

import (
	"math"
	"testing"
)

// The remission times in weeks of the 21 leukaemia patients treated with 6-MP (Freireich et al., Blood 21, 1963), the
// textbooks' example; a minus marks a censored time.
var remissions = []float64{6, 6, 6, -6, 7, -9, 10, -10, -11, 13, 16, -17, -19, -20, 22, 23, -25, -32, -32, -34, -35}

func TestKaplanMeier(t *testing.T) {
	var lives []Lifetime
	for i := len(remissions) - 1; i >= 0; i-- {
		lives = append(lives, Lifetime{Seconds: math.Abs(remissions[i]), Ended: remissions[i] > 0})
	}
	curve := KaplanMeier(lives)
	// Klein and Moeschberger, Survival Analysis, 2nd ed. 2003, table 4.1A: time, at risk, ended, survival, standard error.
	want := [][5]float64{
		{6, 21, 3, 0.857, 0.076},
		{7, 17, 1, 0.807, 0.087},
		{10, 15, 1, 0.753, 0.096},
		{13, 12, 1, 0.690, 0.107},
		{16, 11, 1, 0.627, 0.114},
		{22, 7, 1, 0.538, 0.128},
		{23, 6, 1, 0.448, 0.135},
	}
	if len(curve) != len(want) {
		t.Fatalf("%d steps, want %d", len(curve), len(want))
	}
	for i, w := range want {
		p := curve[i]
		if p.Seconds != w[0] || float64(p.AtRisk) != w[1] || float64(p.Ended) != w[2] {
			t.Errorf("step %d: %+v, want %v", i, p, w)
		}
		near(t, "survival", p.Survival, w[3], 5e-4)
		// log(−log S) ± 1.96·SE/(S·|ln S|), from the table's own rounded numbers.
		half := 1.96 * w[4] / (w[3] * math.Abs(math.Log(w[3])))
		near(t, "low", p.Low, math.Pow(w[3], math.Exp(half)), 6e-3)
		near(t, "high", p.High, math.Pow(w[3], math.Exp(-half)), 6e-3)
	}
	// The median is 23 weeks; by log(−log) its interval is from 13 weeks to beyond the data.
	m, low, high := MedianSurvival(curve)
	if m != 23 || low != 13 || !math.IsInf(high, 1) {
		t.Error("median", m, low, high)
	}
}

func TestKaplanMeierOfNothing(t *testing.T) {
	if c := KaplanMeier(nil); c != nil {
		t.Error(c)
	}
	if c := KaplanMeier([]Lifetime{{Seconds: 3}}); len(c) != 0 {
		t.Error("nothing ended, yet there are steps:", c)
	}
	c := KaplanMeier([]Lifetime{{1, true}, {2, true}})
	if last := c[len(c)-1]; last.Survival != 0 || math.IsNaN(last.Low) || math.IsNaN(last.High) {
		t.Errorf("%+v", last)
	}
}

// The 21 patients who got a placebo beside those of remissions.
var placebo = []float64{1, 1, 2, 2, 3, 4, 4, 5, 5, 8, 8, 8, 8, 11, 11, 12, 12, 15, 17, 22, 23}

func TestLogRank(t *testing.T) {
	var treated, untreated []Lifetime
	for i := range placebo {
		treated = append(treated, Lifetime{Seconds: math.Abs(remissions[i]), Ended: remissions[i] > 0})
		untreated = append(untreated, Lifetime{Seconds: placebo[i], Ended: true})
	}
	// Every textbook has it: 21 seen where 10.75 are expected, 9 where 19.25 are, χ² = 16.79, p = 4.17e-5 (R: survdiff).
	chi2, p, ratio := LogRank(untreated, treated)
	near(t, "χ²", chi2, 16.79, 5e-3)
	near(t, "p", p, 4.17e-5, 5e-8)
	near(t, "ratio", ratio, (21/10.75)/(9/19.25), 5e-3)
	other, _, _ := LogRank(treated, untreated)
	near(t, "the other way round", other, chi2, 1e-9)
	if _, p, _ := LogRank(nil, treated); p != 1 {
		t.Error("one group alone, p:", p)
	}
	if _, p, _ := LogRank([]Lifetime{{3, false}}, []Lifetime{{4, false}}); p != 1 {
		t.Error("nothing ended, p:", p)
	}
}
