package analysis

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/opreplay/opreplay/traces"
)

// notebook writes down the facts that it is handed.
type notebook struct{ lines []string }

func (n *notebook) write(form string, args ...any) {
	n.lines = append(n.lines, fmt.Sprintf(form, args...))
}

func (*notebook) Name() string                        { return "notebook" }
func (*notebook) Findings(*Model) ([]Finding, []Note) { return nil, nil }
func (n *notebook) Start(m *Model)                    { n.write("start %s", m.Manifest.Source) }
func (n *notebook) Gone(_ *Model, s *State)           { n.write("gone %s", s.Name) }
func (n *notebook) Log(_ *Model, l *traces.Log)       { n.write("log %s", l.Message) }
func (n *notebook) Metric(_ *Model, x *traces.Metric) { n.write("metric %s", x.Name) }
func (n *notebook) Sample(m *Model, s *traces.Sample) {
	n.write("sample in %s", m.Stack(s.StackID)[0].Function)
}
func (n *notebook) Decision(_ *Model, d *traces.Decision) { n.write("decision %s", d.Kind) }
func (n *notebook) Kernel(_ *Model, k *traces.KernelEvent) {
	n.write("kernel %s", k.Kind)
}

func (n *notebook) Request(_ *Model, p *Process, r *traces.Request) {
	n.write("request %s %s by %s", r.Verb, r.Resource, p.Name)
}

func (n *notebook) Event(_ *Model, e *Event) {
	if e.Process != nil {
		n.write("event %d of %s; newest %d, told %d", e.Row.ResourceVersion, e.State.Name, e.Newest, e.Told)
	}
}

func (n *notebook) Call(_ *Model, c *Call) {
	n.write("call %s %s %d", c.Verb, c.Row.Name, c.Code)
}

func (n *notebook) Change(_ *Model, c *Change) {
	c.Manager() // is looked up when somebody asks
	n.write("change %d by %s; spec %v, status %v", c.RV, c.Author.Name(), c.Touches("spec"), c.Touches("status.n"))
}

func (n *notebook) Pass(_ *Model, p *Pass) {
	n.write("pass of %s for version %d of %s: %d writes, %d reads, %d refused, %d empty, %d samples", p.Row.Controller, p.Trigger.RV, p.Trigger.State.Name, p.Writes, p.Reads, p.Refused, p.Empty, p.Samples)
	for _, c := range p.Calls {
		n.write("  %s %d", c.Verb, c.RV)
	}
}

// Each fact comes to those that ask for it, with what the trace had told before.
func TestFacts(t *testing.T) {
	c := newCluster(t, "op")
	r := ref{sites, "front"}
	c.create("kubectl", r, m{"spec": m{"n": 1}})
	stale := *c.rows[len(c.rows)-1].(*traces.WatchEvent)
	c.add(&traces.Stack{StackID: 7, Frames: []traces.Frame{{Function: "main.work"}}})
	c.pass("op", "site", r, c.told("op", r), func() {
		c.add(&traces.Sample{StackID: 7, Weight: 3})
		c.begin("op", "update", "", r).refuse(409, "Conflict")
		c.status("op", r, m{"n": 1})
		c.status("op", r, m{"n": 1})
	})
	c.add(&stale)
	list := &traces.Request{Process: "op", Verb: "list", Code: 200}
	list.Resource = "sites"
	c.add(list)
	for _, x := range []traces.Record{&traces.Log{Message: "hello"}, &traces.Metric{Name: "up"}, &traces.KernelEvent{Kind: "refused"}, &traces.Decision{Kind: "fault"}} {
		c.add(x)
	}
	c.sleep(2 * time.Second)
	c.delete("kubectl", r)
	n := &notebook{}
	c.analyze(n)
	want := []string{
		"start run",
		"event 1001 of front; newest 1001, told 0", // the recorder's watch had shown it before
		"sample in main.work",
		"call update front 409",
		"event 1002 of front; newest 1002, told 1001",
		"call patch front 200",
		"call patch front 200",
		"pass of site for version 1001 of front: 3 writes, 0 reads, 1 refused, 1 empty, 3 samples",
		"  update 0",
		"  patch 1002",
		"  patch 1002",
		"event 1001 of front; newest 1002, told 1002",
		"request list sites by op",
		"log hello",
		"metric up",
		"kernel refused",
		"decision fault",
		"change 1001 by kubectl; spec true, status true", // a second after, when no request can be its own any more
		"change 1002 by op; spec false, status true",
		"event 1003 of front; newest 1003, told 1002",
		"change 1003 by kubectl; spec false, status false",
		"gone front",
	}
	if diff := cmp.Diff(want, n.lines); diff != "" {
		t.Error(diff)
	}
}

// A table is read when a detector asks for it, and a loss in it concerns that detector alone.
func TestTablesAreReadForThoseThatAsk(t *testing.T) {
	loss := []traces.Loss{{Source: "samples", Reason: "the ring was full"}}
	for _, c := range []struct {
		detector Detector
		want     bool
	}{{NewSelfLoop(), false}, {&notebook{}, true}} {
		if got := slices.Contains(listen([]Detector{c.detector}).tables(), traces.TableSamples); got != c.want {
			t.Errorf("%s: samples read: %v", c.detector.Name(), got)
		}
		r, err := Records(context.Background(), each(nil), &traces.Manifest{Losses: loss}, "t", Options{Detectors: []Detector{c.detector}})
		if err != nil {
			t.Fatal(err)
		}
		about := slices.ContainsFunc(r.Caveats, func(s string) bool {
			return s == "the trace is known to lack records in 1 place; findings in that time are less certain"
		})
		if about != c.want {
			t.Errorf("%s: caveats %q", c.detector.Name(), r.Caveats)
		}
	}
}

// Objects are found by name as long as they exist.
func TestNamed(t *testing.T) {
	m := newModel(&traces.Manifest{}, listen(nil))
	add := func(resource, uid string) *State {
		return m.state(&traces.Identity{Resource: resource, Namespace: "n", Name: "x", UID: uid, ResourceVersion: 1})
	}
	a, b, c := add("a", "1"), add("b", "2"), add("c", "3")
	for _, step := range []struct {
		gone *State
		left int
	}{{nil, 3}, {b, 2}, {c, 1}, {a, 0}} {
		if step.gone != nil {
			m.gone(step.gone)
		}
		n := 0
		for s := range m.Named("n", "x") {
			n++
			if s.Gone {
				t.Error("found what is gone")
			}
		}
		if n != step.left {
			t.Errorf("%d of that name, want %d", n, step.left)
		}
	}
	if len(m.names) != 0 {
		t.Error("names are kept of what is gone")
	}
}

// A reconcile whose end is never seen holds nothing up, and those that have ended are forgotten.
func TestOpenPassesAreBounded(t *testing.T) {
	p := &passes{wanted: true}
	p.called(&Call{Way: &Way{Verb: "get"}, ReconcileID: 1 << 40})
	for id := int64(1); id < 10*maxOpenPasses; id++ {
		p.called(&Call{Way: &Way{Verb: "update"}, ReconcileID: id})
		if x := p.take(id); x.Writes != 1 {
			t.Fatalf("pass %d: %+v", id, x)
		}
		if p.order.len() > 4*maxOpenPasses+1 || len(p.open) > maxOpenPasses {
			t.Fatalf("%d in order, %d open", p.order.len(), len(p.open))
		}
	}
	if x := p.take(1 << 40); x.Reads != 1 {
		t.Errorf("the one that is still open: %+v", x)
	}
	for id := int64(1); id < 3*maxOpenPasses; id++ {
		p.called(&Call{Way: &Way{Verb: "update"}, ReconcileID: id})
	}
	if len(p.open) > maxOpenPasses {
		t.Errorf("%d open", len(p.open))
	}
}

// An event is found by its seq however unevenly events came.
func TestWindow(t *testing.T) {
	for name, gap := range map[string]func(i int64) int64{
		"evenly": func(int64) int64 { return 3 }, "in bursts": func(i int64) int64 { return 1 + i%100/99*100_000 }, "ever slower": func(i int64) int64 { return i*i + 1 },
	} {
		var w window
		there := map[int64]bool{}
		seq, last := int64(0), int64(0)
		for i := range int64(3 * maxTold / 2) {
			seq += gap(i)
			w.add(told{seq: seq})
			if i >= maxTold/2 {
				there[seq], last = true, seq
			}
		}
		for s := last - 5000; s <= last+5; s++ {
			if x := w.find(s); (x != nil) != there[s] || x != nil && x.seq != s {
				t.Fatalf("%s: %d: %v", name, s, x)
			}
		}
		for s := range there {
			if x := w.find(s); x == nil || x.seq != s {
				t.Fatalf("%s: %d: %v", name, s, x)
			}
		}
	}
}

// Objects are the same whether they were seen lately or not, and each incarnation is its own.
func TestStateOfManyObjects(t *testing.T) {
	m := newModel(&traces.Manifest{}, listen(nil))
	id := func(i, incarnation int) *traces.Identity {
		return &traces.Identity{Resource: "a", Name: fmt.Sprint(i), UID: fmt.Sprintf("%08d-%04d", i, incarnation), ResourceVersion: int64(incarnation)}
	}
	const n = 3 << recentBits
	for incarnation := 1; incarnation <= 2; incarnation++ {
		for range 2 {
			for i := range n {
				s := m.state(id(i, incarnation))
				if s == nil || s.UID != id(i, incarnation).UID || s != m.Object(s.Key()) || s.Gone {
					t.Fatalf("%d: %+v", i, s)
				}
			}
		}
	}
	if m.seen != 2*n {
		t.Errorf("%d incarnations", m.seen)
	}
	m.state(id(7, 2)).RV = 2
	if s := m.state(id(7, 1)); s != nil {
		t.Errorf("a late event is about %+v", s)
	}
}
