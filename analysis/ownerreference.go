package analysis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/opreplay/opreplay/analysis/internal/jsontext"
	"github.com/opreplay/opreplay/traces"
)

// OwnerReference finds owner references that the garbage collector takes for something else than was meant: to an
// object in another namespace, from a cluster-scoped object to a namespaced one, to a uid that is another's or nobody's,
// of another kind or name than the uid's, in a circle, and to an owner that waits in foreground deletion for its
// dependents to go.
//
// The rules are those of k8s.io/kubernetes/pkg/controller/garbagecollector (graph_builder.go, "owner.Namespace"): an
// owner is looked for in the dependent's own namespace, or in none; an owner that isn't found there counts as deleted.
// What follows comes when the collector next looks, which may be at its restart.
type OwnerReference struct {
	// GoneFor is for how many nanoseconds an owner must have been gone when the reference is written. Before that
	// the writer may not know, and the collector is right to take the dependent away.
	GoneFor int64

	refs    memory[[]ownerRef]
	waiting map[string][]*refUse // by the uid of an owner that has not been seen
	open    queue[*refUse]
	groups  map[string]*badRefs
}

// NewOwnerReference is an OwnerReference with its thresholds set.
func NewOwnerReference() *OwnerReference {
	return &OwnerReference{GoneFor: 10e9, waiting: map[string][]*refUse{}, groups: map[string]*badRefs{}}
}

// Name implements Detector.
func (*OwnerReference) Name() string { return "owner-reference" }

func (d *OwnerReference) memories() []placed { return []placed{&d.refs} }

// maxWaiting bounds the references to owners that have not been seen.
const maxWaiting = 1 << 13

type ownerRef struct {
	group, kind, name, uid string
	blocks                 bool
}

// refUse is a reference that was written.
type refUse struct {
	child    *State
	ref      ownerRef
	author   Author
	captured bool
}

// badRefs are the bad references of one kind by one writer.
type badRefs struct {
	use         *refUse
	fault       refFault
	owner       string // in words
	n           int64
	first, last int64
	objects     map[Object]float64
	places      places
	absent      absence // the owner, where it was never seen
}

// refFault is what is wrong with a reference.
type refFault string

const (
	crossNamespace refFault = "cross-namespace"
	wrongScope     refFault = "scope"
	wrongUID       refFault = "uid"
	wrongIdentity  refFault = "identity"
	missingOwner   refFault = "missing"
	ownerCycle     refFault = "cycle"
	terminating    refFault = "terminating"
)

// Change implements ChangeDetector.
func (d *OwnerReference) Change(m *Model, c *Change) {
	s := c.State
	if s.Heartbeat || c.After == "" || c.Deleted {
		return
	}
	if c.Created && len(d.waiting) > 0 {
		for _, use := range d.waiting[s.UID] {
			d.check(m, use, s)
		}
		delete(d.waiting, s.UID)
	}
	if m.Simulated && c.Author.Process == nil {
		return // what a world's outsiders wrote when they were recorded names the uids of then
	}
	known := d.refs.of(s)
	if !c.Created && !c.Touches("metadata.ownerReferences") {
		if known != nil && !strings.Contains(c.After, `"ownerReferences"`) {
			d.refs.take(s) // a version that was passed over took them
		}
		return
	}
	var had []ownerRef
	if known != nil {
		had = *known
	}
	refs := ownerRefs(c.After)
	if known != nil || len(refs) > 0 {
		*d.refs.open(s) = refs
	}
	for _, ref := range refs {
		if slices.Contains(had, ref) {
			continue
		}
		c.Manager()
		use := &refUse{child: s, ref: ref, author: c.Author, captured: s.captured}
		if owner := m.ByUID(ref.uid); owner != nil {
			d.check(m, use, owner)
		} else if d.open.len() < maxWaiting {
			d.waiting[ref.uid] = append(d.waiting[ref.uid], use)
			d.open.push(use)
		}
	}
}

func ownerRefs(body string) []ownerRef {
	var out []ownerRef
	list, _ := jsontext.Get(body, "metadata", "ownerReferences")
	jsontext.Elements(list, func(ref string) bool {
		field := func(key string) string {
			v, _ := jsontext.Get(ref, key)
			return strings.Clone(jsontext.Text(v))
		}
		group, _, grouped := strings.Cut(field("apiVersion"), "/")
		if !grouped {
			group = ""
		}
		out = append(out, ownerRef{group, field("kind"), field("name"), field("uid"), field("blockOwnerDeletion") == "true"})
		return len(out) < 64
	})
	return out
}

// check is what is wrong with a reference to an owner that is known.
func (d *OwnerReference) check(m *Model, use *refUse, owner *State) {
	child, ref := use.child, use.ref
	switch {
	case owner.Namespace != "" && child.Namespace == "":
		d.add(use, wrongScope, owner.Object.String())
	case owner.Namespace != "" && owner.Namespace != child.Namespace:
		d.add(use, crossNamespace, owner.Object.String())
	case ref.name != "" && owner.Name != ref.name || ref.kind != "" && !m.isKind(owner, ref):
		d.add(use, wrongIdentity, owner.Object.String())
	case owner.Gone && owner.GoneAt+d.GoneFor < use.author.TS:
		d.add(use, missingOwner, owner.Object.String())
	case d.circle(m, child, owner):
		d.add(use, ownerCycle, owner.Object.String())
	case d.holdsUp(use, owner):
		d.add(use, terminating, owner.Object.String())
	}
}

// isKind is whether the object may be of the kind that a reference names: true where the trace doesn't say.
func (m *Model) isKind(s *State, ref ownerRef) bool {
	for _, r := range m.Manifest.Resources {
		if r.Group == s.Group && r.Resource == s.Resource {
			return r.Kind == ref.kind && r.Group == ref.group
		}
	}
	return true
}

// circle is whether the child is among the owner's own owners.
func (d *OwnerReference) circle(m *Model, child, owner *State) bool {
	const deepest = 32
	line := []*State{owner}
	for i := 0; i < len(line) && i < deepest; i++ {
		if line[i] == child {
			return true
		}
		refs := d.refs.of(line[i])
		if refs == nil {
			continue
		}
		for _, ref := range *refs {
			if s := m.ByUID(ref.uid); s != nil && !slices.Contains(line, s) {
				line = append(line, s)
			}
		}
	}
	return false
}

// holdsUp is whether a dependent was made that an owner in foreground deletion must wait for, by somebody who knew of
// the deletion.
func (d *OwnerReference) holdsUp(use *refUse, owner *State) bool {
	call := use.author.Call
	if call == nil || call.Verb != "create" || !use.ref.blocks || owner.Deleting == 0 || !strings.Contains(owner.Body, `"foregroundDeletion"`) {
		return false
	}
	told, _ := owner.Told(call.Process, owner.RV)
	return told.Seq != 0 && told.Seq <= call.StartSeq
}

// Gone implements GoneDetector: what refers to nobody may have been taken away for that.
func (d *OwnerReference) Gone(_ *Model, s *State) { d.refs.take(s) }

func (d *OwnerReference) add(use *refUse, fault refFault, owner string) *badRefs {
	a := use.author
	key := strings.Join([]string{a.Name(), resourceName(use.child.Group, use.child.Resource), use.ref.kind, string(fault)}, "\x00")
	g := d.groups[key]
	if g == nil {
		g = &badRefs{use: use, fault: fault, owner: owner, first: a.TS, objects: map[Object]float64{}}
		d.groups[key] = g
	}
	g.n++
	g.last = a.TS
	if len(g.objects) < 1024 {
		g.objects[use.child.Object]++
	}
	g.places.add(a.seq(), a.TS, "owner reference written as version %d", a.RV, 0)
	return g
}

// Findings implements Detector: one for each writer, resource, kind of owner and fault.
func (d *OwnerReference) Findings(m *Model) ([]Finding, []Note) {
	for d.open.len() > 0 {
		if use := d.open.pop(); m.ByUID(use.ref.uid) == nil && len(d.waiting[use.ref.uid]) > 0 {
			d.unseen(m, use)
		}
	}
	var out []Finding
	for _, key := range sortedKeys(d.groups) {
		out = append(out, d.groups[key].finding())
	}
	return out, nil
}

// unseen judges a reference to an owner that was never seen: that is only known to be nobody where the trace has every
// object that it could be.
func (d *OwnerReference) unseen(m *Model, use *refUse) {
	if !use.captured || use.ref.uid == "" {
		return
	}
	for _, r := range m.Manifest.Resources {
		if r.Group != use.ref.group || r.Kind != use.ref.kind {
			continue
		}
		namespace := use.child.Namespace
		if !r.Namespaced {
			namespace = ""
		}
		if namespace == "" && len(m.Manifest.Namespaces) > 0 || heartbeatResource(Key{Group: r.Group, Resource: r.Resource}) {
			return
		}
		if r.Namespaced && namespace == "" {
			d.add(use, wrongScope, resourceName(r.Group, r.Resource)+" "+use.ref.name)
			return
		}
		never := absence{table: traces.TableWatch, from: m.FirstTS, to: m.LastTS, object: Object{Group: r.Group, Resource: r.Resource}}
		if named := m.Object(Key{r.Group, r.Resource, namespace, use.ref.name}); named != nil {
			d.add(use, wrongUID, fmt.Sprintf("%s, whose uid is %s", named.Object, named.UID)).absent = never
			return
		}
		o := Object{Group: r.Group, Resource: r.Resource, Namespace: namespace, Name: use.ref.name}
		d.add(use, missingOwner, o.String()).absent = never
		return
	}
}

func (g *badRefs) finding() Finding {
	a := g.use.author
	f := Finding{
		Severity: Error, Certainty: Sure, Manager: a.Manager, Field: "metadata.ownerReferences[*]", Row: a.seq(),
		First: at(g.first), Last: at(g.last), Evidence: g.places.evidence(), told: g.places.nth(1), absent: g.absent,
		Statistics: []Statistic{{Name: "references", Value: float64(g.n), Unit: "1", Low: float64(g.n), High: float64(g.n), N: g.n, Method: "count"}},
		Effect:     countOf(g.n, "bad owner references", float64(g.n)),
	}
	if a.Process != nil {
		f.Process = a.Process.Name
	}
	if a.Call != nil {
		f.Stack = a.Call.Stack
	} else {
		f.Certainty = Likely // who wrote it is known by managedFields at best
	}
	f.Objects, f.Total = worstOf(g.objects)
	ref := g.use.ref
	f.What = fmt.Sprintf("%s gave %s the owner %s %s (uid %s)%s, %s", a.Name(), g.use.child.Object, ref.kind, ref.name, cmp.Or(ref.uid, "none"), others(f.Total), g.what())
	f.Cause = g.cause()
	return f
}

func (g *badRefs) what() string {
	switch g.fault {
	case crossNamespace:
		return "which is " + g.owner + " in another namespace"
	case wrongScope:
		return "which is namespaced, while the dependent is not"
	case wrongUID:
		return "which is not " + g.owner
	case wrongIdentity:
		return "while that uid is " + g.owner
	case ownerCycle:
		return "which is itself owned by it"
	case terminating:
		return "which is in foreground deletion and waits for its dependents to go"
	}
	return "which does not exist: " + g.owner
}

func (g *badRefs) cause() string {
	child := g.use.child
	switch g.fault {
	case crossNamespace:
		return fmt.Sprintf("an owner is looked for in the dependent's namespace, %s: the garbage collector takes %s for deleted and will delete %s, at its restart at the latest", child.Namespace, g.owner, child.Object)
	case wrongScope:
		return fmt.Sprintf("a cluster-scoped object can have cluster-scoped owners only: the garbage collector cannot resolve the reference, and %s is never collected, or at once", child.Object)
	case wrongUID:
		return fmt.Sprintf("the uid is another's: it was taken from an earlier object of that name or from an object that had not been created yet, and the garbage collector will delete %s", child.Object)
	case wrongIdentity:
		return fmt.Sprintf("kind, name and uid are of different objects, so the garbage collector cannot resolve the reference (OwnerRefInvalidNamespace), and what becomes of %s hangs on what it has in its cache", child.Object)
	case ownerCycle:
		return fmt.Sprintf("%s and %s own each other: in foreground deletion each waits for the other to go, and neither is collected", child.Object, g.owner)
	case terminating:
		return fmt.Sprintf("it was made after %s had been told of the deletion, with blockOwnerDeletion, so that each one made holds up its owner's end", g.use.author.Name())
	}
	return fmt.Sprintf("the garbage collector will delete %s, for it has no owner that exists", child.Object)
}
