package fault

import (
	"fmt"
	"time"
)

// Hold keeps back the events of a client's watches on one resource, from one event on until a moment. When it
// ends they are all delivered, in their order.
//
// On a real cluster: an API server's watch cache lags behind etcd, or a watch's connection is slow, for seconds
// under load. What the client lists in the meantime by a consistent read is current; what it believes from its
// informer is old. A watch that the client opens anew while the hold lasts is held too, as the same cache
// would serve it.
type Hold struct {
	// Watch is the resource whose watches are held, or "*".
	Watch string
	// Client is the process whose watches are held; "" is any, "operator" the operator.
	Client string
	// From is the first event that is held back; the zero Selector holds from the start.
	From Selector
	// Until ends the hold when the selected call has been executed; For ends it that long after it began.
	// With neither it lasts to the end of the run.
	Until Selector
	For   time.Duration
}

// Kind implements Fault.
func (h *Hold) Kind() string { return "hold" }

// String implements Fault.
func (h *Hold) String() string {
	l := line{kind: h.Kind()}
	l.text("watch", h.Watch)
	l.text("client", h.Client)
	if h.From != (Selector{}) {
		l.text("from", h.From.String())
	}
	if h.Until != (Selector{}) {
		l.text("until", h.Until.String())
	}
	if h.For > 0 {
		l.raw("for", h.For.String())
	}
	return l.String()
}

func parseHold(f *fields) (Fault, error) {
	h := &Hold{}
	for _, err := range []error{
		f.word("watch", &h.Watch),
		f.word("client", &h.Client),
		f.selector("from", ParseEvent, &h.From),
		f.selector("until", ParseCall, &h.Until),
		f.duration("for", f.take("for"), &h.For),
	} {
		if err != nil {
			return nil, err
		}
	}
	if h.Watch == "" {
		return nil, f.errorAt(nil, "hold needs watch, the resource whose events are held back")
	}
	if h.Until != (Selector{}) && h.For > 0 {
		return nil, f.errorAt(nil, "hold has until and for; it ends once")
	}
	return h, nil
}

// holdRule is a Hold in one run.
type holdRule struct {
	base
	*Hold
	from   counter
	course course
	missed bool // the event came when the hold was over
}

func (h *Hold) rule(b base) rule {
	return &holdRule{base: b, Hold: h, from: counter{sel: h.From}, course: newCourse(h.Until, h.For)}
}

func (r *holdRule) arrive(c Call, v *Verdict) { r.course.arrive(c, v.Ticket) }

func (r *holdRule) done(t Ticket, fx *Effect) { fx.release(r.course.done(t)) }

func (r *holdRule) dropped(t Ticket, fx *Effect) { fx.release(r.course.dropped(t)) }

func (r *holdRule) expire(_ int, fx *Effect) { fx.release(r.course.end()) }

func (r *holdRule) deliver(e Event, d *Delivery) {
	if !matchResource(r.Watch, e.Group, e.Resource) || !matchClient(r.Client, e.Client, r.m.operator) {
		return
	}
	switch r.course.phase {
	case over:
		if r.struck == 0 && r.From != (Selector{}) && r.from.event(e) {
			r.missed = true
		}
		return
	case waiting:
		if r.From != (Selector{}) && !r.from.event(e) {
			return
		}
		r.course.start(&r.base, &d.Effect, 0, "a hold ends")
	case lasting:
	}
	d.Held = true
	if d.again && r.struck > 0 {
		d.Rules = append(d.Rules, r.line)
		return
	}
	r.strike(&d.Rules)
}

func (r *holdRule) report() (unmet []Unmatched) {
	switch {
	case r.struck > 0:
	case r.missed:
		return []Unmatched{r.unmet("from", r.From, r.from.seen,
			fmt.Sprintf("came after until %s, so that nothing was held", quote(r.Until.String())))}
	case r.From != (Selector{}):
		unmet = append(unmet, r.unmet("from", r.From, r.from.seen, ""))
	default:
		unmet = append(unmet, r.unmet("watch", word(r.Watch), 0, ""))
	}
	return append(unmet, r.course.unmatched(&r.base)...)
}
