package analysis_test

import (
	"context"
	"fmt"

	"github.com/opreplay/opreplay/analysis"
	"github.com/opreplay/opreplay/traces"
)

func Example() {
	trace, err := traces.Open("../traces/cases/statusrace.optrace")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = trace.Close() }()
	result, err := analysis.Analyze(context.Background(), trace, analysis.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range result.Findings {
		fmt.Println(f.ID, f.Severity, f.Detector, f.Field, f.Total)
	}
	// Output:
	// F1 error lost-status status.conditions[*] 3
	// F2 warning conflict-storm  3
}
