package fault

import (
	"fmt"
	"hash/fnv"
	"strings"
	"time"
)

// Call is an API call that has arrived.
type Call struct {
	Client                                        string // the process that calls; "" for a scripted outsider
	Verb                                          string // lower case, as in traces.Request
	Group, Resource, Namespace, Name, Subresource string
}

// Event is a watch event that is about to be delivered.
type Event struct {
	Client                           string // the process that watches
	Stream                           string // the watch, unique within the run
	Type                             string // ADDED, MODIFIED, DELETED; others (BOOKMARK) only ever wait in their stream
	Group, Resource, Namespace, Name string
	ResourceVersion                  int64
}

// Ticket names a call that has arrived, from 1.
type Ticket int64

// Verdict is what to do with a call.
type Verdict struct {
	Ticket Ticket
	// Delay comes before anything else.
	Delay time.Duration
	// Marks are versions of the world to remember, just before the call is executed or just after.
	Marks []Mark
	// Before is to be carried out when the call reaches the API server. If that kills its client, the call is
	// not executed.
	Before []Action
	// Answer replaces the call's own; nil for none. The call is executed first when Answer.Committed.
	Answer *Answer
	// Rules are the one-line forms of the faults that had their way.
	Rules []string
}

// Delivery is what to do with an event.
type Delivery struct {
	// Delay comes before anything else.
	Delay time.Duration
	// Held: the event, and with it its stream, waits. Ask again when an Effect says Released.
	Held bool
	// Ahead asks to be told, by Behind, of all events that are committed and wait behind this one.
	Ahead bool
	Rules []string
	// Effect is what else follows.
	Effect

	again bool // the event was asked about before
}

// Unmatched is a selector of a plan that met nothing in a run.
type Unmatched struct {
	Fault    string // one-line form
	Selector string // which part of it, e.g. `from "MODIFIED rabbit #2"`
	Seen     int    // how often it matched, its number aside
	Detail   string // more, where there is more to say
}

// String says it in one line.
func (u Unmatched) String() string {
	detail := "matched nothing"
	switch {
	case u.Detail != "":
		detail = u.Detail
	case u.Seen > 0:
		detail = fmt.Sprintf("was never reached: there were only %d", u.Seen)
	}
	return fmt.Sprintf("%s %s in %s", u.Selector, detail, u.Fault)
}

// rule is a fault's state in one run. A rule embeds unmoved for what does not concern it.
type rule interface {
	begin(*Effect)                // the operator has made its first call
	arrive(Call, *Verdict)        // a call has arrived
	done(Ticket, *Effect)         // it has been executed or refused
	dropped(Ticket, *Effect)      // it will be neither
	answered(Ticket, *Effect)     // its client has the answer
	expire(stage int, fx *Effect) // a Deadline's time has come
	deliver(Event, *Delivery)     // an event is at the head of its stream
	behind(Event, *Effect)        // an event waits behind the head
	closed(stream string)
	report() []Unmatched
}

// unmoved is a rule that nothing moves.
type unmoved struct{}

func (unmoved) begin(*Effect)            {}
func (unmoved) arrive(Call, *Verdict)    {}
func (unmoved) done(Ticket, *Effect)     {}
func (unmoved) dropped(Ticket, *Effect)  {}
func (unmoved) answered(Ticket, *Effect) {}
func (unmoved) expire(int, *Effect)      {}
func (unmoved) deliver(Event, *Delivery) {}
func (unmoved) behind(Event, *Effect)    {}
func (unmoved) closed(string)            {}

// Options are what a Machine has to know of the run.
type Options struct {
	// Operator is the process that a plan calls "operator".
	Operator string
}

// Machine is a plan in one run. It is not safe for concurrent use.
type Machine struct {
	seed     uint64
	operator string
	rules    []rule
	tickets  Ticket
	draws    map[string]uint64
	heads    map[string]int64 // per stream the resourceVersion of the event last asked about
}

// NewMachine makes the state of PLAN for one run.
func NewMachine(p *Plan, o Options) *Machine {
	m := &Machine{seed: p.Seed, operator: o.Operator, draws: map[string]uint64{}, heads: map[string]int64{}}
	for i, f := range p.Faults {
		m.rules = append(m.rules, f.rule(i, m))
	}
	return m
}

// Begin says that the operator has made its first call: the times of a plan ("at") count from here. It is called
// once.
func (m *Machine) Begin() (fx Effect) {
	for _, r := range m.rules {
		r.begin(&fx)
	}
	return fx
}

// Arrive counts a call and says what to do with it. It is called once a call, in the order of arrival. A call
// of an outsider is counted, since holds may wait for it, but never altered.
func (m *Machine) Arrive(c Call) Verdict {
	m.tickets++
	v := Verdict{Ticket: m.tickets}
	for _, r := range m.rules {
		r.arrive(c, &v)
	}
	return v
}

// Done says that a call has been executed or refused; its client does not know yet.
func (m *Machine) Done(t Ticket) (fx Effect) {
	for _, r := range m.rules {
		r.done(t, &fx)
	}
	return fx
}

// Dropped says that a call will not be executed, because its client is gone.
func (m *Machine) Dropped(t Ticket) (fx Effect) {
	for _, r := range m.rules {
		r.dropped(t, &fx)
	}
	return fx
}

// Answered says that a call's answer has reached its client. What follows is to be carried out once the client
// has gone as far as it can.
func (m *Machine) Answered(t Ticket) (fx Effect) {
	for _, r := range m.rules {
		r.answered(t, &fx)
	}
	return fx
}

// Expire says that the time of a Deadline has come.
func (m *Machine) Expire(d Deadline) (fx Effect) {
	m.rules[d.Rule].expire(d.stage, &fx)
	return fx
}

// Deliver says what to do with the event at the head of a stream. It may be asked again for the same event.
func (m *Machine) Deliver(e Event) Delivery {
	last, known := m.heads[e.Stream]
	d := Delivery{again: known && last == e.ResourceVersion}
	m.heads[e.Stream] = e.ResourceVersion
	for _, r := range m.rules {
		r.deliver(e, &d)
	}
	return d
}

// Behind says that an event has been committed and waits behind the head of its stream, for which Deliver asked
// to look Ahead. Events of a stream come in their order; it may be told of one twice.
func (m *Machine) Behind(e Event) (fx Effect) {
	for _, r := range m.rules {
		r.behind(e, &fx)
	}
	return fx
}

// Closed forgets a stream.
func (m *Machine) Closed(stream string) {
	delete(m.heads, stream)
	for _, r := range m.rules {
		r.closed(stream)
	}
}

// name is the process that a plan's word means.
func (m *Machine) name(process string) string {
	if process == "operator" && m.operator != "" {
		return m.operator
	}
	return process
}

// Report lists the selectors that met nothing so far, in the plan's order.
func (m *Machine) Report() []Unmatched {
	var all []Unmatched
	for _, r := range m.rules {
		all = append(all, r.report()...)
	}
	return all
}

// draw is a random number for the n-th time that SUBJECT comes up under rule INDEX.
func (m *Machine) draw(index int, subject []string) uint64 {
	key := fmt.Sprintf("%d\x00%s", index, strings.Join(subject, "\x00"))
	m.draws[key]++
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%d\x00%d\x00%s", m.seed, m.draws[key], key)
	// FNV's low bits are poor for short inputs: finish as splitmix64 does.
	x := h.Sum64()
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
