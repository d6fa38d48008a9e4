package analysis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/opreplay/opreplay/traces"
)

// Tombstone finds deletions that a process missed, because its watch was cut or it was down, and came to grief over:
//
//   - an informer that lists anew and finds an object gone hands its handlers a cache.DeletedFinalStateUnknown in
//     place of the object (client-go, tools/cache/delta_fifo.go), and the handler panics on it or reports an error;
//   - nobody told the process of the deletion, and what it cleans up after other objects of the kind is still there.
type Tombstone struct {
	// MinLeft is for how many nanoseconds at the end something must have been left behind, the process being back.
	MinLeft int64

	missed  map[*Process][]*missedDelete
	met     map[string]*met // by process
	orphans map[*State]bool // made for an object that is gone
	cleaned map[string]bool // process and resource: such have been taken away
}

// NewTombstone is a Tombstone with its thresholds set.
func NewTombstone() *Tombstone {
	return &Tombstone{MinLeft: 5e9, missed: map[*Process][]*missedDelete{}, met: map[string]*met{}, orphans: map[*State]bool{}, cleaned: map[string]bool{}}
}

// Name implements Detector.
func (*Tombstone) Name() string { return "tombstone" }

// maxMissed bounds the missed deletions of one process that are remembered.
const maxMissed = 1 << 10

// missedDelete is an object that a process knew and was not told the end of.
type missedDelete struct {
	object Object
	rv, ts int64
	back   int64 // when the process was next told of objects of the kind
}

// met is how one process took what it found gone.
type met struct {
	process     string
	n           int64
	message     string
	first, last int64
	panics      bool
	stack       []string // lines of the first one's
	reading     int
	places      places
}

// Gone implements GoneDetector.
func (d *Tombstone) Gone(m *Model, s *State) {
	if s.Heartbeat {
		return
	}
	for p, t := range s.told.all {
		if !p.sees(s.Object) {
			continue // it has read it, and has no watch that would tell
		}
		if t.newest >= s.RV {
			continue
		}
		if list := d.missed[p]; len(list) < maxMissed {
			d.missed[p] = append(list, &missedDelete{object: s.Object, rv: s.RV, ts: s.GoneAt})
		}
	}
	if dep := m.kin.of[s]; dep != nil && d.orphans[s] {
		d.cleaned[dep.process.Name+"\x00"+resourceName(s.Group, s.Resource)] = true
	}
	delete(d.orphans, s)
	for _, dep := range m.dependents(s.Object) {
		if dep.process != nil && !dep.owned(s.Object) {
			d.orphans[dep.state] = true
		}
	}
}

// Event implements EventDetector: a deletion that is told late was not missed.
func (d *Tombstone) Event(_ *Model, e *Event) {
	list := d.missed[e.Process]
	if len(list) == 0 {
		return
	}
	w := e.Row
	if w.Type == string(traces.Deleted) {
		d.missed[e.Process] = slices.DeleteFunc(list, func(x *missedDelete) bool { return x.object.UID == w.UID })
		return
	}
	for _, x := range list {
		if x.back == 0 && x.object.Resource == w.Resource && x.object.Group == w.Group {
			x.back = w.TS
		}
	}
}

// Log implements LogDetector.
func (d *Tombstone) Log(_ *Model, l *traces.Log) {
	x := d.met[l.Process]
	if x != nil && x.reading > 0 {
		x.reading--
		x.stack = append(x.stack, strings.TrimSpace(l.Message))
	}
	const kind = "DeletedFinalStateUnknown"
	if !strings.Contains(l.Message, kind) && !strings.Contains(l.Fields, kind) {
		return
	}
	panics := strings.Contains(l.Message, "panic") || strings.Contains(l.Fields, "interface conversion")
	if !panics && l.Level != "error" && l.Level != "fatal" {
		return
	}
	if x == nil {
		x = &met{process: strings.Clone(l.Process), first: l.TS, message: strings.Clone(brief(l.Message))}
		if s := readLog(l); s.panicked != "" || s.err != "" {
			x.message = strings.Clone(brief(cmp.Or(s.panicked, s.err)))
		}
		d.met[x.process] = x
	}
	if panics && len(x.stack) == 0 {
		x.reading = 64 // lines of a stack that are looked at
	}
	x.panics = x.panics || panics
	x.n++
	x.last = l.TS
	x.places.add(l.Seq, l.TS, "stumbles over what an informer found gone", 0, 0)
}

// Findings implements Detector: one for each process that stumbled, and one for each process and resource whose end it
// missed and left things of.
func (d *Tombstone) Findings(m *Model) ([]Finding, []Note) {
	var findings []Finding
	var notes []Note
	for _, p := range m.nth {
		if x := d.met[p.Name]; x != nil {
			findings = append(findings, d.stumbled(x, d.missed[p]))
			continue
		}
		f, n := d.left(m, p)
		findings, notes = append(findings, f...), append(notes, n...)
	}
	return findings, notes
}

func (d *Tombstone) stumbled(x *met, missed []*missedDelete) Finding {
	f := Finding{
		Severity: Error, Certainty: Likely, Process: x.process, First: at(x.first), Last: at(x.last), Evidence: x.places.evidence(), told: x.first,
		Statistics: []Statistic{rate("times", x.n, float64(max(x.last-x.first, 1e9))/1e9)},
		Effect:     countOf(x.n, "errors", float64(x.n)),
	}
	what := "an object"
	for _, lost := range missed {
		if lost.ts <= x.first {
			f.Objects, f.Certainty = append(f.Objects, lost.object), Sure
			f.First = at(lost.ts)
		}
	}
	if f.Total = int64(len(f.Objects)); f.Total > 0 {
		slices.Reverse(f.Objects) // the last one is the likeliest
		f.Objects = f.Objects[:min(len(f.Objects), maxObjects)]
		what = f.Objects[0].String()
	}
	does := "reports an error over"
	if x.panics {
		does = "panics on"
	}
	f.What = fmt.Sprintf("%s %s the deletion of %s, which it was not told of while it happened: %s", x.process, does, what, x.message)
	f.Cause = "its watch missed the deletion; the informer, listing anew, hands the handler a cache.DeletedFinalStateUnknown in place of the object, and the handler converts it without asking"
	if frame := ownFrame(x.stack); frame != "" {
		f.Cause += ", in " + frame
	}
	return f
}

// left finds what is still there of objects whose deletion the process missed.
func (d *Tombstone) left(m *Model, p *Process) (findings []Finding, notes []Note) {
	groups := map[string]*leftBehind{}
	for _, x := range d.missed[p] {
		if x.back == 0 || m.End(p)-x.back < d.MinLeft {
			continue // it is not back, or not for long
		}
		if again := m.Object(Key{x.object.Group, x.object.Resource, x.object.Namespace, x.object.Name}); again != nil && !again.Gone {
			continue // its things are another's now
		}
		for _, dep := range m.dependents(x.object) {
			if dep.process != p || dep.ts > x.ts || dep.owned(x.object) {
				continue
			}
			resource := resourceName(dep.state.Group, dep.state.Resource)
			g := groups[resource]
			if g == nil {
				g = &leftBehind{example: dep, missed: x, objects: map[Object]float64{}, usual: d.cleaned[p.Name+"\x00"+resource]}
				groups[resource] = g
			}
			g.objects[dep.state.Object]++
			g.places.add(dep.seq, dep.ts, "made as version %d", dep.rv, 0)
		}
	}
	for _, key := range sortedKeys(groups) {
		g := groups[key]
		objects, total := worstOf(g.objects)
		if !g.usual {
			notes = append(notes, Note{Process: p.Name, Objects: objects, Total: total, Count: total, What: fmt.Sprintf("%s was not told of the deletion of %s, and %s that it had made for it %s still there", p.Name, g.missed.object, plural(total, "object", "objects"), areOrIs(total))})
			continue
		}
		left := float64(m.End(p)-g.missed.back) / 1e9
		findings = append(findings, Finding{
			Severity: Error, Certainty: Likely, Process: p.Name, Manager: g.example.manager, Objects: objects, Total: total, Evidence: g.places.evidence(),
			First: at(g.missed.ts), Last: at(m.End(p)), told: g.missed.back + d.MinLeft, absent: notTold(g.missed.ts, m.End(p)),
			Statistics: []Statistic{{Name: "left for", Value: left, Unit: "s", Low: left, High: left, N: total, Unbounded: true, Method: "time from the process's return to the end, a lower bound (right-censored)"}},
			Effect:     countOf(total, "objects left", float64(total)),
			What:       fmt.Sprintf("%s, which %s had made for %s, is left behind%s", g.example.state.Object, p.Name, g.missed.object, others(total)),
			Cause:      fmt.Sprintf("%s was deleted while %s had no watch of it; it cleans up on the event of a deletion, which never came, and no finalizer waited for it", g.missed.object, p.Name),
		})
	}
	return findings, notes
}

// leftBehind are objects of one resource that nobody will take away.
type leftBehind struct {
	example *dependent
	missed  *missedDelete
	usual   bool
	objects map[Object]float64
	places  places
}

func areOrIs(n int64) string {
	if n == 1 {
		return "is"
	}
	return "are"
}
