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
	span      Span
	at, until trigger
	state     holdState
}

func newSpanRule(b base, s Span) spanRule {
	r := spanRule{base: b, span: s, at: newTrigger(s.At), until: newTrigger(Moment{Call: s.Until})}
	if s.At == (Moment{}) {
		r.state, r.at.passed = holding, true
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

func (r *spanRule) start(fx *Effect) {
	r.state = holding
	if r.span.For > 0 {
		r.expect(fx, spanEnds, r.span.For, "the end of "+r.line)
	}
}

// arrived says whether the state lasts when a call arrives.
func (r *spanRule) arrived(c Call, t Ticket) bool {
	lasts := r.state == holding
	// Without a number, until means the first such call after the state began.
	if r.span.Until != (Selector{}) && (r.span.Until.N > 0 || lasts) {
		r.until.arrive(c, t)
	}
	r.at.arrive(c, t)
	return lasts
}

func (r *spanRule) done(t Ticket, fx *Effect) {
	if r.at.done(t) && r.state == waiting {
		r.start(fx)
	}
	if r.until.done(t) {
		r.state = over
	}
}

func (r *spanRule) dropped(t Ticket, _ *Effect) {
	r.at.dropped(t)
	r.until.dropped(t)
}

func (r *spanRule) expire(stage int, fx *Effect) {
	if stage == spanEnds {
		r.state = over
		return
	}
	r.at.expired()
	if r.state == waiting {
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
	if r.span.For > 0 && r.state == holding {
		unmet = append(unmet, r.unfinished("for", r.span.For, notOver))
	}
	if r.span.Until != (Selector{}) {
		unmet = append(unmet, r.until.unmatched(&r.base, "until")...)
	}
	return unmet
}
