package trial

import (
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
	// Replay is the recording and the operators. Its plan, folder and clock do not count; its seed is that of the
	// reference run.
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

// longest is the longest time by which a Try may move the clock: 7 days, as a plan may.
const longest = 2 * time.Hour

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
	// Skipped is how many of the outsiders' changes did not fit, and did in the reference; Endless that a fault of
	// the plan waited in vain for its end. Then the end of the run is not compared.
	Skipped int  `json:"skipped,omitempty"`
	Endless bool `json:"endless,omitempty"`
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
	refs    map[string]*Reference // by the steps that are left out
}

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
	o.Replay.Settle, o.Replay.Room = o.Settle, o.Bound+longest
	if o.Replay.Progress == nil {
		o.Replay.Progress = &cli.Progress{}
	}
	s, err := replay.Open(ctx, o.Replay)
	if err != nil {
		return nil, err
	}
	return &Runner{o: o, session: s, rules: rules, refs: map[string]*Reference{}}, nil
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

	story   *story
	mask    *mask
	skipped map[int64]bool // recorded seqs of steps that did not fit
	found   map[string]bool
}

// Reference plays the script without some of its steps unaltered, once for each set of steps.
func (r *Runner) Reference(ctx context.Context, without []int64) (*Reference, error) {
	key := fmt.Sprint(without)
	if ref := r.refs[key]; ref != nil {
		return ref, nil
	}
	base := Try{Plan: &fault.Plan{Seed: r.Seed()}, Without: without}
	first, err := r.play(ctx, &base, nil)
	if err != nil {
		return nil, fmt.Errorf("the unaltered run: %w", err)
	}
	ref := &Reference{
		Rows: first.rows.All, Took: first.result.Took, Notes: first.result.Notes,
		story: first.story, mask: newMask(), skipped: map[int64]bool{}, found: map[string]bool{},
	}
	for _, s := range first.result.Skipped {
		ref.skipped[s.Seq] = true
	}
	if len(without) > 0 { // what differs by chance does so with fewer changes too
		whole, err := r.Reference(ctx, nil)
		if err != nil {
			return nil, err
		}
		ref.mask = whole.mask
		return r.keep(ctx, key, ref, first)
	}
	longer := base
	other := Try{Plan: &fault.Plan{Seed: r.Seed() + 1}, Threads: replay.ThreadsSeeded, Without: without}
	for _, t := range []struct {
		try  *Try
		more []time.Duration
	}{{&other, nil}, {&longer, []time.Duration{2 * time.Minute}}} {
		again, err := r.play(ctx, t.try, func(*story) time.Duration {
			if len(t.more) == 0 {
				return 0
			}
			d := t.more[0]
			t.more = t.more[1:]
			return d
		})
		if err != nil {
			return nil, fmt.Errorf("the unaltered run with another seed or more time: %w", err)
		}
		ref.mask.learn(ref.story, again.story)
	}
	return r.keep(ctx, key, ref, first)
}

// keep judges a reference by itself, and keeps it.
func (r *Runner) keep(ctx context.Context, key string, ref *Reference, first *played) (_ *Reference, err error) {
	if ref.Alarms, err = r.judge(ctx, ref, first); err != nil {
		return nil, err
	}
	for _, a := range ref.Alarms {
		ref.found[a.Key()] = true
	}
	r.refs[key] = ref
	return ref, nil
}

// played is a run that has taken place.
type played struct {
	try    *Try
	rows   *replay.Rows
	result *replay.Result
	story  *story
	more   time.Duration
}

// skipped is how many of the outsiders' changes did not fit, and did in the reference.
func (p *played) skipped(ref *Reference) (n int) {
	for _, s := range p.result.Skipped {
		if !ref.skipped[s.Seq] {
			n++
		}
	}
	return n
}

// endless says whether a fault that hides something from the operator waited in vain for its end.
func (p *played) endless() bool {
	return slices.ContainsFunc(p.result.Unmatched, func(u string) bool {
		return strings.HasPrefix(u, "to ") && strings.Contains(u, " in merge: ") || strings.HasPrefix(u, "until ") && strings.Contains(u, " in hold: ")
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

// Run plays a try and judges it. The error is one of this machine; a run that cannot take place is an Outcome.
func (r *Runner) Run(ctx context.Context, t Try) (*Outcome, error) {
	ref, err := r.Reference(ctx, t.Without)
	if err != nil {
		return nil, err
	}
	var given time.Duration
	p, err := r.play(ctx, &t, func(s *story) time.Duration {
		if given >= r.o.Bound || len(compare(ref.story, s, ref.mask)) == 0 {
			return 0
		}
		d := min(max(given, r.o.Settle), r.o.Bound-given)
		given += d
		return d
	})
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
	out.Skipped, out.Endless = p.skipped(ref), p.endless()
	if out.Alarms, err = r.judge(ctx, ref, p); err != nil {
		return nil, err
	}
	out.Alarms = slices.DeleteFunc(out.Alarms, func(a Alarm) bool { return ref.found[a.Key()] })
	if len(out.Alarms) > 0 {
		out.Verdict = Alarms
	}
	out.Hash = hash(p.rows.All)
	out.Cost = Cost{Parts: p.result.Parts, Judge: time.Since(began), Wall: p.result.Wall + time.Since(began), CPU: p.result.CPU}
	return out, nil
}
