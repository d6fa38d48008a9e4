package conformance

import (
	"fmt"
	"regexp"
	"strings"
)

// Known is a difference that there is a reason for. Each has a test that shows it, so that one that is
// no more is taken off the list.
type Known struct {
	Name   string
	Reason string
	// Match says whether a difference is this one.
	Match func(o *Outcome, d Difference) bool
	// Shows is a sequence that has it, in the form of [Sequence.String].
	Shows string
}

var (
	cell     = regexp.MustCompile(`rows\[\d+\]\.cells\[\d+\]$`)
	youngAge = regexp.MustCompile(`^(\d+[sm])+$`)
	dayOld   = regexp.MustCompile(`^(2[34]h|1d)$`)
)

// KnownDifferences is the list.
var KnownDifferences = []Known{
	{
		Name: "ages",
		Reason: "Age columns of a Table are counted from the wall clock, as the printers of Kubernetes do; the objects' times are the world's. " +
			"(In these runs the world's clock is a day behind, so ours says 24h where the real server says 3s.)",
		Match: func(_ *Outcome, d Difference) bool {
			if !cell.MatchString(d.Path) {
				return false
			}
			real, _ := d.Real.(string)
			ours, _ := d.Ours.(string)
			return youngAge.MatchString(real) && dayOld.MatchString(ours)
		},
		Shows: `{"name":"ages"}
{"id":1,"area":"known","verb":"get","kind":"namespaces","path":"/api/v1/namespaces/${ns}","accept":"application/json;as=Table;v=v1;g=meta.k8s.io"}`,
	},
}

// KnownMarkdown is the list for people.
func KnownMarkdown() string {
	var b strings.Builder
	for _, k := range KnownDifferences {
		fmt.Fprintf(&b, "- **%s**. %s\n", k.Name, k.Reason)
	}
	return b.String()
}
