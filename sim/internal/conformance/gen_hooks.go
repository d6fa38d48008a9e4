package conformance

import "strings"

// What webhooks do, by their paths at [Hooks]; the first of each are what they do most often.
var (
	validators = []string{"warn", "tell", "teapot", "refuse", "success", "allow", "otheruid", "otherversion", "nothing", "error", "text", "slow", "badpatch"}
	mutators   = []string{"note", "note", "note", "rename", "tell", "badpatch", "nopatch", "badtype", "badfield", "otheruid", "error", "slow"}
	converters = []string{"convert", "refuse", "less", "error"}
)

// webhooks is about admission webhooks, from when they are in force, and now and then about a conversion webhook.
func (g *gen) webhooks() {
	k := pick(g, builtinKind("configmaps"), builtinKind("deployments"), builtinKind("pods"), builtinKind("leases"), builtinKind("serviceaccounts"))
	if g.chance(45) {
		g.converts = pick(g, "", g.often(converters))
		k = g.define()
	}
	c := g.cast(k, "a", "b", "free")
	if g.chance(60) {
		c.create("a", true) // before
	}
	mutates := g.chance(65)
	if mutates {
		c.probe("probe-mutate", g.configure(k, "Mutating", 1+g.r.IntN(3)))
	}
	if !mutates || g.chance(50) {
		// One: of several the real server calls all at once, and the first refusal is its answer.
		c.probe("probe-validate", g.configure(k, "Validating", 1))
	}
	for range 12 {
		c.step()
	}
}

// often picks the first half of the time.
func (g *gen) often(of []string) string {
	if g.chance(50) {
		return of[0]
	}
	return pick(g, of...)
}

// probe waits until a webhook refuses an object of that name, if CONFIGURED was not refused.
func (c *cast) probe(name string, configured int) {
	body := c.k.object(name)
	body["metadata"].(map[string]any)["name"] = name
	c.g.add(Op{
		Verb: "await", Kind: c.k.id(), Do: Await, After: configured, Method: "POST", Path: c.k.path() + "?dryRun=All", Type: jsonType,
		Body: asJSON(body), Until: 403, Has: "in force",
	})
}

// configure adds a configuration of n webhooks for the kind, in this sequence's namespace, and gives its operation.
func (g *gen) configure(k *kind, half string, n int) int {
	var hooks []any
	for i := range n {
		hooks = append(hooks, g.hook(k, half, string(rune('a'+i))+".hooks.example.com"))
	}
	plural := strings.ToLower(half) + "webhookconfigurations"
	return g.post(plural+".admissionregistration.k8s.io", "/apis/admissionregistration.k8s.io/v1/"+plural, map[string]any{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": half + "WebhookConfiguration",
		"metadata": map[string]any{"name": "${ns}-w"}, "webhooks": hooks,
	})
}

// hook is one webhook of a configuration.
func (g *gen) hook(k *kind, half, name string) map[string]any {
	group, version, ok := strings.Cut(k.APIVersion, "/")
	if !ok {
		group, version = "", k.APIVersion
	}
	does, path := g.often(validators), "${hook}/validate/"
	if half == "Mutating" {
		does, path = g.often(mutators), "${hook}/mutate/"
	}
	rule := map[string]any{
		"apiGroups": []any{group}, "apiVersions": []any{pick(g, version, version, "*")}, "resources": pick(g, []any{k.Plural}, []any{k.Plural, k.Plural + "/*"}),
		"operations": pick(g, []any{"*"}, []any{"CREATE", "UPDATE", "DELETE"}, []any{"CREATE"}),
	}
	hook := map[string]any{
		"name": name, "sideEffects": pick(g, "None", "NoneOnDryRun"), "rules": []any{rule},
		"admissionReviewVersions": pick(g, []any{"v1"}, []any{"v1"}, []any{"v1beta1"}, []any{"v9", "v1"}),
		"clientConfig":            map[string]any{"url": path + does, "caBundle": "${hookCA}"},
		"failurePolicy":           pick(g, "Fail", "Fail", "Ignore"), "timeoutSeconds": 10,
		"namespaceSelector": map[string]any{"matchLabels": map[string]any{"seq": "${ns}"}},
	}
	if does == "slow" {
		hook["timeoutSeconds"] = 1
	}
	if g.chance(30) {
		hook["matchPolicy"] = pick(g, "Exact", "Equivalent")
	}
	if g.chance(30) {
		hook["objectSelector"] = map[string]any{"matchExpressions": []any{pick(g,
			map[string]any{"key": "app", "operator": "Exists"}, map[string]any{"key": "app", "operator": "NotIn", "values": []any{"b"}})}}
	}
	if g.chance(40) {
		hook["matchConditions"] = []any{map[string]any{"name": "c", "expression": pick(g, "!has(request.name) || request.name != 'free'", "request.operation != 'DELETE'",
			"object == null || object.metadata.name.startsWith('probe') || has(object.metadata.labels)")}}
	}
	if half == "Mutating" {
		hook["reinvocationPolicy"] = pick(g, "Never", "IfNeeded")
	}
	return hook
}
