package export

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/opreplay/opreplay/traces"
)

// Counts is how many rows of a trace an export holds.
type Counts struct{ Events, Requests, Reconciles int64 }

// Perfetto writes a trace in the Trace Event Format ("Trace Event Format", Google 2016), the JSON that ui.perfetto.dev
// and chrome://tracing open. Each operator is a process: its reconciles on a track a goroutine (or, where no goroutine
// was seen, on as many tracks as ran at once), its calls on tracks of their own. Objects are tracks of the process
// "objects", outsiders' calls those of "outsiders". Arrows lead from a write to the versions that it made and from an
// event to the reconcile that it queued, where the trace has these links.
func Perfetto(ctx context.Context, t *traces.Trace, w io.Writer) (Counts, error) {
	p := &perfetto{processes: map[string]int{}, versions: map[objectVersion]int{}, bySeq: map[int64]int{}, threads: map[track]int{}}
	var n Counts
	want := traces.Range{Tables: []traces.Table{traces.TableWatch, traces.TableRequests, traces.TableReconciles}, Columns: []string{
		"group", "version", "resource", "namespace", "name", "uid", "resource_version", "type", "process", "start", "verb", "subresource", "path", "code", "reason", "field_manager",
		"writer", "controller", "goid", "trigger", "outcome", "error", "reconcile_id", "user_agent",
	}}
	for record, err := range t.Records(ctx, want) {
		if err != nil {
			return n, err
		}
		switch x := record.(type) {
		case *traces.WatchEvent:
			n.Events++
			p.event(x)
		case *traces.Request:
			n.Requests++
			p.request(x)
		case *traces.Reconcile:
			n.Reconciles++
			p.reconcile(x)
		}
	}
	p.lay()
	p.link()
	return n, p.write(w)
}

// slice is a complete event (ph X), times in nanoseconds.
type slice struct {
	name, category string
	start, end     int64
	track          track
	tid            int
	args           map[string]any
	trigger        int64  // seq of the event that queued a reconcile
	writer         string // who made a version
	call           bool
	version        objectVersion
}

// track is where slices lie: a process and what tells its tracks apart.
type track struct{ process, name string }

type objectVersion struct {
	uid     string
	version int64
}

type perfetto struct {
	slices    []slice
	processes map[string]int
	threads   map[track]int
	names     []track // by tid-1
	versions  map[objectVersion]int
	bySeq     map[int64]int
	flows     [][2]int
}

func (p *perfetto) add(seq int64, s slice) {
	p.bySeq[seq] = len(p.slices)
	p.slices = append(p.slices, s)
}

func (p *perfetto) event(x *traces.WatchEvent) {
	p.add(x.Seq, slice{
		name: x.Type, category: "watch", start: x.TS, end: x.TS, track: track{"objects", x.Resource + " " + key(x.Namespace, x.Name) + " to " + cmp.Or(x.Process, "a client")},
		args: map[string]any{"seq": x.Seq, "resourceVersion": x.ResourceVersion, "writer": x.Writer}, version: objectVersion{x.UID, x.ResourceVersion}, writer: x.Writer,
	})
}

func (p *perfetto) request(x *traces.Request) {
	target := cmp.Or(x.Path, x.Resource+" "+key(x.Namespace, x.Name))
	if x.Subresource != "" {
		target += " " + x.Subresource
	}
	process := cmp.Or(x.Process, "outsiders")
	s := slice{
		name: x.Verb + " " + target, category: "request", start: x.Start, end: max(x.Start, x.TS), track: track{process, "calls"}, call: true,
		args: map[string]any{"seq": x.Seq, "code": x.Code, "reason": x.Reason, "fieldManager": x.FieldManager, "userAgent": x.UserAgent}, version: objectVersion{x.UID, x.ResourceVersion},
	}
	switch x.Verb {
	case "create", "update", "patch", "delete":
		if x.Code < 300 && x.UID != "" && x.ResourceVersion != 0 {
			p.versions[s.version] = len(p.slices)
		}
	}
	p.add(x.Seq, s)
}

func (p *perfetto) reconcile(x *traces.Reconcile) {
	name := "reconciles"
	if x.GoID != 0 {
		name = fmt.Sprintf("goroutine %d", x.GoID)
	}
	p.add(x.Seq, slice{
		name: x.Controller + " " + key(x.Namespace, x.Name), category: "reconcile", start: x.Start, end: max(x.Start, x.TS), track: track{cmp.Or(x.Process, "operator"), name},
		args: map[string]any{"seq": x.Seq, "outcome": x.Outcome, "error": x.Error}, trigger: x.Trigger,
	})
}

func key(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// lay gives each slice a thread on which no other lies at the same time: the format has them nest.
func (p *perfetto) lay() {
	order := make([]int, len(p.slices))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p.slices[a].start, p.slices[b].start) })
	ends := map[track][]int64{}
	for _, i := range order {
		s := &p.slices[i]
		lanes := ends[s.track]
		n := slices.IndexFunc(lanes, func(end int64) bool { return end <= s.start })
		// An event takes no time, but an arrow needs something to end at: a microsecond.
		end := max(s.end, s.start+1000)
		if n < 0 {
			n = len(lanes)
			lanes = append(lanes, 0)
		}
		lanes[n], s.end = end, end
		ends[s.track] = lanes
		s.tid = p.thread(s.track, n)
	}
}

func (p *perfetto) thread(t track, lane int) int {
	if lane > 0 {
		t.name = fmt.Sprintf("%s %d", t.name, lane+1)
	}
	if p.threads[t] == 0 {
		p.names = append(p.names, t)
		p.threads[t] = len(p.names)
	}
	if p.processes[t.process] == 0 {
		p.processes[t.process] = len(p.processes) + 1
	}
	return p.threads[t]
}

// link finds what led to what.
func (p *perfetto) link() {
	for i := range p.slices {
		s := &p.slices[i]
		if s.category == "watch" && s.version.uid != "" {
			if w, ok := p.versions[s.version]; ok {
				p.flows = append(p.flows, [2]int{w, i})
			}
		}
		if e, ok := p.bySeq[s.trigger]; ok && s.trigger != 0 {
			p.flows = append(p.flows, [2]int{e, i})
		}
	}
}

// traceEvent is one event of the format; times are microseconds.
type traceEvent struct {
	Name     string         `json:"name"`
	Category string         `json:"cat,omitempty"`
	Phase    string         `json:"ph"`
	Time     float64        `json:"ts"`
	Duration float64        `json:"dur,omitempty"`
	PID      int            `json:"pid"`
	TID      int            `json:"tid"`
	ID       int            `json:"id,omitempty"`
	Bind     string         `json:"bp,omitempty"`
	Args     map[string]any `json:"args,omitempty"`
}

func (p *perfetto) write(w io.Writer) error {
	out := bufio.NewWriter(w)
	_, _ = out.WriteString(`{"displayTimeUnit":"ms","traceEvents":[`) // its error comes with Flush
	first, e := true, json.NewEncoder(out)
	put := func(x traceEvent) error {
		if !first {
			_ = out.WriteByte(',')
		}
		first = false
		return e.Encode(x)
	}
	for _, name := range slices.Sorted(maps.Keys(p.processes)) {
		if err := put(traceEvent{Name: "process_name", Phase: "M", PID: p.processes[name], Args: map[string]any{"name": name}}); err != nil {
			return err
		}
	}
	for i, t := range p.names {
		if err := put(traceEvent{Name: "thread_name", Phase: "M", PID: p.processes[t.process], TID: i + 1, Args: map[string]any{"name": t.name}}); err != nil {
			return err
		}
	}
	for i := range p.slices {
		s := &p.slices[i]
		if err := put(traceEvent{Name: s.name, Category: s.category, Phase: "X", Time: micros(s.start), Duration: micros(s.end - s.start), PID: p.processes[s.track.process], TID: s.tid, Args: s.args}); err != nil {
			return err
		}
	}
	for i, f := range p.flows {
		from, to := &p.slices[f[0]], &p.slices[f[1]]
		for _, x := range []struct {
			s     *slice
			phase string
			time  int64
			bind  string
		}{{from, "s", from.start, ""}, {to, "f", max(to.start, from.start), "e"}} {
			if err := put(traceEvent{Name: "led to", Category: "cause", Phase: x.phase, Time: micros(x.time), PID: p.processes[x.s.track.process], TID: x.s.tid, ID: i + 1, Bind: x.bind}); err != nil {
				return err
			}
		}
	}
	_, _ = out.WriteString("]}\n")
	return out.Flush()
}

func micros(ns int64) float64 { return float64(ns) / 1000 }
