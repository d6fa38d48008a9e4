package verify

import (
	"context"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/replay/cases"
	"github.com/opreplay/opreplay/replay/explore"
	"github.com/opreplay/opreplay/replay/trial"
)

// DefaultBudget is how many plans are run if nothing is said.
const DefaultBudget = 60

// Options say what to verify.
type Options struct {
	Case *cases.Case
	// Command is the operator's that is to be fixed: its program and arguments.
	Command []string
	// Budget is the number of plans, the case's own among them; 0: DefaultBudget.
	Budget int
	// Workers is how many runs there are at a time, each but one in another process; 0: one a processor.
	Workers int
	// Worker makes the command of a process that calls trial.Serve with Case.Options(Command); nil: one
	// worker.
	Worker func(context.Context) *exec.Cmd
	// Progress shows a line on a terminal.
	Progress *cli.Progress
}

// Verdict is whether a fix holds.
type Verdict string

// The verdicts.
const (
	Holds   Verdict = "holds"
	Broken  Verdict = "does not hold"       // what the case is about is there
	Another Verdict = "shows another fault" // something else is there
	// Unknown: the case's plan met nothing, and none of its neighbours was run that met something.
	Unknown Verdict = "cannot be told"
)

// Tally is what came of a family of plans.
type Tally struct {
	Family Family `json:"family"`
	Ran    int    `json:"ran"`
	Alarms int    `json:"alarms"` // runs that had any
	Unmet  int    `json:"unmet"`  // runs in which a part of the plan met nothing
	Failed int    `json:"failed"` // runs that could not take place
}

// Shown is a run that had alarms.
type Shown struct {
	Family Family        `json:"family"`
	Try    trial.Try     `json:"try"`
	Alarms []trial.Alarm `json:"alarms"`
	// Same says that one of them is what the case is about.
	Same bool `json:"same"`
	// More is the time beyond the settling that the run was given.
	More time.Duration `json:"moreNanoseconds,omitempty"`
}

// Result is what came of it.
type Result struct {
	Case    string  `json:"case"`
	Verdict Verdict `json:"verdict"`
	// Unaltered are the alarms of the run without faults.
	Unaltered []trial.Alarm `json:"unaltered,omitempty"`
	Tallies   []Tally       `json:"plans"`
	// Shown are the runs that had alarms, what the case is about first, then in the order of their plans.
	Shown []Shown `json:"shown,omitempty"`
	// OwnUnmet are the parts of the case's own plan that met nothing.
	OwnUnmet []string      `json:"ownUnmet,omitempty"`
	Took     time.Duration `json:"tookNanoseconds"`
	// Again is what it takes to see the first of Shown again, but for the plan's file.
	Again trial.Again `json:"-"`
}

// Err is nil if the fix holds, else cli.ErrFindings.
func (r *Result) Err() error {
	if r.Verdict == Holds {
		return nil
	}
	return cli.ErrFindings
}

// Run verifies.
func Run(ctx context.Context, o Options) (*Result, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	defer o.Progress.Done()
	began := time.Now()
	own, err := o.Case.Try()
	if err != nil {
		return nil, err
	}
	t, err := o.Case.Options(o.Command)
	if err != nil {
		return nil, err
	}
	defer func() { _ = t.Replay.Trace.Close() }()
	o.Progress.Set("playing the unaltered run")
	runner, err := trial.Open(ctx, t)
	if err != nil {
		return nil, err
	}
	defer runner.Close()
	ref, err := runner.Reference(ctx, nil)
	if err != nil {
		return nil, err
	}
	unaltered := ref.Alarms
	if len(own.Without) > 0 { // that of the case's own script counts too: an alarm of its is no news in its altered runs
		less, err := runner.Reference(ctx, own.Without)
		if err != nil {
			return nil, err
		}
		unaltered = union(unaltered, less.Alarms)
	}
	list := neighbours(own, explore.Plans(ref.Rows, runner.Session().Names(), runner.Seed()), o.Budget)
	pool, err := trial.NewPool(ctx, runner, max(1, min(o.Workers, len(list)/8)), o.Worker)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	outs, err := runAll(ctx, pool, list, o.Progress)
	if err != nil {
		return nil, err
	}
	r := conclude(o.Case, unaltered, list, outs)
	if len(r.Shown) > 0 {
		r.Again = runner.Again(r.Shown[0].Try, r.Shown[0].More, "")
	}
	r.Took = time.Since(began)
	return r, nil
}

func (o *Options) complete() error {
	if o.Budget < 0 {
		return cli.Usagef("--budget %d: want how many plans to run", o.Budget)
	}
	if o.Budget == 0 {
		o.Budget = DefaultBudget
	}
	if o.Workers == 0 {
		o.Workers = runtime.NumCPU()
	}
	if o.Worker == nil {
		o.Workers = 1
	}
	if o.Progress == nil {
		o.Progress = &cli.Progress{}
	}
	return nil
}

// runAll runs all tries, as many at a time as the pool holds.
func runAll(ctx context.Context, pool *trial.Pool, list []neighbour, progress *cli.Progress) ([]*trial.Outcome, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	outs := make([]*trial.Outcome, len(list))
	next := make(chan int)
	var mu sync.Mutex
	done := 0
	var players sync.WaitGroup
	for range pool.Size() {
		players.Go(func() {
			for i := range next {
				out, err := pool.Run(ctx, list[i].try)
				if err != nil {
					cancel(err)
					continue
				}
				mu.Lock()
				outs[i] = out
				done++
				progress.Set("%d of %d plans", done, len(list))
				mu.Unlock()
			}
		})
	}
	func() {
		defer close(next)
		for i := range list {
			select {
			case next <- i:
			case <-ctx.Done():
				return
			}
		}
	}()
	players.Wait()
	return outs, cli.CannotRun(context.Cause(ctx))
}

// conclude says what all the runs mean.
func conclude(c *cases.Case, unaltered []trial.Alarm, list []neighbour, outs []*trial.Outcome) *Result {
	r := &Result{Case: c.Name, Unaltered: unaltered, OwnUnmet: outs[0].Unmatched}
	met, same := 0, slices.ContainsFunc(unaltered, c.IsAbout)
	for _, family := range families {
		t := Tally{Family: family}
		for i, n := range list {
			if out := outs[i]; n.family == family {
				t.count(out)
				if out.Verdict != trial.Failed && len(out.Unmatched) == 0 {
					met++
				}
				if len(out.Alarms) > 0 {
					r.Shown = append(r.Shown, Shown{family, n.try, out.Alarms, slices.ContainsFunc(out.Alarms, c.IsAbout), out.More})
				}
			}
		}
		if t.Ran > 0 {
			r.Tallies = append(r.Tallies, t)
		}
	}
	slices.SortStableFunc(r.Shown, func(a, b Shown) int { return rank(a.Same) - rank(b.Same) })
	switch {
	case same || len(r.Shown) > 0 && r.Shown[0].Same:
		r.Verdict = Broken
	case len(unaltered)+len(r.Shown) > 0:
		r.Verdict = Another
	case met == 0:
		r.Verdict = Unknown
	default:
		r.Verdict = Holds
	}
	return r
}

// union are the alarms of both, each kind once.
func union(a, b []trial.Alarm) []trial.Alarm {
	all := slices.Clone(a)
	for _, x := range b {
		if !slices.ContainsFunc(all, func(y trial.Alarm) bool { return y.Key() == x.Key() }) {
			all = append(all, x)
		}
	}
	return all
}

func rank(first bool) int {
	if first {
		return 0
	}
	return 1
}

func (t *Tally) count(out *trial.Outcome) {
	t.Ran++
	switch out.Verdict {
	case trial.Alarms:
		t.Alarms++
	case trial.Failed:
		t.Failed++
	case trial.Fine:
	}
	if len(out.Unmatched) > 0 {
		t.Unmet++
	}
}
