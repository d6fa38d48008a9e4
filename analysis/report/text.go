package report

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/opreplay/opreplay/analysis"
)

// Options of the text form.
type Options struct {
	// Color paints with ANSI escapes; see Terminal.
	Color bool
	// Width is the number of columns to wrap at; 0 means 100.
	Width int
	// Notes also prints what is no fault; otherwise only how many there are.
	Notes bool
}

// Text writes the result for reading by eye.
func Text(w io.Writer, r *analysis.Result, o Options) error {
	if o.Width == 0 {
		o.Width = 100
	}
	r = cleaned(r)
	p := &printer{w: bufio.NewWriter(w), style: style{o.Color}, width: o.Width}
	p.looked(&r.Looked)
	for _, c := range r.Caveats {
		p.field("caveat", c)
	}
	p.line("")
	if len(r.Findings) == 0 {
		p.line(p.bold("no findings"))
	}
	for i := range r.Findings {
		p.finding(&r.Findings[i])
	}
	p.notes(r.Notes, o.Notes)
	if n := len(r.Findings); n > 0 {
		p.line(p.bold(Plural(n, "finding", "findings")) + ", " + Plural(groups(r.Findings), "cause", "causes"))
	}
	return p.w.Flush()
}

type printer struct {
	style
	w     *bufio.Writer
	width int
}

func (p *printer) line(s string) { _, _ = p.w.WriteString(strings.TrimRight(s, " ") + "\n") }

const (
	margin = 2
	label  = 16 // columns of a field's name
)

// field writes a name and a text that is wrapped beside it.
func (p *printer) field(name, text string) {
	for i, l := range wrap(text, p.width-margin-label) {
		if i > 0 {
			name = ""
		}
		p.row(name, l)
	}
}

func (p *printer) row(name, text string) {
	p.line(strings.Repeat(" ", margin) + p.dim(name) + strings.Repeat(" ", max(1, label-utf8.RuneCountInString(name))) + text)
}

func (p *printer) looked(l *analysis.Looked) {
	name := l.Trace
	if name == "" {
		name = "records"
	}
	p.line(p.bold(name))
	span := "nothing"
	if l.Records > 0 {
		metrics := ""
		if l.Metrics > 0 {
			metrics = fmt.Sprintf(", %s samples of metrics", Thousands(l.Metrics))
		}
		span = fmt.Sprintf("%s records in %s: %s watch events, %s requests, %s log lines%s; %s",
			Thousands(l.Records), duration(l.To.Sub(l.From)), Thousands(l.Watch), Thousands(l.Requests), Thousands(l.Logs), metrics, Plural(l.Objects, "object", "objects"))
	}
	p.field("looked at", span)
	if len(l.Processes) > 0 {
		p.field("processes", strings.Join(l.Processes, ", "))
	}
	p.field("detectors", strings.Join(l.Detectors, ", "))
}

func (p *printer) finding(f *analysis.Finding) {
	head := fmt.Sprintf("%s  %s  %s", p.bold(f.ID), p.severity(string(f.Severity)), p.bold(f.Detector))
	if f.Group != f.ID {
		head += p.dim("  same cause as " + f.Group)
	}
	p.line(head)
	p.field("what", f.What+".")
	p.field("cause", f.Cause+".")
	p.objects(f)
	if f.Process != "" {
		by := f.Process
		if f.Manager != "" && f.Manager != f.Process {
			by += ", field manager " + f.Manager
		}
		p.field("by", by)
	}
	if f.Field != "" {
		p.field("field", f.Field)
	}
	if f.Code != "" {
		p.field("code", f.Code)
	}
	p.row("when", fmt.Sprintf("%s to %s, %s; certainty: %s", f.First.Format(timeForm), f.Last.Format(timeForm), duration(f.Last.Sub(f.First)), f.Certainty))
	p.statistics(f.Statistics)
	p.evidence(f.Evidence)
	if len(f.Evidence.Over) > 1 {
		p.row("over time", sparkline(f.Evidence.Over))
	}
	p.path(f.Path)
	if f.Reproduce != "" {
		p.row("again", f.Reproduce)
	}
	p.line("")
}

const timeForm = "2006-01-02T15:04:05.000Z07:00"

func (p *printer) objects(f *analysis.Finding) {
	name := "objects"
	if f.Total == 1 {
		name = "object"
	}
	for i, o := range f.Objects {
		if i == 3 && f.Total > 4 {
			p.row("", fmt.Sprintf("and %d more", f.Total-3))
			return
		}
		p.row(name, o.String()+p.dim(uid(o.UID)))
		name = ""
	}
}

func uid(s string) string {
	if s == "" {
		return ""
	}
	return "  uid " + s
}

// statistics aligns the values under each other.
func (p *printer) statistics(list []analysis.Statistic) {
	rows, widths := make([][3]string, len(list)), [3]int{}
	for i, s := range list {
		rows[i] = [3]string{s.Name, Value(s.Value, s.Unit), Interval(s)}
		for j, c := range rows[i] {
			widths[j] = max(widths[j], utf8.RuneCountInString(c))
		}
	}
	name := "measured"
	for i, r := range rows {
		text := pad(r[0], widths[0]) + "  " + padLeft(r[1], widths[1]) + "  " + pad(r[2], widths[2]) + fmt.Sprintf("  n %d", list[i].N)
		p.row(name, text)
		name = ""
	}
}

// Interval writes the bounds of a statistic with their confidence, "" where it has none.
func Interval(s analysis.Statistic) string {
	switch {
	case s.Confidence == 0 && s.Unbounded:
		return "at least"
	case s.Confidence == 0:
		return ""
	case s.Unbounded:
		return fmt.Sprintf("%.0f %%: from %s", s.Confidence*100, bound(s.Low, s.Unit))
	}
	return fmt.Sprintf("%.0f %%: %s to %s", s.Confidence*100, bound(s.Low, s.Unit), bound(s.High, s.Unit))
}

// Value writes a number with three digits that count.
func Value(v float64, unit string) string {
	switch unit {
	case "s":
		return Seconds(v)
	case "share":
		return percent(v) + " %"
	case "1":
		return digits(v)
	case "1/s":
		return digits(v) + "/s"
	}
	return digits(v) + " " + unit
}

// bound is a value without a unit that is a word.
func bound(v float64, unit string) string {
	switch unit {
	case "s", "share", "1/s":
		return Value(v, unit)
	}
	return digits(v)
}

func percent(v float64) string {
	v *= 100
	if v > 0 && v < 1 || v > 99 && v < 100 {
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}

func digits(v float64) string {
	if v == math.Trunc(v) && math.Abs(v) < 1e6 || math.Abs(v) >= 100 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// Seconds writes a duration in seconds with a fitting unit.
func Seconds(s float64) string {
	switch a := math.Abs(s); {
	case a >= 7200:
		return fmt.Sprintf("%.1f h", s/3600)
	case a >= 600:
		return fmt.Sprintf("%.0f min", s/60)
	case a >= 1 || a == 0:
		return digits(s) + " s"
	case a >= 1e-3:
		return digits(s*1e3) + " ms"
	}
	return digits(s*1e6) + " µs"
}

func duration(d time.Duration) string { return Seconds(d.Seconds()) }

func (p *printer) evidence(e analysis.Evidence) {
	name := "evidence"
	for i, x := range e.Items {
		if i > 0 && int64(len(e.Items)) < e.Total && i == len(e.Items)/2 {
			p.row("", p.dim(fmt.Sprintf("… %d more …", e.Total-int64(len(e.Items)))))
		}
		p.row(name, fmt.Sprintf("seq %-8d %s", x.Seq, x.What))
		name = ""
	}
}

// path writes what led to a finding, from its row back.
func (p *printer) path(list []analysis.Step) {
	name := "led to by"
	for i := 1; i < len(list); i++ { // the first is the row itself, which the evidence has
		s, known := list[i], list[i].Known
		if known == "inferred" && s.Confidence > 0 {
			known = fmt.Sprintf("inferred, %.0f %% sure", s.Confidence*100)
		}
		text := s.What
		if s.Seq != 0 {
			text = fmt.Sprintf("seq %d: %s", s.Seq, s.What)
		}
		for _, l := range wrap(text+" ("+known+")", p.width-margin-label) {
			p.row(name, l)
			name = ""
		}
	}
}

// sparkline draws counts as bars of eight heights (Tufte, Beautiful Evidence, 2006); a span without any is a space.
func sparkline(counts []int64) string {
	var b strings.Builder
	most := slices.Max(counts)
	for _, n := range counts {
		if n == 0 {
			b.WriteByte(' ')
			continue
		}
		b.WriteRune([]rune("▁▂▃▄▅▆▇█")[(n*8-1)/most])
	}
	return b.String()
}

func (p *printer) notes(list []analysis.Note, all bool) {
	if len(list) == 0 {
		return
	}
	if !all {
		p.line(p.dim(Plural(len(list), "note", "notes") + " on what is no fault (--notes shows them)"))
		return
	}
	p.line(p.bold("notes") + p.dim(" on what is no fault"))
	for _, n := range list {
		p.field(n.Detector, n.What+".")
	}
	p.line("")
}

// groups counts the causes.
func groups(list []analysis.Finding) int {
	seen := map[string]bool{}
	for i := range list {
		seen[list[i].Group] = true
	}
	return len(seen)
}

// Plural is a number and what there is of it.
func Plural[N int | int64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return Thousands(int64(n)) + " " + many
}

// Thousands groups the digits of a number by commas.
func Thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func pad(s string, n int) string     { return s + strings.Repeat(" ", n-utf8.RuneCountInString(s)) }
func padLeft(s string, n int) string { return strings.Repeat(" ", n-utf8.RuneCountInString(s)) + s }
