package cases

import (
	"fmt"
	"io"
	"strings"

	"github.com/opreplay/opreplay/internal/junit"
)

// JUnit writes the report as JUnit XML: one suite, a test for each case.
func (r *Report) JUnit(w io.Writer) error {
	suite := junit.Suite{Name: "opsim test", Took: r.Took}
	for _, c := range r.Cases {
		suite.Cases = append(suite.Cases, c.junit())
	}
	return junit.Write(w, suite)
}

func (r *Result) junit() junit.Case {
	c := junit.Case{Name: r.Name, Class: "opsim", File: r.Dir, Took: r.Took}
	var out strings.Builder
	for _, a := range r.Alarms {
		_, _ = fmt.Fprintf(&out, "%s: %s\n", FindingOf(&a), a.What) // to memory
	}
	c.Out = out.String()
	if r.Status == OK {
		return c
	}
	p := &junit.Problem{Text: strings.Join(r.Problems, "\n"), Type: string(r.Status)}
	if len(r.Problems) > 0 {
		p.Message = r.Problems[0]
	}
	if r.Status == Error {
		c.Error = p
	} else {
		c.Failure = p
	}
	return c
}
