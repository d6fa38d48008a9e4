package trial

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// leaves are the values of an object by path, in a form in which two runs compare: without what the server keeps,
// lists of named things by name and others without their order, uids and generated names as what they stand for. They are
// kept until the next event: the ends of runs are compared several times, and all with that of the reference.
func (s *story) leaves(o *object) map[string]string {
	if all, known := s.known[o]; known {
		return all
	}
	if s.known == nil {
		s.known = map[*object]map[string]string{}
	}
	s.known[o] = s.leavesOf(o)
	return s.known[o]
}

func (s *story) leavesOf(o *object) map[string]string {
	var v map[string]any
	d := json.NewDecoder(strings.NewReader(o.text))
	d.UseNumber()
	out := map[string]string{}
	if d.Decode(&v) != nil {
		out[""] = o.text
		return out
	}
	meta, _ := v["metadata"].(map[string]any)
	generation := fmt.Sprint(meta["generation"])
	for _, k := range serverFields {
		delete(meta, k)
	}
	w := walker{s: s, generation: generation, out: out}
	w.value("", "", v)
	return out
}

// serverFields of metadata change from run to run or follow from others.
var serverFields = []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink", "name", "namespace", "deletionGracePeriodSeconds"}

var (
	uidText  = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	timeText = regexp.MustCompile(`\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:?\d{2})?`)
)

// Words that stand for values that are not compared as they are.
const (
	aTime   = "<time>"
	current = "<of the present spec>"
	older   = "<of an earlier spec>"
)

type walker struct {
	s          *story
	generation string
	out        map[string]string
}

func (w *walker) value(path, key string, v any) {
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 {
			return // empty and absent are the same
		}
		for k, e := range v {
			if strings.ContainsAny(k, ".[]") {
				w.value(path+"["+k+"]", k, e)
				continue
			}
			w.value(strings.TrimPrefix(path+"."+k, "."), k, e)
		}
	case []any:
		w.list(path, v)
	case nil:
	case string:
		w.out[path] = w.text(v)
	default:
		text := fmt.Sprint(v)
		switch key {
		case "observedGeneration":
			if text = older; fmt.Sprint(v) == w.generation {
				text = current
			}
		case "resourceVersion":
			text = "<version>"
		}
		w.out[path] = text
	}
}

// naming are the members by which things in lists are told apart, as merge keys of the Kubernetes API.
var naming = []string{"name", "type", "uid", "key", "id", "ip"}

func (w *walker) list(path string, all []any) {
	for _, by := range naming {
		names := map[string]bool{}
		named := map[string][]any{} // by what the names stand for, which two of them may share
		for _, e := range all {
			if m, ok := e.(map[string]any); ok {
				if n, ok := m[by].(string); ok {
					names[n] = true
					named[w.text(n)] = append(named[w.text(n)], e)
				}
			}
		}
		if len(names) < len(all) {
			continue
		}
		for n, alike := range named {
			if p := path + "[" + n + "]"; len(alike) == 1 {
				w.value(p, "", alike[0])
			} else {
				w.unordered(p, alike)
			}
		}
		return
	}
	w.unordered(path, all)
}

// unordered is a list whose things have no names of their own: one value, in which they are sorted.
func (w *walker) unordered(path string, all []any) {
	texts := make([]string, 0, len(all))
	for _, e := range all {
		sub := walker{s: w.s, generation: w.generation, out: map[string]string{}}
		sub.value("", "", e)
		texts = append(texts, flat(sub.out))
	}
	slices.Sort(texts)
	w.out[path] = "[" + strings.Join(texts, " ") + "]"
}

func flat(leaves map[string]string) string {
	if len(leaves) == 1 && leaves[""] != "" {
		return leaves[""]
	}
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(leaves)) {
		parts = append(parts, k+"="+leaves[k])
	}
	return "{" + strings.Join(parts, " ") + "}"
}

func (w *walker) text(s string) string {
	if n, ok := w.s.names[s]; ok {
		return n
	}
	if strings.Contains(s, "-") {
		if uidText.MatchString(s) {
			s = uidText.ReplaceAllStringFunc(s, w.uid)
		}
		if timeText.MatchString(s) {
			s = timeText.ReplaceAllString(s, aTime)
		}
	}
	return s
}

// uid says whose uid it is, and whether that object is still there.
func (w *walker) uid(s string) string {
	o := w.s.byUID[s]
	switch {
	case o == nil:
		return "<uid>"
	case o.gone:
		return "<uid of a former " + w.s.key(o) + ">"
	}
	return "<uid of " + w.s.key(o) + ">"
}

// General is a field's path without the names of things in lists.
func General(path string) string { return general(path) }

// general is a path without the names of things in lists, for masks and groups.
func general(path string) string {
	var b strings.Builder
	depth := 0
	for _, c := range path {
		switch c {
		case '[':
			if depth++; depth == 1 {
				b.WriteString("[*]")
			}
		case ']':
			depth--
		default:
			if depth == 0 {
				b.WriteRune(c)
			}
		}
	}
	return b.String()
}
