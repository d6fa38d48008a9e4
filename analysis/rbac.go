package analysis

import (
	"fmt"
	"slices"
	"strings"

	"github.com/opreplay/opreplay/analysis/internal/jsontext"
	"github.com/opreplay/opreplay/traces"
)

// RBAC compares the permissions that an operator's service account has with those that it used: what was granted and
// never used, what was granted for every namespace and used in one, wildcards, and what was asked for and refused. They
// are notes: a permission may be for a day that the trace has not seen.
//
// It needs the Roles and their bindings in the trace (the recorder watches them unless told otherwise), and calls by
// service accounts: an operator that is run by hand with an administrator's kubeconfig uses whatever it likes.
type RBAC struct {
	// MinCalls is how many calls of an account must be known to judge it.
	MinCalls int64

	accounts map[string]*account
}

// NewRBAC is an RBAC with its thresholds set.
func NewRBAC() *RBAC { return &RBAC{MinCalls: 20, accounts: map[string]*account{}} }

// Name implements Detector.
func (*RBAC) Name() string { return "rbac" }

// maxAccounts bounds the service accounts that are told apart, maxUses the permissions of one that are.
const (
	maxAccounts = 256
	maxUses     = 1 << 12
)

// account is what one service account did.
type account struct {
	process string
	calls   int64
	used    map[permission]map[string]bool // namespaces; "" for the cluster
	refused map[permission]int64
}

// permission is one verb on one resource, as rules name them: pods/log.
type permission struct{ group, resource, verb string }

func (p permission) String() string { return p.verb + " " + resourceName(p.group, p.resource) }

const serviceAccount = "system:serviceaccount:"

// Call implements CallDetector.
func (d *RBAC) Call(_ *Model, c *Call) { d.use(c.Process, c.Row) }

// Request implements RequestDetector.
func (d *RBAC) Request(_ *Model, p *Process, r *traces.Request) { d.use(p, r) }

func (d *RBAC) use(p *Process, r *traces.Request) {
	if p == nil || r == nil || r.Resource == "" || !strings.HasPrefix(r.User, serviceAccount) {
		return
	}
	a := d.accounts[r.User]
	if a == nil {
		if len(d.accounts) >= maxAccounts {
			return
		}
		a = &account{process: p.Name, used: map[permission]map[string]bool{}, refused: map[permission]int64{}}
		d.accounts[strings.Clone(r.User)] = a
	}
	a.calls++
	what := permission{r.Group, r.Resource, r.Verb}
	if r.Subresource != "" {
		what.resource += "/" + r.Subresource
	}
	if r.Code == 403 {
		if _, is := a.refused[what]; is || len(a.refused) < maxUses {
			a.refused[clonePermission(what)]++
		}
		return
	}
	a.does(what, r.Namespace)
	if r.Verb == "watch" && strings.Contains(r.Query, "sendInitialEvents=true") {
		what.verb = "list" // what the watch begins with; client-go lists where a server can't do that
		a.does(what, r.Namespace)
	}
}

// does notes that the account used a permission in a namespace.
func (a *account) does(what permission, namespace string) {
	in := a.used[what]
	if in == nil {
		if len(a.used) >= maxUses {
			return
		}
		in = map[string]bool{}
		a.used[clonePermission(what)] = in
	}
	if !in[namespace] && len(in) < 16 {
		in[strings.Clone(namespace)] = true
	}
}

func clonePermission(p permission) permission {
	return permission{strings.Clone(p.group), strings.Clone(p.resource), strings.Clone(p.verb)}
}

// grant is one rule as it applies to an account.
type grant struct {
	role      Object
	namespace string // "" for all
	groups    []string
	resources []string
	verbs     []string
}

// Findings implements Detector: notes only.
func (d *RBAC) Findings(m *Model) ([]Finding, []Note) {
	var notes []Note
	for _, user := range sortedKeys(d.accounts) {
		a := d.accounts[user]
		name := strings.TrimPrefix(user, serviceAccount)
		if len(a.refused) > 0 {
			var n int64
			var what []string
			for p, times := range a.refused {
				n += times
				what = append(what, p.String())
			}
			notes = append(notes, Note{Process: a.process, Count: n, What: fmt.Sprintf("%s was refused what it is not granted (403): %s", name, some(what))})
		}
		if a.calls < d.MinCalls {
			continue
		}
		notes = append(notes, a.compare(name, grantsOf(m, name))...)
	}
	return nil, notes
}

// compare holds what was granted against what was used.
func (a *account) compare(name string, grants []grant) (notes []Note) {
	var unused, wide, wild []string
	var granted int64
	var roles []Object
	for _, g := range grants {
		if !slices.Contains(roles, g.role) {
			roles = append(roles, g.role)
		}
		for _, group := range g.groups {
			for _, resource := range g.resources {
				for _, verb := range g.verbs {
					granted++
					p := permission{group, resource, verb}
					if group == "*" || resource == "*" || verb == "*" {
						wild = append(wild, p.String())
					}
					spaces, used := a.uses(p)
					switch {
					case !used:
						unused = append(unused, p.String())
					case g.namespace == "" && len(spaces) == 1 && spaces[0] != "":
						wide = append(wide, fmt.Sprintf("%s (in %s)", p, spaces[0]))
					}
				}
			}
		}
	}
	slices.SortFunc(roles, Object.compare)
	note := func(list []string, form string) {
		if len(list) > 0 {
			slices.Sort(list)
			list = slices.Compact(list)
			notes = append(notes, Note{Process: a.process, Objects: roles[:min(len(roles), maxObjects)], Total: int64(len(roles)), Count: int64(len(list)), What: fmt.Sprintf(form, name, len(list), granted, some(list))})
		}
	}
	note(unused, "%s never used %d of the %d permissions that it has, in this trace: %s")
	note(wide, "%s used %d of the %d permissions that it has for all namespaces in one only: %s")
	note(wild, "%s has %d of its %d permissions by wildcard: %s")
	return notes
}

// uses is whether anything that was used needs the permission, and in which namespaces.
func (a *account) uses(p permission) (namespaces []string, used bool) {
	for u, in := range a.used {
		if matches(p.group, u.group) && (matches(p.resource, u.resource) || strings.HasPrefix(p.resource, "*/") && strings.HasSuffix(u.resource, p.resource[1:])) && matches(p.verb, u.verb) {
			used = true
			for namespace := range in {
				if !slices.Contains(namespaces, namespace) {
					namespaces = append(namespaces, namespace)
				}
			}
		}
	}
	return namespaces, used
}

func matches(pattern, s string) bool { return pattern == "*" || pattern == s }

// some is a sorted list for reading, its first few.
func some(list []string) string {
	slices.Sort(list)
	const most = 8
	if len(list) > most {
		return strings.Join(list[:most], ", ") + fmt.Sprintf(" and %d more", len(list)-most)
	}
	return strings.Join(list, ", ")
}

// grantsOf are the rules that the bindings there are at the end give to a service account, NAMESPACE:NAME.
func grantsOf(m *Model, name string) (grants []grant) {
	space, account, _ := strings.Cut(name, ":")
	var bindings []*State
	for s := range m.Objects {
		if s.Group == "rbac.authorization.k8s.io" && (s.Resource == "rolebindings" || s.Resource == "clusterrolebindings") {
			bindings = append(bindings, s)
		}
	}
	slices.SortFunc(bindings, func(a, b *State) int { return a.compare(b.Object) })
	for _, b := range bindings {
		if !binds(b.Body, space, account, b.Namespace) {
			continue
		}
		kind, _ := jsontext.Get(b.Body, "roleRef", "kind")
		ref, _ := jsontext.Get(b.Body, "roleRef", "name")
		k := Key{"rbac.authorization.k8s.io", "clusterroles", "", jsontext.Text(ref)}
		if jsontext.Text(kind) == "Role" {
			k.Resource, k.Namespace = "roles", b.Namespace
		}
		role := m.Object(k)
		if role == nil || role.Gone {
			continue
		}
		rules, _ := jsontext.Get(role.Body, "rules")
		jsontext.Elements(rules, func(rule string) bool {
			g := grant{role: role.Object, namespace: b.Namespace, groups: listed(rule, "apiGroups"), resources: listed(rule, "resources"), verbs: listed(rule, "verbs")}
			if len(g.resources) > 0 { // rules of paths that are no resource have none
				grants = append(grants, g)
			}
			return true
		})
	}
	return grants
}

// binds is whether a binding has the account itself among its subjects. What all accounts are given is nobody's own.
func binds(body, space, name, bindingSpace string) bool {
	subjects, _ := jsontext.Get(body, "subjects")
	found := false
	jsontext.Elements(subjects, func(s string) bool {
		kind, _ := jsontext.Get(s, "kind")
		n, _ := jsontext.Get(s, "name")
		ns, ok := jsontext.Get(s, "namespace")
		in := jsontext.Text(ns)
		if !ok {
			in = bindingSpace
		}
		found = jsontext.Text(kind) == "ServiceAccount" && jsontext.Text(n) == name && in == space
		return !found
	})
	return found
}

// listed are the strings of a list in an object.
func listed(object, field string) []string {
	list, _ := jsontext.Get(object, field)
	return texts(list)
}
