package analysis_test

import (
	"context"
	"strings"
	"testing"

	"github.com/opreplay/opreplay/analysis"
	"github.com/opreplay/opreplay/traces"
)

// The bundled traces were recorded from the zoo on a real API server: each finding names the fault that the
// operator's own source confesses, and there is nothing else.
func TestBundledTraces(t *testing.T) {
	for name, want := range map[string]struct {
		findings []string // in the order of rank
		objects  string   // resource of the objects
		total    int64
		field    string
		cause    string
	}{
		"statusloop":      {[]string{"self-loop", "churn"}, "sites", 2, "status.conditions[*].lastTransitionTime", "fresh time"},
		"statusrace":      {[]string{"lost-status", "conflict-storm"}, "databases", 3, "status.conditions[*]", "replaces the whole list status.conditions"},
		"orphanfinalizer": {[]string{"finalizer-hang"}, "records", 2, "metadata.finalizers", "zones.dns.example.com dns/lab"},
	} {
		t.Run(name, func(t *testing.T) {
			trace, err := traces.Open("../traces/cases/" + name + ".optrace")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = trace.Close() }()
			r, err := analysis.Analyze(context.Background(), trace, analysis.Options{})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range r.Findings {
				got = append(got, f.Detector)
				if f.Process != name || f.Group != "F1" || !strings.Contains(f.Reproduce, "opsim replay") || f.Evidence.Total == 0 {
					t.Errorf("%+v", f)
				}
			}
			if strings.Join(got, " ") != strings.Join(want.findings, " ") {
				t.Fatalf("found %v, want %v", got, want.findings)
			}
			f := r.Findings[0]
			if f.Objects[0].Resource != want.objects || f.Total != want.total || f.Field != want.field || !strings.Contains(f.Cause, want.cause) {
				t.Errorf("%s\n%s\n%v of %d, %s", f.What, f.Cause, f.Objects, f.Total, f.Field)
			}
			if f.Severity != analysis.Error {
				t.Error("severity", f.Severity)
			}
		})
	}
}
