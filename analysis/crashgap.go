package analysis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/opreplay/opreplay/traces"
)

// CrashGap finds sequences of creates that a restart cut: of the objects that a process makes for each object of a
// kind, one has the first ones only, the last of them was the last thing that the process wrote before it went down,
// and since it is back it has not made the rest. Some step is only done on the path that did the step before.
//
// What belongs to a sequence is learned from the other objects of the kind in the same trace; without another one that
// has all, nothing is said.
type CrashGap struct {
	// MinLeft is for how many nanoseconds at the end the process must have been back and quiet about the object.
	MinLeft int64
	// MinComplete is how many other objects of the kind must have what this one lacks, and all of them must.
	MinComplete int

	restarts restarts
	writes   map[*Process]*lastWrites
}

// NewCrashGap is a CrashGap with its thresholds set.
func NewCrashGap() *CrashGap {
	return &CrashGap{MinLeft: 5e9, MinComplete: 1, writes: map[*Process]*lastWrites{}}
}

// Name implements Detector.
func (*CrashGap) Name() string { return "crash-gap" }

// lastWrites are the last write of a process before each of its ends, as far as it is known which that was.
type lastWrites struct {
	last     *Call
	cut      []cut
	managers []string // that its writes named; an unanswered one is known by them
}

// cut is the last write before a restart.
type cut struct {
	call *Call
	restart
}

// Event implements EventDetector.
func (d *CrashGap) Event(_ *Model, e *Event) { d.restarts.event(e) }

// Request implements RequestDetector.
func (d *CrashGap) Request(_ *Model, p *Process, r *traces.Request) {
	d.restarts.request(p, r)
	if p != nil {
		d.cut(p)
	}
}

// Log implements LogDetector.
func (d *CrashGap) Log(m *Model, l *traces.Log) {
	d.restarts.log(m, l)
	if p := m.processes[l.Process]; p != nil {
		d.cut(p)
	}
}

// cut notes the last write before a restart that has just been noticed.
func (d *CrashGap) cut(p *Process) {
	l, w := d.restarts.of[p], d.writes[p]
	if l == nil || w == nil || len(l.back) == 0 || w.last == nil {
		return
	}
	r := l.back[len(l.back)-1]
	if n := len(w.cut); n < maxRestarts && (n == 0 || w.cut[n-1].restart != r) {
		w.cut = append(w.cut, cut{w.last, r})
	}
	w.last = nil
}

// Call implements CallDetector. A call whose answer never came (code 0) may have taken effect.
func (d *CrashGap) Call(_ *Model, c *Call) {
	if c.Process == nil || !c.Write() || c.State == nil || c.State.Heartbeat || !c.OK() && c.Code != 0 {
		return
	}
	w := d.writes[c.Process]
	if w == nil {
		w = &lastWrites{}
		d.writes[c.Process] = w
	}
	w.last = c
	if c.Manager != "" && len(w.managers) < 16 && !slices.Contains(w.managers, c.Manager) {
		w.managers = append(w.managers, strings.Clone(c.Manager))
	}
}

// Findings implements Detector: one for each object that was left half made.
func (d *CrashGap) Findings(m *Model) ([]Finding, []Note) {
	var out []Finding
	for _, p := range m.nth {
		w := d.writes[p]
		if w == nil {
			continue
		}
		seen := map[Object]bool{}
		for _, x := range w.cut {
			made := m.kin.of[x.call.State]
			if made == nil || x.call.Verb != "create" || m.End(p)-x.backTS < d.MinLeft {
				continue
			}
			for _, s := range d.principals(m, made, p) {
				if f, ok := d.judge(m, p, s, x, made); ok && !seen[s.Object] {
					seen[s.Object] = true
					out = append(out, f)
				}
			}
		}
	}
	return out, nil
}

// made is whether the process made it, as far as that is known.
func (w *lastWrites) made(dep *dependent, p *Process) bool {
	return dep != nil && (dep.process == p || dep.process == nil && slices.Contains(w.managers, dep.manager))
}

// principals are the objects that one may have been made for.
func (d *CrashGap) principals(m *Model, made *dependent, p *Process) []*State {
	var out []*State
	for s := range m.Objects {
		if s != made.state && s.Deleting == 0 && p.sees(s.Object) && made.about(s.Object) && !d.writes[p].made(m.kin.of[s], p) {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b *State) int { return a.Object.compare(b.Object) })
	return out
}

// judge compares what the object has with what all others of its kind have.
func (d *CrashGap) judge(m *Model, p *Process, s *State, x cut, made *dependent) (Finding, bool) {
	has := d.parts(m, p, s)
	usual := map[string]int{}
	complete, example := 0, (*State)(nil)
	for o := range m.Objects {
		if o == s || o.Group != s.Group || o.Resource != s.Resource || o.Deleting != 0 {
			continue
		}
		theirs := d.parts(m, p, o)
		if theirs[roleFor(made, s)] == nil {
			continue // it has not come as far
		}
		complete++
		if example == nil || o.Object.compare(example.Object) < 0 {
			example = o
		}
		for k := range theirs {
			usual[k]++
		}
	}
	var lacks []string
	for _, k := range sortedKeys(usual) {
		if usual[k] == complete && has[k] == nil {
			lacks = append(lacks, k)
		}
	}
	told, _ := s.Told(p, 0)
	if complete < d.MinComplete || len(lacks) == 0 || told.Seq == 0 {
		return Finding{}, false
	}
	return d.finding(m, p, s, x, made, lacks, example, complete), true
}

// parts are the objects that the process made for an object, by their role: kind, and name without the object's.
func (d *CrashGap) parts(m *Model, p *Process, s *State) map[string]*dependent {
	out := map[string]*dependent{}
	for _, dep := range m.dependents(s.Object) {
		if d.writes[p].made(dep, p) {
			out[roleFor(dep, s)] = dep
		}
	}
	return out
}

func roleFor(dep *dependent, s *State) string {
	name := strings.Replace(dep.state.Name, s.Name, "*", 1)
	if !strings.Contains(name, "*") {
		name = "" // named by the API server
	}
	return resourceName(dep.state.Group, dep.state.Resource) + " " + name
}

func (d *CrashGap) finding(m *Model, p *Process, s *State, x cut, made *dependent, lacks []string, example *State, complete int) Finding {
	var e places
	e.add(made.seq, made.ts, "the last write before the restart", 0, 0)
	e.add(x.seq, x.ts, "the last watch ends", 0, 0)
	e.add(x.backSeq, x.backTS, "the process is back", 0, 0)
	left := float64(m.End(p)-x.backTS) / 1e9
	f := Finding{
		Severity: Error, Certainty: Likely, Process: p.Name, Manager: made.manager, Stack: x.call.Stack, Row: x.call.Seq,
		Objects: []Object{s.Object, made.state.Object}, Total: 2, Evidence: e.evidence(), First: at(made.ts), Last: at(m.End(p)), told: x.backTS + d.MinLeft, absent: noEvents(made.ts, m.End(p)),
		Statistics: []Statistic{
			{Name: "left for", Value: left, Unit: "s", Low: left, High: left, N: 1, Unbounded: true, Method: "time from the process's return to the end, a lower bound (right-censored)"},
			proportion("others that have all", int64(complete), int64(complete)),
		},
		Effect: countOf(len(lacks), "objects never made", float64(len(lacks))),
	}
	var names []string
	for _, l := range lacks {
		kind, name, _ := strings.Cut(l, " ")
		names = append(names, strings.TrimSpace(kind+" "+strings.Replace(name, "*", s.Name, 1)))
	}
	f.What = fmt.Sprintf("%s has %s but not %s, the like of which %s made for %s", s.Object, made.state.Object, join(names, "and"), p.Name, cmp.Or(example.Object.String(), "others"))
	f.Cause = fmt.Sprintf("%s went down right after it had created %s; back %s later it found that one and did not make the rest, which is made only where the first is", p.Name, made.state.Object, seconds(x.backTS-x.ts))
	last := int64(0)
	for a := range s.Authors {
		if a.Process == p && a.Seq > x.backSeq {
			last = a.RV
		}
	}
	if last > 0 {
		f.Cause += fmt.Sprintf("; it has written %s since (version %d)", s.Object, last)
	}
	return f
}
