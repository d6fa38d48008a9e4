package fault

import (
	"time"
)

// DefaultRestart is how long a process that a plan has ended stays away if nothing is said.
const DefaultRestart = time.Second

// Crash kills a process at a moment and starts it again.
//
// On a real cluster: a process that is killed (out of memory, a node that fails, an eviction, a panic) between a
// write and what was to follow it. Its connections end, what it had asked for and what had not been executed
// is not executed any more, what had been executed stands. The process that is started again is another one:
// it knows nothing, and to leases and random names it is somebody else.
type Crash struct {
	// Process is a process's name, or "operator".
	Process string
	// Before kills it when the call reaches the API server: the call is not executed, if it is the process's own.
	Before Selector
	// After kills it when the call has been executed and before the answer comes: it never knows.
	After Selector
	// Answered, with After, kills it later: when the answer has come and it has gone as far as it could without
	// hearing of anything else. What it asked for then does not reach the API server any more.
	Answered bool
	// At, with neither Before nor After, is a time since the operator's first call.
	At time.Duration
	Comeback
}

// Restart ends a process at a moment and starts it again; with a View it is one that travels back in time.
//
// On a real cluster: a rollout, a drained node, a lost lease; and see View.
type Restart struct {
	// Process is a process's name, or "operator".
	Process string
	// At is a time, or when a call has been executed.
	At Moment
	Comeback
}

// Comeback says how a process comes back.
type Comeback struct {
	// RestartAfter is how long it is away.
	RestartAfter time.Duration
	// Never leaves it away ("restartAfter: never").
	Never bool
	// View is what it is shown.
	View View
	// Cached ("reads: cached") shows the View only to reads that a real API server may answer from a cache that
	// lags: lists and watches that ask for resourceVersion 0, and watches that resume.
	Cached bool
	// Until ends the view when the call has been executed; For ends it that long after the start. With neither
	// it lasts to the end of the run.
	Until Selector
	For   time.Duration
}

// Kind implements Fault.
func (c *Crash) Kind() string { return "crash" }

// Kind implements Fault.
func (r *Restart) Kind() string { return "restart" }

// String implements Fault.
func (c *Crash) String() string {
	l := line{kind: c.Kind()}
	l.text("process", c.Process)
	switch {
	case c.Before != (Selector{}):
		l.text("before", c.Before.String())
	case c.After != (Selector{}):
		l.text("after", c.After.String())
	default:
		l.raw("at", c.At.String())
	}
	if c.Answered {
		l.raw("answered", "true")
	}
	c.print(&l)
	return l.String()
}

// String implements Fault.
func (r *Restart) String() string {
	l := line{kind: r.Kind()}
	l.text("process", r.Process)
	r.At.print(&l, "at")
	r.print(&l)
	return l.String()
}

func (c *Comeback) print(l *line) {
	if c.Never {
		l.raw("restartAfter", "never")
		return
	}
	l.raw("restartAfter", c.RestartAfter.String())
	if c.View == (View{}) {
		return
	}
	l.text("view", c.View.String())
	if c.Cached {
		l.raw("reads", "cached")
	}
	if c.Until != (Selector{}) {
		l.text("until", c.Until.String())
	}
	if c.For > 0 {
		l.raw("for", c.For.String())
	}
}

func parseCrash(f *fields) (Fault, error) {
	c := &Crash{}
	for _, err := range []error{
		f.process(&c.Process),
		f.selector("before", ParseCall, &c.Before),
		f.selector("after", ParseCall, &c.After),
		f.duration("at", f.take("at"), &c.At),
		f.boolean("answered", &c.Answered),
		f.comeback(&c.Comeback),
	} {
		if err != nil {
			return nil, err
		}
	}
	if f.count("before", "after", "at") != 1 {
		return nil, f.errorAt(nil, "crash needs one of before, after and at: when the process is killed")
	}
	if c.Answered && c.After == (Selector{}) {
		return nil, f.errorAt(f.take("answered"), "answered of crash goes with after: the call whose answer has come")
	}
	return c, nil
}

func parseRestart(f *fields) (Fault, error) {
	r := &Restart{}
	for _, err := range []error{
		f.process(&r.Process),
		f.moment("at", &r.At),
		f.comeback(&r.Comeback),
	} {
		if err != nil {
			return nil, err
		}
	}
	if f.take("at") == nil {
		return nil, f.errorAt(nil, "restart needs at: a time such as 90s, or the call after which the process is restarted")
	}
	return r, nil
}

// process reads the name of one process.
func (f *fields) process(into *string) error {
	if err := f.word("process", into); err != nil {
		return err
	}
	if *into == "" || *into == "*" {
		return f.errorAt(f.take("process"), "%s needs process: a process's name, or operator", f.what)
	}
	return nil
}

// count says how many of the keys are there.
func (f *fields) count(keys ...string) (n int) {
	for _, k := range keys {
		if f.take(k) != nil {
			n++
		}
	}
	return n
}

func (f *fields) comeback(c *Comeback) error {
	c.RestartAfter = DefaultRestart
	if n := f.take("restartAfter"); n != nil && n.Value == "never" {
		c.Never, c.RestartAfter = true, 0
	} else if err := f.duration("restartAfter", n, &c.RestartAfter); err != nil {
		return err
	}
	var view, reads string
	for _, err := range []error{
		f.text("view", &view),
		f.text("reads", &reads),
		f.selector("until", ParseCall, &c.Until),
		f.duration("for", f.take("for"), &c.For),
	} {
		if err != nil {
			return err
		}
	}
	if view != "" {
		var err error
		if c.View, err = ParseView(view); err != nil {
			return f.errorAt(f.take("view"), "view of %s: %s", f.what, err)
		}
	}
	switch reads {
	case "", "all":
	case "cached":
		c.Cached = true
	default:
		return f.errorAt(f.take("reads"), "reads of %s is %q; want all or cached", f.what, reads)
	}
	switch {
	case c.Never && f.count("view", "reads", "until", "for") > 0:
		return f.errorAt(f.take("restartAfter"), "a process that never comes back has no view")
	case c.View == (View{}) && f.count("reads", "until", "for") > 0:
		return f.errorAt(f.take("view"), "reads, until and for of %s go with the view of a past", f.what)
	case c.Until != (Selector{}) && c.For > 0:
		return f.errorAt(f.take("for"), "the view of %s has until and for; it ends once", f.what)
	}
	return nil
}

// The deadlines of a downRule.
const (
	stageDown = iota
	stageUp
	stageCurrent
)

// downRule is a Crash or a Restart in one run.
type downRule struct {
	base
	Comeback
	process  string
	key      string // of the moment in the plan
	moment   trigger
	before   bool
	lateKill bool // only when the call has been answered

	view  viewRule
	until trigger
	shows bool // the process is shown the past
	ended bool // the view's end has come
	late  bool // the process came back before the view's moment
	moot  bool // or after its end
	back  bool // the process has come back
}

func (c *Crash) rule(b base) rule {
	r := newDownRule(b, c.Process, c.Comeback)
	switch {
	case c.Before != (Selector{}):
		r.key, r.before, r.moment = "before", true, newTrigger(Moment{Call: c.Before})
	case c.After != (Selector{}):
		r.key, r.lateKill, r.moment = "after", c.Answered, newTrigger(Moment{Call: c.After})
	default:
		r.key, r.moment = "at", newTrigger(Moment{Time: c.At})
	}
	return r
}

func (r *Restart) rule(b base) rule {
	d := newDownRule(b, r.Process, r.Comeback)
	d.key, d.moment = "at", newTrigger(r.At)
	return d
}

func newDownRule(b base, process string, c Comeback) *downRule {
	return &downRule{
		base: b, Comeback: c, process: b.m.name(process),
		view: newViewRule(c.View), until: newTrigger(Moment{Call: c.Until}),
	}
}

func (r *downRule) begin(fx *Effect) {
	r.moment.begin(fx, r.deadline(stageDown, 0, r.process+" is killed"))
}

func (r *downRule) arrive(c Call, v *Verdict) {
	r.view.arrive(r.index, c, v)
	// Without a number, until means the first such call after the process came back.
	if r.Until.N > 0 || r.shows {
		r.until.arrive(c, v.Ticket)
	}
	if r.moment.arrive(c, v.Ticket) && r.before {
		v.Before = append(v.Before, Action{Do: DoKill, Fault: r.line, Process: r.process})
		r.strike(&v.Rules)
	}
}

func (r *downRule) done(t Ticket, fx *Effect) {
	r.view.moment.done(t)
	if r.until.done(t) {
		r.current(fx)
	}
	if !r.lateKill && r.moment.done(t) {
		r.end(fx)
	}
}

func (r *downRule) dropped(t Ticket, _ *Effect) {
	r.view.moment.dropped(t)
	r.until.dropped(t)
	r.moment.dropped(t)
}

func (r *downRule) answered(t Ticket, fx *Effect) {
	if r.lateKill && r.moment.done(t) {
		r.end(fx)
	}
}

func (r *downRule) expire(stage int, fx *Effect) {
	switch stage {
	case stageDown:
		r.moment.expired()
		r.end(fx)
	case stageUp:
		r.start(fx)
	case stageCurrent:
		r.current(fx)
	}
}

// end kills the process, unless it was killed before the call, and has it come back.
func (r *downRule) end(fx *Effect) {
	if !r.before {
		r.act(fx, Action{Do: DoKill, Process: r.process})
	}
	if !r.Never {
		r.expect(fx, stageUp, r.RestartAfter, r.process+" comes back")
	}
}

func (r *downRule) start(fx *Effect) {
	r.back = true
	past := r.view.past(r.index, r.Cached)
	r.late = past == nil && r.Comeback.View != (View{})
	if r.moot = past != nil && r.ended; r.moot {
		past = nil
	}
	r.shows = past != nil
	fx.Actions = append(fx.Actions, Action{Do: DoStart, Fault: r.line, Process: r.process, View: past})
	if r.shows && r.For > 0 {
		r.expect(fx, stageCurrent, r.For, "the view of the past ends")
	}
}

// current ends the view.
func (r *downRule) current(fx *Effect) {
	r.ended = true
	if r.shows {
		r.shows = false
		fx.Actions = append(fx.Actions, Action{Do: DoCurrent, Fault: r.line, Process: r.process})
	}
}

func (r *downRule) report() []Unmatched {
	unmet := r.moment.unmatched(&r.base, r.key)
	if r.struck > 0 && !r.Never && !r.back {
		unmet = append(unmet, r.unfinished("restartAfter", r.RestartAfter, notOver))
	}
	if r.Comeback.View == (View{}) {
		return unmet
	}
	switch {
	case r.late:
		unmet = append(unmet, r.unmet("view", r.Comeback.View, 0, "did not come before the process was back, which saw the present"))
	case r.moot:
		unmet = append(unmet, r.unmet("until", r.Until, 0, "came before the process was back, which saw the present"))
	case !r.view.moment.passed:
		unmet = append(unmet, r.view.moment.unmatched(&r.base, "view")...)
	}
	if !r.moment.passed {
		return unmet // the first report says it all
	}
	if r.shows && r.For > 0 {
		unmet = append(unmet, r.unfinished("for", r.For, notOver))
	}
	if r.Until == (Selector{}) {
		return unmet
	}
	return append(unmet, r.until.unmatched(&r.base, "until")...)
}
