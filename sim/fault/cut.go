package fault

import (
	"time"
)

// Cut ends a client's watches on a resource at a moment. The client resumes them, or lists anew.
//
// On a real cluster: an API server that is restarted or sheds load ends its watches in order; a proxy or a node
// between breaks connections. A client resumes from the last version that it knows. If that is older than what
// the API server it reaches has in its cache, or etcd has been compacted, the watch is answered by 410 Gone (an
// ERROR event, reason Expired), and the client has to list anew: states in between it never sees, and of
// objects that are gone it learns by their absence.
type Cut struct {
	// Watch is the resource whose watches end, or "*".
	Watch string
	// Client is the process whose watches end; "" is any, "operator" the operator.
	Client string
	// From ends them when this event is about to be delivered, and instead of it; At, without From, at a time
	// since the operator's first call.
	From Selector
	At   time.Duration
	// Gone ("resume: gone", not "ok") has it find its version gone. Some version after it will have been taken
	// then, as in a cluster whose parts renew leases all the time.
	Gone bool
	// Broken breaks the connection; else the watch ends in order, as a response does.
	Broken bool
}

// Kind implements Fault.
func (c *Cut) Kind() string { return "cut" }

// String implements Fault.
func (c *Cut) String() string {
	l := line{kind: c.Kind()}
	l.text("watch", c.Watch)
	l.text("client", c.Client)
	if c.From != (Selector{}) {
		l.text("from", c.From.String())
	} else {
		l.raw("at", c.At.String())
	}
	resume := "ok"
	if c.Gone {
		resume = "gone"
	}
	l.raw("resume", resume)
	if c.Broken {
		l.raw("broken", "true")
	}
	return l.String()
}

func parseCut(f *fields) (Fault, error) {
	c := &Cut{}
	var resume string
	for _, err := range []error{
		f.word("watch", &c.Watch),
		f.word("client", &c.Client),
		f.selector("from", ParseEvent, &c.From),
		f.duration("at", f.take("at"), &c.At),
		f.text("resume", &resume),
		f.boolean("broken", &c.Broken),
	} {
		if err != nil {
			return nil, err
		}
	}
	switch resume {
	case "", "ok":
	case "gone":
		c.Gone = true
	default:
		return nil, f.errorAt(f.take("resume"), "resume of cut is %q; want ok or gone", resume)
	}
	if c.Watch == "" {
		return nil, f.errorAt(nil, "cut needs watch, the resource whose watches end")
	}
	if f.count("from", "at") != 1 {
		return nil, f.errorAt(nil, "cut needs one of from, an event, and at, a time: when the watches end")
	}
	return c, nil
}

type cutRule struct {
	base
	*Cut
	from counter
	over bool
}

func (c *Cut) rule(b base) rule { return &cutRule{base: b, Cut: c, from: counter{sel: c.From}} }

func (r *cutRule) begin(fx *Effect) {
	if r.From == (Selector{}) {
		r.expect(fx, 0, r.At, "watches end")
	}
}

func (r *cutRule) means(e Event) bool {
	return matchResource(r.Watch, e.Group, e.Resource) && matchClient(r.Client, e.Client, r.m.operator)
}

func (r *cutRule) deliver(e Event, d *Delivery) {
	if r.From == (Selector{}) || r.over || !r.means(e) || !r.from.event(e) {
		return
	}
	d.Held = true // it is not delivered any more
	d.Rules = append(d.Rules, r.line)
	r.expire(0, &d.Effect)
}

// expire ends the watches; each that is found counts.
func (r *cutRule) expire(_ int, fx *Effect) {
	r.over = true
	fx.Actions = append(fx.Actions, Action{Do: DoCut, Fault: r.line, Gone: r.Gone, Broken: r.Broken, cut: func(e Event) bool {
		if !r.means(e) {
			return false
		}
		r.struck++
		return true
	}})
}

func (r *cutRule) report() []Unmatched {
	switch {
	case !r.over && r.From == (Selector{}):
		return []Unmatched{r.unfinished("at", r.At, "did not come before the run ended")}
	case !r.over:
		return []Unmatched{r.unmet("from", r.From, r.from.seen, "")}
	case r.struck == 0:
		return []Unmatched{r.unmet("watch", word(r.Watch), 0, "")}
	}
	return nil
}
