package replay

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/opreplay/opreplay/sim/actor"
	"github.com/opreplay/opreplay/traces"
)

// masker rewrites a write's body so that those of two runs compare: what differs between any two runs of the
// same operator goes (times, resourceVersions, what the server manages), uids and generated names become the
// object that they stand for.
type masker struct {
	refs map[string]actor.Ref // by uid
	// names are generated names, by themselves, with the generateName and how manieth it was.
	names map[string]string
}

// newMasker learns uids from the objects and generated names from the calls.
func newMasker(refs map[string]actor.Ref, calls []*traces.Request) *masker {
	m := &masker{refs: refs, names: map[string]string{}}
	count := map[string]int{}
	for _, r := range calls {
		base := generateName(r)
		if base == "" || !succeeded(r) || r.Name == "" || len(r.Name) < len(base) {
			continue
		}
		k := r.Resource + "/" + r.Namespace + "/" + base
		count[k]++
		m.names[r.Name] = fmt.Sprintf("%s<%d>", base, count[k])
	}
	return m
}

// serverFields of metadata change from run to run or follow from others.
var serverFields = []string{"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "managedFields", "selfLink"}

var (
	uidText  = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
	timeText = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})$`)
)

// body is a write's masked content.
func (m *masker) body(r *traces.Request) string {
	var v any
	if r.RequestBody == "" || json.Unmarshal([]byte(r.RequestBody), &v) != nil {
		return r.RequestBody
	}
	v = m.value(v)
	if o, ok := v.(map[string]any); ok {
		m.metadata(o)
		if r.Verb == "delete" {
			// What a client's library puts there by itself.
			delete(o, "preconditions")
		}
	}
	if ops, ok := v.([]any); ok && strings.Contains(r.ContentType, "json-patch+json") {
		v = slices.DeleteFunc(ops, func(op any) bool {
			o, _ := op.(map[string]any)
			path, _ := o["path"].(string)
			return path == "/metadata/resourceVersion" || path == "/metadata/uid"
		})
	}
	text, err := json.Marshal(v) // members come sorted
	if err != nil {
		return r.RequestBody
	}
	return string(text)
}

func (m *masker) metadata(o map[string]any) {
	meta, ok := o["metadata"].(map[string]any)
	if !ok {
		return
	}
	for _, k := range serverFields {
		delete(meta, k)
	}
}

func (m *masker) value(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if k == "resourceVersion" {
				v[k] = "<version>"
				continue
			}
			v[k] = m.value(e)
		}
	case []any:
		for i, e := range v {
			v[i] = m.value(e)
		}
	case string:
		return m.text(v)
	}
	return v
}

func (m *masker) text(s string) string {
	if ref, ok := m.refs[s]; ok {
		return "<uid of " + m.ref(ref) + ">"
	}
	if uidText.MatchString(s) {
		return "<uid>"
	}
	if timeText.MatchString(s) {
		return "<time>"
	}
	if known, ok := m.names[s]; ok {
		return known
	}
	return s
}

func (m *masker) ref(r actor.Ref) string {
	if known, ok := m.names[r.Name]; ok {
		r.Name = known
	}
	r.Version = ""
	return r.String()
}
