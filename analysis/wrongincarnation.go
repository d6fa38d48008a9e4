package analysis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// WrongIncarnation finds deletions that were meant for an earlier object of the same name: the process had last been
// told of that one, and deleted by name either the object of today or what belongs to it. A deletion with the uid as its
// precondition cannot go wrong so.
type WrongIncarnation struct {
	// MinDeletes is how many wrong deletions it takes. One may be somebody's data.
	MinDeletes int64

	beliefs beliefs
	suspect map[*State]*suspect
	groups  map[string]*wrongDeletes
}

// NewWrongIncarnation is a WrongIncarnation with its thresholds set.
func NewWrongIncarnation() *WrongIncarnation {
	return &WrongIncarnation{MinDeletes: 1, suspect: map[*State]*suspect{}, groups: map[string]*wrongDeletes{}}
}

// Name implements Detector.
func (*WrongIncarnation) Name() string { return "wrong-incarnation" }

// suspect is a deletion by a process that takes other objects for their predecessors.
type suspect struct {
	call    *Call
	beliefs []*belief
}

// wrongDeletes are those of one process and resource.
type wrongDeletes struct {
	process     *Process
	n           int64
	first, last int64
	call        *Call
	belief      *belief
	deleted     Object
	objects     map[Object]float64
	places      places
}

// Event implements EventDetector.
func (d *WrongIncarnation) Event(m *Model, e *Event) { d.beliefs.event(m, e) }

// Call implements CallDetector.
func (d *WrongIncarnation) Call(_ *Model, c *Call) {
	d.beliefs.call(c)
	if c.Verb != "delete" || !c.OK() || c.State == nil || c.State.Heartbeat || strings.Contains(c.Body, `"uid"`) {
		return // refused, or it names the uid
	}
	mistaken := slices.DeleteFunc(d.beliefs.before(c), func(b *belief) bool { return !b.other() })
	if len(mistaken) == 0 {
		return
	}
	for _, b := range mistaken {
		if b.state == c.State {
			d.wrong(c, b)
			return
		}
	}
	if len(d.suspect) < maxBeliefs {
		d.suspect[c.State] = &suspect{c, mistaken}
	}
}

// Gone implements GoneDetector: what the deleted object belonged to is known by now.
func (d *WrongIncarnation) Gone(m *Model, s *State) {
	x := d.suspect[s]
	if x == nil {
		return
	}
	delete(d.suspect, s)
	dep := m.kin.of[s]
	for _, b := range x.beliefs {
		// What was made after the object of today had been made was made for that one.
		today := m.kin.of[b.state]
		if dep != nil && dep.about(b.state.Object) && dep.rv > b.rv && (today == nil || dep.seq > today.seq) {
			d.wrong(x.call, b)
			return
		}
	}
}

func (d *WrongIncarnation) wrong(c *Call, b *belief) {
	key := c.Process.Name + "\x00" + resourceName(c.State.Group, c.State.Resource)
	g := d.groups[key]
	if g == nil {
		g = &wrongDeletes{process: c.Process, first: b.ts, call: c, belief: b, deleted: c.State.Object, objects: map[Object]float64{}}
		d.groups[key] = g
	}
	g.n++
	g.last = c.TS
	if len(g.objects) < 1024 {
		g.objects[c.State.Object]++
	}
	g.places.add(b.seq, b.ts, "told of version %d, of an object that is gone", b.rv, 0)
	g.places.add(c.Seq, c.TS, "deletes by name", 0, 0)
}

// Findings implements Detector: one for each process and resource.
func (d *WrongIncarnation) Findings(*Model) ([]Finding, []Note) {
	var out []Finding
	for _, key := range sortedKeys(d.groups) {
		if g := d.groups[key]; g.n >= d.MinDeletes {
			out = append(out, d.finding(g))
		}
	}
	return out, nil
}

func (d *WrongIncarnation) finding(g *wrongDeletes) Finding {
	b, c := g.belief, g.call
	f := Finding{
		Severity: Error, Certainty: Sure, Process: g.process.Name, Manager: c.Manager, Stack: c.Stack, Row: c.Seq,
		First: at(g.first), Last: at(g.last), Evidence: g.places.evidence(), told: g.places.nth(2 * d.MinDeletes), absent: notTold(g.first, g.last),
		Effect: countOf(g.n, "wrong deletions", float64(g.n)/float64(d.MinDeletes)),
	}
	f.Objects, f.Total = worstOf(g.objects)
	if b.state.Object != g.deleted {
		f.Objects, f.Total = append(f.Objects[:min(len(f.Objects), maxObjects-1)], b.state.Object), f.Total+1
	}
	age := float64(c.Start-b.ts) / 1e9
	f.Statistics = []Statistic{{Name: "mistaken for", Value: age, Unit: "s", Low: age, High: age, N: 1, Method: "time from the event of the earlier object to the deletion"}}
	target := fmt.Sprintf("%s, which belongs to the %s of today (uid %s)", g.deleted, b.state.Object, b.state.UID)
	if b.state.Object == g.deleted {
		target = fmt.Sprintf("%s of today (uid %s)", g.deleted, b.state.UID)
	}
	f.What = fmt.Sprintf("%s deleted %s, in place of an earlier one's that was gone", g.process.Name, target)
	f.Cause = fmt.Sprintf("it had last been told of %s with uid %s, at resourceVersion %d (seq %d), which is gone, and it deletes by name, without the uid as a precondition",
		b.state.Object, b.uid, b.rv, b.seq)
	f.Manager = cmp.Or(f.Manager, agent(c.UserAgent))
	return f
}

// agent is the program in a user agent.
func agent(userAgent string) string {
	name, _, _ := strings.Cut(userAgent, "/")
	return name
}
