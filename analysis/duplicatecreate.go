package analysis

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"

	"github.com/opreplay/opreplay/analysis/internal/jsontext"
)

// DuplicateCreate finds one intent that was carried out twice: a process creates an object whose name the API server
// chooses, then, in another pass and before it has been told of that object, creates the like of it again. It asked its
// cache whether there is one, and the cache lagged.
//
// Controllers that want several of one kind create them in one pass, and that is none: what tells two passes apart is
// the recorded reconcile, or that the process has meanwhile written the first one's name into another object.
type DuplicateCreate struct {
	// MinCreates is how many it takes beyond the first. One is a machine, a build or a payment too many.
	MinCreates int64
	// Within is how many nanoseconds after the first one counts: what is asked for again after longer is meant again.
	Within int64

	intents map[string]*made
	order   queue[string]
	last    map[*Process]*reference
	groups  map[string]*duplicates
}

// NewDuplicateCreate is a DuplicateCreate with its thresholds set.
func NewDuplicateCreate() *DuplicateCreate {
	return &DuplicateCreate{MinCreates: 1, Within: 600e9, intents: map[string]*made{}, last: map[*Process]*reference{}, groups: map[string]*duplicates{}}
}

// Name implements Detector.
func (*DuplicateCreate) Name() string { return "duplicate-create" }

// maxMade bounds the last creates that are remembered.
const maxMade = 1 << 13

// made is the last object that was created for an intent.
type made struct {
	state             *State
	rv, seq, ts, pass int64
}

// reference is the last write of a process other than a create, and the beginning of what it wrote.
type reference struct {
	seq  int64
	to   *State
	body []byte
}

// duplicates are those of one process and resource.
type duplicates struct {
	process             *Process
	n                   int64
	first, last         int64
	row, stack          int64
	manager             string
	by                  Object // that the first one's name was written into, the zero Object for none
	one, other          Object // an example
	oneRV, after, until int64  // its version, how long after it came the other, and when the process was told of it
	example             *State
	objects             map[Object]float64
	places              places
}

// Call implements CallDetector.
func (d *DuplicateCreate) Call(_ *Model, c *Call) {
	p := c.Process
	if p == nil || !c.Write() || !c.OK() || c.State == nil || c.State.Heartbeat {
		return
	}
	if c.Verb != "create" {
		ref := d.last[p]
		if ref == nil {
			ref = &reference{}
			d.last[p] = ref
		}
		ref.seq, ref.to, ref.body = c.Seq, c.State, append(ref.body[:0], c.Body[:min(len(c.Body), 4096)]...)
		return
	}
	key := intentOf(c)
	if key == "" || c.RV == 0 {
		return
	}
	if one := d.intents[key]; one != nil {
		d.again(one, c)
	} else {
		d.order.push(key)
		if d.order.len() > maxMade {
			delete(d.intents, d.order.pop())
		}
	}
	d.intents[key] = &made{c.State, c.RV, c.Seq, c.TS, c.ReconcileID}
}

// intentOf says what a create of an object without a name is for: its kind, place, labels and owners. "" for others.
func intentOf(c *Call) string {
	meta, _ := jsontext.Get(c.Body, "metadata")
	if name, ok := jsontext.Get(meta, "name"); ok && jsontext.Text(name) != "" {
		return ""
	}
	generate, ok := jsontext.Get(meta, "generateName")
	if !ok {
		return ""
	}
	labels, _ := jsontext.Get(meta, "labels")
	owners, _ := jsontext.Get(meta, "ownerReferences")
	if labels == "" && owners == "" {
		return "" // nothing says for whom
	}
	return strings.Join([]string{c.Process.Name, c.Row.Group, c.Row.Resource, c.Row.Namespace, generate, labels, owners}, "\x00")
}

// again judges a second create for one intent.
func (d *DuplicateCreate) again(one *made, c *Call) {
	p := c.Process
	if one.state.Gone || c.Start-one.ts > d.Within || c.StartSeq < one.seq {
		return
	}
	if told, exact := one.state.Told(p, one.rv); !exact || told.Seq != 0 && told.Seq <= c.StartSeq {
		return // it knew, and wants another one
	}
	ref := d.last[p]
	referred := ref != nil && ref.seq > one.seq && ref.seq <= c.StartSeq && bytes.Contains(ref.body, []byte(`:"`+one.state.Name+`"`))
	if !referred && (one.pass == 0 || c.ReconcileID == 0 || one.pass == c.ReconcileID) {
		return
	}
	key := p.Name + "\x00" + resourceName(c.State.Group, c.State.Resource)
	g := d.groups[key]
	if g == nil {
		g = &duplicates{process: p, first: one.ts, row: c.Seq, one: one.state.Object, other: c.State.Object, oneRV: one.rv, after: c.Start - one.ts, example: one.state, objects: map[Object]float64{}}
		if referred {
			g.by = ref.to.Object
		}
		d.groups[key] = g
	}
	g.n++
	g.last, g.stack, g.manager = c.TS, cmp.Or(g.stack, c.Stack), c.Manager
	if len(g.objects) < 1024 {
		g.objects[c.State.Object]++
	}
	g.places.add(one.seq, one.ts, "created as version %d", one.rv, 0)
	g.places.add(c.Seq, c.TS, "created again as version %d", c.RV, 0)
}

// Gone implements GoneDetector: when an example was told must be asked before it is forgotten.
func (d *DuplicateCreate) Gone(_ *Model, s *State) {
	for _, g := range d.groups {
		if g.example == s {
			g.ask()
		}
	}
}

func (g *duplicates) ask() {
	if told, _ := g.example.Told(g.process, g.oneRV); told.Seq != 0 {
		g.until = told.TS
	}
}

// Findings implements Detector: one for each process and resource.
func (d *DuplicateCreate) Findings(*Model) ([]Finding, []Note) {
	var out []Finding
	for _, key := range sortedKeys(d.groups) {
		g := d.groups[key]
		if g.n < d.MinCreates || !g.process.sees(g.one) {
			continue // without a watch of it, there is no cache that could lag
		}
		if !g.example.Gone {
			g.ask()
		}
		out = append(out, d.finding(g))
	}
	return out, nil
}

func (d *DuplicateCreate) finding(g *duplicates) Finding {
	f := Finding{
		Severity: Error, Certainty: Likely, Process: g.process.Name, Manager: g.manager, Stack: g.stack, Row: g.row,
		First: at(g.first), Last: at(g.last), Evidence: g.places.evidence(), told: g.places.nth(2 * d.MinCreates), absent: notTold(g.first, g.last),
		Statistics: []Statistic{{Name: "second after", Value: float64(g.after) / 1e9, Unit: "s", Low: float64(g.after) / 1e9, High: float64(g.after) / 1e9, N: 1, Method: "time from the first create's answer to the second create"}},
		Effect:     countOf(g.n, "objects too many", float64(g.n)/float64(d.MinCreates)),
	}
	f.Objects, f.Total = worstOf(g.objects)
	f.Objects = foremost(f.Objects, g.other)
	f.What = fmt.Sprintf("%s created %s, and %s later %s for the same purpose%s", g.process.Name, g.one, seconds(g.after), g.other.Name, others(g.n))
	lag := "had not yet been told of the first one, so its cache showed none"
	if g.until > 0 {
		lag = fmt.Sprintf("was told of the first one only %s after it had been made, so its cache showed none", seconds(g.until-g.first))
	}
	f.Cause = fmt.Sprintf("the name is left to the API server (generateName), and %s %s", g.process.Name, lag)
	if g.by != (Object{}) {
		f.Certainty = Sure
		f.Cause += fmt.Sprintf("; it had itself written %s into %s", g.one.Name, g.by)
	}
	return f
}
