package verify

import (
	"fmt"
	"io"
	"time"
)

// mostShown is how many of the runs with alarms are printed.
const mostShown = 3

// Text prints the result for a person. AGAIN, if there is one, is the command that shows the first run with
// an alarm again.
func (r *Result) Text(w io.Writer, again func(Shown) string) error {
	p := &printer{w: w}
	p.line("the fix %s: %s", r.Verdict, r.why())
	p.line("  %-32s 1 run, %s", "the unaltered run", alarms(len(r.Unaltered)))
	for _, t := range r.Tallies {
		more := ""
		if t.Unmet > 0 {
			more += fmt.Sprintf("; in %d a part of the plan met nothing", t.Unmet)
		}
		if t.Failed > 0 {
			more += fmt.Sprintf("; %d could not take place", t.Failed)
		}
		p.line("  %-32s %d %s, %s%s", t.Family, t.Ran, plural(t.Ran, "run"), alarms(t.Alarms), more)
	}
	for _, u := range r.OwnUnmet {
		p.line("note: the case's own plan met nothing: %s", u)
	}
	for _, a := range r.Unaltered {
		p.line("in the unaltered run: %s", a.What)
	}
	for i, s := range r.Shown {
		if i == mostShown {
			p.line("… and %d more runs with alarms", len(r.Shown)-mostShown)
			break
		}
		p.shown(i+1, &s)
		if i == 0 && again != nil { // its plan is kept
			p.line("   see it again:")
			p.line("     %s", again(s))
		}
	}
	p.line("%s", r.Took.Round(100*time.Millisecond))
	return p.err
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
	p.line("%d. %s (%s): %s", n, s.Alarms[0].What, what, s.Family)
	for _, f := range s.Try.Plan.Faults {
		p.line("     - %s", f)
	}
	if s.Try.Threads != "" {
		p.line("     the operator's threads in the order of seed %d", s.Try.Plan.Seed)
	}
}

func alarms(n int) string {
	if n == 0 {
		return "none with alarms"
	}
	return fmt.Sprintf("%d with alarms", n)
}

func plural(n int, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}

// printer keeps the first error.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}
