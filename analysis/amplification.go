package analysis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/opreplay/opreplay/analysis/internal/jsontext"
	"github.com/opreplay/opreplay/analysis/stats"
)

// Amplification finds operators that answer a change by somebody else with hundreds of writes, or that tell the same
// story in one new Event after another: each version costs etcd its whole size, and each watcher an event.
//
// What other detectors name by its mechanism (self-loop, churn, retry-storm) this one counts by its cost, whatever
// the mechanism is: objects created without end, children patched on each event, Events per failure.
type Amplification struct {
	// MinWrites is how many versions a process must have written to be judged: below that a session is mostly start.
	MinWrites int64
	// MinRatio is how many versions it writes for each change by others to what it watches, or object there was:
	// an operator that makes ten objects and walks each through five phases has 50.
	MinRatio float64
	// MinEvents is how many Events of one reason about one object, each a new object rather than a higher count, and
	// MinEventRate how many a second. client-go's recorder aggregates after ten within ten minutes and limits an
	// object to one in five minutes after a burst of 25; more than that is made past it.
	MinEvents    int64
	MinEventRate float64

	costs  map[*Process]*cost
	stream map[string]*eventStream
	counts memory[perProcess[int64]] // writes
}

// NewAmplification is an Amplification with its thresholds set.
func NewAmplification() *Amplification {
	return &Amplification{MinWrites: 500, MinRatio: 100, MinEvents: 50, MinEventRate: 0.2, costs: map[*Process]*cost{}, stream: map[string]*eventStream{}}
}

// Name implements Detector.
func (*Amplification) Name() string { return "amplification" }

// cost is what one process writes, and what for.
type cost struct {
	writes, bytes, empty int64
	changes              int64 // by others, to what it watches
	created              int64
	first, last          int64
	stack                int64
	manager              string
	byResource           map[kindOf]*int64
	kind                 kindOf // the last one's, and where it is counted
	ofKind               *int64
	byObject             map[Object]int64 // of those that are gone, bounded; in the end of all
	places               places
}

func (d *Amplification) memories() []placed { return []placed{&d.counts} }

// maxWritten bounds the objects whose writes are counted one by one, maxStreams the Events that are told apart.
const (
	maxWritten = 1 << 12
	maxStreams = 1 << 12
)

// eventStream are the Events of one reason about one object.
type eventStream struct {
	process     string
	about       Object
	reason      string
	n           int64
	first, last int64
	stack       int64
	places      places
}

func (d *Amplification) of(p *Process) *cost {
	c := d.costs[p]
	if c == nil {
		c = &cost{byResource: map[kindOf]*int64{}, byObject: map[Object]int64{}}
		d.costs[p] = c
	}
	return c
}

// Change implements ChangeDetector.
func (d *Amplification) Change(m *Model, c *Change) {
	if c.State.Heartbeat {
		return
	}
	p := c.Author.Process
	if p != nil && c.Author.Call != nil {
		d.wrote(d.of(p), c)
	}
	// A change is what somebody else means by it: a spec, a deletion, data that has no generation.
	if !c.Created && !c.Deleted && c.Generation == c.PrevGen && c.Generation != 0 {
		return
	}
	for _, q := range m.Processes() {
		if q != p && (c.State.Newest(q) > 0 || !q.Watches) {
			d.of(q).changes++
		}
	}
}

func (d *Amplification) wrote(x *cost, c *Change) {
	call := c.Author.Call
	x.writes++
	x.bytes += int64(len(c.After))
	if c.Created {
		x.created++
	}
	if x.writes == 1 {
		x.first = c.TS
	}
	x.last, x.stack = c.TS, cmp.Or(call.Stack, x.stack)
	x.manager = call.Manager
	if k := (kindOf{c.State.Group, c.State.Resource}); x.ofKind == nil || x.kind != k {
		if x.byResource[k] == nil {
			x.byResource[k] = new(int64)
		}
		x.kind, x.ofKind = k, x.byResource[k]
	}
	*x.ofKind++
	n, _ := d.counts.open(c.State).of(call.Process)
	*n++
	x.places.add(c.Seq, c.TS, "version %d", c.RV, 0)
}

// Gone implements GoneDetector.
func (d *Amplification) Gone(_ *Model, s *State) { d.count(s, d.counts.take(s)) }

// count adds what was written to one object to what each process wrote.
func (d *Amplification) count(s *State, list *perProcess[int64]) {
	for p, n := range list.all {
		x := d.of(p)
		if before, counted := x.byObject[s.Object]; counted || len(x.byObject) < maxWritten {
			x.byObject[s.Object] = before + *n
		}
	}
}

// Call implements CallDetector: Events that are created, and writes that the server took for nothing.
func (d *Amplification) Call(_ *Model, c *Call) {
	if c.Process == nil || c.Row == nil {
		return
	}
	if c.Empty {
		d.of(c.Process).empty++
	}
	if c.Row.Resource != "events" || c.Verb != "create" || !c.OK() {
		return
	}
	about, reason := eventOf(c.Row.RequestBody)
	key := strings.Join([]string{c.Process.Name, about.String(), reason}, "\x00")
	e := d.stream[key]
	if e == nil {
		if len(d.stream) >= maxStreams {
			return
		}
		e = &eventStream{process: c.Process.Name, about: about, reason: reason, first: c.TS}
		d.stream[key] = e
	}
	e.n++
	e.last, e.stack = c.TS, cmp.Or(c.Stack, e.stack)
	e.places.add(c.Seq, c.TS, "Event created", 0, 0)
}

// Findings implements Detector.
func (d *Amplification) Findings(m *Model) ([]Finding, []Note) {
	for _, s := range d.counts.sorted(m) {
		d.count(s, d.counts.of(s))
	}
	var findings []Finding
	var notes []Note
	for _, p := range m.Processes() {
		x := d.costs[p]
		if x == nil || x.writes < d.MinWrites {
			continue
		}
		useful := max(x.changes, 1)
		ratio, low, _ := stats.Rate(x.writes, float64(useful))
		switch {
		case low >= d.MinRatio:
			findings = append(findings, d.finding(p, x, ratio))
		case ratio >= d.MinRatio/10:
			notes = append(notes, Note{Process: p.Name, Count: x.writes, What: fmt.Sprintf(
				"%s wrote %d versions (%s) for %d changes by others: %.0f for each", p.Name, x.writes, size(x.bytes), x.changes, ratio)})
		}
	}
	return append(findings, d.events()...), notes
}

func (d *Amplification) finding(p *Process, x *cost, ratio float64) Finding {
	var list []scored
	for o, n := range x.byObject {
		list = append(list, scored{o, float64(n)})
	}
	lasted := float64(x.last-x.first) / 1e9
	f := Finding{
		Severity: Warning, Certainty: Sure, Process: p.Name, Manager: x.manager, Stack: x.stack, First: at(x.first), Last: at(x.last), Evidence: x.places.evidence(), told: x.first + int64(float64(x.last-x.first)*float64(d.MinWrites)/float64(max(x.writes, d.MinWrites))),
		Statistics: []Statistic{
			{Name: "versions for each change", Value: ratio, Unit: "versions", N: x.writes, Confidence: confidence, Method: methodRate},
			rate("versions", x.writes, lasted),
		},
		Effect: Effect{Value: ratio, Unit: "versions for each change", Weight: ratio / d.MinRatio},
	}
	_, f.Statistics[0].Low, f.Statistics[0].High = stats.Rate(x.writes, float64(max(x.changes, 1)))
	f.Objects, f.Total = worst(list)
	byResource := map[string]int64{}
	for k, n := range x.byResource {
		byResource[resourceName(k.group, k.resource)] += *n
	}
	most := most(byResource)
	f.What = fmt.Sprintf("%s wrote %d versions, %s to etcd, in %s for %s by others: %.0f for each", p.Name, x.writes, size(x.bytes), seconds(x.last-x.first), plural(x.changes, "change", "changes"), ratio)
	switch {
	case x.created*2 > x.writes:
		f.Cause = fmt.Sprintf("it creates objects, mostly %s, without a change that asks for them", most)
	default:
		f.Cause = fmt.Sprintf("it writes %s, %d times, without a change that asks for it", most, byResource[most])
	}
	return f
}

// events makes one finding for each process and reason.
func (d *Amplification) events() []Finding {
	groups := map[string][]*eventStream{}
	for _, e := range d.stream {
		if _, low, _ := stats.Rate(e.n-1, float64(e.last-e.first)/1e9); e.n >= d.MinEvents && low >= d.MinEventRate {
			groups[e.process+"\x00"+e.reason] = append(groups[e.process+"\x00"+e.reason], e)
		}
	}
	var out []Finding
	for _, key := range sortedKeys(groups) {
		group := groups[key]
		slices.SortFunc(group, func(a, b *eventStream) int { return cmp.Or(cmp.Compare(b.n, a.n), a.about.compare(b.about)) })
		e := group[0]
		var list []scored
		var n int64
		for _, x := range group {
			n += x.n
			list = append(list, scored{x.about, float64(x.n)})
		}
		f := Finding{
			Severity: Warning, Certainty: Sure, Process: e.process, Stack: e.stack, First: at(e.first), Last: at(e.last), Evidence: e.places.evidence(), told: e.places.nth(d.MinEvents),
			Statistics: []Statistic{rate("Events", e.n-1, float64(e.last-e.first)/1e9)},
			Effect:     countOf(n, "Events", float64(n)/float64(d.MinEvents)),
		}
		f.Objects, f.Total = worst(list)
		f.What = fmt.Sprintf("%s created %d Events %q about %s in %s, each an object of its own", e.process, e.n, e.reason, e.about, seconds(e.last-e.first))
		if f.Total > 1 {
			f.What += fmt.Sprintf("; and likewise about %s", plural(f.Total-1, "other object", "other objects"))
		}
		f.Cause = "it reports on each pass rather than when something changes, and with a text or name that differs each time, so that Events are not counted together"
		out = append(out, f)
	}
	return out
}

// size writes a number of bytes for reading.
func size(n int64) string {
	switch {
	case n >= 10<<20:
		return fmt.Sprintf("%d MB", n>>20)
	case n >= 10<<10:
		return fmt.Sprintf("%d kB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}

// eventOf reads what an Event is about, in its old and its new form.
func eventOf(body string) (Object, string) {
	ref, ok := jsontext.Get(body, "involvedObject")
	if !ok {
		ref, _ = jsontext.Get(body, "regarding")
	}
	var o Object
	jsontext.Members(ref, func(key, value string) bool {
		text := strings.Clone(jsontext.Text(value))
		switch key {
		case "apiVersion":
			if group, version, ok := strings.Cut(text, "/"); ok {
				o.Group, o.Version = group, version
			} else {
				o.Version = text
			}
		case "kind":
			o.Resource = strings.ToLower(text) + "s"
		case "namespace":
			o.Namespace = text
		case "name":
			o.Name = text
		case "uid":
			o.UID = text
		}
		return true
	})
	reason, _ := jsontext.Get(body, "reason")
	return o, strings.Clone(jsontext.Text(reason))
}
