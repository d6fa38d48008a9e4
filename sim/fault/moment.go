package fault

import (
	"time"
)

// Moment is a time since the operator's first call, or that at which a call has been executed.
type Moment struct {
	Call Selector // the zero Selector for a time
	Time time.Duration
}

// String is the moment as it parses.
func (m Moment) String() string {
	if m.Call != (Selector{}) {
		return m.Call.String()
	}
	return m.Time.String()
}

// print adds the moment to a line.
func (m Moment) print(l *line, key string) {
	if m.Call != (Selector{}) {
		l.text(key, m.Call.String())
		return
	}
	l.raw(key, m.Time.String())
}

// moment reads a time or the selector of a call. A selector begins with a verb or "*", a time with neither.
func (f *fields) moment(key string, into *Moment) error {
	var s string
	if err := f.text(key, &s); err != nil || s == "" {
		return err
	}
	if s[0] == '*' || s[0] >= 'A' && s[0] <= 'Z' {
		return f.selector(key, ParseCall, &into.Call)
	}
	return f.duration(key, f.take(key), &into.Time)
}

// trigger waits for a Moment. Of the calls that match a selector without a number it is the first.
type trigger struct {
	Moment
	count  counter
	ticket Ticket // the call whose execution is the moment
	passed bool
}

func newTrigger(m Moment) trigger { return trigger{Moment: m, count: counter{sel: m.Call}} }

// begin gives the deadline of a moment that is a time.
func (t *trigger) begin(fx *Effect, d Deadline) {
	if t.Call == (Selector{}) {
		d.After = t.Time
		fx.Begun = append(fx.Begun, d)
	}
}

// arrive says whether c is the call of the moment.
func (t *trigger) arrive(c Call, ticket Ticket) bool {
	if t.Call == (Selector{}) || !t.count.call(c) || t.ticket != 0 {
		return false
	}
	t.ticket = ticket
	return true
}

// done says whether the moment has come with the execution of a call.
func (t *trigger) done(ticket Ticket) bool {
	if t.passed || t.ticket != ticket || ticket == 0 {
		return false
	}
	t.passed = true
	return true
}

// dropped: a call that will not be executed is no moment. Without a number the next one that matches is.
func (t *trigger) dropped(ticket Ticket) {
	if t.ticket == ticket && !t.passed && t.Call.N == 0 {
		t.ticket = 0
	}
}

// expired: the moment, a time, has come.
func (t *trigger) expired() { t.passed = true }

// unmatched reports a moment that never came.
func (t *trigger) unmatched(b *base, key string) []Unmatched {
	switch {
	case t.passed:
		return nil
	case t.Call == (Selector{}):
		return []Unmatched{b.unfinished(key, t.Time, "did not come before the run ended")}
	case t.ticket != 0:
		return []Unmatched{b.unmet(key, t.Call, t.count.seen, "was not executed before the run or its client ended")}
	}
	return []Unmatched{b.unmet(key, t.Call, t.count.seen, "")}
}
