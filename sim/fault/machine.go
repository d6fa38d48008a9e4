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
	Version                                       string // of the API, such as v1
	Path                                          string // of a call that is about no resource: discovery
}

// Event is a watch event that is about to be delivered.
type Event struct {
	Client                           string // the process that watches
	Stream                           string // the watch, unique within the run
	Type                             string // ADDED, MODIFIED, DELETED; others (BOOKMARK) only ever wait in their stream
	Group, Resource, Namespace, Name string
	Version                          string // of the API, such as v1; "" where it is not known
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
	// Refusal replaces the call's answer; nil for none. The call is executed first when Refusal.Committed.
	Refusal *Refusal
	// Edit, if set, changes the API server's own answer when its code is 200; see Edit.
	Edit Edit
	// Rules are the one-line forms of the faults that had their way.
	Rules []string

	slow []*storageRule // that delay its commit, if it comes to one
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

// rule is a fault's state in one run. A rule embeds base, which nothing moves, for what does not concern it.
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
	strikes() int
}

// base is what the rules have in common.
type base struct {
	m      *Machine
	index  int    // in the plan
	line   string // the fault's one-line form
	struck int    // how often it has had its way
}

func newBase(f Fault, index int, m *Machine) base { return base{m: m, index: index, line: f.String()} }

// strike counts, and names the fault among those that had their way with a call or an event.
func (b *base) strike(rules *[]string) {
	b.struck++
	*rules = append(*rules, b.line)
}

// act counts, and adds an action that the fault wants.
func (b *base) act(fx *Effect, a Action) {
	b.struck++
	a.Fault = b.line
	fx.Actions = append(fx.Actions, a)
}

// expect adds a moment at which to call expire.
func (b *base) expect(fx *Effect, stage int, after time.Duration, what string) {
	fx.Begun = append(fx.Begun, b.deadline(stage, after, what))
}

func (b *base) deadline(stage int, after time.Duration, what string) Deadline {
	return Deadline{Rule: b.index, stage: stage, After: after, What: what, Fault: b.line}
}

// unmet is a selector or a time of the fault that met nothing; DETAIL, if set, says more than how often it matched.
func (b *base) unmet(key string, selector fmt.Stringer, seen int, detail string) Unmatched {
	return Unmatched{Fault: b.line, Selector: key + " " + quote(selector.String()), Seen: seen, Detail: detail}
}

// unfinished is a time of the fault that was not over when the run ended.
func (b *base) unfinished(key string, d time.Duration, detail string) Unmatched {
	return Unmatched{Fault: b.line, Selector: key + " " + d.String(), Detail: detail}
}

const notOver = "was not over when the run ended"

func (b *base) strikes() int             { return b.struck }
func (b *base) begin(*Effect)            {}
func (b *base) arrive(Call, *Verdict)    {}
func (b *base) done(Ticket, *Effect)     {}
func (b *base) dropped(Ticket, *Effect)  {}
func (b *base) answered(Ticket, *Effect) {}
func (b *base) expire(int, *Effect)      {}
func (b *base) deliver(Event, *Delivery) {}
func (b *base) behind(Event, *Effect)    {}
func (b *base) closed(string)            {}

// Options are what a Machine has to know of the run.
type Options struct {
	// Operator is the process that a plan calls "operator".
	Operator string
	// Stored says in which version custom resources are stored, and of which kind they are; both are "" where it is
	// not known. A conversion webhook's refusal names them. nil knows none.
	Stored func(group, resource string) (version, kind string)
}

// Machine is a plan in one run. It is not safe for concurrent use.
type Machine struct {
	seed     uint64
	operator string
	stored   func(group, resource string) (version, kind string)
	rules    []rule
	watchers []*Watcher
	tickets  Ticket
	draws    map[string]uint64
	heads    map[string]int64 // per stream the resourceVersion of the event last asked about
}

// NewMachine makes the state of PLAN for one run.
func NewMachine(p *Plan, o Options) *Machine {
	if o.Stored == nil {
		o.Stored = func(string, string) (string, string) { return "", "" }
	}
	m := &Machine{seed: p.Seed, operator: o.Operator, stored: o.Stored, draws: map[string]uint64{}, heads: map[string]int64{}}
	for i, f := range p.Faults {
		m.rules = append(m.rules, f.rule(newBase(f, i, m)))
	}
	return m
}

// each has every rule say what follows from something that has happened.
func (m *Machine) each(happened func(rule, *Effect)) (fx Effect) {
	for _, r := range m.rules {
		happened(r, &fx)
	}
	return fx
}

// Begin says that the operator has made its first call: the times of a plan ("at") count from here. It is called
// once.
func (m *Machine) Begin() Effect { return m.each(func(r rule, fx *Effect) { r.begin(fx) }) }

// Arrive counts a call and says what to do with it. It is called once a call, in the order of arrival. A call
// of an outsider is counted, since holds may wait for it, but never altered.
func (m *Machine) Arrive(c Call) Verdict {
	m.tickets++
	v := Verdict{Ticket: m.tickets}
	for _, w := range m.watchers {
		w.arrive(c, v.Ticket)
	}
	for _, r := range m.rules {
		r.arrive(c, &v)
	}
	if v.Refusal == nil || v.Refusal.Committed {
		for _, r := range v.slow {
			v.Delay += r.Commit
			r.strike(&v.Rules)
		}
	}
	return v
}

// Done says that a call has been executed or refused; its client does not know yet.
func (m *Machine) Done(t Ticket) Effect { return m.each(func(r rule, fx *Effect) { r.done(t, fx) }) }

// Dropped says that a call will not be executed, because its client is gone.
func (m *Machine) Dropped(t Ticket) Effect {
	return m.each(func(r rule, fx *Effect) { r.dropped(t, fx) })
}

// Answered says that a call's answer has reached its client. What follows is to be carried out once the client
// has gone as far as it can.
func (m *Machine) Answered(t Ticket) Effect {
	return m.each(func(r rule, fx *Effect) { r.answered(t, fx) })
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
	for _, w := range m.watchers {
		w.deliver(e)
	}
	for _, r := range m.rules {
		r.deliver(e, &d)
	}
	return d
}

// Behind says that an event has been committed and waits behind the head of its stream, for which Deliver asked
// to look Ahead. Events of a stream come in their order; it may be told of one twice.
func (m *Machine) Behind(e Event) Effect {
	return m.each(func(r rule, fx *Effect) { r.behind(e, fx) })
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

// Report lists the selectors and times that met nothing so far, in the plan's order.
func (m *Machine) Report() []Unmatched {
	var all []Unmatched
	for _, r := range m.rules {
		all = append(all, r.report()...)
	}
	return all
}

// Struck is how often each fault has had its way so far, in the plan's order: calls that were answered or delayed,
// events that were held or delayed, watches that were cut, processes that were killed or paused.
func (m *Machine) Struck() []int {
	all := make([]int, len(m.rules))
	for i, r := range m.rules {
		all[i] = r.strikes()
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
