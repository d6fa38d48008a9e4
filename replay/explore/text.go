package explore

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/opreplay/opreplay/replay/trial"
)

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

// Text prints the result for a person.
func (r *Result) Text(w io.Writer) error {
	p := &printer{w: w}
	for i, g := range r.Groups {
		p.group(i+1, g)
	}
	what := "nothing found"
	if n := len(r.Groups); n > 0 {
		what = fmt.Sprintf("%d findings", n)
		if n == 1 {
			what = "1 finding"
		}
	}
	p.line("%s: %d of %d plans run in %s (%d at a time), %d with alarms", what, r.Ran, r.Planned, r.Took.Round(100*time.Millisecond), r.Workers, r.Alarming)
	if n := r.Ran - r.Before; n > 0 {
		c := r.Cost
		each := func(d time.Duration) string { return (d / time.Duration(n)).Round(time.Millisecond).String() }
		p.line("  a plan took %s: %s until the operator's first call, %s to its first write, %s to the end, %s to judge", each(c.Wall), each(c.Start), each(c.Sync), each(c.Run), each(c.Judge))
	}
	if r.FirstAlarm > 0 {
		p.line("  the first alarm came after %s", r.FirstAlarm.Round(100*time.Millisecond))
	}
	if r.Skewed > 0 {
		p.line("  of %d runs the end was not compared: changes by outsiders did not fit any more, or the fault did not end", r.Skewed)
	}
	if r.Unmet > 0 {
		p.line("  in %d runs a part of the plan met nothing", r.Unmet)
	}
	if r.Failed > 0 {
		p.line("  %d runs could not take place: see error in the table", r.Failed)
	}
	for _, why := range slices.Sorted(maps.Keys(r.Pruned)) {
		p.line("  not tried: %d × %s", r.Pruned[why], why)
	}
	for _, n := range r.Notes {
		p.line("note: %s", n)
	}
	p.line("table: %s/%s", r.Out, TableName)
	return p.err
}

func (p *printer) group(n int, g *Group) {
	p.line("%d. %s", n, g.Alarm.What)
	p.alarm(&g.Alarm)
	also := g.Also
	const most = 4
	for _, a := range also[:min(len(also), most)] {
		p.line("   also: %s", a.What)
	}
	if len(also) > most {
		p.line("   … and %d more", len(also)-most)
	}
	t := g.Try
	switch {
	case g.Index < 0:
		p.line("   in the unaltered run")
	default:
		p.line("   shown by %d plans (%s); the smallest:", g.Plans, join(g.Kinds))
	}
	if g.Small != nil {
		t = g.Small.Try
	}
	for _, f := range t.Plan.Faults {
		p.line("     - %s", f)
	}
	p.surroundings(&t)
	if g.Small != nil && len(g.Small.Left) > 0 {
		p.line("     without these of the outsiders' changes: %s", strings.Join(g.Small.Left, "; "))
	}
	if g.Story != nil && p.err == nil {
		p.line("   what happened:")
		p.err = g.Story.Text(&indent{p.w, "     ", true})
	}
	if g.Command != "" {
		p.line("   see it again:")
		p.line("     %s", g.Command)
	}
	p.line("")
}

func (p *printer) alarm(a *trial.Alarm) {
	if a.Object != "" {
		p.line("   object: %s", a.Object)
	}
	if a.Field != "" && a.Object != "" {
		p.line("   field: %s", a.Field)
	}
	if a.Expected != "" {
		p.line("   expected: %s", a.Expected)
		p.line("   got: %s", a.Got)
	}
}

func (p *printer) surroundings(t *trial.Try) {
	if t.Threads != "" {
		p.line("     the operator's threads in the order of seed %d", t.Plan.Seed)
	}
	if t.Procs > 1 {
		p.line("     GOMAXPROCS=%d", t.Procs)
	}
	if t.Replicas > 1 {
		p.line("     %d replicas of the operator", t.Replicas)
	}
}

func join(kinds []Kind) string {
	var all []string
	for _, k := range kinds {
		all = append(all, string(k))
	}
	return strings.Join(all, ", ")
}

// TableText prints the plans of a table that had alarms, and how many there are of each kind.
func TableText(w io.Writer, rows []Row) error {
	p := &printer{w: w}
	type tally struct{ ran, alarming, failed int }
	byKind := map[string]*tally{}
	var order []string
	for i := range rows {
		r := &rows[i]
		t := byKind[r.Kind]
		if t == nil {
			t = &tally{}
			byKind[r.Kind] = t
			order = append(order, r.Kind)
		}
		t.ran++
		switch trial.Verdict(r.Verdict) {
		case trial.Failed:
			t.failed++
		case trial.Alarms:
			t.alarming++
			alarms, err := r.found()
			if err != nil {
				return err
			}
			p.line("plan %d (%s):", r.Index, r.Kind)
			for _, l := range strings.Split(strings.TrimSpace(r.Plan), "\n") {
				p.line("    %s", l)
			}
			for _, a := range alarms {
				p.line("  %s", a.What)
			}
		case trial.Fine:
		}
	}
	for _, k := range order {
		t := byKind[k]
		p.line("%-8s %4d plans, %d with alarms, %d failed", k, t.ran, t.alarming, t.failed)
	}
	return p.err
}

// indent puts a text in front of each line.
type indent struct {
	w     io.Writer
	by    string
	fresh bool
}

func (i *indent) Write(b []byte) (int, error) {
	for _, line := range strings.SplitAfter(string(b), "\n") {
		if line == "" {
			continue
		}
		if i.fresh {
			line = i.by + line
		}
		i.fresh = strings.HasSuffix(line, "\n")
		if _, err := io.WriteString(i.w, line); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}
