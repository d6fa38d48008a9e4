package replay

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/sim"
	"github.com/opreplay/opreplay/sim/actor"
	"github.com/opreplay/opreplay/sim/apiserver"
	"github.com/opreplay/opreplay/traces"
)

// undertaker learns from the rows of the whole cluster of namespaces that are being deleted, and that nobody else ends:
// neither the script nor a process.
type undertaker struct {
	scripted map[string]bool // names of namespaces whose end the script has
	seen     map[string]bool // uids
	due      []string        // names
}

// newUndertaker is nil when a process does it.
func newUndertaker(s *Script, ops []*Operator) *undertaker {
	for _, op := range ops {
		if len(op.Command) > 0 && filepath.Base(op.Command[0]) == "kube-controller-manager" {
			return nil
		}
	}
	u := &undertaker{scripted: map[string]bool{}, seen: map[string]bool{}}
	for _, step := range s.Steps {
		if isNamespace(step.Group, step.Resource) && step.Kind == actor.Delete && step.After == "" {
			u.scripted[step.Name] = true
		}
	}
	return u
}

func isNamespace(group, resource string) bool { return group == "" && resource == "namespaces" }

// see takes a row of the whole cluster's record.
func (u *undertaker) see(w *traces.WatchEvent) {
	if !isNamespace(w.Group, w.Resource) || w.Type == string(traces.Deleted) || u.seen[w.UID] || u.scripted[w.Name] {
		return
	}
	if strings.Contains(w.Object, `"deletionTimestamp"`) {
		u.seen[w.UID] = true
		u.due = append(u.due, w.Name)
	}
}

// bury puts the namespace controller's passes on the agenda.
func (v *virtualRun) bury() {
	if v.ledger.undertaker == nil || len(v.ledger.undertaker.due) == 0 {
		return
	}
	due := v.ledger.undertaker.due
	v.ledger.undertaker.due = nil
	model := actor.NewNamespaces(
		v.door.Outsider(actor.NamespaceController, "system:masters"), v.server.Outsider(apiserver.Admin), v.world.Now)
	for _, name := range due {
		item := sim.Item{Kind: "outsider", Subject: "namespace controller: " + name}
		item.Apply = func() error {
			again, err := model.Finish(context.Background(), name)
			if err != nil {
				return cli.CannotRun(err)
			}
			if again > 0 {
				v.world.After(again, item)
			}
			return nil
		}
		v.world.After(actor.NamespaceGrace, item)
	}
}
