package analysis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/opreplay/opreplay/analysis/internal/jsontext"
	"github.com/opreplay/opreplay/analysis/stats"
)

// SelfLoop finds reconciles that an operator's own writes queue, over and over: a process writes an object, is
// told of that very version, and by that writes the object again, while nobody else changed anything that it
// could be answering. The writes may go round over several objects: an owner and what it owns are one family.
type SelfLoop struct {
	// MinWrites is how many writes of one object in a row must each have been woken by an own write before, with
	// no version by anybody else in between. Operators that walk through phases in their status write a
	// handful, and passes that write several times do so after an event that is not their own.
	MinWrites int64
	// MinOwnSpecWrites replaces MinWrites where the loop's own writes change a spec (its generation): a
	// stepwise rollout does so legitimately, one step each time.
	MinOwnSpecWrites int64
	// MaxWake is the longest time in nanoseconds from the own event to the write that it is taken to have
	// caused. A reconcile begins within milliseconds of its event unless the queue is long; a timer that
	// repeats a write is set to many seconds.
	MaxWake int64
	// Sustained is for how many nanoseconds a loop that has ended must have gone on to be reported. A loop that
	// goes on to the end of the trace is reported whatever its length, for nothing says that it would end.
	Sustained int64

	objects  memory[looper]
	families map[string]*family
	ended    map[string][]*loop // by key, those whose chain or object is no more
}

// maxEnded bounds the ended loops of one kind that are kept.
const maxEnded = 256

// NewSelfLoop is a SelfLoop with its thresholds set.
func NewSelfLoop() *SelfLoop {
	return &SelfLoop{
		MinWrites: 10, MinOwnSpecWrites: 30, MaxWake: 2e9, Sustained: 10e9,
		families: map[string]*family{}, ended: map[string][]*loop{},
	}
}

// Name implements Detector.
func (*SelfLoop) Name() string { return "self-loop" }

func (d *SelfLoop) memories() []placed { return []placed{&d.objects} }

// looper is an object that a recorded process wrote.
type looper struct {
	key     string // the uid that it is counted under
	family  *family
	writers perProcess[writer]
}

// writer is one process that wrote the object. Most writes are woken by somebody else's, so that a chain is only kept
// from its second one on.
type writer struct {
	lastSeq int64 // of its last write
	alone   int64 // time of the last write that no own one woke, 0 if it began no chain that still goes on
	spec    bool  // that one changed the generation
	loop    *loop
}

// family is what is known of the writes to an owner and what it owns.
type family struct {
	members int
	foreign int64 // seq of the last version that somebody else wrote
	writes  perProcess[rings[familyWrite]]
}

type familyWrite struct {
	state   *State
	rv, seq int64
}

// wake is the own write whose event woke the process to make a call, and that event: zero if there was none.
type wake struct {
	state   *State // written
	by      int64  // seq of the write
	seq, ts int64  // of the event
}

// loop is a chain of writes to one object by one process, each woken by an own write before it.
type loop struct {
	object   Object
	process  *Process
	writes   int64 // in this chain
	pure     int64 // of these, with nobody else's event in between
	run      int64 // of the pure ones, how many in a row just now
	longest  int64 // and at most
	specs    int64 // of these, that changed the generation
	first    int64 // time of the first write
	last     int64
	gone     int64 // when the object was deleted, 0 if it is there
	stack    int64
	manager  string
	observed bool // status.observedGeneration is set
	known    bool // at least one text was seen
	via      []passed
	period   reservoir
	wake     reservoir
	evidence places
	diffs    tally // from the second write on
}

// Call implements Detector: while the deliveries before the call are fresh in memory, it finds the own write whose
// event woke the process.
func (d *SelfLoop) Call(_ *Model, c *Call) {
	s, p := c.State, c.Process
	if p == nil || s == nil || s.Heartbeat || c.Empty || !c.OK() || c.RV == 0 || (c.Verb != "update" && c.Verb != "patch") {
		return
	}
	o, f := d.join(s)
	w, _ := o.writers.of(p)
	writes, _ := f.writes.of(p)
	c.wake = wakeOf(writes, c, w.lastSeq, d.MaxWake)
	w.lastSeq = c.Seq
	writes.add(familyWrite{s, c.RV, c.Seq})
}

// join is the object's loops and its family, which it may only find once its owner is known.
func (d *SelfLoop) join(s *State) (*looper, *family) {
	o := d.objects.open(s)
	if key := s.Family(); o.key != key || o.family == nil {
		d.leave(o)
		f := d.families[key]
		if f == nil {
			f = &family{}
			d.families[key] = f
		}
		o.key, o.family = key, f
		f.members++
	}
	return o, o.family
}

func (d *SelfLoop) leave(o *looper) {
	if f := o.family; f != nil {
		if f.members--; f.members <= 0 {
			delete(d.families, o.key)
		}
	}
}

// Change implements Detector. Versions settle in the order in which they were first seen, so all foreign ones that
// came before are known by now.
func (d *SelfLoop) Change(m *Model, c *Change) {
	p, o := c.Author.Process, d.objects.of(c.State)
	f := d.familyOf(o, c.State)
	if f == nil || c.State.Heartbeat {
		return
	}
	for q := range f.writes.all {
		if q != p || p == nil { // what one operator writes is foreign to another
			f.foreign = max(f.foreign, c.Seq)
			break
		}
	}
	if o == nil || p == nil || c.Author.Call == nil || c.Author.Call.RV != c.RV {
		return
	}
	if w := o.writers.find(p); w != nil {
		d.follow(m, c, f, w)
	}
}

// familyOf is the family that an object is in now, which may be another than when it was last written.
func (d *SelfLoop) familyOf(o *looper, s *State) *family {
	if key := s.Family(); o == nil || o.key != key {
		return d.families[key]
	}
	return o.family
}

// follow lengthens the chain by a write, or begins a new one.
func (d *SelfLoop) follow(m *Model, c *Change, f *family, w *writer) {
	call, specs := c.Author.Call, c.Generation != c.PrevGen && c.PrevGen != 0
	if call.wake.seq == 0 {
		if w.loop != nil {
			d.end(m, w.loop, 0)
		}
		w.loop, w.alone, w.spec = nil, call.TS, specs
		return
	}
	l := w.loop
	if l == nil {
		l = w.begin(c.State.Object, call)
	}
	l.lengthen(c, f.foreign)
	if specs {
		l.specs++
	}
	if c.After != "" && l.writes == d.MinWrites {
		_, l.observed = c.Get("status", "observedGeneration")
		l.known = true
	}
}

// begin is a chain whose first write is the last one that no own one woke, if there was one.
func (w *writer) begin(o Object, call *Call) *loop {
	l := &loop{object: o, process: call.Process}
	if w.alone != 0 {
		l.writes, l.first, l.last = 1, w.alone, w.alone
		if w.spec {
			l.specs = 1
		}
	}
	w.loop = l
	return l
}

// lengthen is a write that an own one woke. foreign is the seq of the last version that somebody else wrote.
func (l *loop) lengthen(c *Change, foreign int64) {
	call := c.Author.Call
	w := &call.wake
	l.wake.add(float64(call.Start-w.ts) / 1e9)
	l.period.add(float64(call.TS-l.last) / 1e9)
	if foreign < w.by {
		l.pure++
		l.run++
		l.longest = max(l.longest, l.run)
	} else {
		l.run = 0
	}
	l.meet(w.state.Object)
	l.evidence.add(call.Seq, call.TS, "write of version %d, woken by the event of an own write (seq %d)", c.RV, w.seq)
	if l.writes++; l.writes == 1 {
		l.first = call.TS
	}
	l.last, l.stack, l.manager = call.TS, cmp.Or(call.Stack, l.stack), call.Manager
	if leaves, known := c.Diff(); known {
		l.diffs.add(leaves)
	}
}

// wakeOf is the own write in the family, from the last one to this object on, whose event reached the process before
// the call began and not long before: the newest, if there are several.
func wakeOf(writes *rings[familyWrite], call *Call, lastSeq, maxWake int64) wake {
	if lastSeq == 0 {
		return wake{}
	}
	for i := range writes.len() {
		w := writes.newest(i)
		if w.seq < lastSeq {
			break
		}
		if e := w.state.Event(call.Process, w.rv); e.Seq != 0 && e.Seq <= call.StartSeq && call.Start-e.TS <= maxWake {
			return wake{w.state, w.seq, e.Seq, e.TS}
		}
	}
	return wake{}
}

// end keeps a chain that is over if it was a loop. gone is when its object was deleted, 0 when it wasn't.
func (d *SelfLoop) end(m *Model, l *loop, gone int64) {
	l.gone = gone
	if !d.counts(m, l) {
		return
	}
	if key := l.key(); len(d.ended[key]) < maxEnded {
		d.ended[key] = append(d.ended[key], l)
	}
}

// passed is another object whose event woke the process for this one.
type passed struct {
	object Object
	n      int64
}

func (l *loop) meet(o Object) {
	if o == l.object {
		return
	}
	for i := range l.via {
		if l.via[i].object == o {
			l.via[i].n++
			return
		}
	}
	if len(l.via) < 8 {
		l.via = append(l.via, passed{o, 1})
	}
}

// through is the other objects that the loop goes through, by name: those that woke it one time in five, for
// a first pass is often woken by what it has just created.
func (l *loop) through() []Object {
	var out []Object
	for _, v := range l.via {
		if v.n*5 >= l.writes {
			out = append(out, v.object)
		}
	}
	slices.SortFunc(out, Object.compare)
	return out
}

// Gone implements Detector.
func (d *SelfLoop) Gone(m *Model, s *State) {
	o := d.objects.take(s)
	if o == nil {
		return
	}
	for _, w := range o.writers.all {
		if w.loop != nil {
			d.end(m, w.loop, s.GoneAt)
		}
	}
	d.leave(o)
}

// need is how many writes make the chain a loop.
func (d *SelfLoop) need(l *loop) int64 {
	if l.specs*2 > l.writes {
		return d.MinOwnSpecWrites
	}
	return d.MinWrites
}

// counts is whether the chain is a loop.
func (d *SelfLoop) counts(m *Model, l *loop) bool {
	if l.longest < d.need(l)-1 {
		return false
	}
	return l.last-l.first >= d.Sustained || d.unbroken(m, l)
}

// unbroken is whether the chain goes on to the end: the process had no time to be quiet for longer than ten of
// the loop's periods.
func (d *SelfLoop) unbroken(m *Model, l *loop) bool {
	period, _, _ := stats.Median(slices.Clone(l.period.sample))
	end := m.End(l.process)
	if l.gone != 0 {
		end = l.gone
	}
	return float64(end-l.last) <= max(10*period*1e9, 1e9)
}

// Findings implements Detector: one finding for each process, resource and set of resources gone through.
func (d *SelfLoop) Findings(m *Model) ([]Finding, []Note) {
	groups := d.ended
	for _, o := range d.objects.all(m) {
		for _, w := range o.writers.all {
			if l := w.loop; l != nil && d.counts(m, l) {
				key := l.key()
				groups[key] = append(groups[key], l)
			}
		}
	}
	var out []Finding
	for _, key := range sortedKeys(groups) {
		out = append(out, d.finding(m, groups[key]))
	}
	return dropMirrors(out), nil
}

// key groups the loops of one kind: many objects of a kind loop for one reason.
func (l *loop) key() string {
	parts := []string{l.process.Name, l.object.Group, l.object.Resource}
	for _, v := range l.through() {
		parts = append(parts, resourceName(v.Group, v.Resource))
	}
	slices.Sort(parts[3:])
	return strings.Join(slices.Compact(parts), "\x00")
}

func (d *SelfLoop) finding(m *Model, loops []*loop) Finding {
	slices.SortFunc(loops, func(a, b *loop) int {
		return cmp.Or(cmp.Compare(b.writes, a.writes), a.object.compare(b.object), cmp.Compare(a.first, b.first))
	})
	l := loops[0]
	var list []scored
	var writes int64
	perSecond := 0.0
	first, last := l.first, l.last
	for _, x := range loops {
		list = append(list, scored{x.object, float64(x.writes)})
		writes += x.writes
		first, last = min(first, x.first), max(last, x.last)
		perSecond += x.perSecond()
	}
	f := Finding{
		Severity: Error, Certainty: Sure, Process: l.process.Name, Manager: l.manager, Stack: l.stack,
		Evidence: l.evidence.evidence(), First: at(first), Last: at(last), told: l.evidence.nth(d.need(l) - 1),
		Statistics: []Statistic{
			median("period", "s", l.period.sample, l.period.n),
			rate("writes", l.writes-1, float64(l.last-l.first)/1e9),
			median("wake-up", "s", l.wake.sample, l.wake.n),
			proportion("only own events between", l.pure, l.writes-1),
		},
		Effect: Effect{Value: perSecond, Unit: "writes/s in vain", Weight: float64(writes) / float64(d.MinWrites)},
	}
	f.Objects, f.Total = worst(list)
	f.Field = l.diffs.main().pattern
	f.What = fmt.Sprintf("%s wakes itself: %d writes of %s in %s, each queued by the event of an own write%s, %s",
		l.process.Name, l.writes, l.object, seconds(l.last-l.first), l.way(), l.ending(d.unbroken(m, l)))
	f.Cause = l.cause()
	return f
}

func (l *loop) perSecond() float64 {
	return float64(l.writes-1) / max(float64(l.last-l.first)/1e9, 1e-3)
}

func (l *loop) way() string {
	names := make([]string, 0, 8)
	for _, o := range l.through() {
		names = append(names, o.String())
	}
	if len(names) == 0 {
		return ""
	}
	return ", by way of " + join(names, "and")
}

func (l *loop) ending(unbroken bool) string {
	spec := "the spec unchanged"
	if l.specs > 0 {
		spec = fmt.Sprintf("the spec changed by itself %d times", l.specs)
	}
	if unbroken {
		return spec + " and no end in sight"
	}
	return spec
}

func (l *loop) cause() string {
	top := l.diffs.main()
	var b strings.Builder
	switch {
	case top.pattern == "":
		b.WriteString("each pass writes the object anew")
	case top.kind == jsontext.Time:
		fmt.Fprintf(&b, "each pass writes a fresh time to %s though nothing else changed", top.pattern)
		if l.diffs.with(jsontext.Value) > l.diffs.writes/2 {
			b.Reset()
			fmt.Fprintf(&b, "each pass writes a fresh time to %s", top.pattern)
		}
	case top.kind == jsontext.Order:
		fmt.Fprintf(&b, "each pass writes the list %s in another order", top.pattern)
	case top.kind == jsontext.Form:
		fmt.Fprintf(&b, "each pass writes %s empty in another way", top.pattern)
	default:
		fmt.Fprintf(&b, "each pass writes another value to %s", top.pattern)
	}
	b.WriteString(", and the operator's watch has no predicate that would leave out its own status writes")
	if strings.HasPrefix(top.pattern, "metadata") || strings.HasPrefix(top.pattern, "spec") {
		b.Reset()
		fmt.Fprintf(&b, "each pass changes %s again, which is an event for the operator itself", top.pattern)
	}
	if l.known && !l.observed {
		b.WriteString("; status.observedGeneration is never set, so it cannot tell its own writes from the user's")
	}
	return b.String()
}

// dropMirrors leaves out a loop over the same objects that another finding of the process already names: the
// loop from parent to child and back is found at both.
func dropMirrors(in []Finding) []Finding {
	slices.SortStableFunc(in, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Process, b.Process), cmp.Compare(b.Effect.Weight, a.Effect.Weight))
	})
	var out []Finding
	for _, f := range in {
		mirror := slices.ContainsFunc(out, func(g Finding) bool {
			return g.Process == f.Process && len(g.Objects) > 0 && len(f.Objects) > 0 && strings.Contains(g.What, f.Objects[0].String()) && strings.Contains(f.What, g.Objects[0].String())
		})
		if !mirror {
			out = append(out, f)
		}
	}
	return out
}
