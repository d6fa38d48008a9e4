package replay

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// maxRows bounds the table of targets; the JSON form has all.
const maxRows = 30

// Text prints the result for a person.
func (r *Result) Text(w io.Writer) error {
	p := &printer{w: w}
	d := r.Divergence
	p.line("%s ran %s against %s (recorded: %s); %d calls, %d watch events", r.names(), short(r.Took), r.Trace, short(r.Recorded), r.Calls, r.Events)
	p.operators(r.Operators)
	if d.Recorded == 0 {
		p.line("the recording has no write of the operator's; it made %d here", d.Run)
	} else {
		p.line("%d of %d recorded writes made again (%.1f %%), %d of them with equal content; %d not made, %d new",
			d.Again, d.Recorded, d.Percent(), d.Equal, d.Missing, d.New)
	}
	p.pair("repetitions", d.Repeated)
	p.pair("leader election", d.Election)
	p.pair("Events", d.Events)
	p.pair("refused", d.Refused)
	p.pair("without an answer, so made or not", d.Unanswered)
	p.targets(d)
	p.line("outsiders: %d of %d recorded changes applied", r.Applied, r.Steps)
	if r.NotReached > 0 {
		p.line("  the run ended before %d of them", r.NotReached)
	}
	for _, s := range r.Skipped {
		p.line("  %s", s)
	}
	for i, f := range r.Faults {
		p.line("plan: fault %d struck %s: %s", i+1, times(f.Struck), f.Fault)
	}
	for _, u := range r.Unmatched {
		p.line("plan: %s", u)
	}
	for _, n := range r.Notes {
		p.line("note: %s", n)
	}
	p.clock(r)
	p.line("trace of the run: %s", r.RunDir)
	p.line("  opsim analyze %s", quoted(r.RunDir))
	return p.err
}

// clock says what the operator lived by, how fast, and whether the same comes of it again.
func (p *printer) clock(r *Result) {
	if r.Clock == ClockVirtual {
		p.line("virtual time: %s in %s, %.0f times as fast as the clock (%d steps, %d system calls stopped)",
			short(r.Took), short(r.Wall), r.Speed, r.WorldSteps, r.Traps)
	}
	if r.Deterministic {
		p.line("deterministic: the same trace, operator, plan and seed give the same run, %s", r.Hash)
		return
	}
	p.line("not deterministic: %s", strings.Join(r.Reasons, "; "))
}

func (r *Result) names() string {
	var all []string
	for i := range r.Operators {
		all = append(all, r.Operators[i].Name)
	}
	return strings.Join(all, ", ")
}

// operators says of each, when there are several, what it did, and how it ended if it did so by itself.
func (p *printer) operators(all []OperatorResult) {
	for i := range all {
		op := &all[i]
		if i == 0 || op.KnownBy != all[i-1].KnownBy {
			p.line("the operator's recorded calls are known %s", op.KnownBy)
		}
		if len(all) > 1 {
			p.line("  %s: %d calls", op.Name, op.Calls)
		}
		if op.ExitEarly {
			p.line("  %s ended by itself: %s", op.Name, op.Exit)
		}
	}
}

type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

func (p *printer) pair(what string, n Pair) {
	if n != (Pair{}) {
		p.line("  %s: %d recorded, %d here", what, n.Recorded, n.Run)
	}
}

// targets prints what differs.
func (p *printer) targets(d *Divergence) {
	var rows []Target
	for _, t := range d.Targets {
		if t.differs() {
			rows = append(rows, t)
		}
	}
	if len(rows) == 0 || p.err != nil {
		return
	}
	tw := tabwriter.NewWriter(p.w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(tw, "  RECORDED\tHERE\tEQUAL\tWRITE\tWHICH")
	for i, t := range rows {
		if i == maxRows {
			_, _ = fmt.Fprintf(tw, "  …\t\t\tand %d more\t\n", len(rows)-i)
			break
		}
		_, _ = fmt.Fprintf(tw, "  %d\t%d\t%d\t%s\t%s\n", t.Recorded, t.Run, t.Equal, t.String(), which(t))
	}
	p.err = tw.Flush()
}

// which names the rows behind a difference.
func which(t Target) string {
	var parts []string
	if len(t.Missing) > 0 {
		parts = append(parts, "not made: recorded seq "+seqs(t.Missing))
	}
	if len(t.New) > 0 {
		parts = append(parts, "new: seq "+seqs(t.New))
	}
	return strings.Join(parts, "; ")
}

func times(n int) string {
	switch n {
	case 0:
		return "never"
	case 1:
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

func seqs(all []int64) string {
	var b strings.Builder
	for i, s := range all {
		if i == 3 {
			fmt.Fprintf(&b, ", … (%d)", len(all))
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprint(&b, s)
	}
	return b.String()
}

func short(d time.Duration) string { return d.Round(10 * time.Millisecond).String() }

// quoted is a path as a shell takes it.
func quoted(path string) string {
	if strings.ContainsFunc(path, func(r rune) bool {
		return !strings.ContainsRune("/._-+=:@%,", r) && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) {
		return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
	}
	return path
}
