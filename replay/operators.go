package replay

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/sim/apiserver"
	"github.com/opreplay/opreplay/sim/cluster"
	"github.com/opreplay/opreplay/sim/process"
	"github.com/opreplay/opreplay/traces"
)

// Operator is one process to run.
type Operator struct {
	// Name is the process's name in the run's trace. "": for the only operator that of the recorded process
	// for which it stands; else the base name of its program, with -2, -3, … when that is taken.
	Name string
	// Command is the program and its arguments; {kubeconfig} in it stands for the path of the kubeconfig.
	Command []string
	// Identity tells the recorded calls for which it stands; the zero value has them found out (Identify).
	// Several operators may stand for the same: replicas.
	Identity Identity
}

// user is the name under which it calls, and its groups. Under RBAC a service account has its own alone.
func (op *Operator) user(rbac bool) apiserver.User {
	u := op.Identity.user()
	sa, known := cluster.ParseServiceAccount(u)
	switch {
	case rbac && known:
		return apiserver.User{Name: u, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + sa.Namespace}}
	case u != "":
		return apiserver.User{Name: u, Groups: []string{"system:serviceaccounts", "system:masters"}}
	}
	return apiserver.Admin
}

// inCluster says whether the operator finds the API server as a pod does, and as whom.
func (op *Operator) inCluster(when InCluster) (sa cluster.ServiceAccount, ok bool) {
	sa, known := cluster.ParseServiceAccount(op.Identity.user())
	switch {
	case when == InClusterNever:
		return sa, false
	case when == InClusterAlways && !known:
		return cluster.ServiceAccount{Namespace: "default", Name: op.Name}, true
	case when == InClusterAlways:
		return sa, true
	}
	takes := slices.ContainsFunc(op.Command, func(a string) bool { return strings.Contains(a, process.Placeholder) })
	return sa, known && !takes
}

// resolve finds out what Options left open of each operator: its name and for whom it stands.
func resolve(ctx context.Context, o *Options) ([]*Operator, error) {
	if len(o.Operators) == 0 {
		return nil, cli.Usagef("no operator to run")
	}
	ops := make([]*Operator, 0, len(o.Operators))
	for i := range o.Operators {
		op := o.Operators[i]
		if err := process.Look(op.Command); err != nil {
			return nil, err
		}
		ops = append(ops, &op)
	}
	for _, op := range ops {
		var err error
		if op.Identity, err = Identify(ctx, o.Trace, op.Identity, recordedName(o.Trace, op)); err != nil {
			return nil, err
		}
	}
	if only := ops[0]; len(ops) == 1 && only.Name == "" {
		only.Name = only.Identity.Process
	}
	return ops, giveNames(ops)
}

// recordedName is the word that chooses among several recorded operators: the operator's name where one of them
// has it, else its program.
func recordedName(t *traces.Trace, op *Operator) string {
	if slices.ContainsFunc(t.Manifest().Operators, func(r traces.Operator) bool { return r.Process == op.Name }) {
		return op.Name
	}
	return op.Command[0]
}

// giveNames names those that have no name, and sees to it that no two have the same.
func giveNames(ops []*Operator) error {
	taken := map[string]bool{"": true, captureProcess: true}
	for _, op := range ops {
		if op.Name != "" && taken[op.Name] {
			return cli.Usagef("operator name %q: want one that no other process of the run has", op.Name)
		}
		taken[op.Name] = true
	}
	for _, op := range ops {
		if op.Name != "" {
			continue
		}
		base := filepath.Base(op.Command[0])
		op.Name = base
		for n := 2; taken[op.Name]; n++ {
			op.Name = fmt.Sprintf("%s-%d", base, n)
		}
		taken[op.Name] = true
	}
	return nil
}

// ParseOperator reads "NAME=COMMAND" or "COMMAND", which is split into words as a shell would.
func ParseOperator(text string) (op Operator, err error) {
	if name, command, ok := strings.Cut(text, "="); ok && isName(name) {
		op.Name, text = name, command
	}
	op.Command, err = process.Split(text)
	return op, err
}

// isName: a DNS label, as a pod's name is made of (RFC 1123), which no path and no flag is.
func isName(s string) bool {
	return s != "" && len(s) <= 63 && s[0] != '-' && s[len(s)-1] != '-' && !strings.ContainsFunc(s, func(r rune) bool {
		return r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z')
	})
}

// anyOf is whoever one of the operators stands for.
type anyOf []*Operator

// Calls says whether one of them made the call.
func (a anyOf) Calls(r *traces.Request) bool {
	return slices.ContainsFunc(a, func(op *Operator) bool { return op.Identity.Calls(r) })
}

// Manages says whether the field manager is one of theirs.
func (a anyOf) Manages(manager string) bool {
	return slices.ContainsFunc(a, func(op *Operator) bool { return op.Identity.Manages(manager) })
}

// named is the operator with a name; nil for none.
func (a anyOf) named(name string) *Operator {
	for _, op := range a {
		if op.Name == name {
			return op
		}
	}
	return nil
}

// knownBy says how their recorded calls are known, each way once.
func (a anyOf) knownBy() string {
	var how []string
	for _, op := range a {
		if !slices.Contains(how, op.Identity.How) {
			how = append(how, op.Identity.How)
		}
	}
	return strings.Join(how, "; ")
}
