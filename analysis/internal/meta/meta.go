// Package meta has what several parts of the analysis read from an object's metadata.
package meta

import (
	"strings"

	"github.com/opreplay/opreplay/analysis/internal/jsontext"
)

// Captures is whether the process is the recorder or the simulator itself: what its watches deliver woke nobody.
func Captures(process string) bool { return process == "oprec" || process == "opsim" }

// Owner is the uid of an object's controller, else of its first owner, "" without.
func Owner(body string) (uid string) {
	if !strings.Contains(body, `"ownerReferences"`) {
		return ""
	}
	refs, _ := jsontext.Get(body, "metadata", "ownerReferences")
	jsontext.Elements(refs, func(ref string) bool {
		u, _ := jsontext.Get(ref, "uid")
		controller, _ := jsontext.Get(ref, "controller")
		if uid == "" || controller == "true" {
			uid = jsontext.Text(u)
		}
		return controller != "true"
	})
	return strings.Clone(uid)
}
