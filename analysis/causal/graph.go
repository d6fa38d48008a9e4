package causal

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/opreplay/opreplay/analysis/internal/jsontext"
	"github.com/opreplay/opreplay/analysis/internal/meta"
	"github.com/opreplay/opreplay/traces"
)

// Kind is what a node of the graph is.
type Kind string

// The kinds.
const (
	// Version is a version of an object, at the row that showed it first.
	Version Kind = "version"
	// Event is a version reaching a recorded process.
	Event Kind = "event"
	// Write is a request that would change an object.
	Write Kind = "write"
	// Reconcile is a pass of a reconciler.
	Reconcile Kind = "reconcile"
)

// Node is a row of the trace that causes or is caused.
type Node struct {
	Kind Kind
	Seq  int64
	// TS is when it was true or ended, Start when a write or a reconcile began, nanoseconds since the Unix epoch.
	TS, Start int64
	StartSeq  int64 // of a write
	Object    traces.Identity
	Process   string   // who was told or wrote; "" for somebody who wasn't recorded
	Type      string   // of an event
	Writer    string   // of an event: the column
	managers  []string // of a version: those of managedFields, the newest first

	Verb, Subresource, Manager, Agent, Patch string // of a write
	Code                                     int32
	Stack, Reconcile                         int64

	Controller, Outcome, Error, KnownBy string // of a reconcile
	Trigger, RequeueAfter               int64

	changed string // of a version: what differs from the one before, in words
	family  string // of a version or event: the uid of the object's owner, else its own
}

// version names a version of an incarnation.
type version struct {
	uid string
	rv  int64
}

// key names an object without its incarnation.
type key struct{ group, resource, namespace, name string }

func keyOf(id *traces.Identity) key { return key{id.Group, id.Resource, id.Namespace, id.Name} }

// Graph is what part of a trace is about, in the order of seq.
type Graph struct {
	rows     map[int64]*Node
	versions map[version]*Node
	writes   map[version]*Node
	removals map[string][]*Node            // deletes and last writes that made no version, by uid
	told     map[string][]*Node            // events, by process
	passes   map[string]map[string][]*Node // by process, then by namespace/name
	newest   map[key]*Node
	stacks   map[int64][]traces.Frame
	last     map[string]string // text of the last version, by uid
	family   map[string]string // the owner's uid, by uid
	names    map[string]string // namespace/name, by uid
	managers map[string]bool   // field managers of recorded processes: all their writes are known
	differ   jsontext.Differ
}

// NewGraph is a graph without rows.
func NewGraph() *Graph {
	return &Graph{
		rows: map[int64]*Node{}, versions: map[version]*Node{}, writes: map[version]*Node{}, removals: map[string][]*Node{},
		told: map[string][]*Node{}, passes: map[string]map[string][]*Node{}, newest: map[key]*Node{}, stacks: map[int64][]traces.Frame{},
		last: map[string]string{}, family: map[string]string{}, names: map[string]string{}, managers: map[string]bool{},
	}
}

// Add takes the next row, in the order of seq. Rows that cause nothing are passed over.
func (g *Graph) Add(r traces.Record) {
	switch x := r.(type) {
	case *traces.WatchEvent:
		g.event(x)
	case *traces.Request:
		g.request(x)
	case *traces.Reconcile:
		n := &Node{
			Kind: Reconcile, Seq: x.Seq, TS: x.TS, Start: x.Start, Process: x.Process, Controller: x.Controller, Outcome: x.Outcome, Error: x.Error,
			KnownBy: x.KnownBy, Trigger: x.Trigger, RequeueAfter: x.RequeueAfter,
		}
		n.Object.Namespace, n.Object.Name = x.Namespace, x.Name
		g.rows[n.Seq] = n
		of := g.passes[n.Process]
		if of == nil {
			of = map[string][]*Node{}
			g.passes[n.Process] = of
		}
		name := x.Namespace + "/" + x.Name
		of[name] = append(of[name], n)
	case *traces.Stack:
		g.stacks[x.StackID] = x.Frames
	}
}

func (g *Graph) event(w *traces.WatchEvent) {
	if w.Name == "" || w.Type == string(traces.Bookmark) || w.Type == string(traces.Error) {
		return
	}
	n := &Node{Seq: w.Seq, TS: w.TS, Start: w.TS, Object: w.Identity, Type: w.Type, Writer: w.Writer, Kind: Version}
	at := version{w.UID, w.ResourceVersion}
	g.names[w.UID] = w.Namespace + "/" + w.Name
	first := g.versions[at]
	if first == nil || (first.Type != w.Type && w.Type == string(traces.Deleted)) {
		g.versions[at] = n
		if now := g.newest[keyOf(&w.Identity)]; now == nil || now.Object.ResourceVersion <= w.ResourceVersion {
			g.newest[keyOf(&w.Identity)] = n
		}
		g.look(n, w)
	} else {
		n.changed, n.managers = first.changed, first.managers
	}
	n.family = cmp.Or(g.family[w.UID], w.UID)
	if !meta.Captures(w.Process) && w.Process != "" {
		n.Kind, n.Process = Event, w.Process
		g.told[w.Process] = append(g.told[w.Process], n)
	} else if first != nil && g.versions[at] != n {
		return // the recorder was told again
	}
	g.rows[n.Seq] = n
}

// look reads what a version changed, and whose it is.
func (g *Graph) look(n *Node, w *traces.WatchEvent) {
	if w.Object == "" {
		return
	}
	if owner := meta.Owner(w.Object); owner != "" {
		g.family[w.UID] = owner
	}
	before := g.last[w.UID]
	g.last[w.UID] = w.Object
	switch {
	case w.Type == string(traces.Deleted):
		n.changed = "it is gone"
		delete(g.last, w.UID)
	case before == "":
		if w.Type == string(traces.Added) {
			n.changed = "it is new"
		}
	default:
		n.changed = difference(g.differ.Objects(before, w.Object))
	}
	n.managers = newestManagers(w.Object)
}

// difference names up to three places that differ.
func difference(leaves []jsontext.Leaf) string {
	var names []string
	for _, l := range leaves {
		if !slices.Contains(names, l.Pattern) {
			names = append(names, l.Pattern)
		}
	}
	switch {
	case len(names) == 0:
		return ""
	case len(names) > 3:
		return strings.Join(names[:3], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}

func (g *Graph) request(r *traces.Request) {
	switch r.Verb {
	case "create", "update", "patch", "delete":
	default:
		return
	}
	if r.Resource == "" || strings.Contains(r.Query, "dryRun=") {
		return
	}
	n := &Node{
		Kind: Write, Seq: r.Seq, TS: r.TS, Start: r.Start, StartSeq: r.StartSeq, Object: r.Identity, Process: r.Process, Verb: r.Verb, Subresource: r.Subresource,
		Manager: r.FieldManager, Agent: r.UserAgent, Patch: patchKind(r), Code: r.Code, Stack: r.StackID, Reconcile: r.ReconcileID,
	}
	g.rows[n.Seq] = n
	if r.Process != "" && r.FieldManager != "" {
		g.managers[r.FieldManager] = true
	}
	if r.Code < 200 || r.Code > 299 || r.UID == "" {
		return
	}
	if r.Verb == "delete" || r.ResourceVersion == 0 {
		g.removals[r.UID] = append(g.removals[r.UID], n)
	}
	at := version{r.UID, r.ResourceVersion}
	shown := g.versions[at]
	// An answer with a version that was shown before the write began is a write that changed nothing.
	if r.ResourceVersion != 0 && g.writes[at] == nil && (shown == nil || shown.Seq > r.StartSeq) {
		g.writes[at] = n
	}
}

func patchKind(r *traces.Request) string {
	if r.Verb != "patch" {
		return ""
	}
	kind, _, _ := strings.Cut(strings.TrimPrefix(r.ContentType, "application/"), "-patch")
	return kind
}

// maxManagers is how many field managers are remembered of a version.
const maxManagers = 4

// newestManagers are the field managers of an object, by the times of their entries, the newest first. Times have a grain
// of a second, within which the order says nothing.
func newestManagers(body string) (names []string) {
	fields, _ := jsontext.Get(body, "metadata", "managedFields")
	type entry struct{ name, time string }
	var all []entry
	jsontext.Elements(fields, func(e string) bool {
		t, _ := jsontext.Get(e, "time")
		manager, _ := jsontext.Get(e, "manager")
		all = append(all, entry{jsontext.Text(manager), jsontext.Text(t)})
		return true
	})
	slices.SortStableFunc(all, func(a, b entry) int { return cmp.Compare(b.time, a.time) })
	for _, e := range all {
		if e.time < all[0].time && len(names) > 0 || len(names) == maxManagers {
			break
		}
		names = append(names, strings.Clone(e.name))
	}
	return names
}

func at(ns int64) time.Time { return time.Unix(0, ns).UTC() }
