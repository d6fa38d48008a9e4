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
	base
	*Pause
	name    string
	moment  trigger
	resumed bool
}

// The deadlines of a pauseRule.
const (
	stagePause = iota
	stageResume
)

func (p *Pause) rule(b base) rule {
	return &pauseRule{base: b, Pause: p, name: b.m.name(p.Process), moment: newTrigger(Moment{Call: p.From, Time: p.At})}
}

func (r *pauseRule) begin(fx *Effect) {
	r.moment.begin(fx, r.deadline(stagePause, 0, r.name+" stands still"))
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
		r.resumed = true
		fx.Actions = append(fx.Actions, Action{Do: DoResume, Fault: r.line, Process: r.name})
		return
	}
	r.moment.expired()
	r.act(fx, Action{Do: DoPause, Process: r.name})
	r.expect(fx, stageResume, r.For, r.name+" goes on")
}

func (r *pauseRule) report() []Unmatched {
	key := "from"
	if r.From == (Selector{}) {
		key = "at"
	}
	unmet := r.moment.unmatched(&r.base, key)
	if r.struck > 0 && !r.resumed {
		unmet = append(unmet, r.unfinished("for", r.For, notOver))
	}
	return unmet
}
