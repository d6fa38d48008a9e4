package fault

import (
	"time"
)

// Pause has all threads of a process stand still for a while. Its connections stay open, what comes for it waits.
//
// On a real cluster: a process that gets no CPU (throttled by its cgroup, a frozen virtual machine, swapping, a
// stop-the-world collection), for longer than its lease lasts, say, and that goes on as if nothing had been.
type Pause struct {
	// Process is a process's name, or "operator".
	Process string
	// From begins it when the call has been executed and before the answer comes; At, without From, at a time
	// since the operator's first call.
	From Selector
	At   time.Duration
	For  time.Duration
}

// Kind implements Fault.
func (p *Pause) Kind() string { return "pause" }

// String implements Fault.
func (p *Pause) String() string {
	l := line{kind: p.Kind()}
	l.text("process", p.Process)
	if p.From != (Selector{}) {
		l.text("from", p.From.String())
	} else {
		l.raw("at", p.At.String())
	}
	l.raw("for", p.For.String())
	return l.String()
}

func parsePause(f *fields) (Fault, error) {
	p := &Pause{}
	for _, err := range []error{
		f.process(&p.Process),
		f.selector("from", ParseCall, &p.From),
		f.duration("at", f.take("at"), &p.At),
		f.duration("for", f.take("for"), &p.For),
	} {
		if err != nil {
			return nil, err
		}
	}
	if f.count("from", "at") != 1 {
		return nil, f.errorAt(nil, "pause needs one of from, a call, and at, a time: when it begins")
	}
	if p.For == 0 {
		return nil, f.errorAt(f.take("for"), "pause needs for: how long it lasts")
	}
	return p, nil
}

type pauseRule struct {
	unmoved
	*Pause
	index  int
	name   string
	moment trigger
}

// The deadlines of a pauseRule.
const (
	stagePause = iota
	stageResume
)

func (p *Pause) rule(index int, m *Machine) rule {
	return &pauseRule{Pause: p, index: index, name: m.name(p.Process), moment: newTrigger(Moment{Call: p.From, Time: p.At})}
}

func (r *pauseRule) begin(fx *Effect) {
	r.moment.begin(fx, Deadline{Rule: r.index, stage: stagePause, What: r.name + " stands still", Fault: r.String()})
}

func (r *pauseRule) arrive(c Call, v *Verdict) { r.moment.arrive(c, v.Ticket) }

func (r *pauseRule) dropped(t Ticket, _ *Effect) { r.moment.dropped(t) }

func (r *pauseRule) done(t Ticket, fx *Effect) {
	if r.moment.done(t) {
		r.expire(stagePause, fx)
	}
}

func (r *pauseRule) expire(stage int, fx *Effect) {
	if stage == stageResume {
		fx.Actions = append(fx.Actions, Action{Do: DoResume, Fault: r.String(), Process: r.name})
		return
	}
	fx.Actions = append(fx.Actions, Action{Do: DoPause, Fault: r.String(), Process: r.name})
	fx.Begun = append(fx.Begun, Deadline{Rule: r.index, stage: stageResume, After: r.For, What: r.name + " goes on", Fault: r.String()})
}

func (r *pauseRule) report() []Unmatched { return r.moment.unmatched(r.Pause, "from") }
