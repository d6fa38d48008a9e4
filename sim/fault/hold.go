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

// holdRule is a Hold in one run. It goes waiting → holding → over.
type holdRule struct {
	unmoved
	*Hold
	m       *Machine
	index   int
	from    counter
	until   counter
	state   holdState
	ticket  Ticket // the call whose end releases the hold; 0 for none yet
	matched int    // events held back
}

type holdState int

const (
	waiting holdState = iota
	holding
	over
)

func (h *Hold) rule(index int, m *Machine) rule {
	return &holdRule{Hold: h, m: m, index: index, from: counter{sel: h.From}, until: counter{sel: h.Until}}
}

func (r *holdRule) arrive(c Call, v *Verdict) {
	if r.Until == (Selector{}) || r.state == over || r.ticket != 0 {
		return
	}
	hit := r.until.call(c)
	// Without a number, until means the first such call after the hold began.
	if hit && (r.Until.N > 0 || r.state == holding) {
		r.ticket = v.Ticket
	}
}

func (r *holdRule) done(t Ticket, fx *Effect) {
	if r.ticket == t && r.state != over {
		// The moment may come before the event does; then there is nothing to hold any more.
		r.end(fx)
	}
}

// dropped: the call that was waited for did not come to be. Of those without a number another one will do.
func (r *holdRule) dropped(t Ticket, fx *Effect) {
	switch {
	case r.ticket != t || r.state == over:
	case r.Until.N == 0:
		r.ticket = 0
	default:
		r.end(fx)
	}
}

func (r *holdRule) expire(_ int, fx *Effect) { r.end(fx) }

func (r *holdRule) end(fx *Effect) {
	fx.Released = fx.Released || r.state == holding
	r.state = over
}

func (r *holdRule) deliver(e Event, d *Delivery) {
	if r.state == over || !matchResource(r.Watch, e.Group, e.Resource) || !matchClient(r.Client, e.Client, r.m.operator) {
		return
	}
	if r.state == waiting {
		if r.From != (Selector{}) && !r.from.event(e) {
			return
		}
		r.state = holding
		if r.For > 0 {
			d.Begun = append(d.Begun, Deadline{Rule: r.index, After: r.For, What: "a hold ends"})
		}
	}
	if !d.again {
		r.matched++
	}
	d.Held = true
	d.Rules = append(d.Rules, r.String())
}

func (r *holdRule) report() (unmet []Unmatched) {
	if r.From != (Selector{}) && r.state == waiting {
		unmet = append(unmet, Unmatched{Fault: r.String(), Selector: "from " + quote(r.From.String()), Seen: r.from.seen})
	}
	if r.From == (Selector{}) && r.matched == 0 {
		unmet = append(unmet, Unmatched{Fault: r.String(), Selector: "watch " + quote(r.Watch)})
	}
	if r.Until != (Selector{}) && r.ticket == 0 {
		unmet = append(unmet, Unmatched{Fault: r.String(), Selector: "until " + quote(r.Until.String()), Seen: r.until.seen})
	}
	if r.From != (Selector{}) && r.state == over && r.matched == 0 {
		unmet = append(unmet, Unmatched{Fault: r.String(), Selector: "from " + quote(r.From.String()), Seen: r.from.seen,
			Detail: fmt.Sprintf("until %s came first, so that nothing was held", quote(r.Until.String()))})
	}
	return unmet
}
