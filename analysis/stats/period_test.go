package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Luteinizing hormone in blood samples at 10 minute intervals from a woman (Diggle, Time Series, 1990, table A.1), the
// series lh of R, whose acf(lh) prints these values.
var lh = []float64{
	2.4, 2.4, 2.4, 2.2, 2.1, 1.5, 2.3, 2.3, 2.5, 2.0, 1.9, 1.7, 2.2, 1.8, 3.2, 3.2, 2.7, 2.2, 2.2, 1.9, 1.9, 1.8, 2.7, 3.0,
	2.3, 2.0, 2.0, 2.9, 2.9, 2.7, 2.7, 2.3, 2.6, 2.4, 1.8, 1.7, 1.5, 1.4, 2.1, 3.3, 3.5, 3.5, 3.1, 2.6, 2.1, 3.4, 3.0, 2.9,
}

func TestAutocorrelation(t *testing.T) {
	r, bound := Autocorrelation(lh, 5)
	for i, want := range []float64{1, 0.576, 0.182, -0.145, -0.175, -0.150} {
		near(t, "r", r[i], want, 5e-4)
	}
	near(t, "bound", bound, 1.96/math.Sqrt(48), 1e-4)
	if r, _ := Autocorrelation(nil, 3); r != nil {
		t.Error("of nothing:", r)
	}
	if r, _ := Autocorrelation([]float64{2, 2, 2}, 9); len(r) != 3 || r[1] != 0 {
		t.Error("of a constant:", r)
	}
}

func TestLombScargle(t *testing.T) {
	// A wave that is one of the frequencies takes all the variance away, but for the mean's being a little off, as the
	// first value comes again as the last.
	var times, wave []float64
	for i := range 64 {
		times = append(times, float64(i))
		wave = append(wave, 5+2*math.Sin(2*math.Pi*float64(i)/9+1))
	}
	p := LombScargle(times, wave, 31)
	near(t, "period", p.Period, 9, 1e-9)
	near(t, "power", p.Power, 1, 1e-3)
	if p.P > 1e-12 {
		t.Error("P:", p.P)
	}
	if p := LombScargle(times, make([]float64, 64), 31); p.P != 1 {
		t.Error("a constant has no period:", p)
	}
	if p := LombScargle(times[:3], wave[:3], 31); p.P != 1 {
		t.Error("three values have no period:", p)
	}
}

// Of noise at odd times no more than the level seems periodic, and a wave within as much noise is found.
func TestLombScargleInNoise(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	times, noise, wave := make([]float64, 60), make([]float64, 60), make([]float64, 60)
	wrong, found := 0, 0
	for range 300 {
		at := 0.0
		for i := range times {
			at += r.ExpFloat64()
			times[i], noise[i] = at, r.NormFloat64()
			wave[i] = noise[i] + 1.4*math.Sin(2*math.Pi*at/6)
		}
		if LombScargle(times, noise, 60).P < 0.05 {
			wrong++
		}
		if p := LombScargle(times, wave, 60); p.P < 0.05 && math.Abs(p.Period-6) < 0.6 {
			found++
		}
	}
	if wrong > 26 { // 15 expected at the most, and 3 standard deviations
		t.Errorf("noise is periodic %d times of 300", wrong)
	}
	if found < 285 {
		t.Errorf("the wave was found %d times of 300", found)
	}
}

func TestRhythm(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	wrong, found := 0, 0
	for range 300 {
		var even, odd []float64
		for i := range 50 {
			even = append(even, 30*float64(i)+3*r.Float64())
			odd = append(odd, 1500*r.Float64())
		}
		if Rhythm(odd, 200).P < 0.05 {
			wrong++
		}
		if p := Rhythm(even, 200); p.P < 1e-6 && math.Abs(p.Period-30) < 1 {
			found++
		}
	}
	if wrong > 26 {
		t.Errorf("chance has a rhythm %d times of 300", wrong)
	}
	if found < 300 {
		t.Errorf("the rhythm was found %d times of 300", found)
	}
	if p := Rhythm([]float64{1, 1, 1, 1, 1, 1}, 10); p.P != 1 {
		t.Error("all at once:", p)
	}
}
