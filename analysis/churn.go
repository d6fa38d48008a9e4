package analysis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/opreplay/opreplay/analysis/internal/jsontext"
	"github.com/opreplay/opreplay/analysis/stats"
)

// Churn finds writes whose meaning is empty: the server took them for no change at all, or they change only
// times, only the order of a list, only the form in which something is empty.
//
// Most operators write some of their children again on each pass, unchanged. The server drops such a write: no
// version, no event, nobody wakes. That is a note with its cost. It becomes a fault when it is endless at a
// rate that no user's change could explain, or when it does make versions that mean nothing:
//
//   - only order or form: nobody means to write that, however seldom;
//   - only lastTransitionTime: by the API conventions it moves only when the condition's status does;
//   - only other times: a heartbeat such as lastProbeTime is meant, and a note, unless it comes faster than
//     anybody reads it.
type Churn struct {
	// MinWrites is how many empty writes of one kind to one object it takes. Two or three happen by accident: a
	// restart, a cache that lags.
	MinWrites int64
	// MinShare is what the lower bound of their share of all the process's writes to the object must reach: an
	// operator that writes something useful nine times of ten is no churner.
	MinShare float64
	// NoOpRate and TimeRate are writes per second to one object from which on empty writes, and writes of
	// times that may be heartbeats, are a fault. Kubelets report every 10 s and leader election renews every 2 s;
	// a no-op write costs the API server a read, a decode and an admission chain, but etcd nothing.
	NoOpRate, TimeRate float64
	// Sustained is for how many nanoseconds such a rate must last.
	Sustained int64

	objects memory[perProcess[churned]]
	ended   []*churned
}

// NewChurn is a Churn with its thresholds set.
func NewChurn() *Churn {
	return &Churn{MinWrites: 5, MinShare: 0.2, NoOpRate: 1, TimeRate: 0.2, Sustained: 10e9}
}

// Name implements Detector.
func (*Churn) Name() string { return "churn" }

func (d *Churn) memories() []placed { return []placed{&d.objects} }

// emptiness is the way in which a write is empty, from what costs least.
type emptiness uint8

const (
	noOp emptiness = iota
	onlyTimes
	onlyTransition
	onlyOrder
	onlyForm
	meaningful
)

// churned counts one process's writes to one object.
type churned struct {
	object  Object
	process *Process
	writes  int64
	kinds   [meaningful]*emptyWrites // nil where there was none
}

type emptyWrites struct {
	n           int64
	first, last int64
	stack       int64
	manager     string
	verb        string
	bytes       int64 // of the requests' bodies
	fields      tally
	places      places
}

func (d *Churn) of(s *State, p *Process) *churned {
	c, first := d.objects.open(s).of(p)
	if first {
		c.object, c.process = s.Object, p
	}
	return c
}

// Call implements Detector: no-op writes are seen at the answer.
func (d *Churn) Call(_ *Model, c *Call) {
	if !c.Empty || c.Process == nil || c.State == nil || c.State.Heartbeat {
		return
	}
	o := d.of(c.State, c.Process)
	o.writes++
	o.empty(noOp).add(c, nil)
}

// Change implements Detector: the others are seen when the version has settled.
func (d *Churn) Change(_ *Model, c *Change) {
	call := c.Author.Call
	if call == nil || call.Process == nil || c.State.Heartbeat || call.Verb == "delete" {
		return
	}
	o := d.of(c.State, call.Process)
	o.writes++
	if leaves, known := c.Diff(); known && !c.Deleted {
		if k := emptinessOf(leaves); k != meaningful {
			o.empty(k).add(call, leaves)
		}
	}
}

// emptinessOf is what a write means that changed these leaves.
func emptinessOf(leaves []jsontext.Leaf) emptiness {
	if len(leaves) == 0 {
		return noOp // only managedFields or the like
	}
	var kinds [4]bool
	transition := true
	for i := range leaves {
		kinds[leaves[i].Kind] = true
		if leaves[i].Kind == jsontext.Time && !strings.HasSuffix(leaves[i].Pattern, "ransitionTime") {
			transition = false
		}
	}
	switch {
	case kinds[jsontext.Value]:
		return meaningful
	case kinds[jsontext.Order]:
		return onlyOrder
	case kinds[jsontext.Form]:
		return onlyForm
	case transition:
		return onlyTransition
	}
	return onlyTimes
}

func (e *emptyWrites) add(c *Call, leaves []jsontext.Leaf) {
	e.n++
	if e.n == 1 {
		e.first = c.TS
	}
	e.last, e.stack, e.manager, e.verb = c.TS, cmp.Or(c.Stack, e.stack), c.Manager, c.kind()
	e.bytes += int64(len(c.Body))
	e.fields.add(leaves)
	e.places.add(c.Seq, c.TS, "write answered with version %d", c.RV, 0)
}

// Gone implements Detector.
func (d *Churn) Gone(m *Model, s *State) {
	list := d.objects.take(s)
	for _, p := range m.nth {
		if o := list.find(p); o != nil && len(d.ended) < maxEnded && o.interesting(d) {
			d.ended = append(d.ended, o)
		}
	}
}

func (c *churned) empty(k emptiness) *emptyWrites {
	if c.kinds[k] == nil {
		c.kinds[k] = &emptyWrites{}
	}
	return c.kinds[k]
}

func (c *churned) interesting(d *Churn) bool {
	for k := range c.kinds {
		if c.kinds[k] != nil && c.kinds[k].n >= d.MinWrites {
			return true
		}
	}
	return false
}

// fault is whether one kind of empty write to an object is more than a habit.
func (d *Churn) fault(c *churned, k emptiness) bool {
	e := c.kinds[k]
	if _, low, _ := stats.Proportion(e.n, c.writes); low < d.MinShare {
		return false
	}
	perSecond := float64(e.n-1) / max(float64(e.last-e.first)/1e9, 1e-3)
	lasting := e.last-e.first >= d.Sustained
	switch k {
	case noOp:
		return lasting && perSecond >= d.NoOpRate
	case onlyTimes:
		return lasting && perSecond >= d.TimeRate
	default:
		return true
	}
}

// Findings implements Detector: one finding for each process, resource, kind and main field.
func (d *Churn) Findings(m *Model) ([]Finding, []Note) {
	type member struct {
		c     *churned
		fault bool
	}
	groups := map[string][]member{}
	take := func(c *churned) {
		for k := range c.kinds {
			if e := c.kinds[k]; e != nil && e.n >= d.MinWrites {
				key := strings.Join([]string{c.process.Name, c.object.Group, c.object.Resource, string(rune('0' + k)), e.fields.main().pattern}, "\x00")
				groups[key] = append(groups[key], member{c, d.fault(c, emptiness(k))})
			}
		}
	}
	for _, list := range d.objects.all(m) {
		for _, c := range list.all {
			take(c)
		}
	}
	for _, c := range d.ended {
		take(c)
	}
	var findings []Finding
	var notes []Note
	for _, key := range sortedKeys(groups) {
		k := emptiness(strings.Split(key, "\x00")[3][0] - '0')
		var faults, habits []*churned
		for _, x := range groups[key] {
			if x.fault {
				faults = append(faults, x.c)
			} else {
				habits = append(habits, x.c)
			}
		}
		if len(faults) > 0 {
			findings = append(findings, d.finding(faults, k))
		}
		if len(habits) > 0 {
			notes = append(notes, d.note(habits, k))
		}
	}
	return findings, notes
}

func byEmptiness(list []*churned, k emptiness) (objects []Object, total, empty, writes int64) {
	slices.SortFunc(list, func(a, b *churned) int {
		return cmp.Or(cmp.Compare(b.kinds[k].n, a.kinds[k].n), a.object.compare(b.object), cmp.Compare(a.kinds[k].first, b.kinds[k].first))
	})
	var s []scored
	for _, c := range list {
		s = append(s, scored{c.object, float64(c.kinds[k].n)})
		empty += c.kinds[k].n
		writes += c.writes
	}
	objects, total = worst(s)
	return objects, total, empty, writes
}

func (d *Churn) finding(list []*churned, k emptiness) Finding {
	f := Finding{Severity: Warning, Certainty: Sure}
	var empty, writes int64
	f.Objects, f.Total, empty, writes = byEmptiness(list, k)
	c := list[0]
	e := c.kinds[k]
	f.Process, f.Manager, f.Stack, f.Field = c.process.Name, e.manager, e.stack, e.fields.main().pattern
	f.Evidence = e.places.evidence()
	first, last := e.first, e.last
	for _, x := range list {
		first, last = min(first, x.kinds[k].first), max(last, x.kinds[k].last)
	}
	f.First, f.Last, f.told = at(first), at(last), e.places.nth(d.MinWrites)
	if k == noOp || k == onlyTimes {
		f.told = max(f.told, e.first+d.Sustained)
	}
	f.Statistics = []Statistic{
		proportion("empty writes", empty, writes),
		rate("empty writes to the worst object", e.n-1, float64(e.last-e.first)/1e9),
	}
	f.Effect = countOf(empty, "empty writes", float64(empty)/float64(d.MinWrites))
	f.What = fmt.Sprintf("%s writes %s without meaning: %d of its %d writes%s changed %s", c.process.Name, c.object, e.n, c.writes, others(f.Total), k.what())
	f.Cause = k.cause(e)
	return f
}

func others(total int64) string {
	if total > 1 {
		return fmt.Sprintf(" (and likewise %s)", plural(total-1, "other object", "other objects"))
	}
	return ""
}

func (d *Churn) note(list []*churned, k emptiness) Note {
	n := Note{}
	var writes int64
	n.Objects, n.Total, n.Count, writes = byEmptiness(list, k)
	c := list[0]
	n.Process, n.Field = c.process.Name, c.kinds[k].fields.main().pattern
	where := c.object.String()
	if n.Total > 1 {
		where = plural(n.Total, "object", "objects") + " of " + resourceName(c.object.Group, c.object.Resource)
	}
	n.What = fmt.Sprintf("%d of %d writes by %s to %s changed %s%s", n.Count, writes, c.process.Name, where, k.what(), emptyCost(list, k))
	return n
}

// emptyCost is what empty writes that are no fault cost, in words: each one is read, decoded and admitted by the API server.
func emptyCost(list []*churned, k emptiness) string {
	first, last, n, bytes := list[0].kinds[k].first, list[0].kinds[k].last, int64(0), int64(0)
	for _, c := range list {
		e := c.kinds[k]
		first, last = min(first, e.first), max(last, e.last)
		n, bytes = n+e.n, bytes+e.bytes
	}
	what := fmt.Sprintf(": %.2g a second", float64(n)/max(float64(last-first)/1e9, 1))
	if bytes > 0 {
		what += fmt.Sprintf(", %s in all", size(bytes))
	}
	if k == noOp {
		return what + " for the API server to decode, admit and drop; no version, and nobody is woken"
	}
	return what + ", each a version for etcd and for all who watch"
}

func (k emptiness) what() string {
	return [...]string{"nothing", "only times", "only a transition time", "only the order of a list", "only the form of what is empty"}[k]
}

func (k emptiness) cause(e *emptyWrites) string {
	field := e.fields.main().pattern
	switch k {
	case noOp:
		return fmt.Sprintf("the operator sends its %s on every pass without comparing with what is there", e.verb)
	case onlyTimes:
		return fmt.Sprintf("%s is set to the current time on every pass", field)
	case onlyTransition:
		return fmt.Sprintf("%s is set to the current time though the condition's status did not change", field)
	case onlyOrder:
		return fmt.Sprintf("%s is built from a list whose order differs from pass to pass (a map, or an informer's cache) and is not sorted", field)
	default:
		return fmt.Sprintf("%s is written empty in a form that the server stores in another, so it differs every time", field)
	}
}
