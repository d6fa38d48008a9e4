package analysis

import (
	"fmt"
	"slices"
	"strings"

	"github.com/opreplay/opreplay/analysis/internal/jsontext"
)

// FinalizerEarly finds finalizers that did not hold an object for as long as they should: taken away while what the
// process made for the object, and nobody else will take away, is still there; or set only after the first of that was
// made, so that a deletion in between leaves it behind.
//
// What has an owner reference to the object is the garbage collector's to take, and does not count.
type FinalizerEarly struct {
	// MinLeft is for how many nanoseconds at the end something must have been left behind. A clean-up that is
	// under way when the finalizer goes ends soon.
	MinLeft int64

	let     map[*State]release
	gone    queue[release] // of objects that are gone
	deleted map[string]bool
	late    map[string]*lateFinalizer
}

// NewFinalizerEarly is a FinalizerEarly with its thresholds set.
func NewFinalizerEarly() *FinalizerEarly {
	return &FinalizerEarly{MinLeft: 5e9, let: map[*State]release{}, deleted: map[string]bool{}, late: map[string]*lateFinalizer{}}
}

// Name implements Detector.
func (*FinalizerEarly) Name() string { return "finalizer-early" }

// maxReleases bounds the releases that are remembered.
const maxReleases = 1 << 12

// release is the write by which a process let go of an object.
type release struct {
	state *State
	call  *Call
}

// lateFinalizer is a finalizer that was set after something had been made.
type lateFinalizer struct {
	process     *Process
	finalizer   string
	first, last int64
	call        *Call
	made        *dependent
	object      Object
	objects     map[Object]float64
	places      places
}

// Call implements CallDetector: who lets go of what.
func (d *FinalizerEarly) Call(_ *Model, c *Call) {
	if c.Process == nil || c.State == nil || !c.OK() || c.State.Heartbeat {
		return
	}
	switch c.Verb {
	case "delete":
		if len(d.deleted) < maxReleases {
			d.deleted[c.Process.Name+"\x00"+resourceName(c.State.Group, c.State.Resource)] = true
		}
	case "update", "patch":
		if c.Subresource == "" && letsGo(c) && len(d.let) < maxReleases {
			d.let[c.State] = release{c.State, c}
		}
	}
}

// letsGo is whether a write may take a finalizer away. Whether it was the last one shows when the object goes.
func letsGo(c *Call) bool {
	if strings.HasPrefix(c.ContentType, "application/json-patch") {
		return strings.Contains(c.Body, "/metadata/finalizers")
	}
	list, there := jsontext.Get(c.Body, "metadata", "finalizers")
	if c.Verb == "update" {
		_, dying := jsontext.Get(c.Body, "metadata", "deletionTimestamp")
		return dying && len(texts(list)) == 0
	}
	return there && len(texts(list)) == 0
}

// Gone implements GoneDetector.
func (d *FinalizerEarly) Gone(_ *Model, s *State) {
	r, ok := d.let[s]
	if !ok {
		return
	}
	delete(d.let, s)
	if s.Deleting == 0 {
		return
	}
	d.gone.push(r)
	if d.gone.len() > maxReleases {
		d.gone.pop()
	}
}

// Change implements ChangeDetector: finalizers that come after the first thing made.
func (d *FinalizerEarly) Change(m *Model, c *Change) {
	p, s := c.Author.Process, c.State
	if p == nil || c.Created || s.Heartbeat || c.Before == "" || s.Deleting != 0 || !c.Touches("metadata.finalizers") {
		return
	}
	was := finalizersOf(c.Before)
	for _, f := range finalizersOf(c.After) {
		if slices.Contains(was, f) {
			continue
		}
		for _, dep := range m.dependents(s.Object) {
			if dep.process != p || dep.owned(s.Object) || dep.seq >= c.Seq {
				continue
			}
			key := p.Name + "\x00" + resourceName(s.Group, s.Resource) + "\x00" + f
			g := d.late[key]
			if g == nil {
				g = &lateFinalizer{process: p, finalizer: f, first: dep.ts, call: c.Author.Call, made: dep, object: s.Object, objects: map[Object]float64{}}
				d.late[key] = g
			}
			g.last = c.TS
			if len(g.objects) < 1024 {
				g.objects[s.Object]++
			}
			g.places.add(dep.seq, dep.ts, "made as version %d", dep.rv, 0)
			g.places.add(c.Seq, c.TS, "finalizer set by version %d", c.RV, 0)
			break
		}
	}
}

// early are releases of one process and kind that left something.
type early struct {
	process     *Process
	object      Object
	call        *Call
	left        *dependent
	told        Delivery
	stale       bool
	first, last int64
	objects     map[Object]float64 // what was left
	released    map[Object]bool
	places      places
}

// Findings implements Detector.
func (d *FinalizerEarly) Findings(m *Model) ([]Finding, []Note) {
	groups := map[string]*early{}
	for d.gone.len() > 0 {
		d.judge(m, d.gone.pop(), groups)
	}
	var findings []Finding
	var notes []Note
	for _, key := range sortedKeys(groups) {
		g := groups[key]
		if !g.stale && !d.deleted[g.process.Name+"\x00"+resourceName(g.left.state.Group, g.left.state.Resource)] {
			objects, total := worstOf(g.objects)
			notes = append(notes, Note{Process: g.process.Name, Objects: objects, Total: total, Count: total, What: fmt.Sprintf("%s let go of %s and kept %s that it had made for it, as it seems on purpose", g.process.Name, g.object, plural(total, "object", "objects"))})
			continue
		}
		findings = append(findings, d.earlyFinding(m, g))
	}
	for _, key := range sortedKeys(d.late) {
		findings = append(findings, d.late[key].finding())
	}
	return findings, notes
}

// judge is whether a release left something that the process had made.
func (d *FinalizerEarly) judge(m *Model, r release, groups map[string]*early) {
	s, p := r.state, r.call.Process
	if m.End(p)-r.call.TS < d.MinLeft {
		return
	}
	if again := m.Object(s.Key()); again != nil && !again.Gone {
		return // what is left may be this one's
	}
	for _, dep := range m.dependents(s.Object) {
		if dep.process != p || dep.owned(s.Object) {
			continue
		}
		told, _ := dep.state.Told(p, dep.rv)
		stale := p.sees(dep.state.Object) && (told.Seq == 0 || told.Seq > r.call.StartSeq)
		key := strings.Join([]string{p.Name, resourceName(s.Group, s.Resource), resourceName(dep.state.Group, dep.state.Resource)}, "\x00")
		g := groups[key]
		if g == nil {
			g = &early{process: p, first: r.call.TS, objects: map[Object]float64{}, released: map[Object]bool{}}
			groups[key] = g
		}
		if g.left == nil || stale && !g.stale {
			g.object, g.call, g.left, g.told, g.stale = s.Object, r.call, dep, told, stale
		}
		g.last = m.End(p)
		g.objects[dep.state.Object]++
		if !g.released[s.Object] {
			g.released[s.Object] = true
			g.places.add(r.call.Seq, r.call.TS, "finalizer removed", 0, 0)
		}
		g.places.add(dep.seq, dep.ts, "left: made as version %d", dep.rv, 0)
	}
}

func (d *FinalizerEarly) earlyFinding(m *Model, g *early) Finding {
	left := float64(m.End(g.process)-g.call.TS) / 1e9
	f := Finding{
		Severity: Error, Certainty: Likely, Process: g.process.Name, Manager: g.call.Manager, Stack: g.call.Stack, Row: g.call.Seq, Field: "metadata.finalizers",
		First: at(g.first), Last: at(g.last), Evidence: g.places.evidence(), told: g.call.TS + d.MinLeft, absent: noEvents(g.left.ts, g.last),
		Statistics: []Statistic{{Name: "left for", Value: left, Unit: "s", Low: left, High: left, N: int64(len(g.objects)), Unbounded: true, Method: "time from the removal of the finalizer to the end, a lower bound (right-censored)"}},
		Effect:     countOf(len(g.objects), "objects left", float64(len(g.objects))),
	}
	objects, total := worstOf(g.objects)
	f.Objects, f.Total = append([]Object{g.object}, objects...)[:min(maxObjects, len(objects)+1)], total+int64(len(g.released))
	names := make([]string, 0, 3)
	for _, o := range objects[:min(3, len(objects))] {
		names = append(names, o.String())
	}
	f.What = fmt.Sprintf("%s took its finalizer from %s, and left behind what it had made for it: %s%s", g.process.Name, g.object, join(names, "and"), others(total-int64(len(names))+1))
	f.Cause = fmt.Sprintf("it let go without having deleted %s, which it had been told of", g.left.state.Object)
	if g.stale {
		f.Certainty = Sure
		late := "has never been told of it"
		if g.told.Seq != 0 {
			late = fmt.Sprintf("was told of it %s later", seconds(g.told.TS-g.call.Start))
		}
		f.Cause = fmt.Sprintf("when it asked its cache for what it had made, %s was not in it yet (it %s): the last look before a finalizer goes must be at the API server", g.left.state.Object, late)
	}
	return f
}

func (g *lateFinalizer) finding() Finding {
	c := g.call
	f := Finding{
		Severity: Warning, Certainty: Likely, Process: g.process.Name, Manager: c.Manager, Stack: c.Stack, Row: c.Seq, Field: "metadata.finalizers",
		First: at(g.first), Last: at(g.last), Evidence: g.places.evidence(), told: g.places.nth(2),
		Statistics: []Statistic{{Name: "unprotected for", Value: float64(c.TS-g.made.ts) / 1e9, Unit: "s", Low: float64(c.TS-g.made.ts) / 1e9, High: float64(c.TS-g.made.ts) / 1e9, N: int64(len(g.objects)), Method: "time from the first thing made to the finalizer"}},
		Effect:     countOf(len(g.objects), "objects unprotected", 1),
	}
	f.Objects, f.Total = worstOf(g.objects)
	f.What = fmt.Sprintf("%s made %s for %s %s before it set its finalizer %s%s", g.process.Name, g.made.state.Object, g.object, seconds(c.TS-g.made.ts), g.finalizer, others(f.Total))
	f.Cause = fmt.Sprintf("the finalizer is set by the %s after the work in place of before it: a deletion in between leaves %s behind", c.kind(), g.made.state.Object)
	return f
}
