package fault

import (
	"time"

	"go.yaml.in/yaml/v3"
)

// Latency delays calls on their way to the API server, or events on their way to a client, by a time between
// two bounds that the seed chooses for each.
//
// On a real cluster: network and queueing. Calls that are in flight at the same time may overtake each other,
// as those on different connections or HTTP/2 streams do; events of one watch never do.
type Latency struct {
	// Request selects the calls that are delayed.
	Request Selector
	// Watch is the resource, or "*", whose events are delayed; set instead of Request.
	Watch string
	// Client is the process whose calls or events are delayed; "" is any process.
	Client string
	// Min and Max bound the delay, both included.
	Min, Max time.Duration
}

// Kind implements Fault.
func (f *Latency) Kind() string { return "latency" }

// String implements Fault.
func (f *Latency) String() string {
	l := line{kind: f.Kind()}
	if f.Request != (Selector{}) {
		l.text("request", f.Request.String())
	}
	l.text("watch", f.Watch)
	l.text("client", f.Client)
	l.raw("between", "["+f.Min.String()+", "+f.Max.String()+"]")
	return l.String()
}

func parseLatency(f *fields) (Fault, error) {
	l := &Latency{}
	between := f.take("between")
	for _, err := range []error{
		f.selector("request", ParseCall, &l.Request),
		f.word("watch", &l.Watch),
		f.word("client", &l.Client),
	} {
		if err != nil {
			return nil, err
		}
	}
	if (l.Request != (Selector{})) == (l.Watch != "") {
		return nil, f.errorAt(nil, "latency needs request or watch, and not both")
	}
	if between == nil || between.Kind != yaml.SequenceNode || len(between.Content) != 2 {
		return nil, f.errorAt(between, "latency needs between: [SHORTEST, LONGEST], such as [5ms, 200ms]")
	}
	if err := f.duration("between", between.Content[0], &l.Min); err != nil {
		return nil, err
	}
	if err := f.duration("between", between.Content[1], &l.Max); err != nil {
		return nil, err
	}
	if l.Min > l.Max {
		return nil, f.errorAt(between, "between of latency has the longer time first")
	}
	return l, nil
}

type latencyRule struct {
	base
	*Latency
	count counter
}

func (f *Latency) rule(b base) rule {
	return &latencyRule{base: b, Latency: f, count: counter{sel: f.Request}}
}

func (r *latencyRule) arrive(c Call, v *Verdict) {
	if r.Request == (Selector{}) || !matchClient(r.Client, c.Client, r.m.operator) || !r.count.call(c) {
		return
	}
	v.Delay += r.between(c.Client, c.Verb, c.Group, c.Resource, c.Namespace, c.Name, c.Subresource)
	r.strike(&v.Rules)
}

func (r *latencyRule) deliver(e Event, d *Delivery) {
	if r.Watch == "" || d.again || !matchResource(r.Watch, e.Group, e.Resource) || !matchClient(r.Client, e.Client, r.m.operator) {
		return
	}
	d.Delay += r.between(e.Client, e.Stream, e.Type, e.Group, e.Resource, e.Namespace, e.Name)
	r.strike(&d.Rules)
}

// between draws a time. It depends on the seed, the fault's place in the plan, what is delayed and the how
// manieth such it is, and on nothing else: two calls that arrive in either order get the same delays.
func (r *latencyRule) between(subject ...string) time.Duration {
	span := uint64(r.Max-r.Min) + 1
	return r.Min + time.Duration(r.m.draw(r.index, subject)%span)
}

func (r *latencyRule) report() []Unmatched {
	switch {
	case r.struck > 0:
		return nil
	case r.Watch != "":
		return []Unmatched{r.unmet("watch", word(r.Watch), 0, "")}
	}
	return []Unmatched{r.unmet("request", r.Request, r.count.seen, "")}
}
