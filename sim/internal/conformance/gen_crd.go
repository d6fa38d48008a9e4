package conformance

import (
	"fmt"
	"strings"
)

// customObjects is about a kind that the sequence defines itself.
func (g *gen) customObjects() {
	k := g.define()
	g.steps(g.cast(k, "a", "b", "c"), 16+g.r.IntN(10))
}

// shape is a structural schema and a value that it admits.
type shape struct {
	def   map[string]any
	value any
}

// define adds the operations that make a custom kind at random, and gives it.
func (g *gen) define() *kind {
	spec := g.objectShape(2)
	status := g.objectShape(1)
	status.def["properties"].(map[string]any)["replicas"] = map[string]any{"type": "integer"}
	spec.def["properties"].(map[string]any)["replicas"] = map[string]any{"type": "integer", "maximum": 10}
	if g.chance(40) {
		spec.def["properties"].(map[string]any)["replicas"].(map[string]any)["default"] = 1
	}
	delete(status.def, "default")
	if g.chance(50) {
		spec.def["x-kubernetes-validations"] = []any{pick(g,
			map[string]any{"rule": "!has(self.replicas) || self.replicas <= 5", "message": "too many replicas"},
			map[string]any{"rule": "!has(self.replicas) || !has(oldSelf.replicas) || self.replicas >= oldSelf.replicas", "messageExpression": "'was ' + string(oldSelf.replicas)", "reason": "FieldValueForbidden"},
			map[string]any{"rule": "!has(self.replicas) || self.replicas != 3", "fieldPath": ".replicas"},
		)}
	}
	root := map[string]any{"type": "object", "properties": map[string]any{"spec": spec.def, "status": status.def}}
	if g.chance(15) {
		root["x-kubernetes-preserve-unknown-fields"] = true
	}
	if g.chance(20) {
		root["required"] = []any{"spec"}
	}
	k := &kind{
		APIVersion: "${ns}.example.com/v1", Kind: "Thing", Plural: "things", Cluster: g.chance(15),
		Body: map[string]any{"spec": spec.value},
	}
	version := map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": root}}
	sub := map[string]any{}
	if g.chance(70) {
		sub["status"] = map[string]any{}
		k.Subs = append(k.Subs, "status")
	}
	if g.chance(50) {
		sub["scale"] = map[string]any{"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
		k.Subs = append(k.Subs, "scale")
	}
	if len(sub) > 0 {
		version["subresources"] = sub
	}
	if g.chance(40) {
		version["additionalPrinterColumns"] = []any{
			map[string]any{"name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas"},
			map[string]any{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp", "priority": 1},
		}
	}
	if g.chance(30) {
		version["selectableFields"] = []any{map[string]any{"jsonPath": ".spec.replicas"}}
		k.Fields = []string{"spec.replicas=1"}
	}
	versions := []any{version}
	if g.converts != "" || g.chance(40) {
		other := clone(version)
		other["name"], other["storage"] = "v1beta1", false
		if g.chance(30) {
			other["deprecated"] = true
		}
		if g.chance(20) {
			other["deprecationWarning"] = "use v1"
			other["deprecated"] = true
		}
		versions = append(versions, other)
		if g.chance(50) {
			k.APIVersion = "${ns}.example.com/v1beta1"
		}
	}
	k.change = func(g *gen) map[string]any { return g.customEdit(spec, status) }
	g.install(k, versions)
	return k
}

func (g *gen) install(k *kind, versions []any) {
	scope := "Namespaced"
	if k.Cluster {
		scope = "Cluster"
	}
	names := map[string]any{"plural": k.Plural, "kind": k.Kind}
	if g.chance(40) {
		names["singular"], names["shortNames"], names["categories"] = "thing", []any{"th"}, []any{"all"}
	}
	crd := map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": k.Plural + ".${ns}.example.com", "labels": map[string]any{"seq": "${ns}"}},
		"spec":     map[string]any{"group": "${ns}.example.com", "scope": scope, "names": names, "versions": versions},
	}
	if g.converts != "" {
		crd["spec"].(map[string]any)["conversion"] = map[string]any{"strategy": "Webhook", "webhook": map[string]any{
			"conversionReviewVersions": []any{"v1"}, "clientConfig": map[string]any{"url": "${hook}/convert/" + g.converts, "caBundle": "${hookCA}"},
		}}
	}
	const path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	const definitions = "customresourcedefinitions.apiextensions.k8s.io"
	made := g.add(Op{Verb: "create", Kind: definitions, Method: "POST", Path: path, Type: jsonType, Body: asJSON(crd)})
	g.add(Op{Verb: "await", Kind: definitions, Do: Await, After: made, Path: k.path(), Until: 200, Has: "items"})
	g.add(Op{Verb: "await", Kind: definitions, Do: Await, After: made, Path: "/apis/" + k.APIVersion, Until: 200, Has: k.Plural})
	if g.chance(30) {
		g.add(Op{Verb: "get", Kind: definitions, Path: path + "/" + k.Plural + ".${ns}.example.com", Accept: pick(g, "", tableType)})
	}
	if g.chance(30) {
		g.add(Op{Verb: "get", Kind: "discovery", Path: pick(g, "/apis/"+k.APIVersion, "/apis/${ns}.example.com")})
	}
}

// objectShape is an object with some properties; about half are in the value.
func (g *gen) objectShape(depth int) shape {
	props, value := map[string]any{}, map[string]any{}
	names := []string{"alpha", "beta", "gamma", "delta", "epsilon"}
	for _, n := range names[:2+g.r.IntN(4)] {
		s := g.shape(depth)
		props[n] = s.def
		if g.chance(70) {
			value[n] = s.value
		}
	}
	def := map[string]any{"type": "object", "properties": props}
	if g.chance(15) {
		def["nullable"] = true
	}
	if len(value) > 0 && g.chance(15) {
		def["required"] = []any{keys(value)[0]}
	}
	return shape{def, value}
}

func (g *gen) shape(depth int) shape {
	n := g.r.IntN(13)
	if depth <= 0 {
		n = g.r.IntN(7)
	}
	switch n {
	case 0:
		s := shape{map[string]any{"type": "string"}, "text"}
		switch g.r.IntN(6) {
		case 0:
			s.def["enum"] = []any{"text", "red", "green"}
		case 1:
			s.def["pattern"] = "^[a-z]+$"
		case 2:
			s.def["maxLength"] = 5
		case 3:
			s.def["default"] = "text"
		case 4:
			s.def["format"] = pick(g, "date-time", "byte", "uuid", "unknown-format")
			s.value = map[string]any{"date-time": "2001-01-01T00:00:00Z", "byte": "YQ==", "uuid": "123e4567-e89b-12d3-a456-426614174000", "unknown-format": "x"}[s.def["format"].(string)]
		}
		return s
	case 1, 2:
		s := shape{map[string]any{"type": "integer"}, 3}
		switch g.r.IntN(4) {
		case 0:
			s.def["minimum"], s.def["maximum"] = 1, 10
		case 1:
			s.def["format"] = pick(g, "int32", "int64")
		case 2:
			s.def["default"] = 7
			s.def["multipleOf"] = 1
		}
		return s
	case 3:
		return shape{map[string]any{"type": "boolean", "default": true}, false}
	case 4:
		return shape{map[string]any{"type": "number"}, 1.5}
	case 5:
		return shape{map[string]any{"x-kubernetes-int-or-string": true}, pick[any](g, 1, "50%")}
	case 6:
		return shape{map[string]any{"type": "string", "nullable": true}, nil}
	case 7:
		s := g.shape(0)
		return shape{map[string]any{"type": "array", "items": s.def}, []any{s.value}}
	case 8:
		return shape{map[string]any{"type": "array", "items": map[string]any{"type": "string", "maxLength": 20}, "maxItems": 5, "x-kubernetes-list-type": "set"}, []any{"a", "b"}}
	case 9:
		return shape{map[string]any{
			"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": []any{"name"},
			"items": map[string]any{"type": "object", "required": []any{"name"}, "properties": map[string]any{
				"name": map[string]any{"type": "string"}, "value": map[string]any{"type": "integer"},
				"port": map[string]any{"type": "integer", "default": 80},
			}},
		}, []any{map[string]any{"name": "a", "value": 1}, map[string]any{"name": "b"}}}
	case 10:
		s := g.shape(0)
		return shape{map[string]any{"type": "object", "additionalProperties": s.def}, map[string]any{"k": s.value}}
	case 11:
		return shape{map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}, map[string]any{"any": []any{1, "x"}}}
	}
	s := g.objectShape(depth - 1)
	if g.chance(30) {
		s.def["default"] = map[string]any{}
		delete(s.def, "required")
	}
	if g.chance(20) {
		s.def["x-kubernetes-map-type"] = "atomic"
	}
	return s
}

// customEdit is a change of an object of a custom kind.
func (g *gen) customEdit(spec, status shape) map[string]any {
	switch n := g.r.IntN(100); {
	case n < 20:
		return map[string]any{"spec": map[string]any{"replicas": pick[any](g, 0, 1, 2, 3, 4, 5)}}
	case n < 25:
		return map[string]any{"spec": map[string]any{"replicas": pick[any](g, 6, 11, -1, "x", 1.5, nil)}}
	case n < 30:
		return pick(g, map[string]any{"spec": map[string]any{"unknown": map[string]any{"x": 1}}}, map[string]any{"spec2": 1})
	case n < 45:
		return map[string]any{"status": g.customValue(status.def, 0)}
	case n < 47:
		return map[string]any{"spec": pick[any](g, nil, "x", []any{}, map[string]any{})}
	}
	props := spec.def["properties"].(map[string]any)
	f := pick(g, keys(props)...)
	return map[string]any{"spec": map[string]any{f: g.customValue(props[f].(map[string]any), 0)}}
}

// customValue is a value that fits a schema, or not quite.
func (g *gen) customValue(def map[string]any, depth int) any {
	if depth > 5 || g.chance(2) {
		return g.odd()
	}
	switch def["type"] {
	case "string":
		if enum, ok := def["enum"].([]any); ok && g.chance(80) {
			return pick(g, enum...)
		}
		return g.seldom(pick(g, "", "UPPER", strings.Repeat("s", 30), "2001-01-01T00:00:00Z"), "text", "abc", "red")
	case "integer":
		return pick(g, 1, 3, 3, 7, 7, pick(g, 0, 11, -1, 1<<40))
	case "number":
		return pick[any](g, 1, 1.5, -2, 1e10)
	case "boolean":
		return g.chance(50)
	case "array":
		items, ok := def["items"].(map[string]any)
		if !ok {
			return []any{}
		}
		out := []any{}
		for range g.r.IntN(4) {
			out = append(out, g.customValue(items, depth+1))
		}
		if len(out) > 0 && g.chance(5) {
			out = append(out, out[0])
		}
		return out
	case "object":
		out := map[string]any{}
		if props, ok := def["properties"].(map[string]any); ok {
			for _, k := range keys(props) {
				if g.chance(50) {
					out[k] = g.customValue(props[k].(map[string]any), depth+1)
				}
			}
		}
		if more, ok := def["additionalProperties"].(map[string]any); ok {
			out[g.seldom("", "k", "l")] = g.customValue(more, depth+1)
		}
		if g.chance(10) {
			out["unknown"] = 1
		}
		return out
	}
	return pick[any](g, 1, "50%", "x", nil, map[string]any{"any": 1})
}

// definitions is about CRDs themselves: good and bad ones, and their changes.
func (g *gen) definitions() {
	k := g.define()
	const crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	name := crd + "/things.${ns}.example.com"
	const definitions = "customresourcedefinitions.apiextensions.k8s.io"
	c := g.cast(k, "a")
	c.create("a", true)
	read := func() int { return g.add(Op{Verb: "get", Kind: definitions, Path: name}) }
	last := read()
	for i := range 8 {
		edit := pick(g,
			map[string]any{"metadata": map[string]any{"labels": map[string]any{"x": fmt.Sprint(i)}}},
			map[string]any{"spec": map[string]any{"names": map[string]any{"shortNames": []any{"tg"}}}},
			map[string]any{"spec": map[string]any{"names": map[string]any{"kind": "Other"}}},
			map[string]any{"spec": map[string]any{"scope": "Cluster"}},
			map[string]any{"spec": map[string]any{"group": "other.example.com"}},
			map[string]any{"spec": map[string]any{"preserveUnknownFields": true}},
			map[string]any{"spec": map[string]any{"conversion": map[string]any{"strategy": "Webhook"}}},
			map[string]any{"spec": map[string]any{"conversion": map[string]any{"strategy": "None"}}},
			map[string]any{"spec": map[string]any{"versions": []any{}}},
			map[string]any{"spec": map[string]any{"versions": []any{g.badVersion()}}},
			map[string]any{"spec": map[string]any{"versions": []any{g.badVersion(), g.badVersion()}}},
			map[string]any{"status": map[string]any{"storedVersions": []any{"v1", "v9"}}},
		)
		switch g.r.IntN(5) {
		case 0:
			g.add(Op{Verb: "create", Kind: definitions, Method: "POST", Path: crd + "?dryRun=All", Type: jsonType, Body: asJSON(map[string]any{
				"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
				"metadata": map[string]any{"name": "others.${ns}.example.com"},
				"spec": map[string]any{
					"group": "${ns}.example.com", "scope": "Namespaced", "names": map[string]any{"plural": "others", "kind": "Other"},
					"versions": []any{g.badVersion()},
				},
			})})
		case 1:
			g.add(Op{Verb: "status", Kind: definitions, Method: "PATCH", Path: name + "/status", Type: mergePatch, Body: asJSON(edit)})
		case 2:
			g.add(Op{Verb: "update", Kind: definitions, Method: "PUT", Path: name + "?dryRun=All", Type: jsonType, From: last, Edit: merged(edit)})
		default:
			g.add(Op{Verb: "patch", Kind: definitions, Method: "PATCH", Path: name + "?dryRun=All", Type: pick(g, mergePatch, mergePatch, strategicPatch), Body: asJSON(edit)})
		}
	}
	c.get("a")
	for range 2 {
		g.add(Op{Verb: "list", Kind: definitions, Path: crd + "?labelSelector=seq%3D${ns}", Accept: g.accept(true)})
		g.add(Op{Verb: "get", Kind: definitions, Path: name, Accept: g.accept(false)})
	}
	gone := g.add(Op{Verb: "delete", Kind: definitions, Method: "DELETE", Path: name})
	g.add(Op{Verb: "await", Kind: definitions, Do: Await, After: gone, Path: name, Until: 404, Has: "NotFound"})
}

// badVersion is a version with a schema that has something wrong with it, or not.
func (g *gen) badVersion() map[string]any {
	s := pick(g,
		map[string]any{"type": "object"},
		map[string]any{"type": "object", "properties": map[string]any{"spec": map[string]any{}}},
		map[string]any{"type": "array"},
		map[string]any{"properties": map[string]any{"spec": map[string]any{"type": "object"}}},
		map[string]any{"type": "object", "properties": map[string]any{"spec": map[string]any{"type": "object", "x-kubernetes-validations": []any{map[string]any{"rule": "self.x > "}}}}},
		map[string]any{"type": "object", "properties": map[string]any{"spec": map[string]any{"type": "object", "x-kubernetes-validations": []any{map[string]any{"rule": "self.x > 1"}}}}},
		map[string]any{"type": "object", "properties": map[string]any{"spec": map[string]any{"type": "array", "items": map[string]any{"type": "string"}, "x-kubernetes-validations": []any{map[string]any{"rule": "self.all(x, self.all(y, x == y))"}}}}},
		map[string]any{"type": "object", "properties": map[string]any{"spec": map[string]any{"type": "integer", "default": "x"}}},
		map[string]any{"type": "object", "properties": map[string]any{"spec": map[string]any{"type": "string", "pattern": "("}}},
		map[string]any{"type": "object", "properties": map[string]any{"metadata": map[string]any{"type": "object", "properties": map[string]any{"labels": map[string]any{"type": "object"}}}}},
		map[string]any{"type": "object", "properties": map[string]any{"spec": map[string]any{"type": "array", "x-kubernetes-list-type": "map", "items": map[string]any{"type": "object"}}}},
		map[string]any{"type": "object", "properties": map[string]any{"spec": map[string]any{"type": "object", "additionalProperties": true, "properties": map[string]any{"a": map[string]any{"type": "string"}}}}},
		map[string]any{"type": "object", "properties": map[string]any{"spec": map[string]any{"type": "object", "oneOf": []any{map[string]any{"type": "object"}}}}},
		map[string]any{"type": "object", "$ref": "#/x"},
	)
	return map[string]any{"name": pick(g, "v1", "v1", "v2", "Bad_Version"), "served": true, "storage": g.chance(80), "schema": map[string]any{"openAPIV3Schema": s}}
}
