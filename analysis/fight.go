package analysis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/opreplay/opreplay/analysis/internal/jsontext"
)

// Fight finds two writers that want different values of one field: each puts its own back after the other has written.
// Neither fails, so nothing slows them down.
//
// What looks alike and is none: a person that changes a value which an operator sets back, once or twice; a request that
// one side sets and the other takes away when it is done; two controllers that hand a status on to each other as the
// spec changes.
type Fight struct {
	// MinReturns is how many times one side must have put back the value that it had set before, MinOther how many
	// times the other must have. Two rounds happen when two rollouts cross.
	MinReturns, MinOther int64
	// MinTurns is how many turns make a fight with a side whose value is another one each time, such as an autoscaler.
	MinTurns int64

	objects memory[contests]
	ended   map[string][]*contest
	writers map[writerKey]string
}

// NewFight is a Fight with its thresholds set.
func NewFight() *Fight {
	return &Fight{MinReturns: 3, MinOther: 2, MinTurns: 10, ended: map[string][]*contest{}, writers: map[writerKey]string{}}
}

// Name implements Detector.
func (*Fight) Name() string { return "fight" }

func (d *Fight) memories() []placed { return []placed{&d.objects} }

// maxContests bounds the fields of one object that are followed.
const maxContests = 24

// contests are the fields of one object that more than one wrote.
type contests struct {
	writer *Way // the first one
	many   bool // there was more than one
	fields []*contest
}

// contest is one field between two writers.
type contest struct {
	object        Object
	path, pattern string
	sides         [2]contender
	last          int    // the side that wrote last
	before        string // the value before the first write that was followed
	turns         int64
	generation    int64 // for a field of the status
	first, lastTS int64
	known         Known // the worst way in which a writer was known
	react         reservoir
	places        places
}

// contender is one side.
type contender struct {
	key     string
	process *Process
	manager string
	value   string
	kind    string // of its last write
	row     int64
	stack   int64
	writes  int64
	returns int64
}

func (c *contender) name() string {
	switch {
	case c.process == nil:
		return cmp.Or(c.manager, "somebody")
	case c.manager == "" || c.manager == c.process.Name:
		return c.process.Name
	}
	return fmt.Sprintf("%s (field manager %s)", c.process.Name, c.manager)
}

// person is whether somebody at a keyboard wrote.
func (c *contender) person() bool { return c.process == nil && strings.HasPrefix(c.manager, "kubectl") }

// Change implements ChangeDetector.
func (d *Fight) Change(_ *Model, c *Change) {
	s := c.State
	if s.Heartbeat || c.Created || c.Deleted || s.Deleting != 0 {
		return
	}
	leaves, known := c.Diff()
	if !known || len(leaves) == 0 {
		return
	}
	c.Manager()
	w := contender{process: c.Author.Process, manager: c.Author.Manager}
	if w.process == nil && w.manager == "" {
		return
	}
	o := d.objects.open(s)
	if !o.many {
		if way := c.written().way; o.writer == nil {
			o.writer = way
		} else if o.writer != way {
			o.many = o.writer.Process != way.Process || o.writer.Manager != way.Manager
		}
	}
	if !o.many {
		return
	}
	w.key = d.writer(w.process, w.manager)
	w.row = c.Author.seq()
	if call := c.Author.Call; call != nil {
		w.kind, w.stack = call.kind(), call.Stack
	}
	for i := range leaves {
		if l := &leaves[i]; l.Kind == jsontext.Value {
			d.field(o, c, l, &w)
		}
	}
}

// writer is a side's key.
func (d *Fight) writer(p *Process, manager string) string {
	k := writerKey{p, manager}
	key, known := d.writers[k]
	if known {
		return key
	}
	if p != nil {
		key = p.Name
	}
	key += "\x00" + manager
	if len(d.writers) < maxWriters {
		d.writers[writerKey{p, strings.Clone(manager)}] = key
	}
	return key
}

type writerKey struct {
	process *Process
	manager string
}

// maxWriters bounds the keys of writers that are not made anew each time.
const maxWriters = 1 << 10

func (d *Fight) field(o *contests, c *Change, l *jsontext.Leaf, w *contender) {
	i := slices.IndexFunc(o.fields, func(x *contest) bool { return x.path == l.Path })
	if i < 0 {
		x := &contest{object: c.State.Object, path: strings.Clone(l.Path), pattern: strings.Clone(l.Pattern), before: short(l.Before), known: c.Author.Known}
		x.begin(c, w, short(l.After))
		if len(o.fields) == maxContests {
			d.end(o.fields[0])
			o.fields = append(o.fields[:0], o.fields[1:]...)
		}
		o.fields = append(o.fields, x)
		return
	}
	x := o.fields[i]
	x.known = min(x.known, c.Author.Known)
	if strings.HasPrefix(x.path, "status.") && c.Generation != x.generation {
		d.end(x)
		x.before = short(l.Before)
		x.begin(c, w, short(l.After)) // it has reason to be another: the spec is
		return
	}
	x.write(c, w, short(l.After))
}

// begin follows the field anew from this write on.
func (x *contest) begin(c *Change, w *contender, value string) {
	x.sides, x.last, x.turns, x.generation = [2]contender{}, 0, 0, c.Generation
	x.sides[0] = *w
	x.sides[0].value, x.sides[0].writes = value, 1
	x.first, x.lastTS = c.TS, c.TS
	x.react, x.places = reservoir{}, places{}
	x.places.add(w.row, c.TS, "written as version %d", c.RV, 0)
}

func (x *contest) write(c *Change, w *contender, value string) {
	if x.sides[x.last].key == w.key {
		x.sides[x.last].value = value // it changes its mind
		x.sides[x.last].writes++
		return
	}
	other := &x.sides[1-x.last]
	if other.key != "" && other.key != w.key {
		x.before = x.sides[x.last].value // a third: these two are not alone
		x.begin(c, w, value)
		return
	}
	back := other.key == "" && value == x.before || other.key != "" && value == other.value
	returns, writes := other.returns, other.writes
	*other = *w
	other.value, other.writes, other.returns = value, writes+1, returns
	if back {
		other.returns++
	}
	x.last = 1 - x.last
	x.turns++
	x.react.add(float64(c.TS-x.lastTS) / 1e9)
	x.lastTS = c.TS
	x.places.add(w.row, c.TS, "written as version %d", c.RV, 0)
}

// counts is whether the contest is a fight.
func (d *Fight) counts(x *contest) bool {
	a, b := &x.sides[0], &x.sides[1]
	if a.returns < b.returns {
		a, b = b, a
	}
	if a.returns < d.MinReturns || (a.person() || b.person()) && (a.value == "" || b.value == "") {
		return false // or a request that is taken away when it is done
	}
	if b.person() {
		return b.returns >= d.MinReturns
	}
	return b.returns >= d.MinOther || x.turns >= d.MinTurns
}

func (d *Fight) end(x *contest) {
	if !d.counts(x) {
		return
	}
	key := x.key()
	if len(d.ended[key]) < maxEnded {
		kept := *x
		d.ended[key] = append(d.ended[key], &kept)
	}
}

func (x *contest) key() string {
	names := []string{x.sides[0].key, x.sides[1].key}
	slices.Sort(names)
	return strings.Join(append(names, resourceName(x.object.Group, x.object.Resource), x.pattern), "\x01")
}

// Gone implements GoneDetector.
func (d *Fight) Gone(_ *Model, s *State) {
	if o := d.objects.take(s); o != nil {
		for _, x := range o.fields {
			d.end(x)
		}
	}
}

// Findings implements Detector: one for each two writers, resource and field.
func (d *Fight) Findings(m *Model) ([]Finding, []Note) {
	for _, s := range d.objects.sorted(m) {
		d.Gone(m, s)
	}
	var out []Finding
	for _, key := range sortedKeys(d.ended) {
		out = append(out, d.finding(d.ended[key]))
	}
	return out, nil
}

func (d *Fight) finding(list []*contest) Finding {
	slices.SortStableFunc(list, func(a, b *contest) int { return cmp.Or(cmp.Compare(b.turns, a.turns), a.object.compare(b.object)) })
	x := list[0]
	a, b := &x.sides[0], &x.sides[1]
	recorded := func(c *contender) bool { return c.process != nil }
	if recorded(b) && !recorded(a) || recorded(a) == recorded(b) && b.name() < a.name() { // one that was recorded first
		a, b = b, a
	}
	f := Finding{
		Severity: Error, Certainty: Sure, Manager: a.manager, Stack: a.stack, Row: a.row, Field: x.pattern,
		Evidence: x.places.evidence(),
		Statistics: []Statistic{
			rate("turns", x.turns, float64(x.lastTS-x.first)/1e9),
			median("answered after", "s", x.react.sample, x.react.n),
			proportion("own value put back", a.returns+b.returns, x.turns),
		},
	}
	if x.known < ByRequest {
		f.Certainty = Likely
	}
	if a.process != nil {
		f.Process = a.process.Name
	}
	byObject := map[Object]float64{}
	var turns int64
	first, last := x.first, x.lastTS
	for _, y := range list {
		byObject[y.object] += float64(y.turns)
		turns += y.turns
		first, last = min(first, y.first), max(last, y.lastTS)
	}
	f.First, f.Last, f.told = at(first), at(last), x.places.nth(2*d.MinReturns)
	f.Objects, f.Total = worstOf(byObject)
	f.Effect = countOf(turns, "turns", float64(turns)/float64(2*d.MinReturns))
	f.What = fmt.Sprintf("%s and %s take turns at %s of %s%s: %s, %s, %s in %s", a.name(), b.name(), x.path, x.object, others(f.Total),
		word(a.value), word(b.value), times(x.turns), seconds(x.lastTS-x.first))
	f.Cause = fmt.Sprintf("both want the field: %s writes %s (%s), and %s writes %s (%s) as often as it sees that; no error tells either of the other",
		a.name(), word(a.value), cmp.Or(a.kind, "a write"), b.name(), word(b.value), cmp.Or(b.kind, "a write"))
	return f
}

// word is a value for a sentence.
func word(value string) string {
	switch r := []rune(value); {
	case value == "":
		return "nothing"
	case len(r) > 60:
		return string(r[:59]) + "…"
	}
	return value
}
