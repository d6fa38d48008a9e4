package html

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/opreplay/opreplay/analysis"
	"github.com/opreplay/opreplay/traces"
)

// Bounds of what a page tells of an object's versions.
const (
	maxVersions = 2000 // over all objects
	maxChanges  = 40   // of one version
	maxText     = 300  // bytes of one value
)

// change is one field that a version changed.
type change struct {
	Path   string `json:"path"`
	Before string `json:"before,omitempty"` // "" where it was absent
	After  string `json:"after,omitempty"`  // "" where it is gone
}

// versions keeps what each version of the objects of findings changed.
type versions struct {
	of      map[string]string   // object → its last version, "" before the first
	named   map[int64]bool      // rows that findings name, of which nothing is left out
	changes map[string][]change // seq → what that version changed
	more    map[string]int      // seq → how many more it changed
	left    int                 // versions that the page has no room for
}

func newVersions(r *analysis.Result, named map[int64]bool) versions {
	v := versions{of: map[string]string{}, named: named, changes: map[string][]change{}, more: map[string]int{}}
	for i := range r.Findings {
		for _, o := range r.Findings[i].Objects {
			v.of[o.String()] = ""
		}
	}
	return v
}

// take compares a version with the one before it.
func (v *versions) take(x *traces.WatchEvent) {
	name := objectName(&x.Identity)
	before, wanted := v.of[name]
	if !wanted || x.Object == "" {
		return
	}
	v.of[name] = x.Object
	if before == "" {
		return
	}
	if len(v.changes) >= maxVersions && !v.named[x.Seq] {
		v.left++
		return
	}
	a, okA := fields(before)
	b, okB := fields(x.Object)
	if !okA || !okB {
		return // a cut object is the trace's loss, and stated there
	}
	list := compare(a, b)
	seq := strconv.FormatInt(x.Seq, 10)
	if extra := len(list) - maxChanges; extra > 0 {
		v.more[seq], list = extra, list[:maxChanges]
	}
	v.changes[seq] = list
}

// repeat says that a row tells of the same version as an earlier one.
func (v *versions) repeat(seq, first int64) {
	from, to := strconv.FormatInt(first, 10), strconv.FormatInt(seq, 10)
	if list, ok := v.changes[from]; ok {
		v.changes[to] = list
	}
	if n := v.more[from]; n > 0 {
		v.more[to] = n
	}
}

// fields are the leaves of an object's text by path.
func fields(text string) (map[string]string, bool) {
	var object any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if d.Decode(&object) != nil {
		return nil, false
	}
	out := map[string]string{}
	flatten(out, "", object)
	return out, true
}

// flatten lists the leaves of an object by path. Book-keeping that changes with every write is left out.
func flatten(out map[string]string, path string, value any) {
	switch x := value.(type) {
	case map[string]any:
		if len(x) == 0 && path != "" {
			out[path] = "{}"
		}
		for name, field := range x {
			inner := join(path, name)
			if inner == "metadata.managedFields" || inner == "metadata.resourceVersion" {
				continue
			}
			flatten(out, inner, field)
		}
	case []any:
		if len(x) == 0 {
			out[path] = "[]"
		}
		for i, item := range x {
			flatten(out, path+"["+strconv.Itoa(i)+"]", item)
		}
	default:
		text, _ := json.Marshal(x) // what Unmarshal gave
		out[path] = string(text)
	}
}

func join(path, name string) string {
	if strings.ContainsAny(name, "./[] ") {
		return path + "[" + strconv.Quote(name) + "]"
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

// cut shortens a value to what a reader takes in.
func cut(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + "… (" + strconv.Itoa(len(text)) + " bytes)"
}

func compare(before, after map[string]string) []change {
	paths := map[string]bool{}
	for p := range before {
		paths[p] = true
	}
	for p := range after {
		paths[p] = true
	}
	list := []change{}
	for _, p := range slices.Sorted(maps.Keys(paths)) {
		if before[p] != after[p] {
			list = append(list, change{p, cut(before[p]), cut(after[p])})
		}
	}
	return list
}
