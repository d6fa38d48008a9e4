package analysis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/opreplay/opreplay/analysis/internal/jsontext"
	"github.com/opreplay/opreplay/traces"
)

// TwoLeaders finds a replica that goes on working when another has taken over its lease: it held the lease, another
// identity holds it now, and it still writes what only the leader writes.
//
// Leader election is a matter of clocks, so a write that was under way when the lease passed on is none: client-go's
// elector has the leader stop at its renew deadline, which is before others may take the lease.
type TwoLeaders struct {
	// MinWrites is how many writes begun after the other took over it takes. One is enough: the lease had been free
	// for its whole duration before.
	MinWrites int64

	locks   map[Key]*lock
	written map[*Process]map[kindOf]bool // resources that a process wrote before it first led
	led     map[*Process]bool
}

// NewTwoLeaders is a TwoLeaders with its thresholds set.
func NewTwoLeaders() *TwoLeaders {
	return &TwoLeaders{MinWrites: 1, locks: map[Key]*lock{}, written: map[*Process]map[kindOf]bool{}, led: map[*Process]bool{}}
}

// Name implements Detector.
func (*TwoLeaders) Name() string { return "two-leaders" }

// lock is what leader election goes by: a Lease, or an annotation of older forms.
type lock struct {
	object            Object
	holder            string
	process           *Process // that wrote itself in, nil unknown
	renewed, duration int64    // nanoseconds
	former            map[*Process]*former
	proven            []*former           // those that went on and have led again since, at most maxProven
	whose             map[string]*Process // identities
}

// former is a process that held the lock, and what it has written since it lost it.
type former struct {
	process         *Process
	lost            int64 // seq of the version with which another took it
	lostTS, expired int64
	successor       *Process // nil unknown
	writes          int64
	first, last     int64
	row, stack      int64
	example         Object // of the first write
	manager, kind   string
	resource        string           // of the first write
	theirs          map[string]int64 // writes of the new leader, by resource
	objects         map[Object]float64
	places          places
}

// Bounds of what is remembered: locks, and of one lock the times that a leader went on and led again.
const (
	maxLocks  = 256
	maxProven = 64
)

// Change implements ChangeDetector: who holds which lock.
func (d *TwoLeaders) Change(_ *Model, c *Change) {
	s := c.State
	if !s.Heartbeat || c.After == "" {
		return
	}
	holder, renewed, duration := held(s.Key(), c.After)
	if holder == "" && d.locks[s.Key()] == nil {
		return
	}
	l := d.locks[s.Key()]
	if l == nil {
		if len(d.locks) >= maxLocks {
			return
		}
		l = &lock{object: s.Object, former: map[*Process]*former{}, whose: map[string]*Process{}}
		d.locks[s.Key()] = l
	}
	if p := c.Author.Process; p != nil && holder != "" && holder != l.holder {
		l.whose[strings.Clone(holder)] = p // only one that writes itself in writes another holder
	}
	if holder != l.holder {
		l.pass(holder, c, d.MinWrites)
	}
	l.renewed, l.duration = renewed, duration
}

// pass is the lock going from one identity to another. What the next leader did since it lost the lock before remains
// when it is proven, which takes that many writes.
func (l *lock) pass(holder string, c *Change, minWrites int64) {
	p := l.whose[holder]
	if old := l.process; old != nil && old != p && holder != "" {
		l.former[old] = &former{
			process: old, lost: c.Seq, lostTS: c.TS, expired: l.renewed + l.duration, successor: p, theirs: map[string]int64{}, objects: map[Object]float64{},
		}
	}
	if f := l.former[p]; f != nil { // it leads again
		if f.writes >= minWrites && len(l.proven) < maxProven {
			l.proven = append(l.proven, f)
		}
		delete(l.former, p)
	}
	if holder != "" {
		l.holder, l.process = strings.Clone(holder), p
	}
}

// held reads a lock: who holds it, when it was last renewed, for how long it lasts.
func held(k Key, body string) (holder string, renewed, duration int64) {
	if k.Resource == "leases" {
		spec, _ := jsontext.Get(body, "spec")
		h, _ := jsontext.Get(spec, "holderIdentity")
		t, _ := jsontext.Get(spec, "renewTime")
		seconds, _ := jsontext.Get(spec, "leaseDurationSeconds")
		if strings.HasPrefix(k.Name, "apiserver-") || k.Namespace == "kube-node-lease" {
			return "", 0, 0 // a server's or a node's sign of life, which nobody else takes
		}
		return textOf(h), nanos(t), jsontext.Int(seconds) * 1e9
	}
	record, ok := jsontext.Get(body, "metadata", "annotations", strings.Trim(leaderAnnotation, `"`))
	if !ok {
		return "", 0, 0
	}
	record = plain(record)
	h, _ := jsontext.Get(record, "holderIdentity")
	t, _ := jsontext.Get(record, "renewTime")
	seconds, _ := jsontext.Get(record, "leaseDurationSeconds")
	return textOf(h), nanos(t), jsontext.Int(seconds) * 1e9
}

func textOf(v string) string {
	if v == "null" {
		return ""
	}
	return jsontext.Text(v)
}

func nanos(v string) int64 {
	t, err := time.Parse(time.RFC3339, jsontext.Text(v))
	if err != nil {
		return 0
	}
	return t.UnixNano()
}

// Call implements CallDetector: writes of those that hold no lock any more.
func (d *TwoLeaders) Call(_ *Model, c *Call) {
	p := c.Process
	if p == nil || !c.Write() || !c.OK() || c.Empty || c.Row.Resource == "leases" || c.State != nil && c.State.Heartbeat || strings.Contains(c.Body, leaderAnnotation) {
		return
	}
	kind := kindOf{c.Row.Group, c.Row.Resource}
	leads := false
	for _, l := range d.locks {
		leads = leads || l.process == p || l.former[p] != nil
	}
	own := d.written[p][kind] // not the leader's alone: a webhook's certificate, a status of its own
	if !leads && !own {
		if d.written[p] == nil {
			d.written[p] = map[kindOf]bool{}
		}
		d.written[p][kindOf{strings.Clone(kind.group), strings.Clone(kind.resource)}], own = true, true
	}
	for _, l := range d.locks {
		if f := l.former[p]; f != nil && c.StartSeq >= f.lost && !own {
			f.note(c, resourceName(kind.group, kind.resource))
		}
		for _, f := range l.former {
			if f.successor == p && len(f.theirs) < 64 {
				f.theirs[strings.Clone(resourceName(kind.group, kind.resource))]++
			}
		}
	}
}

func (f *former) note(c *Call, resource string) {
	f.writes++
	if f.writes == 1 {
		f.first, f.row, f.kind, f.resource = c.TS, c.Seq, c.kind(), strings.Clone(resource)
	}
	f.last, f.stack, f.manager = c.TS, cmp.Or(f.stack, c.Stack), c.Manager
	o := Object{Group: c.Row.Group, Version: c.Row.Version, Resource: c.Row.Resource, Namespace: c.Row.Namespace, Name: c.Row.Name}
	if c.State != nil {
		o = c.State.Object
	}
	o = cloneObject(o)
	if f.writes == 1 {
		f.example = o
	}
	if len(f.objects) < 1024 {
		f.objects[o]++
	}
	f.places.say(c.Seq, c.TS, c.Verb+" without the lease")
}

// cloneObject is the object with texts of its own, for those of a row don't last.
func cloneObject(o Object) Object {
	return Object{strings.Clone(o.Group), strings.Clone(o.Version), strings.Clone(o.Resource), strings.Clone(o.Namespace), strings.Clone(o.Name), strings.Clone(o.UID)}
}

// Findings implements Detector: one for each lock and time that a process lost it and went on.
func (d *TwoLeaders) Findings(*Model) ([]Finding, []Note) {
	var out []Finding
	keys := make([]*lock, 0, len(d.locks))
	for _, l := range d.locks {
		keys = append(keys, l)
	}
	slices.SortFunc(keys, func(a, b *lock) int { return a.object.compare(b.object) })
	for _, l := range keys {
		list := slices.Clone(l.proven)
		for _, f := range l.former {
			if f.writes >= d.MinWrites {
				list = append(list, f)
			}
		}
		slices.SortFunc(list, func(a, b *former) int {
			return cmp.Or(cmp.Compare(a.process.Name, b.process.Name), cmp.Compare(a.lost, b.lost))
		})
		for _, f := range list {
			out = append(out, d.finding(l, f))
		}
	}
	return out, nil
}

func (d *TwoLeaders) finding(l *lock, f *former) Finding {
	var e places
	e.add(f.lost, f.lostTS, "another identity takes the lease", 0, 0)
	x := Finding{
		Severity: Error, Certainty: Sure, Process: f.process.Name, Manager: f.manager, Stack: f.stack, Row: f.row,
		First: at(f.lostTS), Last: at(f.last), Evidence: f.places.evidence(), told: f.places.nth(d.MinWrites), absent: absence{table: traces.TableWatch, from: f.lostTS, to: f.last, object: l.object},
		Statistics: []Statistic{rate("writes without the lease", f.writes, float64(f.last-f.lostTS)/1e9)},
		Effect:     countOf(f.writes, "writes without the lease", float64(f.writes)/float64(d.MinWrites)),
	}
	x.Evidence.Total++
	x.Evidence.Items = append(e.evidence().Items, x.Evidence.Items...)
	x.Objects, x.Total = worstOf(f.objects)
	x.Objects = foremost(x.Objects, f.example)
	next := "another identity"
	if f.successor != nil {
		next = f.successor.Name
	}
	x.What = fmt.Sprintf("%s goes on as leader: %s begun after %s had taken the lease %s, the first a %s of %s %s after it",
		f.process.Name, plural(f.writes, "write", "writes"), next, l.object, f.kind, x.Objects[0], seconds(f.first-f.lostTS))
	x.Cause = fmt.Sprintf("its work does not end with its lease, which it last renewed so that it ended %s before %s took it", seconds(max(0, f.lostTS-f.expired)), next)
	if f.expired == 0 || f.expired > f.lostTS {
		x.Cause = fmt.Sprintf("its work does not end with its lease, which %s took over", next)
	}
	if f.theirs[f.resource] > 0 {
		x.Cause += fmt.Sprintf("; both write %s", f.resource)
	}
	return x
}
