package analysis

import (
	"fmt"
	"slices"
	"strings"

	"github.com/opreplay/opreplay/analysis/internal/jsontext"
)

// Conditions that cannot be trusted are found by ObservedGeneration, for what they say is of one generation as the status
// is:
//
//   - contradicting: Ready is True while Available is False, or while Stalled or Failed is True, both of one generation;
//   - going back: a condition names an earlier generation than it did before;
//   - flapping: one process turns a condition to and fro though nobody else has changed the object or what it owns.

// conditions are those of one object, as last seen.
type conditions struct {
	by         *Process // who last turned them
	several    bool     // not all of them were turned by that one
	foreign    int64    // seq of the last version of the object, or of what it owns, by others than who writes the conditions
	generation int64
	list       []oneCondition
	contrary   contrary
}

// oneCondition is what a condition said last.
type oneCondition struct {
	kind, status string
	generation   int64 // observedGeneration, 0 for none
	seq          int64 // of the version that last turned it
	by           *Process
	flips        int64
	places       places
}

// contrary are two conditions that contradict each other, and since when.
type contrary struct {
	text   string
	rv     int64
	author Author
	since  int64
}

// badConditions are the faults of one process, resource and class.
type badConditions struct {
	class, what string
	author      Author
	first, last int64
	told        int64
	longest     float64 // seconds, of contradictions
	n           int64   // times; of flapping, those of the condition that turned most
	objects     map[Object]float64
	places      places
}

// FieldConditions is the Field of ObservedGeneration's findings about conditions.
const FieldConditions = "status.conditions[*]"

// The classes.
const (
	contradicting = "contradicting"
	goingBack     = "going back"
	flapping      = "flapping"
)

// maxConditions bounds those of one object.
const maxConditions = 16

// conditions takes in a version whose conditions may have changed.
func (d *ObservedGeneration) conditions(c *Change) {
	s := c.State
	text, there := c.Get("status", "conditions")
	x := d.said.of(s)
	if !there && x == nil {
		return
	}
	c.Manager()
	if x == nil {
		x = d.said.open(s)
	}
	if c.Generation != x.generation { // there is reason to be another
		x.generation = c.Generation
		for i := range x.list {
			x.list[i].flips, x.list[i].places = 0, places{}
		}
	}
	var now []oneCondition
	jsontext.Elements(text, func(e string) bool {
		kind, _ := jsontext.Get(e, "type")
		status, _ := jsontext.Get(e, "status")
		generation, _ := jsontext.Get(e, "observedGeneration")
		now = append(now, oneCondition{kind: jsontext.Text(kind), status: jsontext.Text(status), generation: jsontext.Int(generation)})
		return len(now) < maxConditions
	})
	for i := range now {
		d.turn(c, x, &now[i])
	}
	for i := range x.list {
		by := x.list[i].by
		x.by, x.several = by, i > 0 && (x.several || by != x.by)
	}
	if text := contradiction(now); text != x.contrary.text {
		d.endContrary(s, x, c.TS)
		x.contrary = contrary{text, c.RV, c.Author, c.TS}
	}
}

// turn compares a condition with what it was before.
func (d *ObservedGeneration) turn(c *Change, x *conditions, n *oneCondition) {
	i := slices.IndexFunc(x.list, func(o oneCondition) bool { return o.kind == n.kind })
	if i < 0 {
		if len(x.list) < maxConditions {
			x.list = append(x.list, oneCondition{kind: strings.Clone(n.kind), status: strings.Clone(n.status), generation: n.generation, seq: c.Seq, by: c.Author.Process})
		}
		return
	}
	o := &x.list[i]
	if n.generation > 0 && n.generation < o.generation {
		g := d.bad(c.State, c.Author, goingBack, c.TS, c.TS)
		g.n++
		g.places.add(c.Seq, c.TS, "generation %d after %d", n.generation, o.generation)
		if g.n == 1 {
			g.what = fmt.Sprintf("condition %s of %s of generation %d after it had been of generation %d", o.kind, c.State.Object, n.generation, o.generation)
		}
	}
	o.generation = n.generation
	if n.status == o.status {
		return
	}
	p := c.Author.Process
	if p == nil || p != o.by || x.foreign > o.seq || n.status == "Unknown" || o.status == "Unknown" {
		o.flips, o.places = 0, places{}
	}
	o.flips++
	o.status, o.seq, o.by = strings.Clone(n.status), c.Seq, p
	o.places.add(c.Seq, c.TS, "turned by version %d", c.RV, 0)
	if p == nil || o.flips < d.MinFlips {
		return
	}
	g := d.bad(c.State, c.Author, flapping, o.places.nth(1), c.TS)
	if o.flips > g.n {
		g.n, g.places = o.flips, o.places
		g.what = fmt.Sprintf("condition %s of %s %s in %s, and nobody else had changed it or what it owns", o.kind, c.State.Object, times(o.flips), seconds(c.TS-o.places.nth(1)))
	}
}

// contradiction is what conditions of one generation say against each other, in words.
func contradiction(list []oneCondition) string {
	i := slices.IndexFunc(list, func(c oneCondition) bool { return c.kind == "Ready" && c.status == "True" })
	if i < 0 {
		return ""
	}
	for _, c := range list {
		if c.generation != list[i].generation {
			continue
		}
		switch {
		case c.kind == "Available" && c.status == "False", (c.kind == "Stalled" || c.kind == "Failed") && c.status == "True":
			return fmt.Sprintf("Ready is True and %s is %s", c.kind, c.status)
		}
	}
	return ""
}

// endContrary judges a contradiction that is over, or stands in the end.
func (d *ObservedGeneration) endContrary(s *State, x *conditions, now int64) {
	k := x.contrary
	if x.contrary = (contrary{}); k.text == "" || now-k.since < d.LabelledFor {
		return // conditions that are written one after the other
	}
	g := d.bad(s, k.author, contradicting, k.since, k.since+d.LabelledFor)
	g.n++
	g.last = max(g.last, now)
	g.places.add(k.author.seq(), k.since, "written as version %d", k.rv, 0)
	if lasted := float64(now-k.since) / 1e9; lasted > g.longest {
		g.longest = lasted
		g.what = fmt.Sprintf("conditions into %s that contradict each other, for %s: %s", s.Object, seconds(now-k.since), k.text)
	}
}

// bad is the fault of that writer, resource and class, with the object among those that have it.
func (d *ObservedGeneration) bad(s *State, a Author, class string, first, told int64) *badConditions {
	key := strings.Join([]string{a.Name(), resourceName(s.Group, s.Resource), class}, "\x00")
	g := d.untrusted[key]
	if g == nil {
		g = &badConditions{class: class, author: a, first: first, told: told, objects: map[Object]float64{}}
		d.untrusted[key] = g
	}
	g.last = max(g.last, told)
	if len(g.objects) < 1024 {
		g.objects[s.Object]++
	}
	return g
}

// others notes a version by somebody else, of an object or of what it owns: a condition may follow from it.
func (d *ObservedGeneration) others(m *Model, c *Change) {
	note := func(s *State) {
		if x := d.said.of(s); x != nil && (x.several || c.Author.Process == nil || c.Author.Process != x.by) {
			x.foreign = max(x.foreign, c.Seq)
		}
	}
	note(c.State)
	if c.State.Owner != "" {
		if owner := m.ByUID(c.State.Owner); owner != nil {
			note(owner)
		}
	}
}

// untrustworthy are the findings.
func (d *ObservedGeneration) untrustworthy(m *Model) []Finding {
	for _, s := range d.said.sorted(m) {
		d.endContrary(s, d.said.of(s), m.LastTS)
	}
	var out []Finding
	for _, key := range sortedKeys(d.untrusted) {
		out = append(out, d.untrusted[key].finding(d))
	}
	return out
}

func (g *badConditions) finding(d *ObservedGeneration) Finding {
	a := g.author
	f := Finding{
		Severity: Warning, Certainty: Likely, Field: FieldConditions, Manager: a.Manager, Row: a.seq(), told: g.told,
		First: at(g.first), Last: at(g.last), Evidence: g.places.evidence(),
		Effect: countOf(len(g.objects), "objects with conditions that can't be trusted", float64(len(g.objects))),
	}
	if a.Known >= ByRequest && g.class != flapping { // for which a Secret that it names may have changed
		f.Certainty = Sure
	}
	if g.class != goingBack { // others, or the version that agrees, may be among what is lost
		f.absent = noEvents(g.first, g.last)
	}
	if a.Process != nil {
		f.Process = a.Process.Name
	}
	if a.Call != nil {
		f.Stack = a.Call.Stack
	}
	f.Objects, f.Total = worstOf(g.objects)
	count := Statistic{Name: "times", Value: float64(g.n), Unit: "1", Low: float64(g.n), High: float64(g.n), N: g.n, Method: "count"}
	switch g.class {
	case contradicting:
		f.What = fmt.Sprintf("%s wrote %s%s", a.Name(), g.what, others(f.Total))
		f.Cause = "each condition is set by a part of the reconcile that does not know of the others; Ready should be computed from them, in the same write"
		count = Statistic{Name: "stood for", Value: g.longest, Unit: "s", Low: g.longest, High: g.longest, N: g.n, Method: "time from the version to the next that agrees, or to the end"}
	case goingBack:
		f.What = fmt.Sprintf("%s wrote %s%s", a.Name(), g.what, others(f.Total))
		f.Cause = "the condition was computed from an older copy of the object than the one before, and written over it"
	default:
		f.What = fmt.Sprintf("%s turned %s%s", a.Name(), g.what, others(f.Total))
		f.Cause = "what the condition is computed from differs from pass to pass though the cluster does not: two parts of the operator disagree, or it is reset at the start of each pass"
		f.Effect.Weight = float64(g.n) / float64(d.MinFlips)
	}
	f.Statistics = []Statistic{count}
	return f
}
