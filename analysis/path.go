package analysis

import (
	"context"
	"strings"

	"github.com/opreplay/opreplay/analysis/causal"
	"github.com/opreplay/opreplay/traces"
)

// Bounds of the explanations: of the findings that rank first, the steps that fit on a screen.
const (
	maxExplained = 20
	maxPath      = 8
)

// Step is one link of the path that explains a finding.
type Step = causal.Step

// explain follows the causes of what shows each finding best.
func (r *Result) explain(ctx context.Context, t *traces.Trace) error {
	findings := r.Findings[:min(len(r.Findings), maxExplained)]
	var rows []int64
	var of []int
	for i := range findings {
		if row := findings[i].shownBy(); row != 0 {
			rows, of = append(rows, row), append(of, i)
		}
	}
	chains, err := causal.Explain(ctx, t, rows)
	if err != nil {
		return err
	}
	for k, i := range of {
		f := &findings[i]
		f.Path = shortest(chains[k])
		for _, s := range f.Path {
			if f.Code == "" && s.Process == f.Process && s.Code != "" {
				f.Stack = s.Stack
				f.locate(s.Code)
			}
		}
	}
	return nil
}

// shownBy is the row from which the cause is followed back.
func (f *Finding) shownBy() int64 {
	if n := len(f.Evidence.Items); f.Row == 0 && n > 0 {
		return f.Evidence.Items[n-1].Seq
	}
	return f.Row
}

// shortest is as much of a chain as explains: up to the end of a loop, for what began it is a story of its own, and not
// more than fits on a screen.
func shortest(chain []Step) []Step {
	for i := range chain {
		if i > 0 && chain[i-1].Times > 1 && chain[i].Times != chain[i-1].Times {
			chain = chain[:i]
			break
		}
	}
	return chain[:min(len(chain), maxPath)]
}

// locate names the line of code in the cause.
func (f *Finding) locate(code string) {
	f.Code = code
	if line, _, _ := strings.Cut(code, " "); line != "" && !strings.Contains(f.Cause, line) {
		f.Cause += "; the line of code is " + code
	}
}
