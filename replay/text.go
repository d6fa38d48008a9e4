package replay

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/opreplay/opreplay/internal/cli"
)

// maxRows bounds the table of targets; the JSON form has all.
const maxRows = 30

// Text prints the result for a person.
func (r *Result) Text(w io.Writer) error {
	p := newPrinter(w)
	d := r.Divergence
	p.Line("%s ran %s against %s (recorded: %s); %d calls, %d watch events", r.names(), short(r.Took), r.Trace, short(r.Recorded), r.Calls, r.Events)
	p.operators(r.Operators)
	if d.Recorded == 0 {
		p.Line("the recording has no write of the operator's; it made %d here", d.Run)
	} else {
		p.Line("%d of %d recorded writes made again (%.1f %%), %d of them with equal content; %d not made, %d new",
			d.Again, d.Recorded, d.Percent(), d.Equal, d.Missing, d.New)
	}
	p.pair("repetitions", d.Repeated)
	p.pair("leader election", d.Election)
	p.pair("Events", d.Events)
	p.pair("refused", d.Refused)
	p.pair("without an answer, so made or not", d.Unanswered)
	p.targets(d)
	p.Line("outsiders: %d of %d recorded changes applied", r.Applied, r.Steps)
	if r.NotReached > 0 {
		p.Line("  the run ended before %d of them", r.NotReached)
	}
	for _, s := range r.Skipped {
		p.Line("  %s", s)
	}
	for i, f := range r.Faults {
		p.Line("plan: fault %d struck %s: %s", i+1, times(f.Struck), f.Fault)
	}
	for _, u := range r.Unmatched {
		p.Line("plan: %s", u)
	}
	for _, n := range r.Notes {
		p.Line("note: %s", n)
	}
	p.clock(r)
	p.Line("trace of the run: %s", r.RunDir)
	p.Line("  opsim analyze %s", quoted(r.RunDir))
	return p.Err
}

// clock says what the operator lived by, how fast, and whether the same comes of it again.
func (p *printer) clock(r *Result) {
	if r.Clock == ClockVirtual {
		p.Line("virtual time: %s in %s, %.0f times as fast as the clock (%d steps, %d system calls stopped)",
			short(r.Took), short(r.Wall), r.Speed, r.WorldSteps, r.Traps)
	}
	if r.Deterministic {
		p.Line("deterministic: the same trace, operator, plan and seed give the same run, %s", r.Hash)
		return
	}
	p.Line("not deterministic: %s", strings.Join(r.Reasons, "; "))
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
			p.Line("the operator's recorded calls are known %s", op.KnownBy)
		}
		if len(all) > 1 {
			p.Line("  %s: %d calls", op.Name, op.Calls)
		}
		if op.ExitEarly {
			p.Line("  %s ended by itself: %s", op.Name, op.Exit)
		}
	}
}

// printer prints the parts of a result.
type printer struct{ cli.Printer }

func newPrinter(w io.Writer) *printer { return &printer{cli.Printer{W: w}} }

func (p *printer) pair(what string, n Pair) {
	if n != (Pair{}) {
		p.Line("  %s: %d recorded, %d here", what, n.Recorded, n.Run)
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
	if len(rows) == 0 || p.Err != nil {
		return
	}
	tw := tabwriter.NewWriter(p.W, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(tw, "  RECORDED\tHERE\tEQUAL\tWRITE\tWHICH")
	for i, t := range rows {
		if i == maxRows {
			_, _ = fmt.Fprintf(tw, "  …\t\t\tand %d more\t\n", len(rows)-i)
			break
		}
		_, _ = fmt.Fprintf(tw, "  %d\t%d\t%d\t%s\t%s\n", t.Recorded, t.Run, t.Equal, t.String(), which(t))
	}
	p.Err = tw.Flush()
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
