package verify

import (
	"fmt"
	"io"
	"time"

	"github.com/opreplay/opreplay/internal/cli"
)

// mostShown is how many of the runs with alarms are printed.
const mostShown = 3

// Text prints the result for a person. AGAIN, if there is one, is the command that shows the first run with
// an alarm again.
func (r *Result) Text(w io.Writer, again string) error {
	p := &printer{cli.Printer{W: w}}
	p.Line("%s: the fix %s: %s", r.Case, r.Verdict, r.why())
	p.Line("  %-32s 1 run, %s", "the unaltered run", alarms(len(r.Unaltered)))
	for _, t := range r.Tallies {
		more := ""
		if t.Unmet > 0 {
			more += fmt.Sprintf("; in %d a part of the plan met nothing", t.Unmet)
		}
		if t.Failed > 0 {
			more += fmt.Sprintf("; %d could not take place", t.Failed)
		}
		p.Line("  %-32s %s, %s%s", t.Family, cli.Count(t.Ran, "run"), alarms(t.Alarms), more)
	}
	for _, u := range r.OwnUnmet {
		p.Line("note: the case's own plan met nothing: %s", u)
	}
	for _, a := range r.Unaltered {
		p.Line("in the unaltered run: %s", a.What)
	}
	for i, s := range r.Shown {
		if i == mostShown {
			p.Line("… and %s with alarms", cli.Count(len(r.Shown)-mostShown, "more run"))
			break
		}
		p.shown(i+1, &s)
		if i == 0 && again != "" { // its plan is kept
			p.Line("   see it again:")
			p.Line("     %s", again)
		}
	}
	p.Line("%s", r.Took.Round(100*time.Millisecond))
	return p.Err
}

// why says the verdict in words.
func (r *Result) why() string {
	switch r.Verdict {
	case Holds:
		return "no run has an alarm"
	case Broken:
		return "what the case is about is still there"
	case Another:
		return "what the case is about is gone, and something else is there"
	case Unknown:
		return "no plan met all that it speaks of"
	}
	return ""
}

func (p *printer) shown(n int, s *Shown) {
	what := "what the case is about"
	if !s.Same {
		what = "something else"
	}
	p.Line("%d. %s (%s): %s", n, s.Alarms[0].What, what, s.Family)
	for _, f := range s.Try.Plan.Faults {
		p.Line("     - %s", f)
	}
	if s.Try.Threads != "" {
		p.Line("     the operator's threads in the order of seed %d", s.Try.Plan.Seed)
	}
}

func alarms(n int) string {
	if n == 0 {
		return "none with alarms"
	}
	return fmt.Sprintf("%d with alarms", n)
}

// printer prints the parts of a result.
type printer struct{ cli.Printer }
