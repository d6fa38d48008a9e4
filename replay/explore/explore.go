package explore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/replay/shrink"
	"github.com/opreplay/opreplay/replay/trial"
)

// DefaultBudget is how many plans are run if nothing is said.
const DefaultBudget = 500

// Options say what to explore.
type Options struct {
	Trial trial.Options
	// Budget is the number of plans; 0: DefaultBudget.
	Budget int
	// Time ends it after that long on the wall's clock; 0: when the budget is used up.
	Time time.Duration
	// Shard of Shards runs every Shards-th plan; 0 of 0 runs all. The first one is 1.
	Shard, Shards int
	// Out is the folder for what is found. It may hold the same exploration, which is then gone on with.
	Out string
	// Workers is how many runs there are at a time, each in a process but for one; 0: one a processor.
	Workers int
	// Worker makes the command of a process that calls trial.Serve with the same Trial; nil: one worker.
	Worker func(context.Context) *exec.Cmd
	// Keep is a new folder in which each finding becomes a regression case; "" keeps none.
	Keep string
	// NoShrink leaves the plans as they were found.
	NoShrink bool
	// Command is how the user calls opsim replay for this recording and operator to see a try again.
	Command func(trial.Again) string
	// Progress shows a line on a terminal.
	Progress *cli.Progress
}

// Result is what came of an exploration.
type Result struct {
	Out    string `json:"out"`
	Budget int    `json:"budget"`
	// Planned is the number of plans of this shard, Ran how many of them were run (Before: in earlier sittings).
	Planned int `json:"planned"`
	Ran     int `json:"ran"`
	Before  int `json:"before,omitempty"`
	// Alarming is how many of them had alarms, Failed how many could not be run, Skewed in how many the end was not
	// compared (Row.Skipped, Row.Endless), Strayed in how many fields were not (Row.Strayed), Unmet in how many a selector
	// met nothing.
	Alarming int `json:"alarming"`
	Failed   int `json:"failed"`
	Skewed   int `json:"skewed"`
	Strayed  int `json:"strayed"`
	Unmet    int `json:"unmet"`
	// Pruned is how many plans were left out, by reason.
	Pruned map[string]int `json:"pruned"`
	Groups []*Group       `json:"groups"`
	// Took is by the wall's clock, FirstAlarm until the first plan that had one; Cost is the sum over all runs of
	// this sitting.
	Took       time.Duration `json:"tookNanoseconds"`
	FirstAlarm time.Duration `json:"firstAlarmNanoseconds,omitempty"`
	Cost       trial.Cost    `json:"cost"`
	Workers    int           `json:"workers"`
	Notes      []string      `json:"notes,omitempty"`
}

// Found is nil if nothing was found, else cli.ErrFindings.
func (r *Result) Found() error {
	if len(r.Groups) == 0 {
		return nil
	}
	return cli.ErrFindings
}

// campaign is an exploration under way.
type campaign struct {
	o     Options
	pool  *trial.Pool
	plans []Planned
	began time.Time
	log   *os.File

	mu     sync.Mutex
	rows   map[int]Row
	ran    int // in this sitting
	keys   map[string]bool
	result *Result

	progress Progress // as its file has it
}

// Run explores.
func Run(ctx context.Context, o Options) (*Result, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	c := &campaign{o: o, began: time.Now(), rows: map[int]Row{}, keys: map[string]bool{}, result: &Result{Out: o.Out, Budget: o.Budget, Workers: o.Workers, Groups: []*Group{}}}
	defer o.Progress.Done()
	old, err := readIdentity(o.Out)
	if err != nil {
		return nil, err
	}
	if old != nil && c.o.Trial.Replay.Start.IsZero() { // what was settled then is settled
		c.o.Trial.Replay.Start = old.Start
	}
	o.Progress.Set("playing the unaltered run")
	runner, err := trial.Open(ctx, c.o.Trial)
	if err != nil {
		return nil, err
	}
	defer runner.Close()
	if err := c.takeUp(old, runner.Session()); err != nil {
		return nil, err
	}
	defer func() { _ = c.log.Close() }()
	if c.pool, err = trial.NewPool(ctx, runner, o.Workers, o.Worker); err != nil {
		return nil, err
	}
	defer c.pool.Close()
	if err := c.plan(ctx, runner); err != nil {
		return nil, err
	}
	var r *Result
	if err = c.runAll(ctx); err == nil {
		r, err = c.conclude(ctx, runner)
	}
	if err != nil {
		c.report(Stopped)
	}
	return r, err
}

func (o *Options) complete() error {
	if o.Budget == 0 {
		o.Budget = DefaultBudget
	}
	if o.Budget < 0 {
		return cli.Usagef("--budget %d: want how many plans to run", o.Budget)
	}
	if o.Shards < 0 || o.Shard < 0 || o.Shard > o.Shards || o.Shards > 0 && o.Shard == 0 {
		return cli.Usagef("--shard %d/%d: want I/N with I from 1 to N", o.Shard, o.Shards)
	}
	if o.Keep != "" && len(o.Trial.Replay.Operators) != 1 {
		return cli.Usagef("--keep: a case has one operator, and there are %d", len(o.Trial.Replay.Operators))
	}
	if entries, err := os.ReadDir(o.Keep); o.Keep != "" && (err == nil && len(entries) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist)) {
		return cli.Usagef("--keep %s: name a folder that is not there yet, or an empty one", o.Keep) // before it takes its time
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

// plan makes the list of what to run.
func (c *campaign) plan(ctx context.Context, runner *trial.Runner) error {
	ref, err := runner.Reference(ctx, nil)
	if err != nil {
		return err
	}
	all, pruned := enumerate(read(ref.Rows, runner.Session().Names()), runner.Seed(), c.o.Budget)
	c.result.Pruned, c.result.Notes = pruned, ref.Notes
	for _, p := range all {
		if c.o.Shards == 0 || p.Index%c.o.Shards == c.o.Shard-1 {
			c.plans = append(c.plans, p)
		}
	}
	c.result.Planned = len(c.plans)
	if err := c.known(); err != nil {
		return err
	}
	for i, a := range ref.Alarms {
		if i == 0 {
			g := &Group{Alarm: a, Also: ref.Alarms[1:], Index: -1, Try: trial.Try{Plan: all[0].Try.Plan}}
			unaltered := *all[0].Try.Plan
			unaltered.Faults = nil
			g.Try.Plan = &unaltered
			c.result.Groups = append(c.result.Groups, g)
		}
		c.keys[a.Key()] = true
	}
	return nil
}

// runAll runs what has not been run.
func (c *campaign) runAll(ctx context.Context) error {
	c.progress.Began = time.Now().UTC()
	if c.o.Time > 0 {
		c.progress.Until = c.progress.Began.Add(c.o.Time)
	}
	c.report(Running)
	defer func() { c.progress.Ended = time.Now().UTC() }()
	if c.o.Time > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.o.Time, errTime)
		defer cancel()
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	todo := slices.DeleteFunc(slices.Clone(c.plans), func(p Planned) bool { // before there are players, which write the rows
		_, done := c.rows[p.Index]
		return done
	})
	jobs := make(chan Planned)
	var players sync.WaitGroup
	for range c.pool.Size() {
		players.Go(func() {
			for p := range jobs {
				if err := c.runOne(ctx, p); err != nil {
					stop(err)
				}
			}
		})
	}
	func() {
		defer close(jobs)
		for _, p := range todo {
			select {
			case jobs <- p:
			case <-ctx.Done():
				return
			}
		}
	}()
	players.Wait()
	switch err := context.Cause(ctx); {
	case err == nil, errors.Is(err, errTime):
		return nil
	case errors.Is(err, context.Canceled):
		return cli.CannotRun(fmt.Errorf("ended after %d of %d plans; the same command goes on from there", len(c.rows), len(c.plans)))
	default:
		return cli.CannotRun(err)
	}
}

var errTime = errors.New("the time is over")

func (c *campaign) runOne(ctx context.Context, p Planned) error {
	out, err := c.pool.Run(ctx, p.Try)
	if err != nil {
		if ctx.Err() != nil {
			return nil // it is to end, and is not done
		}
		return fmt.Errorf("plan %d: %w", p.Index, err)
	}
	row, err := newRow(p, out)
	if err != nil {
		return err
	}
	line, err := json.Marshal(row)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := c.log.Write(append(line, '\n')); err != nil {
		return err
	}
	c.rows[p.Index] = row
	c.ran++
	c.account(out)
	c.show()
	return nil
}

func (c *campaign) account(o *trial.Outcome) {
	sum := &c.result.Cost
	sum.Start += o.Cost.Start
	sum.Sync += o.Cost.Sync
	sum.Run += o.Cost.Run
	sum.Judge += o.Cost.Judge
	sum.Wall += o.Cost.Wall
	sum.CPU += o.Cost.CPU
	for _, a := range o.Alarms {
		c.keys[a.Key()] = true
	}
	if len(o.Alarms) > 0 && c.result.FirstAlarm == 0 {
		c.result.FirstAlarm = time.Since(c.began)
	}
}

// show says how far it is.
func (c *campaign) show() {
	rate := float64(c.ran) / time.Since(c.began).Minutes()
	left := time.Duration(float64(len(c.plans)-len(c.rows)) / rate * float64(time.Minute))
	c.o.Progress.Set("%d of %d plans, %.0f a minute, %d kinds of alarms, %s left", len(c.rows), len(c.plans), rate, len(c.keys), left.Round(time.Second))
}

// conclude writes the table, groups what was found and makes its plans small.
func (c *campaign) conclude(ctx context.Context, runner *trial.Runner) (*Result, error) {
	rows := make([]Row, 0, len(c.rows))
	for _, p := range c.plans {
		if r, ok := c.rows[p.Index]; ok {
			rows = append(rows, r)
		}
	}
	if err := WriteTable(filepath.Join(c.o.Out, TableName), rows); err != nil {
		return nil, err
	}
	r := c.result
	r.tally(rows)
	groups, err := group(rows)
	if err != nil {
		return nil, err
	}
	byIndex := map[int]Planned{}
	for _, p := range c.plans {
		byIndex[p.Index] = p
	}
	for _, g := range groups {
		g.Try = byIndex[g.Index].Try
	}
	r.Groups = append(r.Groups, groups...)
	for i, g := range r.Groups {
		c.report(Shrinking)
		if err := c.finish(ctx, runner, i, g); err != nil {
			return nil, err
		}
	}
	c.report(Done)
	r.Took = time.Since(c.began)
	return r, nil
}

func (r *Result) tally(rows []Row) {
	r.Ran = len(rows)
	for i := range rows {
		x := &rows[i]
		switch trial.Verdict(x.Verdict) {
		case trial.Alarms:
			r.Alarming++
		case trial.Failed:
			r.Failed++
		case trial.Fine:
		}
		if x.Skipped > 0 || x.Endless {
			r.Skewed++
		}
		if x.Strayed > 0 {
			r.Strayed++
		}
		if x.Unmatched > 0 {
			r.Unmet++
		}
	}
}

// Bounds on the work after the plans have been run.
const (
	mostShrunk    = 8  // groups
	mostRunsGroup = 80 // runs for each
)

// finish shrinks a group's plan, and writes it and what happened.
func (c *campaign) finish(ctx context.Context, runner *trial.Runner, i int, g *Group) error {
	t, more := g.Try, time.Duration(0) // and how much time beyond the settling its run is given
	if g.Index >= 0 && !c.o.NoShrink && i < mostShrunk {
		small, err := shrink.Shrink(ctx, c.pool, t, shrink.Options{Key: g.Alarm.Key(), Most: mostRunsGroup, Progress: func(format string, args ...any) {
			c.o.Progress.Set("finding %d of %d: making its plan small: "+format, append([]any{i + 1, len(c.result.Groups)}, args...)...)
		}})
		if err != nil {
			return err
		}
		g.Small, g.Alarm, t = small, small.Alarm, small.Try
	}
	g.File = filepath.Join(c.o.Out, fmt.Sprintf("finding-%d.yaml", i+1))
	if err := os.WriteFile(g.File, []byte(t.Plan.String()), 0o600); err != nil {
		return cli.CannotRun(err)
	}
	if g.Index >= 0 {
		c.o.Progress.Set("finding %d of %d: what happened", i+1, len(c.result.Groups))
		var err error
		if g.Story, err = shrink.Explain(ctx, runner, t, g.Alarm); err != nil {
			return err
		}
		more = g.Story.More
	}
	if c.o.Command != nil {
		g.Command = c.o.Command(runner.Again(t, more, g.File))
	}
	if c.o.Keep == "" {
		return nil
	}
	return c.keep(ctx, runner, i, t)
}
