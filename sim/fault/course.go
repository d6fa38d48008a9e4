package fault

import (
	"time"
)

// phase is how far a fault that lasts has come: waiting → lasting → over.
type phase int

const (
	waiting phase = iota
	lasting
	over
)

// course is the phase of a fault that ends when a call has been executed, or some time after it began. Its owner
// knows what begins it.
type course struct {
	phase phase
	until trigger       // with the zero Selector no call ends it
	limit time.Duration // 0: no time does
}

func newCourse(until Selector, limit time.Duration) course {
	return course{until: newTrigger(Moment{Call: until}), limit: limit}
}

// start begins it. WHAT says in words what its end, a deadline of STAGE, is.
func (c *course) start(b *base, fx *Effect, stage int, what string) {
	c.phase = lasting
	if c.limit > 0 {
		b.expect(fx, stage, c.limit, what)
	}
}

// arrive counts a call that may be the one that ends it.
func (c *course) arrive(call Call, t Ticket) {
	switch {
	case c.until.Call == (Selector{}) || c.phase == over:
	case c.until.Call.N > 0 || c.phase == lasting:
		c.until.arrive(call, t)
	default: // without a number, until means the first such call after the fault began
		c.until.count.call(call)
	}
}

// done says whether the execution of a call has ended it. The call may come before the fault has begun: then there
// will be none.
func (c *course) done(t Ticket) (ended bool) { return c.until.done(t) && c.end() }

// dropped: the call that was waited for did not come to be. Of those without a number another one will do.
func (c *course) dropped(t Ticket) (ended bool) {
	if c.until.ticket == t && !c.until.passed && c.until.Call.N > 0 {
		c.until.passed = true
		return c.end()
	}
	c.until.dropped(t)
	return false
}

// end ends it, and says whether it lasted.
func (c *course) end() (ended bool) {
	ended = c.phase == lasting
	c.phase = over
	return ended
}

// unmatched reports an end that never came, of a fault that has begun or could not.
func (c *course) unmatched(b *base) (unmet []Unmatched) {
	if c.limit > 0 && c.phase == lasting {
		unmet = append(unmet, b.unfinished("for", c.limit, notOver))
	}
	if c.until.Call != (Selector{}) {
		unmet = append(unmet, c.until.unmatched(b, "until")...)
	}
	return unmet
}
