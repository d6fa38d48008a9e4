package conformance

import (
	"fmt"
	"strings"
)

// post is the creation of an object that a scenario needs as it stands.
func (g *gen) post(kindID, path string, obj map[string]any) int {
	return g.add(Op{Verb: "create", Kind: kindID, Method: "POST", Path: path, Type: jsonType, Body: asJSON(obj)})
}

// pods is about what only pods have.
func (g *gen) pods() {
	k := builtinKind("pods")
	c := g.cast(k, "a", "b")
	c.create("a", true)
	if g.chance(50) {
		op := c.op("create", "POST", k.path())
		op.Type, op.Body = jsonType, asJSON(merge(k.object("b"), map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"a": "b"}}, "spec": map[string]any{"nodeName": "node-1"},
		}))
		c.note("b", g.add(op))
		c.there["b"] = true
	}
	for range 16 {
		if free := c.free(); !c.there[free] && g.chance(60) {
			c.create(free, g.chance(80))
			continue
		}
		name := c.some()
		path := c.item(name)
		switch g.r.IntN(12) {
		case 0:
			op := c.op("binding", "POST", path+"/binding"+pick(g, "", "", "?dryRun=All"))
			op.Type, op.Body = jsonType, asJSON(map[string]any{
				"apiVersion": "v1", "kind": "Binding", "metadata": map[string]any{"name": pick(g, name, name, name, "other"), "annotations": map[string]any{"x": "y"}},
				"target": pick(g, map[string]any{"kind": "Node", "name": "node-1"}, map[string]any{"kind": "Node", "name": "node-1"}, map[string]any{"name": "node-2"}, map[string]any{"kind": "Pod", "name": "p"}, map[string]any{}),
			})
			g.add(op)
		case 1:
			g.post("poddisruptionbudgets.policy", builtinKind("poddisruptionbudgets").path(), builtinKind("poddisruptionbudgets").object(pick(g, "x", "y")))
		case 2, 3:
			op := c.op("eviction", "POST", path+"/eviction"+pick(g, "", "", "?dryRun=All"))
			body := map[string]any{"apiVersion": pick(g, "policy/v1", "policy/v1", "policy/v1", "policy/v1beta1"), "kind": "Eviction", "metadata": map[string]any{"name": pick(g, name, name, name, "other")}}
			if g.chance(40) {
				body["deleteOptions"] = c.deleteOptions(name)
			}
			op.Type, op.Body = jsonType, asJSON(body)
			g.add(op)
		case 4:
			op := c.op("ephemeralcontainers", "PATCH", path+"/ephemeralcontainers")
			op.Type, op.Body = pick(g, strategicPatch, mergePatch), asJSON(map[string]any{"spec": map[string]any{
				"ephemeralContainers": []any{map[string]any{"name": pick(g, "e", "f", "c"), "image": "i", "targetContainerName": pick(g, "c", "none")}}, "priority": 3,
			}})
			g.add(op)
		case 5:
			op := c.op("resize", "PATCH", path+"/resize")
			op.Type, op.Body = strategicPatch, asJSON(map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "c", "image": pick(g, "example.com/c", "j"), "resources": map[string]any{"requests": map[string]any{"cpu": pick(g, "100m", "x")}}}}}})
			g.add(op)
		case 6:
			op := c.op(pick(g, "log", "exec", "attach", "portforward", "proxy"), pick(g, "GET", "GET", "POST"), "")
			op.Path = path + "/" + op.Verb + pick(g, "", "?container=c", "?container=none", "?command=ls&stdout=true", "?tailLines=-1", "?follow=x")
			g.add(op)
		case 7:
			op := c.op("status", "PATCH", path+"/status")
			op.Type, op.Body = strategicPatch, asJSON(map[string]any{"status": map[string]any{
				"phase": pick(g, "Running", "Succeeded", "Failed", "Pending", "Dancing"), "conditions": []any{map[string]any{"type": "Ready", "status": pick(g, "True", "False")}},
				"hostIP": "10.1.1.1", "podIP": "10.2.2.2", "containerStatuses": []any{map[string]any{"name": "c", "ready": true, "restartCount": 0, "image": "i", "imageID": "", "state": map[string]any{"running": map[string]any{"startedAt": "2001-01-01T00:00:00Z"}}}},
			}})
			c.note(name, g.add(op))
		case 8:
			c.update(name)
		case 9:
			c.remove(name)
		case 10:
			c.create(name, g.chance(50))
		default:
			c.get(name)
		}
	}
	g.add(Op{Verb: "binding", Kind: k.id(), Method: "POST", Path: "/api/v1/namespaces/${ns}/bindings", Type: jsonType, Body: asJSON(map[string]any{
		"metadata": map[string]any{"name": "a"}, "target": map[string]any{"kind": "Node", "name": "n"},
	})})
	c.list()
}

// services is about what is allocated to Services, and about service accounts' tokens.
func (g *gen) services() {
	k := builtinKind("services")
	c := g.cast(k, "a", "b", "c")
	c.watch()
	for range 12 {
		switch n := g.r.IntN(10); {
		case n < 4:
			c.create(c.free(), g.chance(30))
		case n < 6:
			c.update(c.some())
		case n < 8:
			c.patch(c.some())
		case n < 9:
			c.remove(c.some())
		default:
			c.sub(c.some())
		}
	}
	c.list()
	g.post("serviceaccounts", "/api/v1/namespaces/${ns}/serviceaccounts", map[string]any{"metadata": map[string]any{"name": "sa"}})
	for range 3 {
		spec := map[string]any{}
		if g.chance(50) {
			spec["expirationSeconds"] = pick(g, 600, 3600, 5, -1)
		}
		if g.chance(40) {
			spec["audiences"] = []any{pick(g, "https://kubernetes.default.svc", "other")}
		}
		if g.chance(30) {
			spec["boundObjectRef"] = map[string]any{"apiVersion": "v1", "kind": pick(g, "Pod", "Secret", "ConfigMap"), "name": "none"}
		}
		id := g.add(Op{
			Verb: "token", Kind: "serviceaccounts", Method: "POST", Path: "/api/v1/namespaces/${ns}/serviceaccounts/" + pick(g, "sa", "sa", "sa", "none") + "/token", Type: jsonType,
			Body: asJSON(map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}),
		})
		g.add(Op{
			Verb: "create", Kind: "tokenreviews.authentication.k8s.io", Method: "POST", Path: "/apis/authentication.k8s.io/v1/tokenreviews", Type: jsonType,
			Body: asJSON(map[string]any{"spec": map[string]any{"token": fmt.Sprintf("${%d.status.token}", id)}}),
		})
	}
}

// namespaces is about how namespaces live and end.
func (g *gen) namespaces() {
	ns := builtinKind("namespaces")
	c := g.cast(ns, "n")
	cm := builtinKind("configmaps")
	inside := func() {
		op := Op{Verb: "create", Kind: cm.id(), Method: "POST", Path: cm.pathIn("${ns}-n"), Type: jsonType, Body: asJSON(map[string]any{"metadata": map[string]any{"name": "c"}})}
		g.add(op)
	}
	c.watch()
	inside()
	c.create("n", true)
	inside()
	for range 14 {
		switch g.r.IntN(9) {
		case 0:
			c.remove("n")
		case 1:
			inside()
		case 2:
			from := c.last["n"]
			op := c.op("finalize", "PUT", c.item("n")+"/finalize"+pick(g, "", "?dryRun=All"))
			op.Type, op.From, op.Edit = jsonType, from, merged(map[string]any{"spec": map[string]any{"finalizers": pick(g, []any{}, []any{}, []any{"kubernetes"}, []any{"bad"})}})
			g.add(op)
		case 3:
			c.sub("n")
		case 4:
			c.update("n")
		case 5:
			c.patch("n")
		case 6:
			g.add(Op{Verb: "get", Kind: cm.id(), Path: cm.pathIn("${ns}-n") + "/c"})
		case 7:
			c.create("n", g.chance(60))
		default:
			c.get("n")
		}
	}
	g.add(Op{Verb: "delete", Kind: ns.id(), Method: "DELETE", Path: "/api/v1/namespaces/" + pick(g, "default", "kube-system", "kube-public", "none-such")})
	g.add(Op{Verb: "deletecollection", Kind: ns.id(), Method: "DELETE", Path: "/api/v1/namespaces?labelSelector=nothing%3Dnowhere"})
}

// reviews asks what is asked with objects that are not stored.
func (g *gen) reviews() {
	attrs := func() map[string]any {
		return map[string]any{"namespace": "${ns}", "verb": pick(g, "get", "create", "*", ""), "resource": pick(g, "pods", "secrets", "*"), "group": pick(g, "", "apps", "*")}
	}
	for range 14 {
		spec := map[string]any{}
		var path string
		switch g.r.IntN(6) {
		case 0:
			path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
			spec["resourceAttributes"] = attrs()
		case 1:
			path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
			spec["resourceAttributes"] = attrs()
			spec["user"] = pick(g, "alice", "", "kubernetes-admin", "system:serviceaccount:${ns}:sa")
			spec["groups"] = pick(g, []any{"system:masters"}, []any{"system:masters"}, []any{"devs"})
		case 2:
			path = "/apis/authorization.k8s.io/v1/namespaces/" + pick(g, "${ns}", "${ns}", "other") + "/localsubjectaccessreviews"
			spec["resourceAttributes"], spec["user"], spec["groups"] = attrs(), "bob", []any{"system:masters"}
		case 3:
			path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
			spec["namespace"] = pick(g, "${ns}", "")
		case 4:
			path = "/apis/authentication.k8s.io/v1/tokenreviews"
			spec["token"] = pick(g, "nonsense", "", "a.b.c")
		default:
			path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
		}
		if strings.Contains(path, "accessreviews") && g.chance(20) {
			spec["nonResourceAttributes"] = map[string]any{"path": "/x", "verb": "get"}
			if g.chance(60) {
				delete(spec, "resourceAttributes")
			}
		}
		if g.chance(8) {
			spec["unknown"] = 1
		}
		kind := path[strings.LastIndex(path, "/")+1:] + "." + strings.Split(path, "/")[2]
		op := Op{Verb: "create", Kind: kind, Method: "POST", Path: path + g.writeOptions(), Type: jsonType, Accept: g.accept(false), Body: asJSON(map[string]any{"spec": spec})}
		if g.chance(5) {
			op.Method, op.Body = "GET", ""
		}
		g.add(op)
	}
}

// policies is about ValidatingAdmissionPolicy and MutatingAdmissionPolicy, from when they take effect.
func (g *gen) policies() {
	match := map[string]any{
		"namespaceSelector": map[string]any{"matchLabels": map[string]any{"seq": "${ns}"}},
		"resourceRules":     []any{map[string]any{"apiGroups": []any{""}, "apiVersions": []any{"v1"}, "operations": []any{"CREATE", "UPDATE", "DELETE"}, "resources": []any{"configmaps"}}},
	}
	validation := pick(g,
		map[string]any{"expression": "object == null || !has(object.data) || !('bad' in object.data)", "message": "bad is bad", "reason": pick(g, "Invalid", "Forbidden", "Unauthorized")},
		map[string]any{"expression": "object == null || !has(object.data) || !('bad' in object.data)", "messageExpression": "'no ' + object.metadata.name"},
		map[string]any{"expression": "request.operation == 'DELETE' || !has(object.data) || !('bad' in object.data)"},
	)
	const group = "/apis/admissionregistration.k8s.io/v1/"
	actions := pick(g, []any{"Deny"}, []any{"Deny"}, []any{"Warn"}, []any{"Deny", "Audit"})
	g.post("validatingadmissionpolicies.admissionregistration.k8s.io", group+"validatingadmissionpolicies", map[string]any{
		"metadata": map[string]any{"name": "${ns}-v"},
		"spec": map[string]any{
			"matchConstraints": match, "validations": []any{validation}, "failurePolicy": pick(g, "Fail", "Ignore"),
			"matchConditions": []any{map[string]any{"name": "c", "expression": "!has(request.name) || request.name != 'free'"}},
		},
	})
	g.post("validatingadmissionpolicybindings.admissionregistration.k8s.io", group+"validatingadmissionpolicybindings", map[string]any{
		"metadata": map[string]any{"name": "${ns}-v"}, "spec": map[string]any{"policyName": "${ns}-v", "validationActions": actions},
	})
	mutates := g.chance(60)
	if mutates {
		g.post("mutatingadmissionpolicies.admissionregistration.k8s.io", group+"mutatingadmissionpolicies", map[string]any{
			"metadata": map[string]any{"name": "${ns}-m"},
			"spec": map[string]any{
				"matchConstraints":   merge(clone(match), map[string]any{"resourceRules": []any{map[string]any{"apiGroups": []any{""}, "apiVersions": []any{"v1"}, "operations": []any{"CREATE"}, "resources": []any{"configmaps"}}}}),
				"reinvocationPolicy": "Never", "failurePolicy": "Fail",
				"mutations": []any{pick(g,
					map[string]any{"patchType": "ApplyConfiguration", "applyConfiguration": map[string]any{"expression": "Object{metadata: Object.metadata{labels: {'mutated': 'yes'}}}"}},
					map[string]any{"patchType": "JSONPatch", "jsonPatch": map[string]any{"expression": "[JSONPatch{op: 'add', path: '/metadata/annotations', value: {'mutated': 'yes'}}]"}},
				)},
			},
		})
		g.post("mutatingadmissionpolicybindings.admissionregistration.k8s.io", group+"mutatingadmissionpolicybindings", map[string]any{
			"metadata": map[string]any{"name": "${ns}-m"}, "spec": map[string]any{"policyName": "${ns}-m"},
		})
	}
	k := builtinKind("configmaps")
	try := func(name string) Op {
		return Op{Verb: "await", Kind: k.id(), Do: Await, Method: "POST", Path: k.path() + "?dryRun=All", Type: jsonType, Body: asJSON(map[string]any{"metadata": map[string]any{"name": name}, "data": map[string]any{"bad": "1"}})}
	}
	if actions[0] == "Deny" {
		op := try("probe")
		op.Until, op.Has = 422, "ValidatingAdmissionPolicy"
		if r := validation["reason"]; r == "Forbidden" {
			op.Until = 403
		} else if r == "Unauthorized" {
			op.Until = 401
		}
		g.add(op)
	}
	if mutates {
		op := try("free")
		op.Until, op.Has = 201, "mutated"
		g.add(op)
	}
	if actions[0] != "Deny" {
		// A warning is in no answer's body, so one cannot wait for it: ask for the binding's propagation by
		// way of a policy that denies.
		return
	}
	c := g.cast(k, "a", "free")
	for range 10 {
		name := c.some()
		switch g.r.IntN(5) {
		case 0, 1:
			op := c.op("create", "POST", k.path())
			name = c.free()
			op.Type, op.Body = jsonType, asJSON(merge(k.object(name), map[string]any{"data": pick(g, map[string]any{"bad": "1"}, map[string]any{"good": "1"}, map[string]any{"good": "2"})}))
			c.there[name] = true
			c.note(name, g.add(op))
		case 2:
			op := c.op("patch", "PATCH", c.item(name))
			op.Type, op.Body = mergePatch, asJSON(map[string]any{"data": map[string]any{pick(g, "bad", "good"): "2"}})
			c.note(name, g.add(op))
		case 3:
			c.remove(name)
		default:
			c.apply(name, "one", g.chance(50))
		}
	}
}

// limits is about LimitRange, ResourceQuota, PriorityClass and other admission that rests on objects.
func (g *gen) limits() {
	pods := builtinKind("pods")
	c := g.cast(pods, "a", "b")
	g.post("limitranges", builtinKind("limitranges").path(), builtinKind("limitranges").object("l"))
	g.post("priorityclasses.scheduling.k8s.io", builtinKind("priorityclasses").path(), builtinKind("priorityclasses").object("p"))
	probe := func(body map[string]any, code int, has string) {
		g.add(Op{
			Verb: "await", Kind: pods.id(), Do: Await, Method: "POST", Path: pods.path() + "?dryRun=All", Type: jsonType,
			Body: asJSON(merge(pods.object("probe"), body)), Until: code, Has: has,
		})
	}
	probe(map[string]any{"spec": map[string]any{"priorityClassName": "${ns}-p"}}, 201, "500m")
	for range 10 {
		name := c.free()
		op := c.op("create", "POST", pods.path()+pick(g, "", "", "?dryRun=All"))
		op.Type, op.Body = jsonType, asJSON(merge(pods.object(name), map[string]any{"spec": map[string]any{
			"priorityClassName": pick(g, "", "", "${ns}-p", "${ns}-p", "none-such", "system-cluster-critical"),
			"containers": []any{map[string]any{"name": "c", "image": "i", "resources": pick(g,
				map[string]any{}, map[string]any{"limits": map[string]any{"cpu": "8"}}, map[string]any{"requests": map[string]any{"cpu": "1"}}, map[string]any{"limits": map[string]any{"cpu": "2"}})}},
		}}))
		c.note(name, g.add(op))
		if g.chance(60) {
			op := c.op("delete", "DELETE", c.item(name))
			g.add(op)
		}
	}
	g.post("resourcequotas", builtinKind("resourcequotas").path(), builtinKind("resourcequotas").object("q"))
	c.get("a")
	g.add(Op{Verb: "get", Kind: "resourcequotas", Path: builtinKind("resourcequotas").path() + "/q"})
}

// permissions is about what a user who is not an administrator may do.
func (g *gen) permissions() {
	user := map[string]string{"Impersonate-User": "alice-${ns}"}
	cm := builtinKind("configmaps")
	as := func(op Op) int { op.Header = user; return g.add(op) }
	as(Op{Verb: "get", Kind: cm.id(), Path: cm.path() + "/a"})
	as(Op{Verb: "list", Kind: cm.id(), Path: cm.all()})
	as(Op{Verb: "get", Kind: "discovery", Path: pick(g, "/version", "/healthz", "/metrics", "/api", "/openapi/v3", "/nothing")})
	verbs := pick(g, []any{"get", "list"}, []any{"create", "get"}, []any{"*"})
	g.post("roles.rbac.authorization.k8s.io", builtinKind("roles").path(), map[string]any{
		"metadata": map[string]any{"name": "r"},
		"rules":    []any{map[string]any{"apiGroups": []any{""}, "resources": []any{"configmaps"}, "verbs": verbs}},
	})
	g.post("rolebindings.rbac.authorization.k8s.io", builtinKind("rolebindings").path(), map[string]any{
		"metadata": map[string]any{"name": "r"},
		"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
		"subjects": []any{map[string]any{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "alice-${ns}"}},
	})
	g.add(Op{Verb: "await", Kind: cm.id(), Do: Await, Path: cm.path() + "/none", Header: user, Until: 404, Has: "NotFound"})
	c := g.cast(cm, "a", "b")
	for range 10 {
		before := len(g.ops)
		c.step()
		for _, op := range g.ops[before:] {
			op.Header = user
		}
	}
	as(Op{
		Verb: "create", Kind: "roles.rbac.authorization.k8s.io", Method: "POST", Path: builtinKind("roles").path(), Type: jsonType,
		Body: asJSON(map[string]any{"metadata": map[string]any{"name": "more"}, "rules": []any{map[string]any{"apiGroups": []any{"*"}, "resources": []any{"*"}, "verbs": []any{"*"}}}}),
	})
	as(Op{
		Verb: "create", Kind: "selfsubjectaccessreviews.authorization.k8s.io", Method: "POST", Path: "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", Type: jsonType,
		Body: asJSON(map[string]any{"spec": map[string]any{"resourceAttributes": map[string]any{"namespace": "${ns}", "verb": pick(g, "get", "delete"), "resource": "configmaps"}}}),
	})
	as(Op{Verb: "create", Kind: "selfsubjectreviews.authentication.k8s.io", Method: "POST", Path: "/apis/authentication.k8s.io/v1/selfsubjectreviews", Type: jsonType, Body: "{}"})
}

// hostile sends what no friendly client sends.
func (g *gen) hostile() {
	k := pick(g, builtinKind("configmaps"), builtinKind("configmaps"), builtinKind("pods"), builtinKind("deployments"))
	if g.chance(30) {
		k = g.define()
	}
	c := g.cast(k, "a")
	c.create("a", true)
	obj := func(more string) string {
		s := asJSON(k.object("h"))
		return s[:len(s)-1] + more + "}"
	}
	for range 16 {
		op := c.op("create", "POST", k.path())
		op.Type = jsonType
		switch g.r.IntN(16) {
		case 0:
			op.Body = pick(g, "", "{", "}", "[]", "null", "1", `"x"`, "{}", `{"kind":1}`, `{"metadata":[]}`, `{"a":1}{"b":2}`, "\x00", "\xff\xfe", `{"apiVersion":"v1"}`, "<x/>", "{]")
		case 1:
			op.Body = obj(`,"deep":${nest:` + pick(g, "100", "10001", "100000") + `}`)
		case 2:
			op.Body = "${nest:" + pick(g, "50", "9000", "20000") + "}"
		case 3:
			op.Body = obj(`,"data":{"k":"${fill:` + pick(g, "1000000", "1100000", "1600000", "3145728", "3200000") + `}"}`)
		case 4:
			op.Body = obj(`,"x":"${fill:3145728}"`)
			op.Type = pick(g, jsonType, yamlType, protobufType)
		case 5:
			op.Path += "?fieldValidation=Strict"
			op.Body = obj(pick(g, `,"unknown":1`, `,"kind":"Twice"`, `,"spec":{},"spec":{}`, `,"metadata":{"name":"dup"}`, `,"unknown":{"deep":[{"er":1}]}`))
		case 6:
			op.Path += pick(g, "", "?fieldValidation=Warn")
			op.Body = obj(pick(g, `,"unknown":1,"more":2`, `,"kind":"Twice"`, `,"Metadata":{"name":"case"}`))
		case 7:
			op.Type = pick(g, "text/plain", "application/xml", "application/json; charset=latin1", "application/json;", ";", "application/cbor", protobufType, yamlType, "multipart/form-data", mergePatch)
			op.Body = obj("")
		case 8:
			op.Method, op.Path, op.Body = pick(g, "PUT", "PATCH", "HEAD", "OPTIONS", "TRACE", "BREW"), pick(g, k.path(), k.path()+"/a", k.path()+"/a/status", "/api/v1"), ""
			op.Verb = "other"
		case 9:
			op.Method, op.Path = pick(g, "POST", "PUT", "GET", "DELETE"), pick(g,
				k.path()+"/a/nothing", k.path()+"/a/b/c", k.path()+"/", k.path()+"//a", k.path()+"/%2e%2e", k.path()+"/a%2Fb", k.path()+"/"+strings.Repeat("n", 300),
				k.pathIn("Bad_Name"), k.pathIn("none-such"), k.root()+"/namespaces//"+k.Plural, k.path()+"/a?", k.path()+"/%00")
			op.Body = obj("")
			op.Verb = "other"
			if op.Method == "GET" && !strings.Contains(op.Path, "?") {
				op.Path += "?labelSelector=seq%3D${ns}" // some of them mean all namespaces
			}
		case 10:
			op.Method, op.Path, op.Body, op.Verb = "GET", k.path()+"?"+g.badQuery()+pick(g, "", "&"+g.badQuery()), "", "list"
		case 11:
			op.Method, op.Path, op.Verb = "PATCH", k.path()+"/a", "patch"
			op.Type = pick(g, jsonPatch, mergePatch, strategicPatch, applyPatch, "application/json")
			op.Body = pick(g, "", "{", "[]", "null", "[{}]", `[{"op":"add"}]`, `{"a":${nest:12000}}`, "[${nest:12000}", `{"metadata":"x"}`, `{"metadata":{"labels":{"a":1}}}`,
				"["+strings.Repeat(`{"op":"test","path":"/kind","value":1},`, 10000)+`{"op":"test","path":"/kind","value":1}]`, "a: b: c", "- x", "\t", "apiVersion: v1\nkind: ConfigMap")
			if op.Type == applyPatch {
				op.Path += pick(g, "?fieldManager=m", "")
			}
		case 12:
			op.Body = strings.Replace(asJSON(k.object("h")), `"kind":"`, pick(g, `"kind":"X`, `"kind":"List`, `"Kind":"`), 1)
		case 13:
			op.Body = strings.Replace(asJSON(k.object("h")), `"apiVersion":"`, pick(g, `"apiVersion":"x/`, `"apiVersion":"v9`, `"ApiVersion":"`), 1)
		case 14:
			op.As = "slow"
			op.Body = pick(g, obj(""), obj(`,"x":"${fill:200000}"`), "{")
		default:
			op.Accept = pick(g, "text/html", "nonsense", "application/json;as=Table", "application/json;as=Table;v=v1;g=meta.k8s.io", "application/yaml;as=Table;v=v1;g=meta.k8s.io", ",", "*/*;q=0", "application/json;v=v9")
			op.Method, op.Body, op.Verb = "GET", "", "list"
		}
		g.add(op)
	}
	g.hostileHeaders(c)
	c.get("a")
}

func (g *gen) hostileHeaders(c *cast) {
	for range 3 {
		op := c.op("get", "GET", c.item("a"))
		op.Header = pick(g,
			map[string]string{"X-Long": strings.Repeat("h", 8000)},
			map[string]string{"Accept-Encoding": "gzip"},
			map[string]string{"Origin": "https://example.com"},
			map[string]string{"Authorization": "Bearer nonsense"},
			map[string]string{"Impersonate-Group": "g"},
			map[string]string{"Impersonate-User": ""},
			map[string]string{"If-None-Match": `"x"`},
			map[string]string{"Range": "bytes=0-5"},
			map[string]string{"Expect": "100-continue"},
			map[string]string{"Content-Encoding": "gzip"},
			map[string]string{"Upgrade": "websocket", "Connection": "Upgrade"},
		)
		g.add(op)
	}
}
