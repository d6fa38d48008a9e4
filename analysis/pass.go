package analysis

import (
	"strings"

	"github.com/opreplay/opreplay/traces"
)

// Pass is one reconcile that ended.
type Pass struct {
	// Row is the row itself: controller, key, start and end, outcome, error, requeue.
	Row     *traces.Reconcile
	Process *Process
	// Calls are the first few calls about single objects that it made, in the order of their ends; Total is how many
	// there were, Reads, Writes and Refused how many of them were gets, writes, and answered with 400 or more. Empty is
	// how many of the writes changed nothing.
	Calls                                []*Call
	Total, Reads, Writes, Refused, Empty int64
	// Samples is the weight of the stack samples that were taken in it.
	Samples int64
	// Trigger is the event that queued it, the zero Trigger when that is not known.
	Trigger Trigger
}

// Trigger is the event that queued a reconcile.
type Trigger struct {
	Seq, TS, RV int64
	// State is the object that the event was about, nil when the trigger is not known.
	State *State
	Type  traces.EventType
}

// Bounds of what is kept of reconciles that have not ended.
const (
	maxOpenPasses = 1 << 12
	maxPassCalls  = 64
)

// passes are the reconciles that have begun to make calls and have not ended, by the seq of their end.
type passes struct {
	open   map[int64]*Pass
	order  queue[int64]
	spare  spare[Pass] // that have ended
	wanted bool
}

func (p *passes) at(id int64) *Pass {
	if id == 0 || !p.wanted {
		return nil
	}
	x := p.open[id]
	if x == nil {
		if p.open == nil {
			p.open = map[int64]*Pass{}
		}
		x = p.spare.get()
		p.open[id] = x
		p.order.push(id)
		for len(p.open) > maxOpenPasses { // the oldest: its end was lost
			delete(p.open, p.order.pop())
		}
		if p.order.len() > 4*maxOpenPasses { // one that never ends holds up those behind it, which have
			p.compact()
		}
	}
	return x
}

// compact drops from the order what has ended.
func (p *passes) compact() {
	var left queue[int64]
	for p.order.len() > 0 {
		if id := p.order.pop(); p.open[id] != nil {
			left.push(id)
		}
	}
	p.order = left
}

func (p *passes) called(c *Call) {
	x := p.at(c.ReconcileID)
	if x == nil {
		return
	}
	x.Total++
	switch {
	case c.Write():
		x.Writes++
		if c.Empty {
			x.Empty++
		}
	case c.Verb == "get":
		x.Reads++
	}
	if c.Code >= 400 {
		x.Refused++
	}
	if len(x.Calls) < maxPassCalls {
		x.Calls = append(x.Calls, c)
	}
}

// take is what is known of the pass that ends with this seq.
func (p *passes) take(id int64) *Pass {
	x := p.open[id]
	if x == nil {
		return p.spare.get()
	}
	delete(p.open, id)
	for p.order.len() > 0 && p.open[p.order.front()] == nil {
		p.order.pop()
	}
	return x
}

// done is that a Pass is no longer valid.
func (p *passes) done(x *Pass) {
	clear(x.Calls)
	*x = Pass{Calls: x.Calls[:0]}
	p.spare.put(x)
}

func (m *Model) pass(r *traces.Reconcile) {
	x := m.passes.take(r.Seq)
	x.Row, x.Process = r, m.process(r.Process)
	if t := m.told.find(r.Trigger); t != nil {
		x.Trigger = Trigger{Seq: t.seq, TS: t.ts, RV: t.rv, State: t.state, Type: eventTypes[t.kind]}
	}
	if x.Process != nil {
		x.Process.Passes++
	}
	for _, d := range m.on.passes {
		d.Pass(m, x)
	}
	m.passes.done(x)
}

func (m *Model) sample(s *traces.Sample) {
	if x := m.passes.at(s.ReconcileID); x != nil {
		x.Samples += s.Weight
	}
	for _, d := range m.on.samples {
		d.Sample(m, s)
	}
}

// maxStacks bounds the distinct stacks that are kept, for findings to name a line of code.
const maxStacks = 1 << 14

// stacks are the distinct stacks by stack_id. Their texts are shared: few functions are in many stacks.
type stacks struct {
	byID  map[int64][]traces.Frame
	texts map[string]string
}

func (m *Model) stack(s *traces.Stack) {
	if m.stacks.byID == nil {
		m.stacks.byID, m.stacks.texts = map[int64][]traces.Frame{}, map[string]string{}
	}
	if len(m.stacks.byID) >= maxStacks {
		return
	}
	frames := make([]traces.Frame, len(s.Frames))
	for i, f := range s.Frames {
		f.Function, f.File = m.stacks.text(f.Function), m.stacks.text(f.File)
		frames[i] = f
	}
	m.stacks.byID[s.StackID] = frames
}

func (s *stacks) text(t string) string {
	if shared, ok := s.texts[t]; ok {
		return shared
	}
	t = strings.Clone(t)
	s.texts[t] = t
	return t
}

// Stack is the frames of a stack, leaf first; nil for one that the trace doesn't have, or not yet: a stack's row comes
// before the first row that refers to it in traces of oprec, at the latest when the trace ends.
func (m *Model) Stack(id int64) []traces.Frame { return m.stacks.byID[id] }
