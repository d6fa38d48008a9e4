package report

import (
	"encoding/json"
	"io"

	"github.com/opreplay/opreplay/analysis"
	"github.com/opreplay/opreplay/analysis/causal"
)

// JSON writes the result as indented JSON. Lists are never null; the same trace gives the same bytes.
func JSON(w io.Writer, r *analysis.Result) error {
	out := *r
	out.Findings = wholes(r.Findings)
	out.Notes = orEmpty(out.Notes)
	out.Caveats = orEmpty(out.Caveats)
	out.Looked.Processes = orEmpty(out.Looked.Processes)
	out.Looked.Detectors = orEmpty(out.Looked.Detectors)
	return encode(w, out)
}

// wholes are findings without lists that are null.
func wholes(list []analysis.Finding) []analysis.Finding {
	out := make([]analysis.Finding, len(list))
	for i, f := range list {
		f.Objects, f.Statistics, f.Evidence.Items = orEmpty(f.Objects), orEmpty(f.Statistics), orEmpty(f.Evidence.Items)
		out[i] = f
	}
	return out
}

// WhyJSON writes a chain of causes as indented JSON.
func WhyJSON(w io.Writer, c *causal.Chain) error {
	out := *c
	out.Steps = orEmpty(out.Steps)
	return encode(w, out)
}

func encode(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
