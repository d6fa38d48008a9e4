package analysis

import (
	"fmt"
	"slices"
	"strings"

	"github.com/opreplay/opreplay/analysis/internal/jsontext"
)

// MissedState finds outcomes that hang on a state that a process never saw. A field was changed and changed back, the
// process's watch skipped what was between, as watches that begin anew do, so that for the process nothing has
// happened; but somebody else had acted on the state between, and what was made then is there still. An operator that
// compares what there is with what should be takes it away; one that works from changes doesn't know of it.
//
// To miss a state is common and no fault by itself.
type MissedState struct {
	// MinLeft is for how many nanoseconds up to the end nothing must have happened to what was made in between.
	MinLeft int64

	objects map[*State]*specHistory
	groups  map[string]*missedStates
}

// NewMissedState is a MissedState with its thresholds set.
func NewMissedState() *MissedState {
	return &MissedState{MinLeft: 5e9, objects: map[*State]*specHistory{}, groups: map[string]*missedStates{}}
}

// Name implements Detector.
func (*MissedState) Name() string { return "missed-state" }

// maxSwings bounds the states of one object that are remembered.
const maxSwings = 16

// specHistory are the last values of an object's spec that were changed.
type specHistory struct {
	edits  []specEdit
	swings []swing
}

type specEdit struct {
	path, before, after string
	rv, seq, ts         int64
}

// swing is a value that was there from one version to another and then taken back.
type swing struct {
	path, base, value string
	rv, seq, ts       int64 // of the version that brought it
	backRV, backTS    int64 // of the version that took it back
	backSeq           int64
}

// Change implements ChangeDetector.
func (d *MissedState) Change(_ *Model, c *Change) {
	s := c.State
	if s.Heartbeat || c.Created || c.Author.Process != nil || !c.Touches("spec") {
		return
	}
	leaves, known := c.Diff()
	if !known {
		return
	}
	h := d.objects[s]
	if h == nil {
		h = &specHistory{}
		d.objects[s] = h
	}
	for i := range leaves {
		l := &leaves[i]
		if l.Kind != jsontext.Value || !strings.HasPrefix(l.Path, "spec.") || len(l.Before) > maxValue || len(l.After) > maxValue {
			continue
		}
		for j := range h.edits {
			if e := &h.edits[j]; e.path == l.Path && e.after == l.Before && e.before == l.After {
				h.swings = append(h.swings, swing{e.path, e.before, e.after, e.rv, e.seq, e.ts, c.RV, c.TS, c.Seq})
			}
		}
		h.edits = slices.DeleteFunc(h.edits, func(e specEdit) bool { return e.path == l.Path })
		h.edits = append(h.edits, specEdit{strings.Clone(l.Path), strings.Clone(l.Before), strings.Clone(l.After), c.RV, c.Seq, c.TS})
	}
	h.edits = h.edits[max(0, len(h.edits)-maxSwings):]
	h.swings = h.swings[max(0, len(h.swings)-maxSwings):]
}

// Gone implements GoneDetector.
func (d *MissedState) Gone(_ *Model, s *State) { delete(d.objects, s) }

// missedStates are those of one process and resource.
type missedStates struct {
	process     *Process
	object      Object
	swing       swing
	before      Delivery // the last that it was told before
	after       Delivery // the first that it was told after
	first, last int64
	made        *dependent
	objects     map[Object]float64
	places      places
}

// Findings implements Detector: one for each process, resource and field.
func (d *MissedState) Findings(m *Model) ([]Finding, []Note) {
	states := make([]*State, 0, len(d.objects))
	for s := range d.objects {
		states = append(states, s)
	}
	slices.SortFunc(states, func(a, b *State) int { return a.Object.compare(b.Object) })
	for _, s := range states {
		for _, x := range d.objects[s].swings {
			for _, p := range m.nth {
				d.judge(m, s, x, p)
			}
		}
	}
	var out []Finding
	for _, key := range sortedKeys(d.groups) {
		out = append(out, d.finding(m, d.groups[key]))
	}
	return out, nil
}

// judge is whether the process never saw the value, and what was made of it stands.
func (d *MissedState) judge(m *Model, s *State, x swing, p *Process) {
	before, after, saw := s.skipped(p, x.rv, x.backRV)
	if saw || before.Seq == 0 || after.Seq == 0 || m.End(p)-after.TS < d.MinLeft {
		return
	}
	for _, dep := range m.dependents(s.Object) {
		if dep.process == p || dep.rv < x.rv || dep.rv > x.backRV || dep.owned(s.Object) {
			continue // its own, or not made of that value
		}
		key := strings.Join([]string{p.Name, resourceName(s.Group, s.Resource), x.path}, "\x00")
		g := d.groups[key]
		if g == nil {
			g = &missedStates{process: p, object: s.Object, swing: x, before: before, after: after, first: x.ts, made: dep, objects: map[Object]float64{}}
			d.groups[key] = g
			g.places.add(x.seq, x.ts, "changed by version %d", x.rv, 0)
			g.places.add(x.backSeq, x.backTS, "changed back by version %d", x.backRV, 0)
			g.places.add(after.Seq, after.TS, "the process is told of version %d, the last before was %d", after.RV, before.RV)
		}
		g.last = m.End(p)
		g.objects[dep.state.Object]++
		g.places.add(dep.seq, dep.ts, "made as version %d", dep.rv, 0)
	}
}

// skipped is what the process was told around a span of versions, and whether it was told of one within.
func (s *State) skipped(p *Process, from, to int64) (before, after Delivery, saw bool) {
	t := s.told.find(p)
	if t == nil {
		return before, after, false
	}
	for i := range t.last.len() {
		switch v := t.last.newest(i); {
		case v.RV >= to:
			after = *v // the earliest, for they come newest first
		case v.RV >= from:
			return before, after, true
		case before.Seq == 0:
			before = *v
		}
	}
	return before, after, false
}

func (d *MissedState) finding(m *Model, g *missedStates) Finding {
	left := float64(m.End(g.process)-g.after.TS) / 1e9
	f := Finding{
		Severity: Error, Certainty: Likely, Process: g.process.Name, Field: g.swing.path, Row: g.after.Seq,
		First: at(g.first), Last: at(g.last), Evidence: g.places.evidence(), told: g.after.TS + d.MinLeft, absent: notTold(g.first, g.last),
		Statistics: []Statistic{{Name: "left for", Value: left, Unit: "s", Low: left, High: left, N: int64(len(g.objects)), Unbounded: true, Method: "time from the first event after the gap to the end, a lower bound (right-censored)"}},
		Effect:     countOf(len(g.objects), "objects left", float64(len(g.objects))),
	}
	f.Objects, f.Total = worstOf(g.objects)
	by := ""
	if g.made.manager != "" {
		by = " by " + g.made.manager
	}
	f.What = fmt.Sprintf("%s, made%s while %s of %s was %s, is still there%s though that has been %s again for %s",
		f.Objects[0], by, g.swing.path, g.object, g.swing.value, others(f.Total), g.swing.base, seconds(m.End(g.process)-g.swing.backTS))
	f.Cause = fmt.Sprintf("%s never saw %s at %s: its watch went from resourceVersion %d to %d and skipped it; it takes its work from the changes that it sees instead of comparing what there is with what should be",
		g.process.Name, g.swing.path, g.swing.value, g.before.RV, g.after.RV)
	return f
}
