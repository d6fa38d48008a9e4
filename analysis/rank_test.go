package analysis

import "testing"

// A cause stands before what follows from it, whatever their effects, and its group where the worst of it would.
func TestCausesComeFirst(t *testing.T) {
	of := func(detector string, severity Severity, weight float64, process, object string) Finding {
		return Finding{Detector: detector, Severity: severity, Process: process, Objects: []Object{{Resource: "sites", Name: object}}, Effect: Effect{Weight: weight}}
	}
	list := []Finding{
		of("churn", Warning, 90, "op", "a"), of("probe", Error, 5, "other", "x"), of("conflict-storm", Error, 50, "op", "a"),
		of("normalise", Warning, 20, "op", "a"), of("finalizer-hang", Error, 1, "op", "a"), of("churn", Warning, 3, "op", "b"),
	}
	rank(list)
	for i, want := range []struct{ detector, id, group string }{
		{"normalise", "F1", "F1"}, {"conflict-storm", "F2", "F1"}, {"churn", "F3", "F1"}, {"probe", "F4", "F4"}, {"finalizer-hang", "F5", "F5"}, {"churn", "F6", "F6"},
	} {
		if f := list[i]; f.Detector != want.detector || f.ID != want.id || f.Group != want.group {
			t.Errorf("place %d: %s %s of %s, want %v", i+1, f.ID, f.Detector, f.Group, want)
		}
	}
}
