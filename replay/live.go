package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/sim"
	"github.com/opreplay/opreplay/traces"
)

// What a cluster does about its operators and their objects that no script says (Options.Live): its kubelet starts
// a process again that has ended, its garbage collector deletes objects whose owners are gone, and its namespace
// controller ends namespaces that were deleted (namespaces.go). An unaltered run rarely needs any of it, since the script has what they did; a run whose timing is altered does.

// Ended is a process that ended by itself in a run that is Live.
type Ended struct {
	Name string        `json:"name"`
	At   time.Duration `json:"atNanoseconds"` // since the operator's first call
	Time time.Time     `json:"time"`          // by the run's clock
	Exit string        `json:"exit"`
	Code int           `json:"code"`
}

// The kubelet's back-off: at once, then 10 s, doubled each time up to five minutes (MaxContainerBackOff in
// k8s.io/kubernetes/pkg/kubelet).
const (
	firstRevival  = time.Second
	leastRevival  = 10 * time.Second
	longestRevive = 5 * time.Minute
)

// revival is how long the kubelet waits before the n-th restart, from 0.
func revival(n int) time.Duration {
	if n == 0 {
		return firstRevival
	}
	return min(leastRevival<<min(n-1, 10), longestRevive)
}

// kubelet is the source of restarts: it looks whenever the processes have gone as far as they can, and so before the clock
// moves on.
type kubelet struct{ v *virtualRun }

// Collect implements sim.Source.
func (k kubelet) Collect() (moved bool, err error) { return k.v.revive(), nil }

// revive has processes that ended by themselves come back, and says whether there were any.
func (v *virtualRun) revive() (any bool) {
	if !v.o.Live || v.ending || v.first == 0 {
		return false
	}
	for _, g := range v.guests {
		if !g.ended() || g.away || g.stopped {
			continue
		}
		exit := g.exit()
		g.flush()
		g.away, any = true, true
		n := 0
		for _, e := range v.ends {
			if e.Name == g.op.Name {
				n++
			}
		}
		v.ends = append(v.ends, Ended{Name: g.op.Name, At: v.elapsed(), Time: v.world.Now(), Exit: exit.String(), Code: exit.Code})
		v.decide("process", "end "+g.op.Name+": "+exit.String(), "")
		v.world.After(revival(n), sim.Item{Kind: "process", Subject: g.op.Name + " is started again", Apply: func() error {
			if !g.ended() || v.ending {
				return nil // the plan has brought it back
			}
			return v.comeback(g)
		}})
	}
	return any
}

// comeback starts a process again, as another one.
func (v *virtualRun) comeback(g *guest) error {
	g.away, g.stopped, g.lines = false, false, nil
	g.incarnation++
	return v.launch(g)
}

// collector is a garbage collector: it learns of owners from the rows of the whole cluster, and deletes what has
// lost all of them.
type collector struct {
	live map[string]*owned // by uid
	gone map[string]string // the resource of objects that there were, by uid
	due  []*owned          // to be deleted
}

// owned is an object and who owns it.
type owned struct {
	traces.Identity
	owners []owner
	queued bool
}

// owner is who an object says that it belongs to.
type owner struct {
	UID        string `json:"uid"`
	APIVersion string `json:"apiVersion"`
}

// collectAfter is how long the garbage collector takes to notice.
const collectAfter = 20 * time.Millisecond

func newCollector() *collector {
	return &collector{live: map[string]*owned{}, gone: map[string]string{}}
}

// see takes a row of the whole cluster's record.
func (c *collector) see(w *traces.WatchEvent) {
	if w.UID == "" {
		return
	}
	if w.Type == string(traces.Deleted) {
		delete(c.live, w.UID)
		c.gone[w.UID] = w.Resource
		for _, uid := range slices.Sorted(maps.Keys(c.live)) {
			c.look(c.live[uid])
		}
		return
	}
	o := c.live[w.UID]
	if o == nil {
		o = &owned{}
		c.live[w.UID] = o
	}
	o.Identity, o.owners = w.Identity, ownersOf(w.Object)
	c.look(o)
}

// look has an object deleted that has lost all its owners.
func (c *collector) look(o *owned) {
	if o.queued || !c.orphan(o) {
		return
	}
	o.queued = true
	c.due = append(c.due, o)
}

func (c *collector) orphan(o *owned) bool {
	return len(o.owners) > 0 && !slices.ContainsFunc(o.owners, func(x owner) bool { return c.gone[x.UID] == "" })
}

// ownersOf are an object's owners.
func ownersOf(text string) []owner {
	if !strings.Contains(text, `"ownerReferences"`) {
		return nil
	}
	var o struct {
		Metadata struct {
			OwnerReferences []owner `json:"ownerReferences"`
		} `json:"metadata"`
	}
	_ = json.Unmarshal([]byte(text), &o) // what cannot be read has none
	return o.Metadata.OwnerReferences
}

// collect puts the garbage collector's deletes on the agenda.
func (v *virtualRun) collect() {
	if v.ledger.garbage == nil {
		return
	}
	for _, o := range v.ledger.garbage.take(v.machine.Serves) {
		v.world.After(collectAfter, sim.Item{
			Kind: "outsider", Subject: fmt.Sprintf("garbage collector: delete %s/%s", o.Resource, o.Name),
			Apply: func() error { return v.deleteGarbage(o) },
		})
	}
}

// take is what lost its owners since it was called before and is to be deleted: unless the plan had taken away one of their
// API versions by then. The garbage collector looks for an owner by the version in the reference, and once it has seen,
// within 30 s, that this is not served, it tries again for as long as that is so
// (GarbageCollector.isDangling in k8s.io/kubernetes/pkg/controller/garbagecollector).
func (c *collector) take(served func(group, version, resource string) bool) (all []*owned) {
	for _, o := range c.due {
		known := !slices.ContainsFunc(o.owners, func(x owner) bool {
			gv, err := schema.ParseGroupVersion(x.APIVersion)
			return err == nil && !served(gv.Group, gv.Version, c.gone[x.UID])
		})
		if o.queued = known; known {
			all = append(all, o)
		}
	}
	c.due = nil
	return all
}

// doomed says whether an object that had lost its owners is still to be deleted: nothing has come between.
func (c *collector) doomed(o *owned) bool { return c.live[o.UID] == o && c.orphan(o) }

// deleteGarbage deletes an object if it is still the one that had lost its owners.
func (v *virtualRun) deleteGarbage(o *owned) error {
	o.queued = false
	if !v.ledger.garbage.doomed(o) {
		return nil
	}
	path := collection(traces.Resource{Group: o.Group, Version: o.Version, Resource: o.Resource})
	if o.Namespace != "" {
		path = strings.TrimSuffix(path, o.Resource) + "namespaces/" + o.Namespace + "/" + o.Resource
	}
	body := fmt.Sprintf(`{"apiVersion":"v1","kind":"DeleteOptions","propagationPolicy":"Background","preconditions":{"uid":%q}}`, o.UID)
	q, err := http.NewRequestWithContext(context.Background(), http.MethodDelete, "http://opsim"+path+"/"+o.Name, strings.NewReader(body))
	if err != nil {
		return cli.CannotRun(err)
	}
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("User-Agent", garbageCollector)
	res, err := v.door.Outsider("system:serviceaccount:kube-system:generic-garbage-collector", "system:masters").RoundTrip(q)
	if err != nil {
		return cli.CannotRun(err)
	}
	_, err = io.Copy(io.Discard, res.Body)
	return errors.Join(err, res.Body.Close()) // whether it was refused is in the record
}

const garbageCollector = "generic-garbage-collector"
