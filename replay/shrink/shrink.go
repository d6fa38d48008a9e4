package shrink

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/opreplay/opreplay/replay/trial"
	"github.com/opreplay/opreplay/sim/actor"
	"github.com/opreplay/opreplay/sim/fault"
)

// Options bound the work.
type Options struct {
	// Key is that of the alarm that has to stay.
	Key string
	// Most is how many runs there may be; 0: DefaultMost.
	Most int
	// KeepScript leaves the outsiders' script as it is.
	KeepScript bool
	// Progress, if set, is told what is being done.
	Progress func(format string, args ...any)
}

// DefaultMost is the bound on the number of runs.
const DefaultMost = 200

// Small is a plan that nothing can be taken from.
type Small struct {
	Try trial.Try `json:"try"`
	// Alarm is what it still shows, Alarms all that its run shows.
	Alarm  trial.Alarm   `json:"alarm"`
	Alarms []trial.Alarm `json:"alarms"`
	// Left are the outsiders' steps that were left out, in words.
	Left []string `json:"left,omitempty"`
	// Runs is how many runs it took.
	Runs int `json:"runs"`
	// Done is false when the bound was reached before.
	Done bool `json:"done"`
}

// shrinker is a shrinking under way.
type shrinker struct {
	pool *trial.Pool
	o    Options
	best trial.Try
	seen trial.Alarm
	all  []trial.Alarm
	runs int
}

// Shrink makes a failing try smaller. That it fails is made sure of first.
func Shrink(ctx context.Context, pool *trial.Pool, t trial.Try, o Options) (*Small, error) {
	if o.Most == 0 {
		o.Most = DefaultMost
	}
	if o.Progress == nil {
		o.Progress = func(string, ...any) {}
	}
	s := &shrinker{pool: pool, o: o, best: t}
	ok, err := s.fails(ctx, t)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("the plan does not show %q again", o.Key)
	}
	for s.runs < o.Most {
		before := s.best.Key()
		for _, pass := range []func(context.Context) error{s.surroundings, s.faults, s.parameters, s.script} {
			if err := pass(ctx); err != nil {
				return nil, err
			}
		}
		if before == s.best.Key() {
			return s.result(true), nil
		}
	}
	return s.result(false), nil
}

func (s *shrinker) result(done bool) *Small {
	r := &Small{Try: s.best, Alarm: s.seen, Alarms: s.all, Runs: s.runs, Done: done}
	for _, x := range s.pool.Local().Session().Script().Steps {
		if slices.Contains(s.best.Without, x.Seq) {
			r.Left = append(r.Left, x.String())
		}
	}
	return r
}

// fails runs a try and says whether it shows the alarm.
func (s *shrinker) fails(ctx context.Context, t trial.Try) (bool, error) {
	s.runs++
	s.o.Progress("%d runs, %d faults", s.runs, len(s.best.Plan.Faults))
	out, err := s.pool.Run(ctx, t)
	if err != nil {
		return false, err
	}
	for _, a := range out.Alarms {
		if a.Key() == s.o.Key {
			s.seen, s.all = a, out.Alarms
			return true, nil
		}
	}
	return false, nil
}

// take makes the first of the tries that fails the best one. They are run side by side, as many as the pool holds.
func (s *shrinker) take(ctx context.Context, tries ...trial.Try) (bool, error) {
	for len(tries) > 0 && s.runs < s.o.Most {
		n := min(s.pool.Size(), len(tries))
		outs, errs := make([]*trial.Outcome, n), make([]error, n)
		done := make(chan int)
		for i := range n {
			go func() {
				outs[i], errs[i] = s.pool.Run(ctx, tries[i])
				done <- i
			}()
		}
		for range n {
			<-done
		}
		s.runs += n
		s.o.Progress("%d runs, %d faults", s.runs, len(s.best.Plan.Faults))
		for i := range n {
			if errs[i] != nil {
				return false, errs[i]
			}
			for _, a := range outs[i].Alarms {
				if a.Key() == s.o.Key {
					s.best, s.seen, s.all = tries[i], a, outs[i].Alarms
					return true, nil
				}
			}
		}
		tries = tries[n:]
	}
	return false, nil
}

// surroundings takes away what alters the run beside the plan.
func (s *shrinker) surroundings(ctx context.Context) error {
	plain := s.best
	plain.Threads, plain.Procs, plain.Replicas = "", 0, 0
	var tries []trial.Try
	if s.best.Threads != "" || s.best.Procs > 1 || s.best.Replicas > 1 {
		tries = append(tries, plain)
	}
	if s.best.Procs > 1 {
		one := s.best
		one.Procs = 0
		tries = append(tries, one)
	}
	if s.best.Replicas > 1 {
		alone := s.best
		alone.Replicas = 0
		tries = append(tries, alone)
	}
	_, err := s.take(ctx, tries...)
	return err
}

// with is the best try with other faults.
func (s *shrinker) with(faults []fault.Fault) trial.Try {
	t := s.best
	t.Plan = &fault.Plan{Seed: s.best.Plan.Seed, Faults: faults}
	return t
}

// faults leaves out faults, halves of them first.
func (s *shrinker) faults(ctx context.Context) error {
	all := s.best.Plan.Faults
	for size := max(len(all)/2, 1); len(all) > 0; {
		var tries []trial.Try
		for i := 0; i < len(all); i += size {
			tries = append(tries, s.with(slices.Concat(all[:i], all[min(i+size, len(all)):])))
		}
		ok, err := s.take(ctx, tries...)
		if err != nil {
			return err
		}
		switch {
		case ok:
			all = s.best.Plan.Faults
			size = max(min(size, len(all)/2), 1)
		case size == 1:
			return nil
		default:
			size /= 2
		}
	}
	return nil
}

// parameters makes each fault's parameters simpler.
func (s *shrinker) parameters(ctx context.Context) error {
	for i := 0; i < len(s.best.Plan.Faults); i++ {
		for range 16 { // each is a halving of something
			var tries []trial.Try
			for _, f := range simpler(s.best.Plan.Faults[i]) {
				faults := slices.Clone(s.best.Plan.Faults)
				faults[i] = f
				tries = append(tries, s.with(faults))
			}
			ok, err := s.take(ctx, tries...)
			if err != nil {
				return err
			}
			if !ok {
				break
			}
		}
	}
	return nil
}

// simpler are forms of a fault that say less, or do less.
func simpler(f fault.Fault) (all []fault.Fault) {
	half := func(d time.Duration, set func(time.Duration)) {
		if h := (d / 2).Truncate(100 * time.Millisecond); h >= 100*time.Millisecond && h < d {
			set(h)
		}
	}
	switch f := f.(type) {
	case *fault.Hold:
		half(f.For, func(d time.Duration) { g := *f; g.For = d; all = append(all, &g) })
	case *fault.Pause:
		half(f.For, func(d time.Duration) { g := *f; g.For = d; all = append(all, &g) })
	case *fault.Skip:
		half(f.Clock, func(d time.Duration) { g := *f; g.Clock = d; all = append(all, &g) })
	case *fault.Latency:
		half(f.Max, func(d time.Duration) { g := *f; g.Min, g.Max = min(f.Min, d), d; all = append(all, &g) })
	case *fault.Answer:
		if f.Code != "409" && f.Code != "500" && !f.Committed {
			g := *f
			g.Code, g.After, g.RetryAfter = "500", 0, 0
			all = append(all, &g)
		}
		if f.Committed && f.Code != fault.CodeLost {
			g := *f
			g.Committed = false
			all = append(all, &g)
		}
	case *fault.Crash:
		if f.Answered {
			g := *f
			g.Answered = false
			all = append(all, &g)
		}
	case *fault.Restart:
		if f.View != (fault.View{}) {
			g := *f
			g.Comeback = fault.Comeback{RestartAfter: f.RestartAfter}
			all = append(all, &g)
		}
		half(f.For, func(d time.Duration) { g := *f; g.For = d; all = append(all, &g) })
	case *fault.Storage:
		half(f.Commit, func(d time.Duration) { g := *f; g.Commit = d; all = append(all, &g) })
		half(f.For, func(d time.Duration) { g := *f; g.For = d; all = append(all, &g) })
	case *fault.Token:
		half(f.For, func(d time.Duration) { g := *f; g.For = d; all = append(all, &g) })
	case *fault.Quota:
		half(f.For, func(d time.Duration) { g := *f; g.For = d; all = append(all, &g) })
	case *fault.Webhook:
		half(f.For, func(d time.Duration) { g := *f; g.For = d; all = append(all, &g) })
	case *fault.Cut:
		if f.Gone {
			g := *f
			g.Gone = false
			all = append(all, &g)
		}
		if f.Broken {
			g := *f
			g.Broken = false
			all = append(all, &g)
		}
	}
	return all
}

// script leaves out steps of the outsiders' script: those of one object, then single ones from the end.
func (s *shrinker) script(ctx context.Context) error {
	if s.o.KeepScript {
		return nil
	}
	steps := s.pool.Local().Session().Script().Steps
	var objects []actor.Ref
	of := map[actor.Ref][]int64{}
	for _, x := range steps {
		if of[x.Ref] == nil {
			objects = append(objects, x.Ref)
		}
		of[x.Ref] = append(of[x.Ref], x.Seq)
	}
	for _, o := range objects {
		if err := s.leave(ctx, of[o]); err != nil {
			return err
		}
	}
	for _, x := range slices.Backward(steps) {
		if err := s.leave(ctx, []int64{x.Seq}); err != nil {
			return err
		}
	}
	return nil
}

// leave leaves out steps, if the run still fails without them.
func (s *shrinker) leave(ctx context.Context, seqs []int64) error {
	var more []int64
	for _, q := range seqs {
		if !slices.Contains(s.best.Without, q) {
			more = append(more, q)
		}
	}
	if len(more) == 0 || s.runs >= s.o.Most {
		return nil
	}
	t := s.best
	t.Without = slices.Concat(s.best.Without, more)
	slices.Sort(t.Without)
	_, err := s.take(ctx, t)
	return err
}
