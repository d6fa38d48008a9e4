package analysis

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/opreplay/opreplay/analysis/internal/jsontext"
)

// tally counts which fields a series of writes changed, and how. It is bounded: what an operator writes over and
// over are a few fields.
type tally struct {
	writes int64
	kinds  [4]int64 // writes that changed something of that kind
	fields []field
}

type field struct {
	pattern string
	kind    jsontext.Kind
	n       int64
}

const maxFields = 12

func (t *tally) add(leaves []jsontext.Leaf) {
	t.writes++
	var had [4]bool
	for i := range leaves {
		had[leaves[i].Kind] = true
		t.field(leaves[i].Pattern, leaves[i].Kind)
	}
	for k, h := range had {
		if h {
			t.kinds[k]++
		}
	}
}

func (t *tally) field(pattern string, kind jsontext.Kind) {
	for i := range t.fields {
		if f := &t.fields[i]; f.pattern == pattern && f.kind == kind {
			f.n++
			return
		}
	}
	if len(t.fields) < maxFields {
		t.fields = append(t.fields, field{pattern, kind, 1})
	}
}

// with is how many writes changed something of that kind.
func (t *tally) with(k jsontext.Kind) int64 { return t.kinds[k] }

// main is the field that was changed most often; of equal ones that whose change means most.
func (t *tally) main() field {
	if len(t.fields) == 0 {
		return field{}
	}
	return slices.MinFunc(t.fields, func(a, b field) int {
		return cmp.Or(cmp.Compare(b.n, a.n), cmp.Compare(a.kind, b.kind), cmp.Compare(a.pattern, b.pattern))
	})
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// seconds writes a duration in nanoseconds for reading.
func seconds(ns int64) string {
	switch s := float64(ns) / 1e9; {
	case s >= 7200:
		return fmt.Sprintf("%.1f h", s/3600)
	case s >= 600:
		return fmt.Sprintf("%.0f min", s/60)
	case s >= 100:
		return fmt.Sprintf("%.0f s", s)
	case s >= 1:
		return fmt.Sprintf("%.1f s", s)
	case s >= 0.001:
		return fmt.Sprintf("%.0f ms", s*1e3)
	default:
		return fmt.Sprintf("%.0f µs", s*1e6)
	}
}

func times(n int64) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

func plural(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func join(words []string, last string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " " + last + " " + words[len(words)-1]
}

// beneath is whether a path of a difference is that of a field, or of something in it.
func beneath(path, field string) bool {
	return strings.HasPrefix(path, field) && (len(path) == len(field) || path[len(field)] == '.' || path[len(field)] == '[')
}
