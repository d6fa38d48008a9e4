package analysis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/opreplay/opreplay/analysis/internal/jsontext"
)

// ObservedGeneration finds statuses whose observedGeneration doesn't say what it should, that the status is what came
// of that generation of the spec:
//
//   - ahead: it names a generation that the object has not had;
//   - untrue: it names a generation for which nothing was done, while the process, each time before when that field
//     changed, wrote what depends on it; the work was that of the generation before, labelled with the one that was
//     read last;
//   - behind: the process was told of a generation, did nothing about it, and has been quiet since.
//
// Nor are conditions to be trusted that contradict each other, go back to an earlier generation or flap (conditions).
type ObservedGeneration struct {
	// QuietFor is for how many nanoseconds up to the end of a recorded trace the process must have written nothing
	// about the object: work that waits for the world outside writes nothing for a while. QuietForRun is the same
	// for a simulated run, where there is no world outside.
	QuietFor, QuietForRun int64
	// LabelledFor is for how many nanoseconds a generation that is labelled as done must have been left alone.
	LabelledFor int64
	// MinHandled is how many changes of the field, creation included, must have been followed by a write of what
	// depends on the object, before one without counts as forgotten.
	MinHandled int

	// MinFlips is how many times in a row a process must have turned a condition, within one generation and with no version
	// by anybody else in between: a pass that corrects itself does so once or twice.
	MinFlips int64

	objects   memory[generations]
	said      memory[conditions]
	acts      map[string]*familyActs // by uid of the family
	untrusted map[string]*badConditions
}

// NewObservedGeneration is an ObservedGeneration with its thresholds set.
func NewObservedGeneration() *ObservedGeneration {
	return &ObservedGeneration{QuietFor: 30e9, QuietForRun: 3e9, LabelledFor: 5e9, MinHandled: 2, MinFlips: 6, acts: map[string]*familyActs{}, untrusted: map[string]*badConditions{}}
}

// Name implements Detector.
func (*ObservedGeneration) Name() string { return "observed-generation" }

// maxGenerations bounds the generations of one object that are remembered.
const maxGenerations = 16

// generations is what is remembered of one object that has an observedGeneration.
type generations struct {
	observed   int64
	list       []generation
	ahead      int64  // how far, at most
	by         Author // of the version that last set it
	manager    string
	status     string // the last value that the process wrote beside it, in words
	paused     bool
	aheadBy    Author
	aheadSpec  int64
	aheadValue int64
}

func (d *ObservedGeneration) memories() []placed { return []placed{&d.objects, &d.said} }

// generation is one state of the spec.
type generation struct {
	number, rv, seq, ts int64
	edits               []specEdit
	handled             bool // something that depends on the object was written for it
	labelled            int64
}

// familyActs are the last writes of a process to what belongs to one object, other than to the object itself.
type familyActs struct {
	last    *Call // refused ones included
	refused *Call
	ok      *Call // that changed something
}

// Call implements CallDetector: what is written of what belongs to an object.
func (d *ObservedGeneration) Call(m *Model, c *Call) {
	if c.Process == nil || !c.Write() || c.State == nil || c.State.Heartbeat || c.State.Owner == "" {
		return
	}
	a := d.acts[c.State.Owner]
	if a == nil {
		if o := m.ByUID(c.State.Owner); o == nil || o.Gone {
			return
		}
		a = &familyActs{}
		d.acts[c.State.Owner] = a
	}
	a.last = c
	switch {
	case !c.OK():
		a.refused = c
	case !c.Empty:
		a.ok = c
	}
}

// Change implements ChangeDetector.
func (d *ObservedGeneration) Change(m *Model, c *Change) {
	s := c.State
	if s.Heartbeat || c.After == "" || c.Generation == 0 {
		return
	}
	d.others(m, c)
	if d.wanted(s) && !strings.HasSuffix(s.Group, ".k8s.io") && (c.Created || c.Touches("status.conditions")) {
		d.conditions(c)
	}
	g := d.objects.of(s)
	if g == nil && !strings.Contains(c.After, `"observedGeneration"`) {
		if c.Created && d.wanted(s) {
			*d.objects.open(s) = generations{list: []generation{{number: c.Generation, rv: c.RV, seq: c.Seq, ts: c.TS}}}
		}
		return
	}
	if g == nil {
		g = d.objects.open(s)
		g.list = []generation{{number: c.Generation, rv: c.RV, seq: c.Seq, ts: c.TS}}
	}
	if c.Generation > c.PrevGen && c.PrevGen != 0 {
		g.next(c)
	}
	if c.Created || c.Touches("status") {
		d.status(m, g, c)
	}
}

// wanted is whether an object may come to have an observedGeneration: a custom resource. Those of built-in kinds are
// written by controllers that a trace rarely shows.
func (d *ObservedGeneration) wanted(s *State) bool { return strings.Contains(s.Group, ".") }

func (g *generations) next(c *Change) {
	x := generation{number: c.Generation, rv: c.RV, seq: c.Seq, ts: c.TS}
	leaves, _ := c.Diff()
	for i := range leaves {
		l := &leaves[i]
		if l.Kind == jsontext.Value && strings.HasPrefix(l.Path, "spec.") && len(x.edits) < maxContests {
			x.edits = append(x.edits, specEdit{strings.Clone(l.Path), short(l.Before), short(l.After), c.RV, c.Seq, c.TS})
		}
	}
	g.list = append(g.list, x)
	if len(g.list) > maxGenerations {
		g.list = append(g.list[:0], g.list[1:]...)
	}
	g.paused = strings.Contains(c.After, `"paused":true`) || strings.Contains(c.After, `/paused":"true"`)
}

// status takes in what a version says was observed.
func (d *ObservedGeneration) status(m *Model, g *generations, c *Change) {
	v, ok := c.Get("status", "observedGeneration")
	if !ok {
		return
	}
	c.Manager()
	n := jsontext.Int(v)
	p := c.Author.Process
	if n > c.Generation && (n != g.observed || g.ahead == 0) && !c.Created {
		g.ahead, g.aheadBy, g.aheadValue, g.aheadSpec = n-c.Generation, c.Author, n, c.Generation
	}
	if p != nil {
		g.by, g.manager = c.Author, c.Author.Manager
		if c.Created || c.Touches("status.phase") || c.Touches("status.state") {
			g.status = beside(c)
		}
	}
	if n == g.observed {
		return
	}
	g.observed = n
	if p == nil {
		return
	}
	for i := range g.list {
		x := &g.list[i]
		if x.number == n {
			x.labelled = c.RV
		}
		if x.number <= n && !x.handled {
			x.handled = d.handled(c.State, p, x)
		}
	}
}

// handled is whether the process has written something that belongs to the object since it was told of a generation.
func (d *ObservedGeneration) handled(s *State, p *Process, x *generation) bool {
	a := d.acts[s.UID]
	if a == nil || a.ok == nil || a.ok.Process != p {
		return false
	}
	told, _ := s.knew(p, &Author{RV: x.rv})
	return told.Seq != 0 && a.ok.StartSeq >= told.Seq
}

// beside is what a status says beside its generation: a phase or a state, in words.
func beside(c *Change) string {
	for _, key := range []string{"phase", "state"} {
		if v, ok := c.Get("status", key); ok && len(v) < 64 {
			return fmt.Sprintf("status.%s %s", key, v)
		}
	}
	return ""
}

// Gone implements GoneDetector.
func (d *ObservedGeneration) Gone(_ *Model, s *State) {
	d.objects.take(s)
	if x := d.said.take(s); x != nil {
		d.endContrary(s, x, s.GoneAt)
	}
	delete(d.acts, s.UID)
}

// Findings implements Detector: one for each process, resource and kind of fault.
func (d *ObservedGeneration) Findings(m *Model) ([]Finding, []Note) {
	groups := map[string]*Finding{}
	for _, s := range d.objects.sorted(m) {
		f, class, ok := d.judge(m, s, d.objects.of(s))
		if !ok {
			continue
		}
		key := strings.Join([]string{f.Process, resourceName(s.Group, s.Resource), class}, "\x00")
		if g := groups[key]; g != nil {
			if g.Total++; len(g.Objects) < maxObjects {
				g.Objects = append(g.Objects, s.Object)
			}
			g.Effect.Value, g.Effect.Weight = float64(g.Total), float64(g.Total)
			continue
		}
		groups[key] = &f
	}
	var out []Finding
	for _, key := range sortedKeys(groups) {
		out = append(out, *groups[key])
	}
	return append(out, d.untrustworthy(m)...), nil
}

// judge is what is wrong with one object's observedGeneration.
func (d *ObservedGeneration) judge(m *Model, s *State, g *generations) (f Finding, class string, found bool) {
	if g.ahead > 0 {
		return d.ahead(s, g), "ahead", true
	}
	p := g.by.Process
	if p == nil || s.Deleting != 0 || g.paused || len(g.list) == 0 || g.observed == 0 {
		return f, "", false
	}
	last := &g.list[len(g.list)-1]
	told, _ := s.knew(p, &Author{RV: last.rv})
	if told.Seq == 0 || last.number != s.Generation {
		return f, "", false
	}
	quiet := told.TS
	a := d.acts[s.UID]
	if a != nil && a.last != nil && a.last.Process == p {
		quiet = max(quiet, a.last.TS)
	}
	limit := d.quietFor(m)
	if g.observed == last.number {
		limit = d.LabelledFor
	}
	if m.End(p)-max(quiet, g.by.TS) < limit {
		return f, "", false
	}
	switch {
	case g.observed < last.number && g.by.TS <= told.TS && quiet == told.TS:
		return d.behind(m, s, g, last, told), "behind", true
	case g.observed == last.number && d.untrue(s, p, g, last):
		return d.label(m, s, g, last, told), "untrue", true
	}
	return f, "", false
}

// quietFor is for how long the process must have written nothing.
func (d *ObservedGeneration) quietFor(m *Model) int64 {
	if m.Simulated {
		return d.QuietForRun
	}
	return d.QuietFor
}

// untrue is whether the last generation was labelled as done and nothing was done for it, in the midst of the work for
// the one before.
func (d *ObservedGeneration) untrue(s *State, p *Process, g *generations, last *generation) bool {
	a := d.acts[s.UID]
	if a == nil || a.ok == nil || a.ok.Process != p || len(last.edits) == 0 || d.handled(s, p, last) {
		return false
	}
	handled, between := 0, int64(0)
	for i := range g.list[:len(g.list)-1] {
		x := &g.list[i]
		if x.handled {
			handled++
		}
		between = x.rv
	}
	if handled < d.MinHandled || a.ok.RV < between {
		return false // nothing was written for the generation before either
	}
	// What the work before was made from: the field's value then must be another than now.
	before := &g.list[len(g.list)-2]
	return slices.ContainsFunc(last.edits, func(e specEdit) bool {
		return before.labelled == 0 && e.before != e.after && usual(g, e.path)
	})
}

// usual is whether a change of the field has been handled before.
func usual(g *generations, path string) bool {
	return slices.ContainsFunc(g.list[:len(g.list)-1], func(x generation) bool {
		return x.handled && slices.ContainsFunc(x.edits, func(e specEdit) bool { return e.path == path })
	})
}

func (d *ObservedGeneration) ahead(s *State, g *generations) Finding {
	a := g.aheadBy
	var e places
	e.add(a.seq(), a.TS, "observedGeneration %d at generation %d", g.aheadValue, g.aheadSpec)
	f := d.base(s, g, a, e)
	f.Severity, f.Certainty = Warning, Sure
	f.What = fmt.Sprintf("%s wrote status.observedGeneration %d to %s, whose generation is %d", a.Name(), g.aheadValue, s.Object, g.aheadSpec)
	f.Cause = "it is not the generation of the object that the status was made from: counted by the operator itself, or brought along from a backup or another cluster"
	return f
}

func (d *ObservedGeneration) base(s *State, g *generations, a Author, e places) Finding {
	f := Finding{
		Objects: []Object{s.Object}, Total: 1, Field: "status.observedGeneration", Manager: cmp.Or(a.Manager, g.manager), Row: a.seq(),
		First: at(a.TS), Last: at(a.TS), Evidence: e.evidence(), Effect: countOf(1, "objects with a false generation", 1),
		Statistics: []Statistic{{Name: "generations", Value: float64(s.Generation - g.observed), Unit: "1", Low: float64(s.Generation - g.observed), High: float64(s.Generation - g.observed), N: 1, Method: "metadata.generation less status.observedGeneration"}},
	}
	if a.Process != nil {
		f.Process = a.Process.Name
	}
	if a.Call != nil {
		f.Stack = a.Call.Stack
	}
	return f
}

func (d *ObservedGeneration) behind(m *Model, s *State, g *generations, last *generation, told Delivery) Finding {
	p := g.by.Process
	var e places
	e.add(g.by.seq(), g.by.TS, "the last status, as version %d", g.by.RV, 0)
	e.add(last.seq, last.ts, "generation %d, as version %d", last.number, last.rv)
	e.add(told.Seq, told.TS, "the process is told of version %d", told.RV, 0)
	f := d.base(s, g, g.by, e)
	f.Severity, f.Certainty, f.Row = Error, Likely, told.Seq
	f.First, f.Last, f.absent = at(last.ts), at(m.End(p)), noEvents(last.ts, m.End(p))
	f.told = told.TS + d.quietFor(m)
	f.What = fmt.Sprintf("%s was told of generation %d of %s and has done nothing about it for %s: status.observedGeneration is still %d", p.Name, last.number, s.Object, seconds(m.End(p)-told.TS), g.observed)
	f.Cause = "the pass that the event queued ended without a write and without an error"
	if g.status != "" {
		f.Cause += fmt.Sprintf(": it takes the %s that it had written (version %d) for the end of the matter", g.status, g.by.RV)
	}
	if a := d.acts[s.UID]; a != nil && a.refused != nil && a.refused.Process == p && a.refused.TS <= g.by.TS && g.by.TS-a.refused.TS < 5e9 {
		f.Cause += fmt.Sprintf(", which it had written when its %s of %s was refused with %d %s", a.refused.kind(), a.refused.State.Object, a.refused.Code, a.refused.Reason)
		f.Objects = append(f.Objects, a.refused.State.Object)
		f.Total++
	}
	return f
}

func (d *ObservedGeneration) label(m *Model, s *State, g *generations, last *generation, told Delivery) Finding {
	p := g.by.Process
	a := d.acts[s.UID].ok
	var e places
	e.add(a.Seq, a.TS, "the last write of what belongs to it, begun before that", 0, 0)
	e.add(last.seq, last.ts, "generation %d, as version %d", last.number, last.rv)
	e.add(told.Seq, told.TS, "the process is told of version %d", told.RV, 0)
	e.add(g.by.seq(), g.by.TS, "labelled as done by version %d", g.by.RV, 0)
	f := d.base(s, g, g.by, e)
	f.Severity, f.Certainty = Error, Likely
	f.First, f.Last, f.absent = at(last.ts), at(m.End(p)), noEvents(a.TS, m.End(p))
	f.told = max(told.TS, g.by.TS) + d.LabelledFor
	left := float64(m.End(p)-g.by.TS) / 1e9
	f.Statistics = []Statistic{{Name: "left for", Value: left, Unit: "s", Low: left, High: left, N: 1, Unbounded: true, Method: "time from the status to the end, a lower bound (right-censored)"}}
	edit := last.edits[0]
	f.What = fmt.Sprintf("%s says in status.observedGeneration of %s that generation %d is done, and has done nothing for it: %s changed from %s to %s, and the last that it wrote for the object, %s, was begun before it knew",
		p.Name, s.Object, last.number, edit.path, word(edit.before), word(edit.after), a.State.Object)
	f.Cause = fmt.Sprintf("the status was made from generation %d and labelled with the generation of a copy that was read anew for the write; the next pass sees observedGeneration equal to generation and does nothing", last.number-1)
	f.Objects = append(f.Objects, a.State.Object)
	f.Total++
	return f
}
