package report

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/opreplay/opreplay/analysis"
)

// Markdown writes the result for an issue or a merge request (CommonMark with GitHub's tables). Texts of the trace stay
// texts: what has a meaning in Markdown or HTML is escaped.
func Markdown(w io.Writer, r *analysis.Result) error {
	m := &markdown{bufio.NewWriter(w)}
	l := &r.Looked
	m.line("## %s in %s", capital(Plural(len(r.Findings), "finding", "findings")), code(cmp.Or(l.Trace, "records")))
	m.line("")
	m.line("%s records in %s: %s watch events, %s requests, %s log lines.", Thousands(l.Records), duration(l.To.Sub(l.From)), Thousands(l.Watch), Thousands(l.Requests), Thousands(l.Logs))
	for _, c := range r.Caveats {
		m.line("")
		m.line("> %s.", escape(c))
	}
	for i := range r.Findings {
		m.finding(&r.Findings[i])
	}
	if len(r.Notes) > 0 {
		m.line("")
		m.line("### Notes on what is no fault")
		m.line("")
		for _, n := range r.Notes {
			m.line("- %s: %s.", escape(n.Detector), escape(n.What))
		}
	}
	return m.w.Flush()
}

type markdown struct{ w *bufio.Writer }

func (m *markdown) line(form string, args ...any) { _, _ = fmt.Fprintf(m.w, form+"\n", args...) }

func (m *markdown) finding(f *analysis.Finding) {
	m.line("")
	m.line("### %s %s (%s)", f.ID, escape(f.Detector), escape(string(f.Severity)))
	m.line("")
	m.line("%s.", escape(f.What))
	m.line("")
	m.line("**Cause** (%s): %s.", escape(string(f.Certainty)), escape(f.Cause))
	m.line("")
	for _, o := range f.Objects[:min(3, len(f.Objects))] {
		m.line("- object %s", code(o.String()))
	}
	if more := f.Total - int64(min(3, len(f.Objects))); more > 0 {
		m.line("- and %s more", Plural(more, "object", "objects"))
	}
	for _, x := range [][2]string{{"by", f.Process}, {"field", f.Field}, {"code", f.Code}, {"see it again", f.Reproduce}} {
		if x[1] != "" {
			m.line("- %s %s", x[0], code(x[1]))
		}
	}
	m.line("- from %s for %s", f.First.Format(timeForm), duration(f.Last.Sub(f.First)))
	if f.Group != f.ID {
		m.line("- of the same cause as %s", f.Group)
	}
	if len(f.Statistics) > 0 {
		m.line("")
		m.line("| measured | value | interval | n |")
		m.line("| --- | ---: | --- | ---: |")
		for _, s := range f.Statistics {
			m.line("| %s | %s | %s | %d |", escape(s.Name), escape(Value(s.Value, s.Unit)), escape(Interval(s)), s.N)
		}
	}
	if len(f.Evidence.Items) > 0 {
		m.line("")
		m.line("<details><summary>Evidence</summary>")
		m.line("")
		for _, x := range f.Evidence.Items {
			m.line("- seq %d: %s", x.Seq, escape(x.What))
		}
		m.line("")
		m.line("</details>")
	}
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// escape keeps a text from being markup: CommonMark takes a backslash before any ASCII punctuation. With all of it
// escaped no address becomes a link and no mention a mention's form of its own; what a site makes of "@name" after
// Markdown is its own affair.
func escape(s string) string {
	var b strings.Builder
	for _, r := range Flat(s) {
		if r < utf8.RuneSelf && (unicode.IsPunct(r) || unicode.IsSymbol(r)) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// code is a text as a code span, whose fence is longer than any run of backticks in it (CommonMark 6.1).
func code(s string) string {
	s = strings.ReplaceAll(Flat(s), "|", "¦") // a code span does not keep a table's bars
	longest, run := 0, 0
	for _, r := range s {
		if run++; r != '`' {
			run = 0
		}
		longest = max(longest, run)
	}
	fence := strings.Repeat("`", longest+1)
	if longest > 0 || strings.HasPrefix(s, " ") {
		return fence + " " + s + " " + fence
	}
	return fence + s + fence
}
