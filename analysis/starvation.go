package analysis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/opreplay/opreplay/analysis/stats"
	"github.com/opreplay/opreplay/traces"
)

// Starvation finds keys that wait because another key holds the workers: a reconcile that polls in line, sleeps, or
// waits for an answer, while others are queued behind it.
//
// Where reconciles were recorded, a wait is the time from the event that queued a key to the beginning of its pass,
// and the holder is the pass of the same controller that went on during most of it. Where they were not, both are
// inferred: a wait is the time from the event of a new generation to the operator's next call or log line about that
// object or what it owns, and the holder is the family of objects that all its calls and lines were about in between.
type Starvation struct {
	// MinWait is the shortest wait, in nanoseconds, that counts. Users take ten seconds for "nothing happens", and
	// leader election, resyncs and slow calls stay below it.
	MinWait int64
	// MinHold is the shortest hold, in nanoseconds, that is remembered.
	MinHold int64
	// MinShare of a wait must be covered by the holder.
	MinShare float64
	// Ratio is by how much a wait must exceed the usual one of its kind (the median), where three or more are known.
	Ratio float64

	workers map[*Process]*worker
	held    map[string]*starved // by process and holder
}

// NewStarvation is a Starvation with its thresholds set.
func NewStarvation() *Starvation {
	return &Starvation{MinWait: 10e9, MinHold: 5e9, MinShare: 0.8, Ratio: 10, workers: map[*Process]*worker{}, held: map[string]*starved{}}
}

// Name implements Detector.
func (*Starvation) Name() string { return "starvation" }

// maxWaits bounds the events of one process that wait for an answer, maxStarved the holders that are told apart.
const (
	maxWaits   = 1 << 12
	maxStarved = 1 << 10
)

// worker is what one process is seen to be busy with.
type worker struct {
	process *Process
	passes  bool // its reconciles are recorded
	hold    hold
	past    rings[hold]
	usual   map[string]*reservoir // seconds from event to answer, by resource
	waits   reservoir             // of all
	waiting map[*State]waiting    // by object
	seen    map[*State]int64      // the newest generation that it was told of
	ended   rings[longPass]
}

// hold is a time in which all calls and lines were about one family.
type hold struct {
	family   string
	object   Object
	from, to int64 // the first call, and the first about another family
	last     int64 // the last call
	still    int64 // the longest time without one
	calls    int64
	reads    int64 // of the calls
	stack    int64
}

type waiting struct{ seq, ts int64 }

// longPass is a recorded pass that took long.
type longPass struct {
	controller, key string
	object          Object
	start, end      int64
	stack           int64
	requests        int64
	reads           int64
	call            string // the longest one
	called          int64  // for how long that took
}

// starved are the waits behind one holder.
type starved struct {
	process     *Process
	holder      Object
	named       string
	sure        bool
	holds       int64
	heldFor     int64 // longest
	calls       int64
	reads       int64
	stack       int64
	call        string // the longest one of the longest hold
	called      int64
	waits       reservoir
	first, last int64
	from        int64 // of the last hold
	told        int64 // when the first wait could be told
	keys        map[Object]float64
	places      places
}

func (d *Starvation) of(p *Process) *worker {
	w := d.workers[p]
	if w == nil {
		w = &worker{process: p, usual: map[string]*reservoir{}, waiting: map[*State]waiting{}, seen: map[*State]int64{}}
		d.workers[p] = w
	}
	return w
}

// Event implements EventDetector: a new generation is something to do.
func (d *Starvation) Event(_ *Model, e *Event) {
	if e.Process == nil || e.State == nil || e.State.Heartbeat {
		return
	}
	w := d.of(e.Process)
	if w.passes {
		return
	}
	before := w.seen[e.State]
	if e.Row.Generation <= before {
		return
	}
	w.seen[e.State] = e.Row.Generation
	listed := e.Row.Type != string(traces.Added) && e.Row.Type != string(traces.Modified)
	if listed || before == 0 && e.Row.Type == string(traces.Modified) || e.State.wrote(e.Process, e.Row.ResourceVersion) {
		return
	}
	if _, is := w.waiting[e.State]; !is && len(w.waiting) < maxWaits {
		w.waiting[e.State] = waiting{e.Row.Seq, e.Row.TS}
	}
}

// Call implements CallDetector.
func (d *Starvation) Call(m *Model, c *Call) {
	if c.Process == nil || c.State == nil || c.State.Heartbeat || c.Row.Resource == "events" {
		return
	}
	d.busy(m, d.of(c.Process), c.State, c.Start, c.TS, c.Stack, c.Verb)
}

// Log implements LogDetector.
func (d *Starvation) Log(m *Model, l *traces.Log) {
	p := m.process(l.Process)
	if p == nil || len(d.of(p).waiting) == 0 || !strings.Contains(l.Fields, `"name"`) {
		return
	}
	s := readLog(l)
	if o, ok := s.object(m); ok && o.UID != "" {
		if state := m.ByUID(o.UID); state != nil {
			d.busy(m, d.of(p), state, l.TS, l.TS, 0, "")
		}
	}
}

// busy notes that the process is at work on an object.
func (d *Starvation) busy(m *Model, w *worker, s *State, from, to, stack int64, verb string) {
	family := s.Family()
	root := m.root(s)
	since, waits := w.waiting[s]
	rootSince, rootWaits := w.waiting[root]
	if family != w.hold.family || waits || rootWaits { // who takes up something new was free
		w.hold.to, w.hold.still = from, max(w.hold.still, from-w.hold.last)
		if w.hold.to-w.hold.from >= d.MinHold {
			w.past.add(w.hold)
		}
		w.hold = hold{family: family, object: s.Object, from: from}
		if root != nil {
			w.hold.object = root.Object
		}
	}
	if w.hold.last != 0 {
		w.hold.still = max(w.hold.still, from-w.hold.last)
	}
	w.hold.last, w.hold.stack = to, cmp.Or(stack, w.hold.stack)
	if verb != "" {
		w.hold.calls++
		if verb == "get" {
			w.hold.reads++
		}
	}
	if waits {
		delete(w.waiting, s)
		d.answered(w, s, since, from)
	}
	if rootWaits && root != s {
		delete(w.waiting, root)
		d.answered(w, root, rootSince, from)
	}
}

// answered looks for who held the worker while the object waited.
func (d *Starvation) answered(w *worker, s *State, x waiting, at int64) {
	wait := at - x.ts
	resource := s.Key().Group + "/" + s.Key().Resource
	usual := w.usual[resource]
	if usual == nil {
		usual = &reservoir{}
		w.usual[resource] = usual
	}
	if wait >= d.MinWait {
		m, _, _ := stats.Median(slices.Clone(usual.sample))
		for i := range w.past.len() {
			h := w.past.newest(i)
			covered := min(h.to, at) - max(h.from, x.ts)
			if h.family == s.Family() || float64(covered) < d.MinShare*float64(wait) {
				continue
			}
			if d.active(h) && (usual.n < 3 || float64(wait)/1e9 >= d.Ratio*m) {
				d.starve(w.process, h.object, "", h.from, min(h.to, at)-h.from, h.calls, h.reads, h.stack, false).wait(s.Object, x, wait, x.ts+d.MinWait)
			}
			break
		}
	}
	usual.add(float64(wait) / 1e9)
	w.waits.add(float64(wait) / 1e9)
}

// active is whether somebody was at work all through the hold: a process that is idle holds nothing, and an event that
// it has no interest in waits for nothing.
func (d *Starvation) active(h *hold) bool {
	return h.calls >= 5 && h.still <= d.MinWait/2
}

// Gone implements GoneDetector.
func (d *Starvation) Gone(_ *Model, s *State) {
	for _, w := range d.workers {
		delete(w.waiting, s)
		delete(w.seen, s)
	}
}

// wrote is whether the version is known to be a write of the process's.
func (s *State) wrote(p *Process, rv int64) bool {
	for _, v := range s.pending {
		if v.rv == rv {
			return v.call != nil && v.call.Process == p
		}
	}
	own := false
	s.Authors(func(a *Author) bool {
		own = a.RV == rv && a.Process == p
		return a.RV > rv
	})
	return own
}

// Pass implements PassDetector.
func (d *Starvation) Pass(_ *Model, x *Pass) {
	if x.Process == nil {
		return
	}
	w := d.of(x.Process)
	if !w.passes {
		w.passes, w.waiting = true, map[*State]waiting{}
	}
	r := x.Row
	key := said{controller: r.Controller, namespace: r.Namespace, name: r.Name}
	if x.Trigger.Seq != 0 {
		w.waits.add(float64(r.Start-x.Trigger.TS) / 1e9)
	}
	if x.Trigger.Seq != 0 && r.Start-x.Trigger.TS >= d.MinWait {
		wait := r.Start - x.Trigger.TS
		for i := range w.ended.len() {
			h := w.ended.newest(i)
			covered := min(h.end, r.Start) - max(h.start, x.Trigger.TS)
			if h.controller != r.Controller || h.key == key.key() || float64(covered) < d.MinShare*float64(wait) {
				continue
			}
			o := Object{Resource: strings.Clone(r.Controller), Namespace: strings.Clone(r.Namespace), Name: strings.Clone(r.Name)}
			if x.Trigger.State != nil {
				o = x.Trigger.State.Object
			}
			if s := d.starve(x.Process, h.object, h.key, h.start, h.end-h.start, h.requests, h.reads, h.stack, true); s != nil {
				if s.heldFor == h.end-h.start {
					s.call, s.called = h.call, h.called
				}
				s.wait(o, waiting{x.Trigger.Seq, x.Trigger.TS}, wait, r.TS)
			}
			break
		}
	}
	if r.TS-r.Start >= d.MinHold {
		h := longPass{controller: strings.Clone(r.Controller), key: key.key(), start: r.Start, end: r.TS, requests: x.Total, reads: x.Reads}
		h.object = Object{Resource: h.controller, Namespace: strings.Clone(r.Namespace), Name: strings.Clone(r.Name)}
		if x.Trigger.State != nil && x.Trigger.State.Name == r.Name {
			h.object = x.Trigger.State.Object
		}
		var most int64
		times := map[int64]int64{} // by stack: the line is that of the calls that took longest in all
		for _, c := range x.Calls {
			if times[c.Stack] += c.TS - c.Start; c.Stack != 0 && times[c.Stack] > most {
				most, h.stack = times[c.Stack], c.Stack
			}
			if took := c.TS - c.Start; took > h.called {
				if h.call, h.called = c.kind(), took; c.State != nil {
					h.call += " of " + resourceName(c.State.Group, c.State.Resource)
				}
			}
			if c.State != nil && c.State.Name == r.Name && c.State.Namespace == r.Namespace {
				h.object = c.State.Object
			}
		}
		w.ended.add(h)
	}
}

func (d *Starvation) starve(p *Process, holder Object, named string, from, held, calls, reads, stack int64, sure bool) *starved {
	key := p.Name + "\x00" + holder.String()
	s := d.held[key]
	if s == nil {
		s = &starved{process: p, holder: holder, named: named, sure: sure, keys: map[Object]float64{}}
		if len(d.held) < maxStarved {
			d.held[key] = s
		}
	}
	if from != s.from {
		s.from = from
		s.holds++
	}
	if held >= s.heldFor {
		s.heldFor, s.calls, s.reads = held, calls, reads
	}
	s.stack = cmp.Or(stack, s.stack)
	return s
}

// wait notes that an object waited, which could be told at a time.
func (s *starved) wait(o Object, x waiting, wait, told int64) {
	seconds := float64(wait) / 1e9
	s.waits.add(seconds)
	if s.waits.n == 1 {
		s.first, s.told = x.ts, told
	}
	s.told = min(s.told, told)
	s.first, s.last = min(s.first, x.ts), max(s.last, x.ts+wait)
	if _, is := s.keys[o]; is || len(s.keys) < maxStarved {
		s.keys[o] = max(s.keys[o], seconds)
	}
	s.places.add(x.seq, x.ts, "queued, and served after %d s", wait/1e9, 0)
}

// Findings implements Detector: one for each process and holder.
func (d *Starvation) Findings(m *Model) ([]Finding, []Note) {
	for _, p := range m.Processes() {
		if w := d.workers[p]; w != nil {
			d.unanswered(m, w)
		}
	}
	var out []Finding
	for _, key := range sortedKeys(d.held) {
		out = append(out, d.finding(d.held[key]))
	}
	return out, nil
}

// unanswered are the events that wait when the trace ends, behind a holder that is at work to the end.
func (d *Starvation) unanswered(m *Model, w *worker) {
	h, end := &w.hold, m.End(w.process)
	if !d.active(h) || end-h.last > d.MinWait/2 {
		return
	}
	var objects []*State
	for s, x := range w.waiting {
		if end-x.ts >= d.MinWait && s.Family() != h.family && float64(end-max(h.from, x.ts)) >= d.MinShare*float64(end-x.ts) {
			objects = append(objects, s)
		}
	}
	slices.SortFunc(objects, func(a, b *State) int { return a.compare(b.Object) })
	for _, s := range objects {
		if usual := w.usual[s.Key().Group+"/"+s.Key().Resource]; usual != nil { // it does answer for this kind
			x := w.waiting[s]
			d.starve(w.process, h.object, "", h.from, end-h.from, h.calls, h.reads, h.stack, false).wait(s.Object, x, end-x.ts, x.ts+d.MinWait)
		}
	}
}

func (d *Starvation) finding(s *starved) Finding {
	var list []scored
	for o, seconds := range s.keys {
		list = append(list, scored{o, seconds})
	}
	f := Finding{
		Severity: Warning, Certainty: Likely, Process: s.process.Name, Stack: s.stack, First: at(s.first), Last: at(s.last), Evidence: s.places.evidence(), told: s.told,
		Statistics: []Statistic{median("wait", "s", s.waits.sample, s.waits.n)},
	}
	if s.sure {
		f.Certainty = Sure
	}
	waiters, total := worst(list)
	f.Objects, f.Total = append([]Object{s.holder}, waiters[:min(len(waiters), maxObjects-1)]...), total+1
	longest := s.keys[waiters[0]]
	if w := d.workers[s.process]; w != nil {
		if z, ok := outlying("longest beyond its waits", w.waits.sample, w.waits.n, longest); ok {
			f.Statistics = append(f.Statistics, z)
		}
	}
	f.Effect = Effect{Value: longest, Unit: "s of waiting", Weight: longest * 1e9 / float64(d.MinWait)}
	f.What = fmt.Sprintf("%s held a worker of %s for %s while %s waited, %s the longest, for %s",
		cmp.Or(s.named, s.holder.String()), s.process.Name, seconds(s.heldFor), plural(total, "other object", "other objects"), waiters[0], seconds(int64(longest*1e9)))
	if s.holds > 1 {
		f.What += fmt.Sprintf(", and again, %s in all", times(s.holds))
	}
	switch {
	case s.called*2 > s.heldFor:
		f.Cause = fmt.Sprintf("its reconcile waits for the answer to its %s, which took %s, and there are too few workers (MaxConcurrentReconciles) for others to go on", s.call, seconds(s.called))
	case s.calls >= 5 && s.reads*2 > s.calls:
		f.Cause = fmt.Sprintf("its reconcile polls in line (%d calls meanwhile, mostly reads) rather than return with RequeueAfter, and there are too few workers for others to go on", s.calls)
	case s.calls >= 5:
		f.Cause = fmt.Sprintf("its reconcile works for that long (%d calls meanwhile), and there are too few workers (MaxConcurrentReconciles) for others to go on", s.calls)
	default:
		f.Cause = "its reconcile waits for something other than the API server, without a deadline or with a long one, and there are too few workers (MaxConcurrentReconciles) for others to go on"
	}
	return f
}
