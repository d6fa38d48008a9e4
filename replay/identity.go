package replay

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/traces"
)

// Identity says which calls of a trace were the operator's. A call is the operator's when any of the fields that
// are set matches it.
type Identity struct {
	Process string
	// UserAgents are whole User-Agent headers, or their beginnings.
	UserAgents []string
	// Users are names as the API server knows them: system:serviceaccount:NAMESPACE:NAME.
	Users []string
	// FieldManagers tell the operator's writes in traces without calls, by managedFields.
	FieldManagers []string
	// How says in words where this is known from.
	How string
}

// empty says that nothing is set by which a call could be told.
func (id *Identity) empty() bool {
	return id.Process == "" && len(id.UserAgents)+len(id.Users)+len(id.FieldManagers) == 0
}

// Calls says whether the operator made the call.
func (id *Identity) Calls(r *traces.Request) bool {
	if id.Process != "" {
		// A recorded process is exact; user agents and users may be shared with others.
		return r.Process == id.Process
	}
	for _, agent := range id.UserAgents {
		if strings.HasPrefix(r.UserAgent, agent) {
			return true
		}
	}
	return slices.Contains(id.Users, r.User) || r.FieldManager != "" && slices.Contains(id.FieldManagers, r.FieldManager)
}

// Manages says whether the field manager is the operator's.
func (id *Identity) Manages(manager string) bool {
	return manager != "" && slices.Contains(id.FieldManagers, manager)
}

// user is the name under which the operator calls.
func (id *Identity) user() string {
	if len(id.Users) > 0 {
		return id.Users[0]
	}
	return ""
}

// ServiceAccount is the user name of a service account given as NAMESPACE/NAME or as the user name itself.
func ServiceAccount(s string) (string, error) {
	if strings.HasPrefix(s, "system:serviceaccount:") {
		return s, nil
	}
	namespace, name, ok := strings.Cut(s, "/")
	if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
		return "", cli.Usagef("service account %q: want NAMESPACE/NAME", s)
	}
	return "system:serviceaccount:" + namespace + ":" + name, nil
}

// Identify finds out who the operator of a trace is: what the caller says, else what the manifest says, else
// who behaves like one. COMMAND is the operator's program, which chooses among several recorded ones.
func Identify(ctx context.Context, t *traces.Trace, given Identity, command string) (Identity, error) {
	if !given.empty() {
		given.How = "as given"
		return given, nil
	}
	ops := t.Manifest().Operators
	if o, ok := choose(ops, path.Base(command)); ok {
		return Identity{
			Process: o.Process, UserAgents: o.UserAgents, Users: o.Users, FieldManagers: o.FieldManagers,
			How: "by the trace's manifest",
		}, nil
	}
	if len(ops) > 1 {
		var names []string
		for _, o := range ops {
			names = append(names, o.Process)
		}
		return Identity{}, cli.Usagef("%s: recorded were %s; say by --process which of them is the operator", t.Dir(), strings.Join(names, ", "))
	}
	return infer(ctx, t)
}

// choose is the operator meant: the only one, or that which is named like the command, or the only one that
// was started by the recorder.
func choose(ops []traces.Operator, command string) (traces.Operator, bool) {
	if len(ops) == 1 {
		return ops[0], true
	}
	for _, is := range []func(traces.Operator) bool{
		func(o traces.Operator) bool { return len(o.Command) > 0 },
		func(o traces.Operator) bool { return o.Process == command },
	} {
		found := slices.DeleteFunc(slices.Clone(ops), func(o traces.Operator) bool { return !is(o) })
		if len(found) == 1 {
			return found[0], true
		}
	}
	return traces.Operator{}, false
}

// notOperators are the beginnings of user agents and field managers of people's tools and of the cluster itself.
var notOperators = []string{
	"kube-", "kubectl", "kubelet", "oprec", "opsim", "k3s", "helm", "Mozilla", "curl", "e2e.test", "etcd", "cloud-controller",
	"before-first-apply", "k9s", "Lens", "argocd", "flux",
}

func mayBeOperator(name string) bool {
	return name != "" && !slices.ContainsFunc(notOperators, func(p string) bool { return strings.HasPrefix(name, p) })
}

// infer takes the client that writes most for the operator: by its calls where the trace has any, else by
// the field managers of the objects.
func infer(ctx context.Context, t *traces.Trace) (Identity, error) {
	writes := map[string]int{}
	for r, err := range traces.Rows[traces.Request](ctx, t, traces.Range{Columns: []string{"process", "user_agent", "verb", "code"}}) {
		if err != nil {
			return Identity{}, err
		}
		if isWrite(r.Verb) && mayBeOperator(r.UserAgent) && r.Process != "" {
			writes[r.Process]++
		}
	}
	if name, n := most(writes); n > 0 {
		return Identity{Process: name, How: fmt.Sprintf("inferred: of all processes %s wrote most, %d times", name, n)}, nil
	}
	for w, err := range traces.Rows[traces.WatchEvent](ctx, t, traces.Range{Columns: []string{"writer", "type"}}) {
		if err != nil {
			return Identity{}, err
		}
		if w.Type == string(traces.Modified) || w.Type == string(traces.Added) {
			if mayBeOperator(w.Writer) && !strings.HasPrefix(w.Writer, "seq:") {
				writes[w.Writer]++
			}
		}
	}
	if name, n := most(writes); n > 0 {
		return Identity{
			FieldManagers: []string{name},
			How:           fmt.Sprintf("inferred: of all field managers %s wrote most, %d times", name, n),
		}, nil
	}
	return Identity{}, cli.Usagef("%s: nobody in it writes like an operator; say by --user-agent, --service-account or --field-manager who it is", t.Dir())
}

// most is the name with the highest count, the alphabetically first of several.
func most(counts map[string]int) (name string, n int) {
	for k, v := range counts {
		if v > n || v == n && cmp.Less(k, name) {
			name, n = k, v
		}
	}
	return name, n
}

func isWrite(verb string) bool {
	switch verb {
	case "create", "update", "patch", "delete", "deletecollection":
		return true
	}
	return false
}
