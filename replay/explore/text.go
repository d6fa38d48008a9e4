package explore

import (
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/replay/trial"
)

// printer prints the parts of a result.
type printer struct{ cli.Printer }

// Text prints the result for a person.
func (r *Result) Text(w io.Writer) error {
	p := &printer{cli.Printer{W: w}}
	for i, g := range r.Groups {
		p.group(i+1, g)
	}
	what := "nothing found"
	if n := len(r.Groups); n > 0 {
		what = cli.Count(n, "finding")
	}
	p.Line("%s: %d of %d plans run in %s (%d at a time), %d with alarms", what, r.Ran, r.Planned, r.Took.Round(100*time.Millisecond), r.Workers, r.Alarming)
	if n := r.Ran - r.Before; n > 0 {
		c := r.Cost
		each := func(d time.Duration) string { return (d / time.Duration(n)).Round(time.Millisecond).String() }
		p.Line("  a plan took %s: %s until the operator's first call, %s to its first write, %s to the end, %s to judge", each(c.Wall), each(c.Start), each(c.Sync), each(c.Run), each(c.Judge))
	}
	if r.FirstAlarm > 0 {
		p.Line("  the first alarm came after %s", r.FirstAlarm.Round(100*time.Millisecond))
	}
	if r.Skewed > 0 {
		p.Line("  of %s the end was not compared: changes by outsiders did not fit any more, or the fault did not end", cli.Count(r.Skewed, "run"))
	}
	if r.Strayed > 0 {
		p.Line("  of %s fields that outsiders wrote were not compared: their changes met another incarnation of what the operator makes", cli.Count(r.Strayed, "run"))
	}
	if r.Unmet > 0 {
		p.Line("  in %s a part of the plan met nothing", cli.Count(r.Unmet, "run"))
	}
	if r.Failed > 0 {
		p.Line("  %s could not take place: see error in the table", cli.Count(r.Failed, "run"))
	}
	for _, why := range slices.Sorted(maps.Keys(r.Pruned)) {
		p.Line("  not tried: %d × %s", r.Pruned[why], why)
	}
	for _, n := range r.Notes {
		p.Line("note: %s", n)
	}
	p.Line("table: %s/%s", r.Out, TableName)
	return p.Err
}

func (p *printer) group(n int, g *Group) {
	p.Line("%d. %s", n, g.Alarm.What)
	p.alarm(&g.Alarm)
	also := g.Also
	const most = 4
	for _, a := range also[:min(len(also), most)] {
		p.Line("   also: %s", a.What)
	}
	if len(also) > most {
		p.Line("   … and %d more", len(also)-most)
	}
	t := g.Try
	switch {
	case g.Index < 0:
		p.Line("   in the unaltered run")
	default:
		p.Line("   shown by %s (%s); the smallest:", cli.Count(g.Plans, "plan"), join(g.Kinds))
	}
	if g.Small != nil {
		t = g.Small.Try
	}
	for _, f := range t.Plan.Faults {
		p.Line("     - %s", f)
	}
	p.surroundings(&t)
	if g.Small != nil && len(g.Small.Left) > 0 {
		p.Line("     without these of the outsiders' changes: %s", strings.Join(g.Small.Left, "; "))
	}
	if g.Story != nil && p.Err == nil {
		p.Line("   what happened:")
		p.Err = g.Story.Text(&indent{p.W, "     ", true})
	}
	if g.Command != "" {
		p.Line("   see it again:")
		p.Line("     %s", g.Command)
	}
	p.Line("")
}

func (p *printer) alarm(a *trial.Alarm) {
	if a.Object != "" {
		p.Line("   object: %s", a.Object)
	}
	if a.Field != "" && a.Object != "" {
		p.Line("   field: %s", a.Field)
	}
	if a.Expected != "" {
		p.Line("   expected: %s", a.Expected)
		p.Line("   got: %s", a.Got)
	}
}

func (p *printer) surroundings(t *trial.Try) {
	if t.Threads != "" {
		p.Line("     the operator's threads in the order of seed %d", t.Plan.Seed)
	}
	if t.Procs > 1 {
		p.Line("     GOMAXPROCS=%d", t.Procs)
	}
	if t.Replicas > 1 {
		p.Line("     %d replicas of the operator", t.Replicas)
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
	p := &printer{cli.Printer{W: w}}
	for i := range rows {
		r := &rows[i]
		if trial.Verdict(r.Verdict) != trial.Alarms {
			continue
		}
		alarms, err := r.found()
		if err != nil {
			return err
		}
		p.Line("plan %d (%s):", r.Index, r.Kind)
		for _, l := range strings.Split(strings.TrimSpace(r.Plan), "\n") {
			p.Line("    %s", l)
		}
		for _, a := range alarms {
			p.Line("  %s", a.What)
		}
	}
	for _, k := range Tally(rows) {
		p.Line("%-8s %9s, %d with alarms, %d failed", k.Kind, cli.Count(k.Fine+k.Alarms+k.Failed, "plan"), k.Alarms, k.Failed)
	}
	return p.Err
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
