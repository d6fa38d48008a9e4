package conformance

import (
	"encoding/json"
	"fmt"
	"strings"
)

// list is a list in one of its many ways.
func (c *cast) list() int {
	g := c.g
	path := c.k.path()
	if g.chance(20) {
		path = c.k.all()
	}
	op := c.op("list", "GET", path)
	op.Accept = g.accept(true)
	q := []string{"labelSelector=" + c.selector()}
	if !c.k.Cluster && path == c.k.path() && g.chance(60) {
		q = nil
	}
	if g.chance(25) {
		q = append(q, "fieldSelector="+g.fieldSelector(c))
	}
	if g.chance(35) {
		q = append(q, "limit="+g.seldom("-1", "1", "2", "500", "0"))
	}
	if g.chance(40) {
		q = append(q, c.staleness(&op)...)
	}
	if g.chance(2) {
		q = append(q, g.badQuery())
	}
	op.Path += query(q)
	return g.add(op)
}

func (g *gen) fieldSelector(c *cast) string {
	of := []string{
		"metadata.name%3D" + c.k.named(pick(g, c.names...)), "metadata.name%21%3D" + c.k.named(pick(g, c.names...)),
		"metadata.namespace%3D${ns}", "metadata.name%3Dnone%2Cmetadata.namespace%3D${ns}",
	}
	for _, f := range c.k.Fields {
		of = append(of, strings.Replace(f, "=", pick(g, "%3D", "%21%3D"), 1))
	}
	return g.seldom(pick(g, "spec.unknown%3D1", "a", "metadata.name%3D%3D", "metadata.labels%3Dx"), of...)
}

// staleness is resourceVersion and resourceVersionMatch, in legal and other combinations.
func (c *cast) staleness(op *Op) []string {
	g := c.g
	op.Settle = c.k.path()
	version := g.seldom(pick(g, "x", "99999999999"), "0", "0", c.version(), c.version(), c.version())
	if version == "99999999999" && g.chance(70) {
		version = "0" // a real server takes three seconds to say no
	}
	q := []string{"resourceVersion=" + version}
	switch {
	case g.chance(5):
		q = append(q, "resourceVersionMatch="+pick(g, "Exact", "Nearly"))
	case g.chance(30):
		q = append(q, "resourceVersionMatch=NotOlderThan")
	case version != "0" && g.chance(50):
		q = append(q, "resourceVersionMatch=Exact")
	}
	return q
}

func (g *gen) badQuery() string {
	return pick(g, "limit=x", "continue=nonsense", "labelSelector=%21%21", "labelSelector=a+in+b", "fieldSelector=%3D%3D",
		"timeoutSeconds=x", "timeoutSeconds=-5", "resourceVersion=-1", "sendInitialEvents=true", "sendInitialEvents=x", "allowWatchBookmarks=x",
		"unknown=1", "pretty=1", "includeObject=None", "includeObject=Nothing", "resourceVersionMatch=Exact", "limit=1&limit=2",
		"continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MCwic3RhcnQiOiJhXHUwMDAwIn0", "continue=eyJ2IjoibWV0YS5rOHMuaW8vdjkiLCJydiI6Nywic3RhcnQiOiJhXHUwMDAwIn0", "continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6Nywic3RhcnQiOiIuLi9hXHUwMDAwIn0&resourceVersion=5", "shardSelector=x")
}

// watch opens a watch that sees what the rest of the sequence does.
func (c *cast) watch() int {
	g := c.g
	op := c.op("watch", "GET", c.k.path())
	op.Do, op.Settle = Watch, c.k.path()
	q := []string{"watch=" + pick(g, "true", "true", "1", "perhaps")}
	switch n := g.r.IntN(10); {
	case n < 2:
		op.Path = c.k.all()
		q = append(q, "labelSelector="+c.selector())
	case n < 4 || c.k.Cluster:
		q = append(q, "labelSelector="+c.selector())
	case n < 5:
		q = append(q, "fieldSelector=metadata.name%3D"+c.k.named(pick(g, c.names...)))
	}
	if g.chance(10) && c.k.path() == op.Path {
		q = append(q, "fieldSelector="+g.fieldSelector(c))
	}
	n := g.r.IntN(8)
	if c.k.Plural == "events" {
		// They are in no watch cache: one that begins now begins some time after its answer.
		n = pick(g, 2, 4, 4)
		if c.any == 0 {
			n = 4
		}
	}
	switch n {
	case 0, 1:
		q = append(q, "resourceVersion=0")
	case 2, 3:
		q = append(q, "resourceVersion="+c.version())
	case 4:
		q = append(q, "sendInitialEvents=true", "resourceVersionMatch=NotOlderThan", "allowWatchBookmarks=true")
		if g.chance(50) {
			q = append(q, "resourceVersion="+pick(g, "0", "", c.version()))
		}
	case 5:
		if g.chance(50) {
			break
		}
		q = append(q, pick(g, c.ancient(), "resourceVersion=x", "sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion=0",
			"sendInitialEvents=true", "resourceVersionMatch=Exact&resourceVersion=0", "sendInitialEvents=true&resourceVersionMatch=NotOlderThan"))
	}
	if g.chance(30) {
		q = append(q, "allowWatchBookmarks=true")
	}
	if g.chance(5) {
		q = append(q, "timeoutSeconds="+pick(g, "x", "3600", "600"))
	}
	if g.chance(25) {
		op.Accept = pick(g, protobufType, "application/json;as=Table;v=v1;g=meta.k8s.io", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
			"application/json;stream=watch", yamlType, "application/vnd.kubernetes.protobuf;stream=watch", "application/cbor-seq")
	}
	op.Path += query(q)
	return g.add(op)
}

// ancient is a version from before a watch can begin. The real server's caches of built-in kinds began with
// the server, those of custom kinds when they were defined.
func (c *cast) ancient() string {
	if c.k.change == nil {
		return "resourceVersion=00"
	}
	return "resourceVersion=1"
}

// lists fills a collection and reads it in pages, while it changes.
func (g *gen) lists() {
	k := pick(g, builtinKind("configmaps"), builtinKind("secrets"), builtinKind("pods"), builtinKind("leases"), builtinKind("services"), builtinKind("deployments"))
	c := g.cast(k, "a", "b", "c", "d", "e", "f", "g")
	for _, n := range c.names {
		c.create(n, true)
	}
	for range 2 {
		size := 1 + g.r.IntN(4)
		path := k.path() + "?limit=" + fmt.Sprint(size)
		if g.chance(50) {
			path += "&labelSelector=" + c.selector()
		}
		if g.chance(20) {
			path += "&fieldSelector=" + g.fieldSelector(c)
		}
		first := c.op("list", "GET", path)
		last := g.add(first)
		for range 4 {
			if g.chance(40) {
				pick(g, func() { c.update(c.some()) }, func() { c.remove(c.some()) }, func() { c.create(c.free(), true) })()
			}
			next := c.op("list", "GET", path+fmt.Sprintf("&continue=${%d.metadata.continue}", last))
			if g.chance(6) {
				next.Path += "&resourceVersion=" + c.version()
			}
			last = g.add(next)
		}
	}
	for range 8 {
		c.list()
	}
}

// watches opens several watches and changes what they select.
func (g *gen) watches() {
	k := pick(g, builtinKind("configmaps"), builtinKind("pods"), builtinKind("services"), builtinKind("deployments"),
		builtinKind("jobs"), builtinKind("leases"), builtinKind("namespaces"), builtinKind("persistentvolumes"))
	c := g.cast(k, "a", "b", "c")
	c.create("a", true)
	for range 2 + g.r.IntN(3) {
		c.watch()
	}
	for range 14 {
		switch n := g.r.IntN(10); {
		case n < 3:
			c.create(c.free(), true)
		case n < 5:
			// In and out of what selectors select.
			name := c.some()
			op := c.op("patch", "PATCH", c.item(name))
			op.Type = mergePatch
			op.Body = asJSON(pick(g,
				map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": pick(g, c.names...)}}},
				map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": nil}}},
				map[string]any{"metadata": map[string]any{"labels": map[string]any{"seq": "${ns}", "app": name}}},
				map[string]any{"metadata": map[string]any{"finalizers": []any{"example.com/a"}}},
				map[string]any{"metadata": map[string]any{"finalizers": nil}},
			))
			c.note(name, g.add(op))
		case n < 7:
			c.update(c.some())
		case n < 9:
			c.remove(c.some())
		default:
			c.watch()
		}
	}
	c.removeAll()
}

// applies is server-side apply by several managers.
func (g *gen) applies() {
	k := pick(g, builtinKind("deployments"), builtinKind("configmaps"), builtinKind("services"), builtinKind("pods"), builtinKind("ingresses"),
		builtinKind("serviceaccounts"), builtinKind("statefulsets"), builtinKind("roles"))
	if g.chance(40) {
		k = g.define()
	}
	c := g.cast(k, "a", "b")
	for range 16 {
		name := c.some()
		switch n := g.r.IntN(10); {
		case n < 6:
			c.apply(name, pick(g, "one", "two", "three"), g.chance(30))
		case n < 7:
			c.update(name)
		case n < 8:
			c.patch(name)
		case n < 9 && len(k.Subs) > 0:
			c.sub(name)
		default:
			// Give up all that one manager owns.
			op := c.op("apply", "PATCH", c.item(name)+"?fieldManager="+pick(g, "one", "two"))
			op.Type = applyPatch
			op.Body = asJSON(map[string]any{"apiVersion": k.APIVersion, "kind": k.Kind, "metadata": map[string]any{"name": k.named(name)}})
			c.note(name, g.add(op))
		}
	}
}

// deletions is about finalizers, grace and what is left of an object in between.
func (g *gen) deletions() {
	k := pick(g, builtinKind("pods"), builtinKind("configmaps"), builtinKind("deployments"), builtinKind("persistentvolumeclaims"), builtinKind("jobs"), builtinKind("replicationcontrollers"))
	if g.chance(30) {
		k = g.define()
	}
	c := g.cast(k, "a", "b")
	c.watch()
	for range 4 {
		name := c.free()
		op := c.op("create", "POST", k.path())
		obj := k.object(name)
		if g.chance(60) {
			merge(obj, map[string]any{"metadata": map[string]any{"finalizers": []any{"example.com/hold"}}})
		}
		if k.Kind == "Pod" && g.chance(60) {
			merge(obj, map[string]any{"spec": map[string]any{"nodeName": "node-1", "terminationGracePeriodSeconds": pick(g, 0, 1, 30, 600)}})
		}
		op.Type, op.Body = jsonType, asJSON(obj)
		c.note(name, g.add(op))
		c.there[name] = true
		c.remove(name)
		for range 1 + g.r.IntN(3) {
			switch g.r.IntN(5) {
			case 0:
				c.remove(name)
			case 1:
				c.update(name)
			case 2:
				c.get(name)
			default:
				op := c.op("patch", "PATCH", c.item(name))
				op.Type, op.Body = mergePatch, asJSON(pick(g,
					map[string]any{"metadata": map[string]any{"finalizers": nil}},
					map[string]any{"metadata": map[string]any{"finalizers": []any{"example.com/hold", "example.com/more"}}},
					map[string]any{"metadata": map[string]any{"finalizers": []any{"foregroundDeletion"}}},
					map[string]any{"metadata": map[string]any{"deletionTimestamp": nil}},
					map[string]any{"metadata": map[string]any{"labels": map[string]any{"x": "y"}}},
				))
				c.note(name, g.add(op))
			}
		}
	}
	c.list()
	c.removeAll()
	c.list()
}

// discovery asks what there is.
func (g *gen) discovery() {
	paths := []string{
		"/api", "/apis", "/api/v1", "/apis/apps", "/apis/apps/v1", "/apis/batch/v1", "/apis/rbac.authorization.k8s.io/v1", "/apis/autoscaling/v2",
		"/apis/networking.k8s.io/v1", "/apis/policy/v1", "/apis/storage.k8s.io/v1", "/apis/events.k8s.io/v1", "/apis/coordination.k8s.io/v1",
		"/apis/discovery.k8s.io/v1", "/apis/node.k8s.io/v1", "/apis/scheduling.k8s.io/v1", "/apis/certificates.k8s.io/v1", "/apis/resource.k8s.io/v1",
		"/apis/flowcontrol.apiserver.k8s.io/v1", "/apis/authentication.k8s.io/v1", "/apis/authorization.k8s.io/v1", "/apis/apiextensions.k8s.io/v1",
		"/apis/apiregistration.k8s.io/v1", "/apis/admissionregistration.k8s.io/v1", "/apis/extensions/v1beta1", "/apis/policy/v1beta1", "/apis/nothing.example.com",
		"/apis/apps/v9", "/version", "/healthz", "/livez", "/readyz", "/healthz/ping", "/", "/nothing", "/openapi/v3", "/openapi/v2", "/api/v2", "/apis/", "/api/",
		"/openapi/v3/api/v1", "/openapi/v3/apis/apps/v1", "/openapi/v3/apis/batch/v1", "/openapi/v3/apis/nothing/v1", "/openapi/v3/version",
		"/.well-known/openid-configuration", "/openid/v1/jwks", "/logs", "/debug/pprof", "/swagger.json", "/swaggerapi",
	}
	for range 16 {
		p := pick(g, paths...)
		op := Op{Verb: "get", Kind: "discovery", Path: p}
		switch {
		case (p == "/api" || p == "/apis") && g.chance(60):
			op.Accept = pick(g, "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
				"application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json",
				"application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList;profile=nopeer,application/json")
		case strings.HasPrefix(p, "/openapi"):
			op.Accept = pick(g, "", "", "application/json", "text/html")
		case g.chance(20):
			op.Accept = pick(g, forms...)
		}
		if g.chance(8) {
			op.Method = pick(g, "HEAD", "OPTIONS", "POST", "DELETE")
		}
		g.add(op)
	}
}

// aggregation is about APIServices, in dry runs: one that stays would be found unavailable by a controller of the real server's.
func (g *gen) aggregation() {
	const path, kindName = "/apis/apiregistration.k8s.io/v1/apiservices", "apiservices.apiregistration.k8s.io"
	for range 10 {
		spec := map[string]any{"group": "${ns}.example.org", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 15}
		if g.chance(70) {
			spec["service"] = map[string]any{"name": "none", "namespace": "${ns}"}
			spec["insecureSkipTLSVerify"] = true
		}
		if g.chance(40) {
			merge(spec, pick(g,
				map[string]any{"groupPriorityMinimum": -1}, map[string]any{"versionPriority": 0}, map[string]any{"version": "Bad_Version"}, map[string]any{"group": ""},
				map[string]any{"service": map[string]any{"name": "", "namespace": "${ns}"}}, map[string]any{"caBundle": "bm9uc2Vuc2U="}, map[string]any{"unknown": 1},
				map[string]any{"service": map[string]any{"name": "n", "namespace": "${ns}", "port": 70000}}, map[string]any{"insecureSkipTLSVerify": "x"}))
		}
		name := g.seldom("other", "v1.${ns}.example.org")
		op := Op{Verb: "create", Kind: kindName, Method: "POST", Path: path + "?dryRun=All", Type: jsonType, Accept: g.accept(false)}
		obj := map[string]any{"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": name}, "spec": spec}
		switch g.r.IntN(6) {
		case 0:
			op.Verb, op.Method, op.Type, op.Path = "apply", "PATCH", applyPatch, path+"/"+name+"?dryRun=All&fieldManager=one"
		case 1:
			op.Verb, op.Method, op.Type, obj, op.Path = "get", "GET", "", nil, path+pick(g, "/"+name, "/"+name+"/status", "?fieldSelector=metadata.name%3D"+name, "?labelSelector=seq%3D${ns}")
		}
		if obj != nil {
			op.Body = asJSON(obj)
		}
		g.add(op)
	}
}

// merged is an edit of what an operation was answered.
func merged(edit map[string]any) json.RawMessage { return json.RawMessage(asJSON(edit)) }
