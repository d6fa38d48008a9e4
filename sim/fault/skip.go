package fault

import (
	"time"
)

// Skip moves the clock on at once: whatever a process was waiting for in that time is due now, all together. What
// outsiders do keeps its distance, so that they lose no time.
//
// On a real cluster: all of it was suspended (a laptop's lid, a snapshot of its virtual machines) and goes on
// later. Leases are over, tokens and certificates have expired, timers fire together.
type Skip struct {
	Clock time.Duration
	// At is a time, or when a call has been executed.
	At Moment
}

// Kind implements Fault.
func (s *Skip) Kind() string { return "skip" }

// String implements Fault.
func (s *Skip) String() string {
	l := line{kind: s.Kind()}
	l.raw("clock", s.Clock.String())
	s.At.print(&l, "at")
	return l.String()
}

func parseSkip(f *fields) (Fault, error) {
	s := &Skip{}
	for _, err := range []error{
		f.duration("clock", f.take("clock"), &s.Clock),
		f.moment("at", &s.At),
	} {
		if err != nil {
			return nil, err
		}
	}
	if s.Clock == 0 {
		return nil, f.errorAt(f.take("clock"), "skip needs clock: how far the clock is moved on, such as 1h")
	}
	if f.take("at") == nil {
		return nil, f.errorAt(nil, "skip needs at: a time such as 10m, or the call after which the clock is moved")
	}
	return s, nil
}

type skipRule struct {
	base
	*Skip
	moment trigger
}

func (s *Skip) rule(b base) rule { return &skipRule{base: b, Skip: s, moment: newTrigger(s.At)} }

func (r *skipRule) begin(fx *Effect) { r.moment.begin(fx, r.deadline(0, 0, "the clock is moved on")) }

func (r *skipRule) arrive(c Call, v *Verdict) { r.moment.arrive(c, v.Ticket) }

func (r *skipRule) dropped(t Ticket, _ *Effect) { r.moment.dropped(t) }

func (r *skipRule) done(t Ticket, fx *Effect) {
	if r.moment.done(t) {
		r.expire(0, fx)
	}
}

func (r *skipRule) expire(_ int, fx *Effect) {
	r.moment.expired()
	r.act(fx, Action{Do: DoSkip, Clock: r.Clock})
}

func (r *skipRule) report() []Unmatched { return r.moment.unmatched(&r.base, "at") }
