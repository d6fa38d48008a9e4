package replay

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/opreplay/opreplay/internal/cli"
)

// CheckOptions say how to check that runs are equal.
type CheckOptions struct {
	// Runs is how many there are to be, at least 2.
	Runs int
	// Worker makes the command of a process that calls Serve with the same Options, so that runs take place
	// side by side and in more than one process. Nil: all take place in this one.
	Worker func(context.Context) *exec.Cmd
	// Workers is how many such processes there are; 0 is as many as there is use for: none for less than four
	// runs.
	Workers int
}

// Checked is what came of a check.
type Checked struct {
	Runs      int `json:"runs"`
	Identical int `json:"identical"` // to the first run, which is one of them
	Processes int `json:"processes"` // in which they took place
	// First is the first run, whose trace stays.
	First *Result `json:"first"`
	// Unlike are runs that were not like the first, one for each hash; their traces stay too.
	Unlike []Unlike `json:"unlike,omitempty"`
	// Difference is where the first of Unlike parts from the first run.
	Difference *Difference   `json:"difference,omitempty"`
	Took       time.Duration `json:"tookNanoseconds"`
}

// Unlike is a run that is not like the first.
type Unlike struct {
	Run    int    `json:"run"` // from 1
	Hash   string `json:"hash"`
	RunDir string `json:"trace"`
}

// Check plays a recording several times in virtual time and compares the runs byte for byte. The first run's trace
// goes to o.Out.
func Check(ctx context.Context, o Options, c CheckOptions) (*Checked, error) {
	if c.Runs < 2 {
		return nil, cli.Usagef("--check %d: want at least 2 runs to compare", c.Runs)
	}
	if o.Clock == ClockWall {
		return nil, cli.Usagef("only runs in virtual time can be equal: no --check with --clock wall")
	}
	if len(o.BreakAt) > 0 {
		return nil, cli.Usagef("--break-at is for one run, --check for many: say one of them")
	}
	o.Clock = ClockVirtual
	began := time.Now()
	s, err := Open(ctx, o)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	progress := s.o.Progress
	defer progress.Done()
	s.o.Progress = &cli.Progress{} // one run's own progress is of no interest
	k := &checker{s: s, o: c, progress: progress, jobs: make(chan int), result: &Checked{Runs: c.Runs}}
	if err := k.run(ctx); err != nil {
		return nil, err
	}
	k.result.Took = time.Since(began)
	return k.result, nil
}

// checker is a check under way.
type checker struct {
	s        *Session
	o        CheckOptions
	progress *cli.Progress
	dir      string // of the traces of runs that have not been compared
	jobs     chan int

	mu     sync.Mutex
	done   int
	early  []outcome // that ended before the first
	result *Checked
}

// outcome is one run that has ended.
type outcome struct {
	run       int
	hash, dir string
}

func (k *checker) run(ctx context.Context) (err error) {
	if k.dir, err = os.MkdirTemp(filepath.Dir(k.s.o.Out), ".opsim-check-"); err != nil {
		return cli.CannotRun(err)
	}
	defer func() { _ = os.RemoveAll(k.dir) }()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var players sync.WaitGroup
	for range k.workers() {
		players.Go(func() {
			if err := k.remote(ctx); err != nil {
				cancel(err)
			}
		})
	}
	players.Go(func() {
		if err := k.local(ctx); err != nil {
			cancel(err)
		}
	})
	k.hand(ctx)
	players.Wait()
	if err := context.Cause(ctx); err != nil {
		return cli.CannotRun(err)
	}
	if len(k.result.Unlike) > 0 {
		k.result.Difference, err = compareTraces(ctx, k.result.First.RunDir, k.result.Unlike[0].RunDir)
	}
	return err
}

// workers is how many processes there are beside this one. Each takes a second to start, which is some runs.
func (k *checker) workers() int {
	n := k.o.Workers
	if n == 0 {
		n = max(1, min(runtime.NumCPU()-1, k.o.Runs/8))
	}
	if k.o.Worker == nil || k.o.Workers == 0 && k.o.Runs < 4 {
		n = 0
	}
	k.result.Processes = n + 1
	return n
}

// hand hands out all runs but the first, which takes place in this process.
func (k *checker) hand(ctx context.Context) {
	defer close(k.jobs)
	for n := 2; n <= k.o.Runs; n++ {
		select {
		case k.jobs <- n:
		case <-ctx.Done():
			return
		}
	}
}

// local plays in this process.
func (k *checker) local(ctx context.Context) error {
	first, err := k.s.play(ctx, k.s.o.Out)
	if err != nil {
		return err
	}
	if err := k.begin(first); err != nil {
		return err
	}
	for n := range k.jobs {
		r, err := k.s.play(ctx, k.folder(n))
		if err != nil {
			return fmt.Errorf("run %d: %w", n, err)
		}
		if err := k.take(outcome{n, r.Hash, r.RunDir}); err != nil {
			return err
		}
	}
	return nil
}

func (k *checker) folder(n int) string { return filepath.Join(k.dir, fmt.Sprintf("%d.optrace", n)) }

// begin takes the first run, to which all are compared.
func (k *checker) begin(first *Result) error {
	k.mu.Lock()
	k.result.First = first
	early := k.early
	k.early = nil
	k.mu.Unlock()
	for _, r := range append([]outcome{{1, first.Hash, first.RunDir}}, early...) {
		if err := k.take(r); err != nil {
			return err
		}
	}
	return nil
}

// take compares a run and removes its trace if that is not needed.
func (k *checker) take(r outcome) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	first := k.result.First
	if first == nil {
		k.early = append(k.early, r)
		return nil
	}
	k.done++
	if r.hash == first.Hash {
		k.result.Identical++
	}
	k.progress.Set("%d of %d runs done, %d identical", k.done, k.o.Runs, k.result.Identical)
	switch {
	case r.run == 1:
		return nil
	case r.hash == first.Hash || k.known(r.hash):
		return remove(r.dir)
	}
	dir := fmt.Sprintf("%s-unlike-%d.optrace", strings.TrimSuffix(first.RunDir, ".optrace"), r.run)
	if err := os.Rename(r.dir, dir); err != nil {
		return cli.CannotRun(err)
	}
	k.result.Unlike = append(k.result.Unlike, Unlike{r.run, r.hash, dir})
	return nil
}

// known says whether an earlier run that was not like the first had the hash.
func (k *checker) known(hash string) bool {
	for _, u := range k.result.Unlike {
		if u.Hash == hash {
			return true
		}
	}
	return false
}

// Same is nil if all runs are identical, else cli.ErrFindings.
func (c *Checked) Same() error {
	if c.Identical == c.Runs {
		return nil
	}
	return cli.ErrFindings
}
