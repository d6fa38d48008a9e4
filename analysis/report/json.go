package report

import (
	"encoding/json"
	"io"

	"github.com/opreplay/opreplay/analysis"
)

// JSON writes the result as indented JSON. Lists are never null; the same trace gives the same bytes.
func JSON(w io.Writer, r *analysis.Result) error {
	out := *r
	out.Findings = make([]analysis.Finding, len(r.Findings))
	for i, f := range r.Findings {
		f.Objects, f.Statistics, f.Evidence.Items = orEmpty(f.Objects), orEmpty(f.Statistics), orEmpty(f.Evidence.Items)
		out.Findings[i] = f
	}
	out.Notes = orEmpty(out.Notes)
	out.Caveats = orEmpty(out.Caveats)
	out.Looked.Processes = orEmpty(out.Looked.Processes)
	out.Looked.Detectors = orEmpty(out.Looked.Detectors)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(out)
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
