package html

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"unique"

	"github.com/opreplay/opreplay/analysis"
	"github.com/opreplay/opreplay/traces"
)

// About what a page holds at most: a browser draws as much without stutter. What findings name comes beyond it where it is
// more than that.
const (
	MaxEvents = 200_000 // over all traces of the page
	MaxLanes  = 250     // of each trace
)

// event is one mark on a lane.
type event struct {
	seq   int64
	ts    int64 // end, nanoseconds since the Unix epoch
	start int64 // where it began; ts for what takes no time
	lane  *lane
	kind  kind
	note  string // what a reader is told beside the kind: a version, a code, a reason
	place int    // on its lane, from 0
	of    int64  // of a call, the reconcile that made it; of a reconcile, the row that queued it
}

// lane is a line of the timeline: an object, a process, a controller's key.
type lane struct {
	group string // what kind of lane: objects, requests, reconciles, kernel, faults
	name  string
	found bool // a finding is about it
	named bool // a finding names an event of it
	still bool // an object that only was, from first to last
	n     int  // events, those that the page leaves out included
	index int  // in the page; -1 until chosen

	newest  version // of a lane of an object: that with the highest number
	firstOf int64   // the row that told of it first; 0 before any did

	controller string    // of a lane of reconciles
	key        [2]string // namespace and name that it reconciles
}

// moment is one change of an object, for the comparison with a reference.
type moment struct {
	ts   int64
	kind kind
}

// gathered is what one pass over a trace keeps for a page.
type gathered struct {
	trace     *traces.Trace
	first     int64 // nanoseconds since the Unix epoch
	last      int64
	records   int64
	keep      keeper
	lanes     map[[2]string]*lane
	chosen    []*lane
	latencies []latency
	passes    []pass
	kernel    []burst
	samples   *samples
	stacks    map[int64][]traces.Frame
	versions  versions
	seen      recent
	history   map[string][]moment // of each object; nil where there is nothing to compare with
	still     int                 // objects that were listed and never changed
	left      left
}

// latency is how long one API call took.
type latency struct{ end, took int64 }

// pass is one reconcile.
type pass struct {
	seq, start, end int64
	lane            *lane
	failed          bool
}

// burst is a kernel event, or several alike.
type burst struct {
	ts, count int64
	what      unique.Handle[string] // of millions a few
}

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

// gathering says what to keep of a trace.
type gathering struct {
	most     int  // events
	compared bool // with another trace
	progress func(records int64)
}

// gather reads a trace once, in the order of seq.
func gather(ctx context.Context, t *traces.Trace, r *analysis.Result, o gathering) (*gathered, error) {
	g := newGathered(r, o)
	g.trace = t
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
		if g.records&0xfff == 0 && o.progress != nil {
			o.progress(g.records)
		}
		g.records++
		g.observe(record)
	}
	g.choose()
	return g, nil
}

// newGathered knows which lanes and events findings are about.
func newGathered(r *analysis.Result, o gathering) *gathered {
	g := &gathered{
		keep: newKeeper(o.most, r), lanes: map[[2]string]*lane{}, samples: newSamples(), stacks: map[int64][]traces.Frame{},
	}
	if o.compared {
		g.history = map[string][]moment{}
	}
	g.versions = newVersions(r, g.keep.named)
	for i := range r.Findings {
		for _, name := range lanesOf(&r.Findings[i]) {
			for _, group := range []string{"objects", "requests"} {
				g.lane(group, name).found = true
			}
		}
	}
	return g
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
		l := g.lane("reconciles", "reconcile "+key(x))
		l.controller, l.key = x.Controller, [2]string{x.Namespace, x.Name}
		what := outcome(x)
		g.passes = append(g.passes, pass{x.Seq, x.Start, x.TS, l, what == kindReconcileError})
		g.add(event{seq: x.Seq, ts: x.TS, start: x.Start, lane: l, kind: what, note: x.Error, of: x.Trigger})
	case *traces.Sample:
		g.samples.add(x)
	case *traces.Stack:
		g.stacks[x.StackID] = x.Frames
	case *traces.KernelEvent:
		g.kernel = append(g.kernel, burst{x.TS, max(1, x.Count), unique.Make(kernelRow(x))})
		g.add(event{seq: x.Seq, ts: x.TS, start: x.TS, lane: g.lane("kernel", x.Kind), kind: kindKernel, note: address(x)})
	case *traces.Decision:
		if x.Rule != "" {
			g.add(event{seq: x.Seq, ts: x.TS, start: x.TS, lane: g.lane("faults", "the plan's faults"), kind: kindFault, note: x.Kind + " " + x.Subject + ": " + x.Rule})
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
	e.lane.still = e.lane.still && e.kind == kindListed
	if g.history != nil && e.lane.group == "objects" && !heartbeat(e.lane.name) {
		g.history[e.lane.name] = append(g.history[e.lane.name], moment{e.ts, e.kind})
	}
	g.keep.add(e)
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
	first, again := g.seen.find(id)
	if !again && typ == traces.Sync {
		first, again = g.seen.find(version{x.UID, x.ResourceVersion, traces.Modified})
	}
	l := g.lane("objects", objectName(&x.Identity))
	if !again && g.seen.forgotten && l.firstOf > 0 && typ != traces.Deleted && x.UID == l.newest.uid && x.ResourceVersion <= l.newest.rv {
		again = true // a watch that begins anew tells of what is old
		if x.ResourceVersion == l.newest.rv {
			first = l.firstOf
		}
	}
	e := event{seq: x.Seq, ts: x.TS, start: x.TS, lane: l, kind: eventKinds[typ], note: x.Writer}
	if again {
		if g.keep.named[x.Seq] { // this very delivery is what a finding is about
			g.versions.repeat(x.Seq, first)
			e.note = "told to " + cmp.Or(x.Process, x.Stream)
			g.keep.add(e)
		}
		return
	}
	g.seen.add(id, x.Seq)
	if id.rv >= l.newest.rv {
		l.newest, l.firstOf = id, x.Seq
	}
	g.versions.take(x)
	g.add(e)
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
	g.add(event{seq: x.Seq, ts: x.TS, start: x.Start, lane: g.lane("requests", who), kind: callKind(x), note: callNote(x), of: x.ReconcileID})
}

// choose puts the lanes in the order of the page and folds those that it has no room for, and objects that only were. Lanes
// that findings are about, or name an event of, are all there.
func (g *gathered) choose() {
	maps.DeleteFunc(g.lanes, func(_ [2]string, l *lane) bool {
		alone := l.still && !l.found && !l.named
		if alone {
			g.still += l.n
		}
		return alone || l.n == 0
	})
	byWeight := slices.SortedFunc(maps.Values(g.lanes), func(a, b *lane) int {
		return cmp.Or(later(a.found, b.found), later(a.named, b.named), -cmp.Compare(a.n, b.n), cmp.Compare(a.group, b.group), cmp.Compare(a.name, b.name))
	})
	wanted := 0
	for wanted < len(byWeight) && (byWeight[wanted].found || byWeight[wanted].named) {
		wanted++
	}
	g.chosen = byWeight[:max(wanted, min(len(byWeight), MaxLanes))]
	slices.SortFunc(g.chosen, func(a, b *lane) int {
		return cmp.Or(cmp.Compare(place(a.group), place(b.group)), later(a.found, b.found), cmp.Compare(a.name, b.name))
	})
	for i, l := range g.chosen {
		l.index = i
	}
	g.left = g.keep.settle(byWeight)
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
