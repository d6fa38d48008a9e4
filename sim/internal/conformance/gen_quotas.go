package conformance

import "fmt"

// Nothing may be created of what the sentry counts: so one sees that a quota's status has reached admission, and by
// its usage which status.
const sentry = "count/leases.coordination.k8s.io"

// quotas is about ResourceQuota. There is no controller that would count: the sequence itself writes what is used into
// the status, and admission counts on from there.
func (g *gen) quotas() {
	q := g.cast(builtinKind("resourcequotas"), "q")
	if g.chance(40) {
		// One with a scope counts pods only. It is told of first, so it is known when the other is.
		scoped := g.quota("s", map[string]any{"pods": fmt.Sprint(g.r.IntN(3))})
		scoped["spec"].(map[string]any)["scopes"] = []any{pick(g, "BestEffort", "NotBestEffort", "Terminating", "NotTerminating")}
		g.enforce(scoped, 0)
	}
	all := map[string]string{
		"configmaps": "3", "count/configmaps": "2", "pods": "2", "requests.cpu": "1", "limits.memory": "1Gi", "services": "2", "services.nodeports": "1",
		"persistentvolumeclaims": "1", "requests.storage": "3Gi", "secrets": "1", "count/deployments.apps": "1", "services.loadbalancers": "0",
	}
	hard := map[string]any{sentry: "0"}
	for _, name := range keys(all) {
		if g.chance(30) {
			hard[name] = all[name]
		}
	}
	quota := g.quota("q", hard)
	g.enforce(quota, 0)
	var casts []*cast
	for _, plural := range []string{"configmaps", "pods", "services", "persistentvolumeclaims", "secrets", "deployments"} {
		casts = append(casts, g.cast(builtinKind(plural), "a", "b", "c"))
	}
	for i := range 16 {
		c := pick(g, casts...)
		switch n := g.r.IntN(10); {
		case n < 4:
			c.create(c.free(), g.chance(85))
		case n < 5:
			c.createSized(c.free())
		case n < 6:
			c.remove(c.some())
		case n < 7:
			c.update(c.some())
		case n < 8:
			q.get("q")
		case n < 9:
			g.status(quota, i+1)
		default:
			c.patch(c.some())
		}
	}
	q.get("q")
}

// quota is a ResourceQuota.
func (g *gen) quota(name string, hard map[string]any) map[string]any {
	obj := builtinKind("resourcequotas").object(name)
	obj["spec"] = map[string]any{"hard": hard}
	return obj
}

// enforce creates a quota and tells what is used.
func (g *gen) enforce(quota map[string]any, stamp int) {
	g.post("resourcequotas", builtinKind("resourcequotas").path(), quota)
	g.status(quota, stamp)
}

// status writes that nothing is used, but as many as STAMP of what the sentry counts, and waits until that is known.
func (g *gen) status(quota map[string]any, stamp int) {
	k, name := builtinKind("resourcequotas"), quota["metadata"].(map[string]any)["name"].(string)
	hard := quota["spec"].(map[string]any)["hard"].(map[string]any)
	used := map[string]any{}
	for resource := range hard {
		used[resource] = "0"
	}
	if _, ok := hard[sentry]; ok {
		used[sentry] = fmt.Sprint(stamp)
	}
	g.add(Op{Verb: "status", Kind: k.id(), Method: "PATCH", Path: k.path() + "/" + name + "/status", Type: mergePatch, Body: asJSON(map[string]any{
		"status": map[string]any{"hard": hard, "used": used},
	})})
	if _, ok := hard[sentry]; !ok {
		return
	}
	lease := builtinKind("leases")
	g.add(Op{
		Verb: "await", Kind: lease.id(), Do: Await, Method: "POST", Path: lease.path() + "?dryRun=All", Type: jsonType, Body: asJSON(lease.object("probe")),
		Until: 403, Has: fmt.Sprintf("used: %s=%d", sentry, stamp),
	})
}

// createSized creates a pod that says what it needs, or what else uses something that quotas count.
func (c *cast) createSized(name string) {
	g, op := c.g, c.op("create", "POST", c.k.path())
	obj := c.k.object(name)
	switch c.k.Kind {
	case "Pod":
		obj["spec"].(map[string]any)["containers"].([]any)[0].(map[string]any)["resources"] = map[string]any{
			"requests": map[string]any{"cpu": pick(g, "500m", "600m", "2")}, "limits": map[string]any{"cpu": "2", "memory": pick(g, "100Mi", "600Mi")},
		}
	case "Service":
		obj = merge(obj, map[string]any{"spec": map[string]any{"type": pick(g, "NodePort", "LoadBalancer")}})
	}
	op.Type, op.Body = jsonType, asJSON(obj)
	c.there[name] = true
	c.note(name, g.add(op))
}
