package analysis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/opreplay/opreplay/traces"
)

// NoDeadline finds calls that wait for as long as the server does, and reconciles that stand still for as long as
// something outside the cluster does. client-go sets no timeout unless rest.Config.Timeout or the call's context says
// one, and a worker that waits serves nobody.
type NoDeadline struct {
	// MinLatency is from which latency on, in nanoseconds, a call that was answered counts: with a deadline its client
	// would have given up. 30 s is what clients set that set one; an API server itself gives up after 60 s.
	MinLatency int64
	// MinStill is for how many nanoseconds a reconcile must have made no call, in one piece, to count as standing
	// still: HTTP clients with a deadline have 30 s or less, twice with a retry.
	MinStill int64

	waits map[string]*unbounded
	usual map[*Process]*reservoir // seconds that its calls take
}

// NewNoDeadline is a NoDeadline with its thresholds set.
func NewNoDeadline() *NoDeadline {
	return &NoDeadline{MinLatency: 30e9, MinStill: 60e9, waits: map[string]*unbounded{}, usual: map[*Process]*reservoir{}}
}

// Name implements Detector.
func (*NoDeadline) Name() string { return "no-deadline" }

// unbounded are the long waits of one process for one kind of answer.
type unbounded struct {
	process     string
	what        string
	still       bool // a reconcile without calls, rather than a call
	stack       int64
	row         int64
	seconds     reservoir
	longest     float64
	first, last int64
	objects     map[Object]float64
	places      places
}

// maxUnbounded bounds the kinds of waits, and the objects of each, that are told apart.
const maxUnbounded = 256

func (d *NoDeadline) of(process, what string, still bool) *unbounded {
	key := process + "\x00" + what
	u := d.waits[key]
	if u == nil {
		u = &unbounded{process: strings.Clone(process), what: what, still: still, objects: map[Object]float64{}}
		if len(d.waits) < maxUnbounded {
			d.waits[key] = u
		}
	}
	return u
}

func (u *unbounded) add(o Object, seq, from, to, stack int64) {
	s := float64(to-from) / 1e9
	u.seconds.add(s)
	if u.seconds.n == 1 {
		u.first = from
	}
	if s > u.longest {
		u.longest, u.row = s, seq
	}
	u.last, u.stack = max(u.last, to), cmp.Or(stack, u.stack)
	if _, is := u.objects[o]; is || len(u.objects) < maxUnbounded {
		u.objects[o] = max(u.objects[o], s)
	}
	u.places.add(seq, to, "ended after %d s", (to-from)/1e9, 0)
}

// Call implements CallDetector.
func (d *NoDeadline) Call(_ *Model, c *Call) {
	if c.Process == nil {
		return
	}
	usual := d.usual[c.Process]
	if usual == nil {
		usual = &reservoir{}
		d.usual[c.Process] = usual
	}
	usual.add(float64(c.TS-c.Start) / 1e9)
	if c.TS-c.Start < d.MinLatency || c.Code == 0 || strings.Contains(c.Row.Query, "timeout=") {
		return
	}
	r := c.Row
	o := Object{Group: strings.Clone(r.Group), Version: strings.Clone(r.Version), Resource: strings.Clone(r.Resource), Namespace: strings.Clone(r.Namespace), Name: strings.Clone(r.Name)}
	if c.State != nil {
		o = c.State.Object
	}
	d.of(c.Process.Name, c.kind()+" of "+resourceName(o.Group, o.Resource), false).add(o, c.Seq, c.Start, c.TS, c.Stack)
}

// Pass implements PassDetector.
func (d *NoDeadline) Pass(_ *Model, x *Pass) {
	r := x.Row
	if r.TS-r.Start < d.MinStill || x.Process == nil || x.Total > int64(len(x.Calls)) || r.Outcome == "" {
		return
	}
	// The longest time within the pass in which no call was under way.
	type span struct{ from, to int64 }
	calls := make([]span, 0, len(x.Calls))
	for _, c := range x.Calls {
		calls = append(calls, span{c.Start, c.TS})
	}
	slices.SortFunc(calls, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	still, at := span{}, r.Start
	for _, c := range append(calls, span{r.TS, r.TS}) {
		if c.from-at > still.to-still.from {
			still = span{at, c.from}
		}
		at = max(at, c.to)
	}
	if still.to-still.from < d.MinStill {
		return
	}
	var stack int64
	for _, c := range x.Calls {
		if c.TS <= still.from {
			stack = c.Stack
		}
	}
	o := Object{Resource: strings.Clone(r.Controller), Namespace: strings.Clone(r.Namespace), Name: strings.Clone(r.Name)}
	if x.Trigger.State != nil && x.Trigger.State.Name == r.Name {
		o = x.Trigger.State.Object
	}
	d.of(x.Process.Name, "reconciles of "+strings.Clone(r.Controller), true).add(o, r.Seq, still.from, still.to, stack)
}

// Findings implements Detector: one for each process and kind of call or controller.
func (d *NoDeadline) Findings(m *Model) ([]Finding, []Note) {
	var out []Finding
	for _, key := range sortedKeys(d.waits) {
		u := d.waits[key]
		var list []scored
		for o, s := range u.objects {
			list = append(list, scored{o, s})
		}
		f := Finding{
			Severity: Warning, Certainty: Likely, Process: u.process, Stack: u.stack, Row: u.row, First: at(u.first), Last: at(u.last), Evidence: u.places.evidence(), told: u.places.nth(1),
			Statistics: []Statistic{median("waited", "s", u.seconds.sample, u.seconds.n)},
			Effect:     Effect{Value: u.longest, Unit: "s of one wait", Weight: u.longest * 1e9 / float64(d.MinLatency)},
		}
		f.Objects, f.Total = worst(list)
		longest := seconds(int64(u.longest * 1e9))
		if u.still {
			f.Effect.Weight = u.longest * 1e9 / float64(d.MinStill)
			f.absent = absence{table: traces.TableRequests, from: u.first, to: u.last}
			f.What = fmt.Sprintf("%s of %s stood still, %s, the longest time for %s, without a call to the API server", u.what, u.process, times(u.seconds.n), longest)
			f.Cause = "they wait for something outside the cluster without a deadline; the context that Reconcile gets has none of its own unless ReconciliationTimeout is set"
		} else {
			f.What = fmt.Sprintf("%s waited %s for %s and more for the answer to its %s, the longest time for %s", u.process, times(u.seconds.n), seconds(d.MinLatency), u.what, longest)
			f.Cause = "neither rest.Config.Timeout nor the context of the call sets a deadline, so it waits for as long as the server does"
			if usual := d.usual[m.processes[u.process]]; usual != nil {
				if z, ok := outlying("longest beyond its calls", usual.sample, usual.n, u.longest); ok {
					f.Statistics = append(f.Statistics, z)
					if z.Value < outlier {
						f.Cause += "; its other calls take as long, so it is the server or the way to it that is slow"
					}
				}
			}
		}
		out = append(out, f)
	}
	return out, nil
}
