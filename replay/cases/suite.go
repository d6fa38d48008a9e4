package cases

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/internal/workers"
	"github.com/opreplay/opreplay/replay"
)

// SuiteOptions say how to run many cases.
type SuiteOptions struct {
	// Others are operators that take the place of the cases' own: see Case.Command.
	Others []replay.Operator
	// Workers is how many cases are run at a time, each but one in another process; 0: one a processor.
	Workers int
	// Worker makes the command of a process that calls Serve; nil: one worker.
	Worker func(context.Context) *exec.Cmd
	// Progress shows a line on a terminal.
	Progress *cli.Progress
}

// Report is what came of many cases.
type Report struct {
	Cases   []*Result     `json:"cases"` // in the order of the cases
	Workers int           `json:"workers"`
	Took    time.Duration `json:"tookNanoseconds"` // by the wall's clock
}

// Count is the number of cases with a status.
func (r *Report) Count(s Status) (n int) {
	for _, c := range r.Cases {
		if c.Status == s {
			n++
		}
	}
	return n
}

// Err is nil if all is as expected, cli.ErrFindings if it is not, and another error if a case could not be run.
func (r *Report) Err() error {
	switch n := r.Count(Error); {
	case n > 0:
		return cli.CannotRun(fmt.Errorf("%d of %s could not be run", n, cli.Count(len(r.Cases), "case")))
	case r.Count(Failed) > 0:
		return cli.ErrFindings
	}
	return nil
}

// job is a case for another process.
type job struct {
	Dir    string            `json:"folder"`
	Name   string            `json:"name"`
	Others []replay.Operator `json:"others,omitempty"`
}

// Serve runs cases for RunAll in another process, until IN ends.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	return cli.CannotRun(workers.Serve(in, out, func(j job) (*Result, error) {
		c, err := Load(j.Dir)
		if err != nil {
			return nil, err
		}
		c.Name = j.Name
		return c.Run(ctx, j.Others)
	}))
}

// suite is cases under way.
type suite struct {
	o      SuiteOptions
	cases  []*Case
	next   chan int
	mu     sync.Mutex
	ran    int
	report *Report
}

// RunAll runs cases side by side. An error is one of this machine, or of the options; what cannot be run is in the
// report.
func RunAll(ctx context.Context, all []*Case, o SuiteOptions) (*Report, error) {
	if err := o.complete(all); err != nil {
		return nil, err
	}
	defer o.Progress.Done()
	began := time.Now()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := &suite{o: o, cases: all, next: make(chan int), report: &Report{Cases: make([]*Result, len(all)), Workers: o.Workers}}
	s.show()
	var players sync.WaitGroup
	for i := range o.Workers {
		players.Go(func() {
			work := s.remote
			if i == 0 {
				work = s.local
			}
			if err := work(ctx); err != nil {
				cancel(err)
			}
		})
	}
	func() {
		defer close(s.next)
		for i := range all {
			select {
			case s.next <- i:
			case <-ctx.Done():
				return
			}
		}
	}()
	players.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, cli.CannotRun(err)
	}
	s.report.Took = time.Since(began)
	return s.report, nil
}

func (o *SuiteOptions) complete(all []*Case) error {
	if o.Workers < 0 {
		return cli.Usagef("--parallel %d: want how many cases to run at a time", o.Workers)
	}
	if o.Workers == 0 {
		o.Workers = runtime.NumCPU()
	}
	o.Workers = max(1, min(o.Workers, len(all)))
	if o.Worker == nil {
		o.Workers = 1
	}
	if o.Progress == nil {
		o.Progress = &cli.Progress{}
	}
	for _, other := range o.Others {
		if other.Name != "" && !slices.ContainsFunc(all, func(c *Case) bool { return filepath.Base(c.Operator[0]) == other.Name }) {
			return cli.Usagef("--operator %s=…: no case has an operator of that name", other.Name)
		}
	}
	return nil
}

func (s *suite) local(ctx context.Context) error {
	for i := range s.next {
		r, err := s.cases[i].Run(ctx, s.o.Others)
		if err != nil {
			return err
		}
		s.done(i, r)
	}
	return nil
}

func (s *suite) remote(ctx context.Context) error {
	p, err := workers.Start[job, *Result](s.o.Worker(ctx))
	if err != nil {
		return err
	}
	defer p.End()
	for i := range s.next {
		c := s.cases[i]
		r, err := p.Ask(job{c.Dir, c.Name, s.o.Others})
		if err != nil {
			return fmt.Errorf("case %s: %w", c.Name, err)
		}
		s.done(i, r)
	}
	return nil
}

func (s *suite) done(i int, r *Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.report.Cases[i] = r
	s.ran++
	s.show()
}

// show says how far it is.
func (s *suite) show() {
	bad := 0
	for _, r := range s.report.Cases {
		if r != nil && r.Status != OK {
			bad++
		}
	}
	s.o.Progress.Set("%d of %d cases, %d not as expected", s.ran, len(s.cases), bad)
}
