package peers

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// Table prints both columns, package by package, as a table of Markdown.
func Table(w io.Writer, real, ours []Result) error {
	t := tabwriter.NewWriter(w, 0, 0, 1, ' ', 0)
	_, _ = fmt.Fprintf(t, "| package\t| real: passed/failed/skipped\t| time\t| ours: passed/failed/skipped\t| time\t|\n")
	_, _ = fmt.Fprintf(t, "| ---\t| ---\t| ---\t| ---\t| ---\t|\n")
	var sums [2]Result
	for i := range ours {
		cells := "| " + ours[i].Package + "\t"
		for j, column := range [][]Result{real, ours} {
			if len(column) == 0 {
				cells += "| not run\t| \t"
				continue
			}
			cells += column[i].cells()
			sums[j].Specs = append(sums[j].Specs, column[i].Specs...)
			sums[j].Took += column[i].Took
		}
		_, _ = fmt.Fprintf(t, "%s|\n", cells)
	}
	_, _ = fmt.Fprintf(t, "| all\t%s%s|\n", sums[0].cells(), sums[1].cells())
	return t.Flush()
}

func (r *Result) cells() string {
	if r.Error != "" && len(r.Specs) == 0 {
		return "| " + strings.ReplaceAll(r.Error, "\n", " ") + "\t| \t"
	}
	return fmt.Sprintf("| %d/%d/%d\t| %s\t", r.Count(Passed), r.Count(Failed), r.Count(Skipped)+r.Count(Pending), r.Took.Round(100*time.Millisecond))
}

// Difference is a spec that passes on one API server and not on the other.
type Difference struct {
	Package, Spec string
	Log           string // of the suite in which it fails
}

// Lost lists the specs that pass with A and not with B.
func Lost(a, b []Result) []Difference {
	var out []Difference
	for i := range min(len(a), len(b)) {
		here := map[string]State{}
		for _, s := range b[i].Specs {
			here[s.Name] = s.State
		}
		for _, s := range a[i].Specs {
			if s.State == Passed && here[s.Name] != Passed {
				out = append(out, Difference{a[i].Package, s.Name, b[i].Log})
			}
		}
		if b[i].Error != "" && a[i].Error == "" {
			out = append(out, Difference{a[i].Package, "the suite itself: " + b[i].Error, b[i].Log})
		}
	}
	return out
}

// Race is why a spec may fail on an API server that does nothing wrong, "" if there is no reason.
func Race(d Difference) string {
	spec := strings.TrimRight(d.Spec, " ()0123456789")
	if d.Package == "pkg/cache" && (strings.HasSuffix(spec, "to be cancelled") || strings.HasSuffix(spec, "when context is cancelled")) {
		return "it wants an informer with a cancelled context to fail, which it does unless the list and the watch " +
			"have answered before controller-runtime looks for the first time; a fast API server sometimes has"
	}
	return ""
}
