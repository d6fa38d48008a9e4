package report

import (
	"encoding/json"
	"io"

	"github.com/opreplay/opreplay/analysis"
)

// JSON writes the result as indented JSON. Lists are never null; the same trace gives the same bytes.
func JSON(w io.Writer, r *analysis.Result) error {
	out := *r
	out.Findings = orEmpty(out.Findings)
	out.Notes = orEmpty(out.Notes)
	out.Caveats = orEmpty(out.Caveats)
	out.Looked.Processes = orEmpty(out.Looked.Processes)
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
