package cases

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/opreplay/opreplay/internal/cli"
)

// Text prints the report for a person: a line a case, and below it what is not as expected.
func (r *Report) Text(w io.Writer) error {
	wide := 0
	for _, c := range r.Cases {
		wide = max(wide, len(c.Name))
	}
	for _, c := range r.Cases {
		line := fmt.Sprintf("%-6s  %-*s  %6.1fs  %s", c.Status.word(), wide, c.Name, c.Took.Seconds(), c.summary())
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " ")); err != nil {
			return err
		}
		for _, p := range c.Problems {
			if _, err := fmt.Fprintf(w, "        %s\n", p); err != nil {
				return err
			}
		}
	}
	parts := []string{fmt.Sprintf("%d ok", r.Count(OK))}
	for _, s := range []Status{Failed, Error} {
		if n := r.Count(s); n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, map[Status]string{Failed: "failed", Error: "could not be run"}[s]))
		}
	}
	_, err := fmt.Fprintf(w, "%s: %s in %s, %d at a time\n", cli.Count(len(r.Cases), "case"), strings.Join(parts, ", "), r.Took.Round(100*time.Millisecond), r.Workers)
	return err
}

// word catches the eye if it has to.
func (s Status) word() string {
	if s == OK {
		return string(s)
	}
	return strings.ToUpper(string(s))
}

// summary is what came of a case, in a line.
func (r *Result) summary() string {
	switch {
	case r.Status == Error:
		return ""
	case len(r.Seen.Findings) == 0:
		return "no finding"
	}
	var all []string
	for _, f := range r.Seen.Findings {
		all = append(all, f.String())
	}
	const most = 3
	if n := len(all) - most; n > 0 {
		all = append(all[:most], fmt.Sprintf("%d more", n))
	}
	return strings.Join(all, ", ")
}
