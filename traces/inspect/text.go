package inspect

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/opreplay/opreplay/traces"
)

// top is how many rows of a list are shown; the rest is one line.
const top = 12

// Text writes a summary as a page to read. Times are UTC. What comes from the trace is printed without
// control characters.
func Text(w io.Writer, s *Summary) error {
	p := &page{}
	p.head(s)
	p.losses(s)
	p.timeline(s)
	p.tables(s)
	p.resources(s)
	p.callers(s)
	_, err := w.Write(p.Bytes())
	return err
}

type page struct{ bytes.Buffer }

func (p *page) line(label, format string, args ...any) {
	fmt.Fprintf(p, "%-11s%s\n", label, strings.TrimRight(fmt.Sprintf(format, args...), " "))
}

func (p *page) head(s *Summary) {
	p.line("trace", "%s  (format %d.%d, made by %s)", clean(s.Trace), s.Format.Major, s.Format.Minor, orNone(clean(s.Tool)))
	what := map[string]string{
		"capture": "capture of a cluster", "proxy": "recording proxy", "run": "recorded run of an operator",
		"sim": "simulated run", "merge": "merge of traces",
	}[s.Source]
	if what == "" {
		what = orNone(clean(s.Source))
	}
	cluster := ""
	if s.Cluster.Version != "" || s.Cluster.Server != "" {
		cluster = strings.TrimRight(fmt.Sprintf("; Kubernetes %s %s", clean(s.Cluster.Version), clean(s.Cluster.Server)), " ")
	}
	p.line("source", "%s%s", what, cluster)
	if r := s.Run; r != nil {
		determinism := "deterministic"
		if !r.Deterministic {
			determinism = "not deterministic"
			if r.Reason != "" {
				determinism += ": " + clean(r.Reason)
			}
		}
		p.line("replay of", "%s, seed %d, %s time, %s", clean(r.Trace), r.Seed, clean(r.Mode), determinism)
		for _, l := range strings.Split(strings.TrimSpace(r.Plan), "\n") {
			if l != "" {
				p.line("", "| %s", clean(l))
			}
		}
	}
	for _, o := range s.Operators {
		p.line("operator", "%s%s", clean(o.Process), exit(o))
	}
	if len(s.Namespaces) > 0 {
		p.line("namespaces", "%s", clean(strings.Join(s.Namespaces, ", ")))
	}
	if s.Rows == 0 {
		p.line("span", "no rows")
		return
	}
	p.line("span", "%s to %s, %s", moment(s.First), moment(s.Last), s.Last.Sub(s.First).Round(time.Millisecond))
	p.line("holds", "%s, %s in %s; %s of %s in %s", plural(s.Rows, "row"), size(s.Bytes), plural(int64(files(s)), "file"),
		plural(sum(s.Events), "watch event"), plural(int64(s.Objects), "object"), plural(int64(s.Streams), "stream"))
	if s.Redaction.Secrets != "" {
		p.line("secrets", "%s", map[string]string{"none": "not redacted", "hmac-sha256": "values replaced by keyed hashes"}[s.Redaction.Secrets])
	}
}

func exit(o traces.Operator) string {
	switch {
	case o.ExitedByRecord:
		return " (stopped by the recorder)"
	case o.ExitCode != nil:
		return fmt.Sprintf(" (exit code %d)", *o.ExitCode)
	}
	return ""
}

func (p *page) losses(s *Summary) {
	switch {
	case !s.Complete:
		p.line("complete", "NO: it was not closed in order, or is still being written")
	case len(s.Losses) == 0:
		p.line("complete", "yes, nothing is known to be missing")
	default:
		p.line("complete", "yes, but for %s", plural(int64(len(s.Losses)), "known loss"))
	}
	for i, l := range s.Losses {
		if i == top {
			p.line("", "… and %d more", len(s.Losses)-top)
			break
		}
		count := "an unknown number"
		if l.Count >= 0 {
			count = number(l.Count)
		}
		p.line("", "- %s: %s lost, %s to %s: %s", clean(l.Source), count, moment(l.From), moment(l.To), clean(l.Reason))
	}
}

func (p *page) timeline(s *Summary) {
	if s.Rows == 0 {
		return
	}
	step := time.Duration(s.Timeline.StepSeconds * float64(time.Second))
	fmt.Fprintln(p)
	p.line("events", "%s  at most %s in %s", spark(s.Timeline.Events), number(slices.Max(s.Timeline.Events)), short(step))
	p.line("writes", "%s  at most %s", spark(s.Timeline.Writes), number(slices.Max(s.Timeline.Writes)))
}

// short rounds a duration to three digits.
func short(d time.Duration) time.Duration {
	unit := time.Nanosecond
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit)
}

// spark draws counts as bars. A count that is not zero is never drawn as nothing.
func spark(counts []int64) string {
	const bars = "▁▂▃▄▅▆▇█"
	all := []rune(bars)
	most := slices.Max(counts)
	var b strings.Builder
	for _, n := range counts {
		if n == 0 {
			b.WriteByte(' ')
			continue
		}
		b.WriteRune(all[int((n*int64(len(all))-1)/most)])
	}
	return b.String()
}

func (p *page) tables(s *Summary) {
	p.table("table\tfiles\trows\tsize\tbytes/row\t", func(row func(string, ...any)) {
		for _, t := range s.Tables {
			row("%s\t%d\t%s\t%s\t%.0f\t", clean(string(t.Table)), t.Files, number(t.Rows), size(t.Bytes), t.BytesPerRow)
		}
	}, len(s.Tables))
}

func (p *page) resources(s *Summary) {
	p.table("resource\tobjects\tADDED\tMODIFIED\tDELETED\tSYNC\treads\twrites\t", func(row func(string, ...any)) {
		for i, r := range s.Resources {
			if i == top {
				row("… and %d more\t\t\t\t\t\t\t\t", len(s.Resources)-top)
				break
			}
			name := clean(r.Resource)
			if name == "" {
				name = "(none)"
			}
			row("%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t", name, count(int64(r.Objects)), count(r.Added), count(r.Modified),
				count(r.Deleted), count(r.Sync), count(r.Reads), count(r.Writes))
		}
	}, len(s.Resources))
}

func (p *page) callers(s *Summary) {
	p.table("caller\treads\twrites\twrites/min\tfailed\t", func(row func(string, ...any)) {
		for i, c := range s.Callers {
			if i == top {
				row("… and %d more\t\t\t\t\t", len(s.Callers)-top)
				break
			}
			rate := ""
			if c.Writes > 0 && s.Seconds > 0 {
				rate = strconv.FormatFloat(c.WritesPerMinute, 'f', 1, 64)
			}
			row("%s\t%s\t%s\t%s\t%s\t", name(c), count(c.Reads), count(c.Writes), rate, count(c.Failed))
		}
	}, len(s.Callers))
	if len(s.Codes) == 0 {
		return
	}
	var codes []string
	for _, c := range s.Codes {
		code := strconv.Itoa(int(c.Code))
		if c.Code == 0 {
			code = "no answer"
		}
		codes = append(codes, fmt.Sprintf("%s × %s", code, number(c.Count)))
	}
	fmt.Fprintln(p)
	p.line("answers", "%s", strings.Join(codes, ", "))
}

// name says who a caller is in one short text.
func name(c Caller) string {
	who := clean(c.Process)
	if who == "" {
		who = "outsider"
	}
	if agent, _, _ := strings.Cut(clean(c.UserAgent), " "); agent != "" {
		who += ", " + agent // the rest is platform and commit
	}
	if user := clean(c.User); user != "" {
		who += ", as " + user
	}
	const width = 64
	if r := []rune(who); len(r) > width {
		who = string(r[:width-1]) + "…"
	}
	return who
}

// table writes rows in columns, the first to the left and numbers to the right.
func (p *page) table(head string, fill func(row func(string, ...any)), rows int) {
	if rows == 0 {
		return
	}
	var cells [][]string
	add := func(format string, args ...any) {
		cells = append(cells, strings.Split(strings.TrimSuffix(fmt.Sprintf(format, args...), "\t"), "\t"))
	}
	add("%s", head)
	fill(add)
	var width int
	for _, row := range cells {
		width = max(width, len([]rune(row[0])))
	}
	fmt.Fprintln(p)
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range cells {
		first := row[0] + strings.Repeat(" ", width-len([]rune(row[0])))
		fmt.Fprintf(w, "%s\t%s\t\n", first, strings.Join(row[1:], "\t"))
	}
	_ = w.Flush() // a bytes.Buffer takes everything
	for l := range strings.Lines(b.String()) {
		p.WriteString(strings.TrimRight(strings.TrimPrefix(l, "  "), " \n") + "\n")
	}
}

// count is a number, or nothing for none: what is there stands out.
func count(n int64) string {
	if n == 0 {
		return "-"
	}
	return number(n)
}

// number groups digits by three.
func number(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func plural(n int64, noun string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case strings.HasSuffix(noun, "s"):
		return number(n) + " " + noun + "es"
	}
	return number(n) + " " + noun + "s"
}

// size is bytes in decimal units.
func size(n int64) string {
	f := float64(n)
	for _, unit := range []string{"B", "kB", "MB", "GB"} {
		if f < 999.5 {
			if unit == "B" {
				return fmt.Sprintf("%d B", n)
			}
			return fmt.Sprintf("%.3g %s", f, unit)
		}
		f /= 1000
	}
	return fmt.Sprintf("%.3g TB", f)
}

func moment(t time.Time) string {
	if t.IsZero() {
		return "?"
	}
	return t.UTC().Format("2006-01-02 15:04:05.000Z")
}

func files(s *Summary) (n int) {
	for _, t := range s.Tables {
		n += t.Files
	}
	return n
}

func sum(counts []Count) (n int64) {
	for _, c := range counts {
		n += c.Count
	}
	return n
}

func orNone(s string) string {
	if s == "" {
		return "(unknown)"
	}
	return s
}

// clean makes a text of the trace fit for a terminal: a recorded user agent must not move the cursor.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '·'
	}, s)
}
