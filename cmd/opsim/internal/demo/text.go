package demo

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/opreplay/opreplay/analysis"
	"github.com/opreplay/opreplay/internal/cli"
)

// Text prints the report for the eye.
func (r *Report) Text(w io.Writer) error {
	p := &printer{cli.Printer{W: w}}
	found, clean := 0, 0
	last := ""
	for _, run := range r.Runs {
		if run.Case.Name != last {
			p.Line("%s: %s", run.Case.Name, run.Case.About)
			last = run.Case.Name
		}
		p.run(run)
		switch {
		case run.Wrong != "":
		case run.Twin == Fixed:
			clean++
		default:
			found++
		}
	}
	took := r.Took.Round(100 * time.Millisecond)
	if r.AsExpected {
		p.Line("As it should be: %d faults found in the faulty twins, none in the %d mended ones. %v.", found, clean, took)
	} else {
		p.Line("NOT as it should be: see WRONG above. %v.", took)
	}
	if n := r.repeated(); n > 0 {
		p.Line("Each run was made twice, in virtual time: %d of %d second runs are the same, byte for byte.", n, len(r.Runs))
	}
	p.Line("More of a run: opsim analyze TRACE. More of a fault: docs/findings.")
	return p.Err
}

// repeated counts the runs that were made again and gave the same.
func (r *Report) repeated() (n int) {
	for i := range r.Runs {
		if r.Runs[i].Repeated {
			n++
		}
	}
	return n
}

// printer prints the parts of a report.
type printer struct{ cli.Printer }

func (p *printer) run(run Run) {
	twin := run.Twin
	if len(run.Findings) == 0 {
		p.Line("  %-7s no findings", twin)
	}
	for _, f := range run.Findings {
		if f.Group != f.ID {
			p.part("and", f.Detector+", of the same cause")
			continue
		}
		p.Line("  %-7s %s", twin, f.Detector)
		p.part("object", objects(f))
		p.part("cause", f.Cause)
		p.part("evidence", evidence(f.Evidence))
		twin = ""
	}
	p.part("trace", run.Trace)
	if run.Wrong != "" {
		p.part("WRONG", run.Wrong)
	}
}

// width is where lines are broken.
const width = 100

// part prints a labelled text, broken between words.
func (p *printer) part(label, text string) {
	const head = "          %-9s %s"
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && 20+len(line)+1+len(word) > width {
			p.Line(head, label, line)
			label, line = "", ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	p.Line(head, label, line)
}

// objects names the first objects of a finding and says how many more there are.
func objects(f analysis.Finding) string {
	const shown = 2
	var names []string
	for i, o := range f.Objects {
		if i == shown {
			break
		}
		names = append(names, o.String())
	}
	text := strings.Join(names, ", ")
	if more := f.Total - int64(len(names)); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// evidence lists the first sequence numbers.
func evidence(e analysis.Evidence) string {
	const shown = 6
	var seqs []string
	listed := 0
	for _, item := range e.Items[:min(shown, len(e.Items))] {
		listed++
		if seq := strconv.FormatInt(item.Seq, 10); !slices.Contains(seqs, seq) { // one row may be evidence twice
			seqs = append(seqs, seq)
		}
	}
	text := "seq " + strings.Join(seqs, ", ")
	if more := e.Total - int64(listed); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
