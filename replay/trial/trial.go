package trial

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/replay"
	"github.com/opreplay/opreplay/sim/fault"
	"github.com/opreplay/opreplay/traces"
)

// Options say what to try on.
type Options struct {
	// Replay is the recording and the operators. Its folder and clock do not count; its seed is that of the
	// reference run, and its plan, which is not carried out, makes room for one that moves the clock as far.
	Replay replay.Options
	// Invariants are the user's own.
	Invariants []Invariant
	// Settle is how much virtual time there is after the recording's; 0: DefaultSettle.
	Settle time.Duration
	// Bound is how much more there is for a run whose end is not that of the reference; 0: DefaultBound.
	Bound time.Duration
}

// Defaults of Options.
const (
	DefaultSettle = 30 * time.Second
	DefaultBound  = 2 * time.Minute
)

// farthest is by how much any Try may move the clock: twice as far as those of an exploration do. It is not the week that
// a plan may, for all of a run lies before the wall's time: a recording that is younger than that is played days
// earlier than it was, before its objects were made. Who has a plan that goes farther says so (Options.Replay).
const farthest = 2 * time.Hour

// Try is one altered run.
type Try struct {
	Plan    *fault.Plan
	Threads replay.Threads // "": fifo
	// Procs is the operator's GOMAXPROCS; 0 is 1, as in every run.
	Procs int
	// Replicas is the number of processes of each operator; 0 is one.
	Replicas int
	// Without are the recorded seqs of outsiders' steps that are left out.
	Without []int64
}

// Key is equal for tries that are the same run.
func (t *Try) Key() string {
	return fmt.Sprint(t.Plan, cmp.Or(t.Threads, replay.ThreadsFIFO), max(t.Procs, 1), max(t.Replicas, 1), t.Without)
}

// variant is the try as a run of a session.
func (t *Try) variant() replay.Variant {
	v := replay.Variant{Plan: t.Plan, Threads: t.Threads, Replicas: t.Replicas, Without: t.Without}
	if t.Procs > 1 {
		v.Env = []string{"GOMAXPROCS=" + strconv.Itoa(t.Procs)}
	}
	return v
}

// Verdict is what came of a run, in a word.
type Verdict string

// The verdicts.
const (
	Fine   Verdict = "fine"
	Alarms Verdict = "alarms"
	// Failed: the run did not take place.
	Failed Verdict = "failed"
)

// Outcome is what came of a Try.
type Outcome struct {
	Verdict Verdict `json:"verdict"`
	Alarms  []Alarm `json:"alarms,omitempty"`
	Error   string  `json:"error,omitempty"` // of a run that Failed
	// Unmatched are selectors of the plan that met nothing; Notes are things worth knowing.
	Unmatched []string `json:"unmatched,omitempty"`
	Notes     []string `json:"notes,omitempty"`
	// Skipped is how many of the outsiders' changes did not fit, and did in the reference, or came before the operator had
	// written what they are an answer to; Endless that a fault of
	// the plan has no end, or waited in vain for it. Then the end of the run is not compared.
	Skipped int  `json:"skipped,omitempty"`
	Endless bool `json:"endless,omitempty"`
	// Strayed is how many fields differ at the end and are not compared: of what the operator makes, outsiders wrote them, and
	// met another incarnation than in the reference.
	Strayed int `json:"strayed,omitempty"`
	// More is the time beyond Settle that the run was given.
	More time.Duration `json:"moreNanoseconds,omitempty"`
	// Hash is over all rows of the run.
	Hash string `json:"hash,omitempty"`
	// Took is virtual time, Cost is by the wall's clock.
	Took time.Duration `json:"tookNanoseconds"`
	Cost Cost          `json:"cost"`

	Rows []traces.Record `json:"-"`
}

// Cost is where the time of a run went, by the wall's clock.
type Cost struct {
	replay.Parts
	Judge time.Duration `json:"judgeNanoseconds"`
	Wall  time.Duration `json:"wallNanoseconds"`
	CPU   time.Duration `json:"cpuNanoseconds"` // of this process
}

// Runner plays and judges runs of one recording, one at a time.
type Runner struct {
	o       Options
	session *replay.Session
	rules   []*rule
	skips   time.Duration // by how much a Try may move the clock
	mask    *mask         // of the whole script; nil before it was needed
	refs    []*Reference  // that of the whole script, then the others, the last one used at the end
}

// mostReferences bounds the scripts of which the unaltered run is kept, with all its rows.
const mostReferences = 4

// Open makes a recording ready. Close the Runner when done.
func Open(ctx context.Context, o Options) (*Runner, error) {
	if o.Settle == 0 {
		o.Settle = DefaultSettle
	}
	if o.Bound == 0 {
		o.Bound = DefaultBound
	}
	rules, err := compile(o.Invariants)
	if err != nil {
		return nil, err
	}
	o.Replay.Clock, o.Replay.Live, o.Replay.Patience = replay.ClockVirtual, true, -1
	skips := farthest
	if p := o.Replay.Plan; p != nil {
		skips += 2 * replay.Skips(p) // twice: see package verify
	}
	o.Replay.Plan = nil
	o.Replay.Settle, o.Replay.Room = o.Settle, o.Bound+skips
	if o.Replay.Progress == nil {
		o.Replay.Progress = &cli.Progress{}
	}
	s, err := replay.Open(ctx, o.Replay)
	if err != nil {
		return nil, err
	}
	return &Runner{o: o, session: s, rules: rules, skips: skips}, nil
}

// Close ends the API server.
func (r *Runner) Close() { r.session.Close() }

// Session is what the runs are made of.
func (r *Runner) Session() *replay.Session { return r.session }

// Seed is that of the reference run.
func (r *Runner) Seed() uint64 { return r.o.Replay.Seed }

// Reference is the unaltered run of a script, to which altered ones are compared.
type Reference struct {
	Rows   []traces.Record
	Alarms []Alarm // what is wrong with it already
	Took   time.Duration
	Notes  []string

	without string // the steps that are left out
	played  *played
	story   *story
	skipped map[int64]bool // recorded seqs of steps that did not fit
	found   map[string]bool
}

// Reference plays the script without some of its steps unaltered. Those of the last few sets of steps are kept.
func (r *Runner) Reference(ctx context.Context, without []int64) (*Reference, error) {
	key := fmt.Sprint(without)
	for i, ref := range r.refs {
		if ref.without == key {
			if i > 0 { // the first is that of the whole script, and stays
				r.refs = append(slices.Delete(r.refs, i, i+1), ref)
			}
			return ref, nil
		}
	}
	if len(without) > 0 { // the whole script's comes first, and stays
		if _, err := r.Reference(ctx, nil); err != nil {
			return nil, err
		}
	}
	p, err := r.play(ctx, &Try{Plan: &fault.Plan{Seed: r.Seed()}, Without: without}, nil)
	if err != nil {
		return nil, fmt.Errorf("the unaltered run: %w", err)
	}
	ref := &Reference{
		Rows: p.rows.All, Took: p.result.Took, Notes: p.result.Notes,
		without: key, played: p, story: p.story, skipped: map[int64]bool{}, found: map[string]bool{},
	}
	for _, s := range p.result.Skipped {
		ref.skipped[s.Seq] = true
	}
	if ref.Alarms, err = r.judge(ctx, ref, p); err != nil {
		return nil, err
	}
	for _, a := range ref.Alarms {
		ref.found[a.Key()] = true
	}
	if len(r.refs) == mostReferences {
		r.refs = slices.Delete(r.refs, 1, 2)
	}
	r.refs = append(r.refs, ref)
	return ref, nil
}

// known is what is known to differ between unaltered runs.
func (r *Runner) known() *mask {
	if r.mask == nil {
		return newMask()
	}
	return r.mask
}

// learn finds out what differs between unaltered runs: with another seed, and when there is more time. What differs by
// chance does so with fewer changes by outsiders too.
func (r *Runner) learn(ctx context.Context) error {
	ref, err := r.Reference(ctx, nil)
	if err != nil {
		return err
	}
	m := newMask()
	other := Try{Plan: &fault.Plan{Seed: r.Seed() + 1}, Threads: replay.ThreadsSeeded}
	same := Try{Plan: &fault.Plan{Seed: r.Seed()}}
	for _, x := range []struct {
		try  *Try
		more time.Duration
	}{{&other, 0}, {&same, longer}} {
		again, err := r.play(ctx, x.try, func(*story) time.Duration {
			d := x.more
			x.more = 0
			return d
		})
		if err != nil {
			return fmt.Errorf("the unaltered run with another seed or more time: %w", err)
		}
		m.learn(ref.story, again.story)
	}
	r.mask = m
	return nil
}

// longer is how much more time the unaltered run is given, to see what it changes even then.
const longer = 2 * time.Minute

// played is a run that has taken place.
type played struct {
	try    *Try
	rows   *replay.Rows
	result *replay.Result
	story  *story
	more   time.Duration
}

// skipped is how many of the outsiders' changes did not fit, and did in the reference, or came too early.
func (p *played) skipped(ref *Reference) (n int) {
	for _, s := range p.result.Skipped {
		if !ref.skipped[s.Seq] {
			n++
		}
	}
	return n + early(ref.story, p.story)
}

// endless says whether a fault that hides something from the operator waited in vain for its end.
func (p *played) endless() bool {
	return slices.ContainsFunc(p.result.Unmatched, func(u string) bool {
		return strings.HasPrefix(u, "to ") && strings.Contains(u, " in merge: ") || strings.HasPrefix(u, "until ") && strings.Contains(u, " in hold: ")
	})
}

// lasting says whether the plan has a fault that does not end, and after which the operator need not get anywhere.
func (p *played) lasting() bool {
	return slices.ContainsFunc(p.try.Plan.Faults, func(f fault.Fault) bool {
		never := func(s fault.Span) bool { return s.For == 0 && s.Until == (fault.Selector{}) }
		switch f := f.(type) {
		case *fault.Schema, *fault.Unserve:
			return true
		case *fault.Token:
			return never(f.Span)
		case *fault.Quota:
			return never(f.Span)
		case *fault.Webhook:
			return never(f.Span)
		}
		return false
	})
}

// play plays a try. MORE, if there is one, is asked whether it is to go on when its time is over.
func (r *Runner) play(ctx context.Context, t *Try, more func(*story) time.Duration) (*played, error) {
	p := &played{try: t, rows: &replay.Rows{}}
	names := r.names(t)
	p.story = newStory(names)
	seen := 0
	catchUp := func() {
		for ; seen < len(p.rows.All); seen++ {
			p.story.see(p.rows.All[seen])
		}
	}
	v := t.variant()
	v.Rows = p.rows
	if more != nil {
		v.More = func() time.Duration {
			catchUp()
			d := more(p.story)
			p.more += d
			return d
		}
	}
	var err error
	if p.result, err = r.session.Play(ctx, v); err != nil {
		return nil, err
	}
	catchUp()
	return p, nil
}

// names are the operators' processes in a try.
func (r *Runner) names(t *Try) []string {
	names := slices.Clone(r.session.Names())
	for i := 2; i <= t.Replicas; i++ {
		for _, n := range r.session.Names() {
			names = append(names, fmt.Sprintf("%s-%d", n, i))
		}
	}
	return names
}

// against plays a try for as long as its end is not that of the reference, but for what differs anyway. Where that is
// not known yet and would matter, the run ends early.
func (r *Runner) against(ctx context.Context, ref *Reference, t *Try) (p *played, early bool, err error) {
	var given time.Duration
	p, err = r.play(ctx, t, func(s *story) time.Duration {
		if given >= r.o.Bound || len(compare(ref.story, s, r.known())) == 0 {
			return 0
		}
		if r.mask == nil {
			early = true
			return 0
		}
		d := min(max(given, r.o.Settle), r.o.Bound-given)
		given += d
		return d
	})
	return p, early, err
}

// tried plays a try, with what there is to know about chance.
func (r *Runner) tried(ctx context.Context, ref *Reference, t *Try) (*played, error) {
	if far := replay.Skips(t.Plan); far > r.skips {
		return nil, fmt.Errorf("the plan moves the clock by %s, and there is room for %s", far, r.skips)
	}
	if t.Key() == ref.played.try.Key() {
		return ref.played, nil // nothing is altered
	}
	p, early, err := r.against(ctx, ref, t)
	if err != nil || r.mask != nil || len(compare(ref.story, p.story, r.known()))+len(counts(ref.story, p.story, r.known())) == 0 {
		return p, err
	}
	if err := r.learn(ctx); err != nil {
		return nil, err
	}
	if early {
		p, _, err = r.against(ctx, ref, t)
	}
	return p, err
}

// Run plays a try and judges it. The error is one of this machine; a run that cannot take place is an Outcome.
func (r *Runner) Run(ctx context.Context, t Try) (*Outcome, error) {
	ref, err := r.Reference(ctx, t.Without)
	if err != nil {
		return nil, err
	}
	p, err := r.tried(ctx, ref, &t)
	if err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		return &Outcome{Verdict: Failed, Error: err.Error()}, nil
	}
	began := time.Now()
	out := &Outcome{
		Verdict: Fine, Unmatched: p.result.Unmatched, Notes: p.result.Notes, More: p.more, Took: p.result.Took, Rows: p.rows.All,
	}
	out.Skipped, out.Endless = p.skipped(ref), p.endless() || p.lasting()
	if out.Skipped == 0 && !out.Endless {
		_, out.Strayed = ends(ref.story, p.story, r.known())
	}
	if out.Alarms, err = r.judge(ctx, ref, p); err != nil {
		return nil, err
	}
	out.Alarms = slices.DeleteFunc(out.Alarms, func(a Alarm) bool { return ref.found[a.Key()] })
	if len(out.Alarms) > 0 {
		out.Verdict = Alarms
	}
	out.Hash = hash(p.rows.All)
	out.Cost = Cost{Judge: time.Since(began), Wall: time.Since(began)}
	if p != ref.played { // whose run is not made again
		out.Cost.Parts, out.Cost.Wall, out.Cost.CPU = p.result.Parts, out.Cost.Wall+p.result.Wall, p.result.CPU
	}
	return out, nil
}

// Again is what it takes to see a try again with opsim replay, beside what the runs of a recording have in common.
type Again struct {
	Try   Try
	Names []string // the operators' processes, by which a plan calls them
	// Start is the runs' first moment, if it is not the recorded one.
	Start time.Time
	// More is the time beyond Options.Settle that the run was given.
	More time.Duration
	// Plan is the plan's file.
	Plan string
}

// Again is what it takes to see a try again whose plan is in FILE.
func (r *Runner) Again(t Try, more time.Duration, file string) Again {
	a := Again{Try: t, Names: r.session.Names(), More: more, Plan: file}
	if s := r.session; !s.Start().Equal(s.Script().Start) {
		a.Start = s.Start()
	}
	return a
}
