package conformance

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"sigs.k8s.io/yaml"
)

// kind is a kind of object that sequences are about.
type kind struct {
	// APIVersion, Kind and Plural are as in discovery.
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Plural     string `json:"plural"`
	Cluster    bool   `json:"cluster"` // not namespaced
	// Subs are its subresources that can be read and written: status, scale, …
	Subs []string `json:"subs"`
	// Name is the form of its names where they are not free, with %s for what is, if anything.
	Name string `json:"name"`
	// Body is a valid object without apiVersion, kind and metadata.
	Body map[string]any `json:"body"`
	// Edits are merge patches that make sense, or almost.
	Edits []map[string]any `json:"edits"`
	// Calm keeps random changes away from what would take effect on other objects.
	Calm bool `json:"calm"`
	// Fields are field selectors.
	Fields []string `json:"fields"`

	change func(*gen) map[string]any // of a custom kind
}

//go:embed kinds.yaml
var kindsYAML []byte

// builtins are the built-in kinds, from kinds.yaml.
var builtins = func() []*kind {
	var out []*kind
	if err := yaml.UnmarshalStrict(kindsYAML, &out); err != nil {
		panic(fmt.Sprintf("kinds.yaml: %v", err)) // it is compiled in
	}
	return out
}()

func builtinKind(plural string) *kind {
	for _, k := range builtins {
		if k.Plural == plural {
			return k
		}
	}
	panic("conformance: no kind " + plural)
}

// path is the collection's, in the sequence's namespace.
func (k *kind) path() string { return k.pathIn("${ns}") }

func (k *kind) pathIn(ns string) string {
	p := k.root()
	if !k.Cluster {
		p += "/namespaces/" + ns
	}
	return p + "/" + k.Plural
}

// all is the collection's path over all namespaces.
func (k *kind) all() string { return k.root() + "/" + k.Plural }

func (k *kind) root() string {
	if !strings.Contains(k.APIVersion, "/") {
		return "/api/" + k.APIVersion
	}
	return "/apis/" + k.APIVersion
}

// named is the name of one of the objects of a sequence: names outside of namespaces begin with it.
func (k *kind) named(free string) string {
	if k.Cluster {
		free = "${ns}-" + free
	}
	if k.Name != "" {
		return strings.Replace(k.Name, "%s", free, 1)
	}
	return free
}

// object is a valid object as a tree of its own.
func (k *kind) object(name string) map[string]any {
	obj := clone(k.Body)
	obj["apiVersion"], obj["kind"] = k.APIVersion, k.Kind
	obj["metadata"] = map[string]any{"name": k.named(name), "labels": map[string]any{"seq": "${ns}", "app": name}}
	return obj
}

func (k *kind) goType() (reflect.Type, bool) {
	obj, ok := kindOf(k.APIVersion, k.Kind)
	if !ok {
		return nil, false
	}
	return reflect.TypeOf(obj).Elem(), true
}

// id is how tables name it.
func (k *kind) id() string {
	g, _, ok := strings.Cut(k.APIVersion, "/")
	if !ok {
		return k.Plural
	}
	if strings.Contains(g, "example.com") {
		return "custom resources"
	}
	return k.Plural + "." + g
}

func clone(m map[string]any) map[string]any {
	b, err := json.Marshal(m)
	if err != nil {
		panic(err) // it is JSON
	}
	out := map[string]any{}
	if err := json.Unmarshal(b, &out); err != nil {
		panic(err)
	}
	return out
}

// merge changes m by a merge patch (RFC 7386) and returns it.
func merge(m, patch map[string]any) map[string]any {
	for k, v := range patch {
		if v == nil {
			delete(m, k)
			continue
		}
		p, isMap := v.(map[string]any)
		old, wasMap := m[k].(map[string]any)
		if isMap && wasMap {
			m[k] = merge(old, p)
			continue
		}
		m[k] = v
	}
	return m
}

func asJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // trees of JSON values
	}
	return string(b)
}
