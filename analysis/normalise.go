package analysis

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"

	"github.com/opreplay/opreplay/analysis/internal/jsontext"
	"github.com/opreplay/opreplay/analysis/stats"
)

// Normalise finds values that the API server does not store as they are sent, and that the operator therefore sends
// again and again: pruned because the schema doesn't have the field, defaulted, brought into another form, rewritten by
// a webhook. What is there never becomes equal to what is wanted.
//
// Many operators send such a value on each pass without ever comparing, which costs little and is a note (as it is
// under churn). It is a fault when it goes on at a rate that no user's change could explain, or when the operator
// deletes the object and creates it anew for it.
type Normalise struct {
	// MinWrites is how many times in a row one value must have been sent and another been stored.
	MinWrites int64
	// MinRecreates is the same for an object that is deleted and created again, which nobody does twice in vain.
	MinRecreates int64
	// MinShare is what the lower bound of their share of the process's writes to the object must reach.
	MinShare float64
	// NoOpRate and VersionRate are writes per second to one object, of those that change nothing and of those that
	// make a version. No-op writes cost etcd nothing, and are common during a rollout.
	NoOpRate, VersionRate float64
	// Sustained is for how many nanoseconds such a rate must last.
	Sustained int64

	objects map[Key]map[*Process]*sent
	found   memory[perProcess[*sent]] // the same by object, while it exists
	gone    queue[Key]                // of objects whose values were altered, and that may be created again
	queued  map[Key]bool              // what is in gone, where each is once, however often it is created again
	differ  jsontext.Differ           // the model's own holds what the version changed
	seed    maphash.Seed
}

// NewNormalise is a Normalise with its thresholds set.
func NewNormalise() *Normalise {
	return &Normalise{
		MinWrites: 5, MinRecreates: 3, MinShare: 0.2, NoOpRate: 1, VersionRate: 0.2, Sustained: 10e9,
		objects: map[Key]map[*Process]*sent{}, queued: map[Key]bool{}, seed: maphash.MakeSeed(),
	}
}

// Name implements Detector.
func (*Normalise) Name() string { return "normalise" }

func (d *Normalise) memories() []placed { return []placed{&d.found} }

// Bounds of what is remembered.
const (
	maxSent    = 512 // objects that are gone
	maxAltered = 8   // values of one object
	sentBefore = 2   // writes of an object before its values are looked at: most are written once or twice
)

// sent is what one process sends to one object, over its incarnations.
type sent struct {
	writes        int64
	creates       int64
	deletes       int64
	altered       []*altered
	process       *Process
	object        Object
	manager, kind string
	stack, row    int64
	places        places
}

// altered is one value that was stored in another way than it was sent.
type altered struct {
	path, pattern, sent, stored string
	pair                        uint64
	n, versions, creates        int64
	first, last                 int64
	seen                        int64 // write number
}

// Call implements CallDetector: writes that changed nothing, and deletions.
func (d *Normalise) Call(_ *Model, c *Call) {
	if c.Process == nil || c.State == nil || c.State.Heartbeat || !c.OK() {
		return
	}
	if c.Verb == "delete" {
		if s := d.objects[c.State.Key()][c.Process]; s != nil {
			s.deletes++
		}
		return
	}
	if c.Empty && c.State.RV == c.RV {
		d.compare(c, c.State, &c.State.top, false)
	}
}

// Change implements ChangeDetector: the others.
func (d *Normalise) Change(_ *Model, c *Change) {
	call := c.Author.Call
	if call == nil || call.Process == nil || c.State.Heartbeat || c.After == "" || call.Verb == "delete" {
		return
	}
	d.compare(call, c.State, &c.after, true)
}

func (d *Normalise) of(s *State, p *Process) *sent {
	if s.Gone {
		return d.byKey(s, p)
	}
	x, first := d.found.open(s).of(p)
	if first {
		*x = d.byKey(s, p)
		(*x).object = s.Object // its newest incarnation
	}
	return *x
}

func (d *Normalise) byKey(s *State, p *Process) *sent {
	byProcess := d.objects[s.Key()]
	if byProcess == nil {
		byProcess = map[*Process]*sent{}
		d.objects[s.Key()] = byProcess
	}
	x := byProcess[p]
	if x == nil {
		x = &sent{object: s.Object, process: p}
		byProcess[p] = x
	}
	return x
}

// Gone implements GoneDetector: what the process deletes itself it may create again.
func (d *Normalise) Gone(m *Model, s *State) {
	d.found.take(s)
	again := false
	for _, x := range d.objects[s.Key()] {
		again = again || len(x.altered) > 0 && x.deletes > 0
	}
	if !again {
		delete(d.objects, s.Key())
		return
	}
	if d.queued[s.Key()] {
		return
	}
	d.queued[s.Key()] = true
	if d.gone.push(s.Key()); d.gone.len() > maxSent {
		k := d.gone.pop()
		delete(d.queued, k)
		if o := m.Object(k); o == nil || o.Gone {
			delete(d.objects, k)
		}
	}
}

// compare looks for values of the request that are stored in another way.
func (d *Normalise) compare(c *Call, s *State, stored *jsontext.Top, version bool) {
	if c.Body == "" || stored.Text() == "" || c.Subresource != "" && c.Subresource != "status" || strings.HasPrefix(c.ContentType, "application/json-patch") {
		return
	}
	x := d.of(s, c.Process)
	if c.Verb == "create" {
		x.creates++
	}
	if x.writes++; x.writes <= sentBefore && c.Verb != "create" {
		return
	}
	leaves := d.differ.WithinTop(c.Body, stored)
	found := false
	for i := range leaves {
		if l := &leaves[i]; l.Kind == jsontext.Value && l.Before != "" && l.Before != "null" && sendable(l.Path, c.Subresource) {
			d.alter(x, c, l, version)
			found = true
		}
	}
	if found {
		x.manager, x.kind, x.stack, x.row = c.Manager, c.kind(), cmp.Or(c.Stack, x.stack), c.Seq
		x.places.add(c.Seq, c.TS, "sent again, stored as version %d", c.RV, 0)
	}
	if len(x.altered) == 0 {
		return
	}
	x.altered = slices.DeleteFunc(x.altered, func(a *altered) bool {
		return a.seen != x.writes && a.n < 2 // seen once: it has been stored by now
	})
}

// sendable is whether a field is one that a client means to set: not what a server or another endpoint is in charge of,
// nor the directives of a strategic merge patch.
func sendable(path, subresource string) bool {
	if strings.Contains(path, "$") || strings.HasPrefix(path, "stringData") {
		return false
	}
	status := strings.HasPrefix(path, "status.") || path == "status"
	if subresource == "status" {
		return status
	}
	if strings.HasPrefix(path, "metadata.") {
		return beneath(path, "metadata.labels") || beneath(path, "metadata.annotations")
	}
	return !status
}

func (d *Normalise) alter(x *sent, c *Call, l *jsontext.Leaf, version bool) {
	i := slices.IndexFunc(x.altered, func(a *altered) bool { return a.path == l.Path })
	pair := maphash.String(d.seed, l.Before) ^ maphash.String(d.seed, l.After)<<1
	if i < 0 {
		if len(x.altered) == maxAltered {
			return
		}
		x.altered = append(x.altered, &altered{path: strings.Clone(l.Path), pattern: strings.Clone(l.Pattern)})
		i = len(x.altered) - 1
	}
	a := x.altered[i]
	if a.pair != pair || a.n == 0 {
		*a = altered{path: a.path, pattern: a.pattern, sent: short(l.Before), stored: short(l.After), pair: pair, first: c.TS}
	}
	a.n++
	a.last, a.seen = c.TS, x.writes
	if version {
		a.versions++
	}
	if c.Verb == "create" {
		a.creates++
	}
}

// fault is whether the process can't get its value stored and doesn't leave it at that.
func (d *Normalise) fault(x *sent, a *altered) bool {
	if a.creates >= d.MinRecreates && x.deletes >= d.MinRecreates-1 {
		return true
	}
	if _, low, _ := stats.Proportion(a.n, x.writes); a.n < d.MinWrites || low < d.MinShare || a.last-a.first < d.Sustained {
		return false
	}
	lasted := float64(a.last-a.first) / 1e9
	return float64(a.n-1)/lasted >= d.NoOpRate || float64(a.versions-1)/lasted >= d.VersionRate
}

// Findings implements Detector: one for each process, resource and field.
func (d *Normalise) Findings(*Model) ([]Finding, []Note) {
	type one struct {
		x *sent
		a *altered
	}
	faults, habits := map[string][]one{}, map[string][]one{}
	for _, byProcess := range d.objects {
		for _, x := range byProcess {
			for _, a := range x.altered {
				key := strings.Join([]string{x.process.Name, resourceName(x.object.Group, x.object.Resource), a.pattern}, "\x00")
				if d.fault(x, a) {
					faults[key] = append(faults[key], one{x, a})
				} else if a.n >= d.MinWrites {
					habits[key] = append(habits[key], one{x, a})
				}
			}
		}
	}
	order := func(p, q one) int { return cmp.Or(cmp.Compare(q.a.n, p.a.n), p.x.object.compare(q.x.object)) }
	var findings []Finding
	var notes []Note
	for _, key := range sortedKeys(faults) {
		list := faults[key]
		slices.SortFunc(list, order)
		f := d.finding(list[0].x, list[0].a)
		var s []scored
		for _, o := range list {
			s = append(s, scored{o.x.object, float64(o.a.n)})
		}
		f.Objects, f.Total = worst(s)
		findings = append(findings, f)
	}
	for _, key := range sortedKeys(habits) {
		list := habits[key]
		slices.SortFunc(list, order)
		x, a := list[0].x, list[0].a
		n := Note{Process: x.process.Name, Field: a.pattern}
		var s []scored
		for _, o := range list {
			s = append(s, scored{o.x.object, float64(o.a.n)})
			n.Count += o.a.n
		}
		n.Objects, n.Total = worst(s)
		n.What = fmt.Sprintf("%s sent %s to %s of %s %s; it is stored as %s", x.process.Name, word(a.sent), a.path, x.object, times(a.n), word(a.stored))
		notes = append(notes, n)
	}
	return oneOfEach(findings), notes
}

// oneOfEach leaves one finding for each process and object: what alters one field mostly alters its neighbours.
func oneOfEach(in []Finding) []Finding {
	slices.SortStableFunc(in, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Process, b.Process), a.Objects[0].compare(b.Objects[0]), cmp.Compare(b.Effect.Weight, a.Effect.Weight), cmp.Compare(a.Field, b.Field))
	})
	var out []Finding
	for _, f := range in {
		if n := len(out); n > 0 && out[n-1].Process == f.Process && out[n-1].Objects[0] == f.Objects[0] {
			out[n-1].Cause += ", and likewise " + f.Field
			continue
		}
		out = append(out, f)
	}
	return out
}

func (d *Normalise) finding(x *sent, a *altered) Finding {
	f := Finding{
		Severity: Warning, Certainty: Sure, Process: x.process.Name, Manager: x.manager, Stack: x.stack, Row: x.row, Field: a.pattern,
		First: at(a.first), Last: at(a.last), Evidence: x.places.evidence(), told: max(x.places.nth(d.MinWrites), a.first+d.Sustained),
		Statistics: []Statistic{
			proportion("writes that sent it", a.n, x.writes),
			rate("writes that sent it", a.n-1, float64(a.last-a.first)/1e9),
		},
		Effect: countOf(a.n, "writes in vain", float64(a.n)/float64(d.MinWrites)),
	}
	recreates := a.creates >= d.MinRecreates && x.deletes >= d.MinRecreates-1
	f.What = fmt.Sprintf("%s sends %s to %s of %s over and over, %s in %s, and the API server stores %s", x.process.Name, word(a.sent), a.path, x.object, times(a.n), seconds(a.last-a.first), word(a.stored))
	if recreates {
		f.Severity = Error
		f.Effect.Weight = float64(a.n) / float64(d.MinRecreates)
		f.What = fmt.Sprintf("%s deletes %s and creates it anew, %s in %s, with %s at %s, and the API server stores %s", x.process.Name, x.object, times(a.creates), seconds(a.last-a.first), word(a.sent), a.path, word(a.stored))
	}
	why := "a default, a conversion or a webhook puts another value in its place"
	switch {
	case a.stored == "":
		why = "it is pruned, for the schema of that kind or version does not have the field, or a feature that it needs is off"
	case strings.Trim(a.sent, `"`) != a.sent && strings.Trim(a.stored, `"`) == a.stored, len(a.sent) > 0 && len(a.stored) > 0 && sameQuantity(a.sent, a.stored):
		why = "it is stored in its canonical form"
	}
	f.Cause = fmt.Sprintf("%s never becomes what the operator compares it with, so it %ss it again on each pass: %s", a.path, strings.Fields(x.kind)[0], why)
	return f
}

// sameQuantity is whether two values may be one quantity, written in two ways: 1000m and 1.
func sameQuantity(a, b string) bool {
	digits := func(s string) string {
		return strings.TrimRight(strings.TrimFunc(s, func(r rune) bool { return r < '0' || r > '9' }), "0")
	}
	return digits(a) != "" && digits(a) == digits(b)
}
