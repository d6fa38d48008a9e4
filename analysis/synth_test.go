package analysis

import (
	"context"
	"iter"
	"testing"

	"github.com/opreplay/opreplay/analysis/internal/synth"
	"github.com/opreplay/opreplay/traces"
)

// What speed is measured with is a busy operator, and a healthy one: nothing is found.
func TestSyntheticOperatorIsHealthy(t *testing.T) {
	var rows iter.Seq2[traces.Record, error] = func(yield func(traces.Record, error) bool) {
		for r := range synth.Records(synth.Options{Rows: 120_000, Alive: 500}) {
			if !yield(r, nil) {
				return
			}
		}
	}
	r, err := Records(context.Background(), rows, &traces.Manifest{Source: "run", Operators: []traces.Operator{{Process: "siteop"}}}, "synth", Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Findings {
		t.Errorf("%s: %s", f.Detector, f.What)
	}
}
