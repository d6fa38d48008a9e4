package analysis

import (
	"cmp"
	"fmt"
	"maps"
	"strings"
)

// StaleRead finds writes that were decided on an older state than the process had already known: it was told of a newer
// version of an object, then, after a restart or by another API server, of an older one, and wrote that object or
// what belongs to it before it was told of the newer one again.
//
// To be shown an old state is no fault: API servers' watch caches lag, and a write that names its base is refused then
// (409) and tried again. It becomes one when such a write is accepted.
type StaleRead struct {
	// MinWrites is how many accepted writes it takes. The first may be a deletion.
	MinWrites int64

	beliefs beliefs
	groups  map[string]*staleWrites
	refused map[string]int64
	// suspect are writes to objects whose first version has not settled, so that what they belong to is not known yet.
	suspect map[*State][]staleWrite
}

// NewStaleRead is a StaleRead with its thresholds set.
func NewStaleRead() *StaleRead {
	return &StaleRead{MinWrites: 1, groups: map[string]*staleWrites{}, refused: map[string]int64{}, suspect: map[*State][]staleWrite{}}
}

// Name implements Detector.
func (*StaleRead) Name() string { return "stale-read" }

type staleWrite struct {
	call   *Call
	belief *belief
}

// staleWrites are those of one process on the old states of one resource.
type staleWrites struct {
	process     *Process
	n           int64
	first, last int64
	example     staleWrite
	target      Object
	objects     map[Object]float64
	age         reservoir
	places      places
}

// Event implements EventDetector.
func (d *StaleRead) Event(m *Model, e *Event) { d.beliefs.event(m, e) }

// Call implements CallDetector.
func (d *StaleRead) Call(m *Model, c *Call) {
	d.beliefs.call(c)
	if !c.Write() || c.Process == nil {
		return
	}
	for _, b := range d.beliefs.before(c) {
		if b.known == 0 {
			continue // it had never known better
		}
		switch {
		case c.State == b.state && c.Code == 409:
			d.refused[c.Process.Name+"\x00"+resourceName(b.state.Group, b.state.Resource)]++
		case !c.OK() || c.Empty || c.State == nil || c.State.Heartbeat || c.Verb == "create" && c.State != b.state:
		case c.State == b.state:
			if !strings.Contains(c.Body, `"resourceVersion"`) || c.Base == b.rv {
				d.add(staleWrite{c, b})
			}
		case c.State.RV == 0:
			d.suspects(staleWrite{c, b})
		default:
			d.judge(m, staleWrite{c, b})
		}
	}
}

// suspects keeps a write until its object has settled. Some never do, for no watch shows them: they make way.
func (d *StaleRead) suspects(w staleWrite) {
	if len(d.suspect) >= maxBeliefs {
		maps.DeleteFunc(d.suspect, func(_ *State, list []staleWrite) bool { return w.call.TS-list[0].call.TS > 2*settleAfter })
	}
	if list := d.suspect[w.call.State]; len(list) < maxBeliefs && len(d.suspect) < maxBeliefs {
		d.suspect[w.call.State] = append(list, w)
	}
}

// judge is whether a write to another object than the one that an old state was shown of is about that one.
func (d *StaleRead) judge(m *Model, w staleWrite) {
	if k := m.kin.of[w.call.State]; k != nil && k.about(w.belief.state.Object) {
		d.add(w)
	}
}

// Change implements ChangeDetector: what the object belongs to is known now.
func (d *StaleRead) Change(m *Model, c *Change) {
	if len(d.suspect) == 0 {
		return
	}
	for _, w := range d.suspect[c.State] {
		d.judge(m, w)
	}
	delete(d.suspect, c.State)
}

// Gone implements GoneDetector.
func (d *StaleRead) Gone(_ *Model, s *State) { delete(d.suspect, s) }

func (d *StaleRead) add(w staleWrite) {
	c, b := w.call, w.belief
	key := c.Process.Name + "\x00" + resourceName(b.state.Group, b.state.Resource)
	g := d.groups[key]
	if g == nil {
		g = &staleWrites{process: c.Process, first: b.ts, example: w, target: c.State.Object, objects: map[Object]float64{}}
		d.groups[key] = g
	}
	g.n++
	g.last = c.TS
	g.age.add(float64(c.Start-b.ts) / 1e9)
	if len(g.objects) < 1024 {
		g.objects[b.state.Object]++
	}
	g.places.add(b.seq, b.ts, "told of version %d, having known %d", b.rv, b.known)
	g.places.say(c.Seq, c.TS, c.Verb+" on that")
}

// Findings implements Detector: one for each process and resource that it saw the past of.
func (d *StaleRead) Findings(*Model) ([]Finding, []Note) {
	var findings []Finding
	var notes []Note
	for _, key := range sortedKeys(d.groups) {
		if g := d.groups[key]; g.n >= d.MinWrites {
			findings = append(findings, d.finding(g))
		}
	}
	for _, key := range sortedKeys(d.refused) {
		process, resource, _ := strings.Cut(key, "\x00")
		notes = append(notes, Note{Process: process, Count: d.refused[key], What: fmt.Sprintf("%s was shown an old state of %s, and its %s refused (409), as is meant", process, resource, plural(d.refused[key], "write on that was", "writes on that were"))})
	}
	return findings, notes
}

func (d *StaleRead) finding(g *staleWrites) Finding {
	b, c := g.example.belief, g.example.call
	f := Finding{
		Severity: Error, Certainty: Sure, Process: g.process.Name, Manager: cmp.Or(c.Manager, agent(c.UserAgent)), Stack: c.Stack, Row: c.Seq,
		First: at(g.first), Last: at(g.last), Evidence: g.places.evidence(), told: g.places.nth(2 * d.MinWrites), absent: notTold(g.first, g.last),
		Statistics: []Statistic{median("decided after", "s", g.age.sample, g.age.n)},
		Effect:     countOf(g.n, "writes on an old state", float64(g.n)/float64(d.MinWrites)),
	}
	f.Objects, f.Total = worstOf(g.objects)
	what := "itself"
	if g.target != b.state.Object {
		f.Certainty = Likely // that the one belongs to the other is known by a name
		what = g.target.String()
	}
	f.What = fmt.Sprintf("%s took an old state of %s for the present one, and made a %s of %s on it", g.process.Name, b.state.Object, c.kind(), what)
	old := fmt.Sprintf("resourceVersion %d", b.rv)
	if b.other() {
		old += fmt.Sprintf(" of an earlier object of that name (uid %s)", b.uid)
	}
	f.Cause = fmt.Sprintf("it had known resourceVersion %d, and was then told of %s (seq %d) by a new watch; it neither read the object from the API server nor named a version that would have had the write refused", b.known, old, b.seq)
	return f
}
