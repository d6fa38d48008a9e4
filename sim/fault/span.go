package fault

import (
	"time"
)

// Span is how long a state of the cluster lasts.
type Span struct {
	// At begins it: a time, or when a call has been executed; the zero Moment is the start of the run.
	At Moment
	// Until ends it when the call has been executed; For ends it that long after it began. With neither it lasts
	// to the end of the run.
	Until Selector
	For   time.Duration
}

func (s *Span) print(l *line) {
	if s.At != (Moment{}) {
		s.At.print(l, "at")
	}
	if s.Until != (Selector{}) {
		l.text("until", s.Until.String())
	}
	if s.For > 0 {
		l.raw("for", s.For.String())
	}
}

// span reads at, until and for.
func (f *fields) span(into *Span) error {
	for _, err := range []error{
		f.moment("at", &into.At),
		f.selector("until", ParseCall, &into.Until),
		f.duration("for", f.take("for"), &into.For),
	} {
		if err != nil {
			return err
		}
	}
	if into.Until != (Selector{}) && into.For > 0 {
		return f.errorAt(f.take("for"), "%s has until and for; it ends once", f.what)
	}
	return nil
}

// The deadlines of a spanRule.
const (
	spanBegins = iota
	spanEnds
)

// spanRule is a rule that has its way with calls for a Span. Its owner embeds it and calls arrived.
type spanRule struct {
	base
	span   Span
	at     trigger
	course course
}

func newSpanRule(b base, s Span) spanRule {
	r := spanRule{base: b, span: s, at: newTrigger(s.At), course: newCourse(s.Until, s.For)}
	if s.At == (Moment{}) {
		r.course.phase, r.at.passed = lasting, true
	}
	return r
}

func (r *spanRule) begin(fx *Effect) {
	if r.span.At == (Moment{}) {
		r.start(fx)
		return
	}
	r.at.begin(fx, r.deadline(spanBegins, 0, r.line))
}

func (r *spanRule) start(fx *Effect) { r.course.start(&r.base, fx, spanEnds, "the end of "+r.line) }

// arrived says whether the state lasts when a call arrives.
func (r *spanRule) arrived(c Call, t Ticket) bool {
	lasts := r.course.phase == lasting
	r.course.arrive(c, t)
	r.at.arrive(c, t)
	return lasts
}

func (r *spanRule) done(t Ticket, fx *Effect) {
	if r.at.done(t) && r.course.phase == waiting {
		r.start(fx)
	}
	r.course.done(t)
}

func (r *spanRule) dropped(t Ticket, _ *Effect) {
	r.at.dropped(t)
	r.course.dropped(t)
}

func (r *spanRule) expire(stage int, fx *Effect) {
	if stage == spanEnds {
		r.course.end()
		return
	}
	r.at.expired()
	if r.course.phase == waiting {
		r.start(fx)
	}
}

// unmatched reports a span that did not begin or did not end, and SELECTOR of calls that met nothing in it.
func (r *spanRule) unmatched(key, selector string) []Unmatched {
	if unmet := r.at.unmatched(&r.base, "at"); unmet != nil {
		return unmet
	}
	var unmet []Unmatched
	if r.struck == 0 {
		unmet = append(unmet, Unmatched{Fault: r.line, Selector: key + " " + quote(selector), Detail: "met no call while it lasted"})
	}
	return append(unmet, r.course.unmatched(&r.base)...)
}
