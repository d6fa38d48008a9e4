package report

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/opreplay/opreplay/analysis"
)

// ComparisonJSON writes a comparison as indented JSON. Lists are never null.
func ComparisonJSON(w io.Writer, c *analysis.Comparison) error {
	out := *c
	out.New, out.Gone = wholes(c.New), wholes(c.Gone)
	out.Worse, out.Better, out.Shifts, out.Caveats = orEmpty(c.Worse), orEmpty(c.Better), orEmpty(c.Shifts), orEmpty(c.Caveats)
	for _, l := range []*analysis.Looked{&out.Baseline, &out.Looked} {
		l.Processes, l.Detectors = orEmpty(l.Processes), orEmpty(l.Detectors)
	}
	return encode(w, out)
}

// Comparison writes what changed for reading by eye.
func Comparison(w io.Writer, c *analysis.Comparison, o Options) error {
	if o.Width == 0 {
		o.Width = 100
	}
	c = cleaned(c)
	p := &printer{w: bufio.NewWriter(w), style: style{o.Color}, width: o.Width}
	p.line(p.bold(c.Looked.Trace) + " against " + p.bold(c.Baseline.Trace))
	for _, l := range []struct {
		name string
		l    *analysis.Looked
	}{{"baseline", &c.Baseline}, {"trace", &c.Looked}} {
		p.field(l.name, fmt.Sprintf("%s records in %s; %s", Thousands(l.l.Records), duration(l.l.To.Sub(l.l.From)), Plural(l.l.Objects, "object", "objects")))
	}
	for _, caveat := range c.Caveats {
		p.field("caveat", caveat)
	}
	p.line("")
	for i := range c.New {
		p.change("new", &c.New[i])
	}
	for _, s := range c.Worse {
		p.change("worse", &s.Finding)
		p.field("effect", moved(s))
		p.line("")
	}
	for _, s := range c.Better {
		p.change("better", &s.Finding)
		p.field("effect", moved(s))
		p.line("")
	}
	for i := range c.Gone {
		p.change("gone", &c.Gone[i])
	}
	p.shifts(c)
	p.line(p.bold(Plural(len(c.New), "new finding", "new findings")) + fmt.Sprintf(", %d worse, %d better, %d gone; %d of %d measures changed beyond noise",
		len(c.Worse), len(c.Better), len(c.Gone), len(c.Shifts), c.Tested))
	return p.w.Flush()
}

// change writes a finding of one trace alone, in short: opsim analyze has it at length.
func (p *printer) change(how string, f *analysis.Finding) {
	p.line(fmt.Sprintf("%s  %s  %s", p.bold(how), p.severity(string(f.Severity)), p.bold(f.Detector)))
	p.field("what", f.What+".")
	p.field("cause", f.Cause+".")
	if how == "new" || how == "gone" {
		p.line("")
	}
}

func moved(s analysis.FindingShift) string {
	text := digits(s.Finding.Effect.Value) + " " + s.Finding.Effect.Unit + ", in the baseline " + digits(s.Baseline.Value)
	if s.Ratio > 0 {
		text += ": " + digits(s.Ratio) + " times as much"
	}
	return text
}

// shifts writes the measures that changed, aligned.
func (p *printer) shifts(c *analysis.Comparison) {
	if len(c.Shifts) == 0 {
		return
	}
	p.line(p.bold("measures that changed"))
	rows := [][4]string{{"", "baseline", "trace", ""}}
	for _, s := range c.Shifts {
		name := s.Measure
		if s.Process != "" {
			name = s.Process + ": " + name
		}
		ratio := "new"
		switch {
		case s.Unit == "share":
			ratio = fmt.Sprintf("%+.0f points", 100*(s.After.Value-s.Before.Value))
		case s.Ratio > 0:
			ratio = "× " + digits(s.Ratio)
		case s.After.Value == 0:
			ratio = "none"
		}
		rows = append(rows, [4]string{name, Value(s.Before.Value, s.Unit), Value(s.After.Value, s.Unit), ratio + chance(s.P)})
	}
	var widths [3]int
	for _, r := range rows {
		for i := range widths {
			widths[i] = max(widths[i], utf8.RuneCountInString(r[i]))
		}
	}
	for _, r := range rows {
		p.line(strings.Repeat(" ", margin) + pad(r[0], widths[0]) + "  " + padLeft(r[1], widths[1]) + "  " + padLeft(r[2], widths[2]) + "  " + r[3])
	}
	p.line("")
}

func chance(p float64) string {
	if p < 1e-4 {
		return "  p < 0.0001"
	}
	return fmt.Sprintf("  p %.2g", p)
}
