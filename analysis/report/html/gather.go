package html

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/opreplay/opreplay/analysis"
	"github.com/opreplay/opreplay/traces"
)

// What a page holds at most: a browser draws as much without stutter.
const (
	MaxEvents = 200_000
	MaxLanes  = 250
)

// event is one mark on a lane.
type event struct {
	seq   int64
	ts    int64 // end, nanoseconds since the Unix epoch
	start int64 // where it began; ts for what takes no time
	lane  *lane
	kind  kind
	note  string // what a reader is told beside the kind: a version, a code, a reason
}

// lane is a line of the timeline: an object, a process, a controller's key.
type lane struct {
	group string // what kind of lane: objects, requests, reconciles, kernel, faults
	name  string
	found bool // a finding is about it
	still bool // an object that only was, from first to last
	n     int
	index int // in the page; -1 until chosen
}

// gathered is what one pass over a trace keeps for a page.
type gathered struct {
	trace      *traces.Trace
	first      int64 // nanoseconds since the Unix epoch
	last       int64
	records    int64
	events     []event
	lanes      map[[2]string]*lane
	chosen     []*lane
	latencies  []latency
	reconciles []traces.Reconcile
	kernel     []traces.KernelEvent
	samples    []traces.Sample
	stacks     map[int64][]traces.Frame
	versions   *versions
	seen       map[version]bool
	left       int64 // events that the page has no room for
	still      int   // objects that were listed and never changed
}

// latency is how long one API call took.
type latency struct{ end, took int64 }

// version is one state of one object.
type version struct {
	uid string
	rv  int64
	typ traces.EventType
}

var columns = []string{
	"group", "version", "resource", "namespace", "name", "uid", "resource_version", "generation",
	"stream", "process", "type", "writer", "start", "user", "user_agent", "verb", "subresource", "path", "field_manager", "code", "reason", "stack_id", "reconcile_id",
	"controller", "goid", "trigger", "outcome", "error", "requeue_after",
	"pid", "tid", "kernel_stack_id", "weight", "kernel", "frames",
	"kind", "address", "port", "fd", "errno", "count", "step", "subject", "rule",
}

// gather reads a trace once, in the order of seq.
func gather(ctx context.Context, t *traces.Trace, r *analysis.Result, progress func(int64)) (*gathered, error) {
	g := &gathered{trace: t, lanes: map[[2]string]*lane{}, stacks: map[int64][]traces.Frame{}, seen: map[version]bool{}, versions: newVersions(r)}
	want := traces.Range{Columns: columns, Tables: []traces.Table{
		traces.TableWatch, traces.TableRequests, traces.TableReconciles, traces.TableSamples, traces.TableStacks, traces.TableKernelEvents, traces.TableDecisions,
	}}
	if len(g.versions.of) > 0 {
		want.Columns = append(slices.Clone(columns), "object")
	}
	for record, err := range t.Records(ctx, want) {
		if err != nil {
			return nil, err
		}
		if g.records&0xfff == 0 && progress != nil {
			progress(g.records)
		}
		g.records++
		g.observe(record)
	}
	g.mark(r)
	g.choose()
	return g, nil
}

func (g *gathered) observe(record traces.Record) {
	if ts := record.Header().TS; ts != 0 && record.Table() != traces.TableStacks {
		if g.first == 0 || ts < g.first {
			g.first = ts
		}
		g.last = max(g.last, ts)
	}
	switch x := record.(type) {
	case *traces.WatchEvent:
		g.watch(x)
	case *traces.Request:
		g.request(x)
	case *traces.Reconcile:
		g.reconciles = append(g.reconciles, *x)
		g.add(event{x.Seq, x.TS, x.Start, g.lane("reconciles", "reconcile "+key(x)), outcome(x), x.Error})
	case *traces.Sample:
		g.samples = append(g.samples, *x)
	case *traces.Stack:
		g.stacks[x.StackID] = x.Frames
	case *traces.KernelEvent:
		g.kernel = append(g.kernel, *x)
		g.add(event{x.Seq, x.TS, x.TS, g.lane("kernel", x.Kind), kindKernel, address(x)})
	case *traces.Decision:
		if x.Rule != "" {
			g.add(event{x.Seq, x.TS, x.TS, g.lane("faults", "the plan's faults"), kindFault, x.Kind + " " + x.Subject + ": " + x.Rule})
		}
	}
}

func (g *gathered) lane(group, name string) *lane {
	id := [2]string{group, name}
	l := g.lanes[id]
	if l == nil {
		l = &lane{group: group, name: name, still: group == "objects", index: -1}
		g.lanes[id] = l
	}
	return l
}

func (g *gathered) add(e event) {
	e.lane.n++
	e.lane.still = e.lane.still && e.kind == kindListed
	g.events = append(g.events, e)
}

// watch notes each state of an object once, however many streams delivered it.
func (g *gathered) watch(x *traces.WatchEvent) {
	typ := traces.EventType(x.Type)
	if typ == traces.Bookmark || x.Name == "" {
		return
	}
	id := version{x.UID, x.ResourceVersion, typ}
	if typ == traces.Sync { // which says what is, not what became
		id.typ = traces.Added
	}
	if g.seen[id] || g.seen[version{x.UID, x.ResourceVersion, traces.Modified}] && typ == traces.Sync {
		return
	}
	g.seen[id] = true
	g.versions.take(x)
	g.add(event{x.Seq, x.TS, x.TS, g.lane("objects", objectName(&x.Identity)), eventKinds[typ], x.Writer})
}

// request notes a call on its process's lane. Watches last as long as their client: they are no calls to be slow.
func (g *gathered) request(x *traces.Request) {
	if x.Verb == "watch" {
		return
	}
	g.latencies = append(g.latencies, latency{x.TS, max(0, x.TS-x.Start)})
	who := callsBy(x.Process)
	if x.Process == "" {
		who = "calls by outsider " + cmp.Or(x.UserAgent, x.User, "unknown")
	}
	g.add(event{x.Seq, x.TS, x.Start, g.lane("requests", who), callKind(x), callNote(x)})
}

// mark finds the lanes that findings are about.
func (g *gathered) mark(r *analysis.Result) {
	for i := range r.Findings {
		for _, name := range lanesOf(&r.Findings[i]) {
			for _, group := range []string{"objects", "requests"} {
				if l := g.lanes[[2]string{group, name}]; l != nil {
					l.found = true
				}
			}
		}
	}
}

// choose puts the lanes in the order of the page and folds those that it has no room for, and objects that only were.
func (g *gathered) choose() {
	maps.DeleteFunc(g.lanes, func(_ [2]string, l *lane) bool {
		if l.still && !l.found {
			g.still += l.n
			return true
		}
		return false
	})
	g.events = slices.DeleteFunc(g.events, func(e event) bool { return e.lane.still && !e.lane.found })
	byWeight := slices.SortedFunc(maps.Values(g.lanes), func(a, b *lane) int {
		return cmp.Or(later(a.found, b.found), -cmp.Compare(a.n, b.n), cmp.Compare(a.group, b.group), cmp.Compare(a.name, b.name))
	})
	g.chosen = byWeight[:min(len(byWeight), MaxLanes)]
	slices.SortFunc(g.chosen, func(a, b *lane) int {
		return cmp.Or(cmp.Compare(place(a.group), place(b.group)), later(a.found, b.found), cmp.Compare(a.name, b.name))
	})
	for i, l := range g.chosen {
		l.index = i
	}
	g.thin()
}

// thin leaves out events, evenly over those that no finding is about, until the page has room.
func (g *gathered) thin() {
	all := len(g.events)
	kept := slices.DeleteFunc(g.events, func(e event) bool { return e.lane.index < 0 })
	if extra := len(kept) - MaxEvents; extra > 0 {
		plain := 0
		for _, e := range kept {
			if !e.lane.found {
				plain++
			}
		}
		// Every step-th stays; with nothing but events of findings, the first stay.
		step := max(1, (plain+max(1, plain-extra)-1)/max(1, plain-extra))
		i := 0
		kept = slices.DeleteFunc(kept, func(e event) bool {
			if e.lane.found {
				return false
			}
			i++
			return i%step != 0
		})
		kept = kept[:min(len(kept), MaxEvents)]
	}
	g.left, g.events = int64(all-len(kept)), kept
}

// later puts those that are first.
func later(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// place is where a group of lanes stands in the page.
func place(group string) int {
	return slices.Index([]string{"faults", "objects", "reconciles", "requests", "kernel"}, group)
}
