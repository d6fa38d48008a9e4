package conformance

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// edit is a merge patch that changes an object of the kind: one from the list, or one at random by the
// kind's Go type.
func (g *gen) edit(k *kind) map[string]any {
	switch n := g.r.IntN(100); {
	case n < 50:
		return g.calm()
	case k.change != nil:
		return k.change(g)
	case k.Calm || len(k.Edits) > 0 && n < 85:
		return clone(pick(g, k.Edits...))
	}
	return g.change(k, "")
}

// calm is a change that nobody objects to.
func (g *gen) calm() map[string]any {
	return map[string]any{"metadata": pick(g,
		map[string]any{"labels": map[string]any{"x": pick(g, "y", "z", ""), "example.com/y": "v"}},
		map[string]any{"labels": map[string]any{"app": nil}},
		map[string]any{"annotations": map[string]any{"x": pick(g, "y", "z", "some more words"), "n": fmt.Sprint(g.r.IntN(4))}},
		map[string]any{"annotations": nil},
		map[string]any{"finalizers": []any{"example.com/" + pick(g, "a", "b")}},
		map[string]any{"finalizers": nil},
		map[string]any{"ownerReferences": []any{map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "00000000-1111-4000-8000-000000000001"}}},
	)}
}

// change sets a field at random, below the one that is named if any is.
func (g *gen) change(k *kind, below string) map[string]any {
	if k.change != nil {
		e := k.change(g)
		if below != "" {
			e = map[string]any{below: e["spec"]}
		}
		return e
	}
	t, ok := k.goType()
	if !ok || k.Calm && below != "status" {
		return clone(pick(g, k.Edits...))
	}
	fields := jsonFields(t)
	if _, has := fields[below]; below != "" && !has {
		return map[string]any{below: map[string]any{"x": 1}}
	}
	name := below
	if name == "" {
		delete(fields, "metadata")
		delete(fields, "apiVersion")
		delete(fields, "kind")
		if below != "status" {
			if len(fields) > 1 && !g.chance(10) {
				delete(fields, "status")
			}
		}
		if len(fields) == 0 {
			return g.metadata()
		}
		name = pick(g, keys(fields)...)
	}
	return map[string]any{name: g.alter(fields[name], name, k.Body[name], 0)}
}

// alter is a value for a field of type t that is much like now.
func (g *gen) alter(t reflect.Type, name string, now any, depth int) any {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if depth > 8 || g.chance(3) {
		return g.odd()
	}
	switch {
	case t.Kind() == reflect.Struct && !special(t):
		fields := jsonFields(t)
		if len(fields) == 0 {
			return map[string]any{}
		}
		// Rather what is there than what is not.
		in, _ := now.(map[string]any)
		f := pick(g, keys(fields)...)
		if len(in) > 0 && g.chance(50) {
			f = pick(g, keys(in)...)
		}
		ft, ok := fields[f]
		if !ok {
			return map[string]any{f: g.odd()}
		}
		if g.chance(4) {
			return map[string]any{f: nil}
		}
		return map[string]any{f: g.alter(ft, f, in[f], depth+1)}
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		in, _ := now.([]any)
		if len(in) == 0 || g.chance(15) {
			return g.random(t, name, depth)
		}
		out := append([]any{}, in...)
		i := g.r.IntN(len(out))
		v := g.alter(t.Elem(), name, out[i], depth+1)
		if m, ok := out[i].(map[string]any); ok {
			if p, ok := v.(map[string]any); ok {
				v = merge(clone(m), p)
			}
		}
		out[i] = v
		return out
	}
	return g.random(t, name, depth)
}

// random is a value of type t.
func (g *gen) random(t reflect.Type, name string, depth int) any {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if g.chance(2) {
		return g.odd()
	}
	if special(t) {
		return g.special(t)
	}
	switch t.Kind() {
	case reflect.String:
		return g.word(name)
	case reflect.Bool:
		return g.chance(50)
	case reflect.Int32, reflect.Int64, reflect.Int:
		return pick(g, 0, 1, 1, 2, 5, 80, 100, -1, 65536, 1<<31-1)
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		return pick(g, 0, 1, 7)
	case reflect.Map:
		return map[string]any{g.word("key"): g.random(t.Elem(), name, depth+1)}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return pick(g, "YQ==", "", "!")
		}
		out := []any{}
		for range pick(g, 0, 1, 1, 2) {
			out = append(out, g.random(t.Elem(), name, depth+1))
		}
		return out
	case reflect.Struct:
		return g.randomStruct(t, depth)
	default:
		return g.odd()
	}
}

func (g *gen) randomStruct(t reflect.Type, depth int) any {
	out := map[string]any{}
	fields := jsonFields(t)
	often := 70
	switch {
	case depth > 6:
		often = 10
	case len(fields) > 6:
		often = 25
	}
	for _, f := range keys(fields) {
		if f != "managedFields" && g.chance(often) {
			out[f] = g.random(fields[f], f, depth+1)
		}
	}
	return out
}

var specials = map[reflect.Type][]any{
	reflect.TypeFor[metav1.Time]():          {"2001-02-03T04:05:06Z", "2001-02-03T04:05:06Z", "yesterday", nil},
	reflect.TypeFor[metav1.MicroTime]():     {"2001-02-03T04:05:06.000007Z", "2001-02-03T04:05:06Z", "x"},
	reflect.TypeFor[metav1.Duration]():      {"5s", "1m", "x"},
	reflect.TypeFor[resource.Quantity]():    {"1", "100m", "1Gi", "0.5", 2, "-1", "1e3", "x"},
	reflect.TypeFor[intstr.IntOrString]():   {1, "50%", 80, "name", -1, "150%"},
	reflect.TypeFor[runtime.RawExtension](): {map[string]any{"a": 1}, nil},
	reflect.TypeFor[metav1.FieldsV1]():      {map[string]any{}},
}

func special(t reflect.Type) bool { return specials[t] != nil }

func (g *gen) special(t reflect.Type) any { return pick(g, specials[t]...) }

// odd is a value of any type but perhaps the right one.
func (g *gen) odd() any {
	return pick[any](g, nil, "", "text", 1, -1.5, true, []any{}, []any{1}, map[string]any{}, map[string]any{"unknown": 1}, json.Number("1e400"))
}

// words by what fields are called; the rest are for all.
var words = map[string][]string{
	"name":                     {"a", "b", "web", "Bad_Name", "", "a.b", "example.com/x"},
	"namespace":                {"${ns}", "other", ""},
	"key":                      {"a", "example.com/k", "bad key", ""},
	"protocol":                 {"TCP", "UDP", "SCTP", "HTTP"},
	"operator":                 {"In", "NotIn", "Exists", "DoesNotExist", "Equal", "Gt"},
	"effect":                   {"NoSchedule", "NoExecute", "Never"},
	"imagePullPolicy":          {"Always", "Never", "IfNotPresent", "Sometimes"},
	"restartPolicy":            {"Always", "Never", "OnFailure"},
	"dnsPolicy":                {"Default", "None", "ClusterFirst"},
	"type":                     {"RollingUpdate", "OnDelete", "Opaque", "ClusterIP", "NodePort", "Ready", "Resource", "RuntimeDefault", "Normal"},
	"status":                   {"True", "False", "Unknown", "Maybe"},
	"path":                     {"/", "/a/b", "../x", "", "relative"},
	"mountPath":                {"/a", "/a/../b", ""},
	"cidr":                     {"10.0.0.0/8", "10.0.0.1", "::/0"},
	"ip":                       {"1.2.3.4", "::1", "x", "127.0.0.1"},
	"kind":                     {"Pod", "Role", "User", "Service", ""},
	"apiGroup":                 {"", "apps", "rbac.authorization.k8s.io"},
	"scheme":                   {"HTTP", "HTTPS", "FTP"},
	"host":                     {"a.example.com", "*.example.com", "A", "1.2.3.4"},
	"storageClassName":         {"", "slow", "Bad_Name"},
	"topologyKey":              {"kubernetes.io/hostname", "", "bad key"},
	"whenUnsatisfiable":        {"DoNotSchedule", "ScheduleAnyway", "x"},
	"concurrencyPolicy":        {"Allow", "Forbid", "Replace", "x"},
	"terminationMessagePolicy": {"File", "FallbackToLogsOnError", "x"},
}

func (g *gen) word(name string) string {
	if w := words[name]; w != nil && g.chance(85) {
		return pick(g, w...)
	}
	return pick(g, "a", "b", "x", "", "Bad_Name", "with space", "example.com/y", "1", "ünï", strings.Repeat("l", 64), "Always", "Delete", "None")
}

// metadata is a change of metadata, most of them such as the server does not allow or ignores.
func (g *gen) metadata() map[string]any {
	if g.chance(60) {
		return g.calm()
	}
	m := pick(g,
		map[string]any{"labels": map[string]any{"x": pick(g, "y", "z")}},
		map[string]any{"labels": map[string]any{"app": nil}},
		map[string]any{"labels": map[string]any{"bad key": "v"}},
		map[string]any{"labels": map[string]any{"x": strings.Repeat("v", 64)}},
		map[string]any{"labels": map[string]any{"x": 1}},
		map[string]any{"labels": nil},
		map[string]any{"annotations": map[string]any{"x": pick(g, "y", "z")}},
		map[string]any{"annotations": map[string]any{"big": "${fill:270000}"}},
		map[string]any{"annotations": map[string]any{"bad/key/form": "v"}},
		map[string]any{"finalizers": []any{"example.com/" + pick(g, "a", "b")}},
		map[string]any{"finalizers": []any{"example.com/a", "example.com/b"}},
		map[string]any{"finalizers": []any{"nodomain"}},
		map[string]any{"finalizers": []any{"orphan", "foregroundDeletion"}},
		map[string]any{"finalizers": nil},
		map[string]any{"name": "other"},
		map[string]any{"name": nil},
		map[string]any{"namespace": "other"},
		map[string]any{"namespace": nil},
		map[string]any{"uid": "00000000-1111-4000-8000-000000000000"},
		map[string]any{"uid": "", "selfLink": "/x"},
		map[string]any{"generation": 99},
		map[string]any{"creationTimestamp": "2001-02-03T04:05:06Z"},
		map[string]any{"deletionTimestamp": "2001-02-03T04:05:06Z"},
		map[string]any{"deletionGracePeriodSeconds": 5},
		map[string]any{"generateName": "other-"},
		map[string]any{"managedFields": []any{}},
		map[string]any{"managedFields": []any{map[string]any{}}},
		map[string]any{"managedFields": nil},
		map[string]any{"managedFields": []any{map[string]any{"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": map[string]any{"f:x": map[string]any{}}}}},
		map[string]any{"managedFields": []any{map[string]any{"manager": "m", "operation": "Sing"}}},
		map[string]any{"unknown": 1},
		map[string]any{"ownerReferences": []any{map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "00000000-1111-4000-8000-000000000001"}}},
		map[string]any{"ownerReferences": []any{map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": "o"}}},
		map[string]any{"ownerReferences": []any{
			map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "1", "controller": true},
			map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": "p", "uid": "2", "controller": true},
		}},
		map[string]any{"ownerReferences": []any{
			map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "1"},
			map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "1"},
		}},
		map[string]any{"ownerReferences": []any{map[string]any{"apiVersion": "v1", "kind": "Event", "name": "o", "uid": "1"}}},
	)
	return map[string]any{"metadata": m}
}

// jsonFields are the fields of a struct by their names in JSON, those of embedded structs included.
func jsonFields(t reflect.Type) map[string]reflect.Type {
	out := map[string]reflect.Type{}
	for f := range t.Fields() {
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		ft := f.Type
		for ft.Kind() == reflect.Pointer {
			ft = ft.Elem()
		}
		switch {
		case name == "-" || !f.IsExported():
		case name == "" && (strings.Contains(opts, "inline") || f.Anonymous) && ft.Kind() == reflect.Struct:
			maps.Copy(out, jsonFields(ft))
		case name != "":
			out[name] = f.Type
		}
	}
	return out
}
