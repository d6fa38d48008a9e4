package recorder

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/internal/oplog"
	"github.com/opreplay/opreplay/sim/process"
	"github.com/opreplay/opreplay/traces"
)

// Run starts an operator behind a recording proxy and records it, and the cluster with it, until it
// ends, CTX ends or the duration is over; then the operator is asked to end.
func Run(ctx context.Context, o RunOptions) (*Result, error) {
	operator, path, err := newOperator(&o)
	if err != nil {
		return nil, err
	}
	c, err := reach(ctx, o.Config)
	if err != nil {
		return nil, err
	}
	var plan *plan
	if !o.NoCapture {
		if plan, err = newPlan(ctx, c, &o.Options); err != nil {
			return nil, err
		}
	}
	p, err := o.profiler(path)
	if err != nil {
		return nil, err
	}
	s, err := newSession(ctx, &o.Options, c, "run", plan.manifest())
	if err != nil {
		return nil, errors.Join(err, p.release())
	}
	if p != nil {
		s.profile(p, operator.Process, joinOptions{})
	}
	if isServiceAccount(c.user) {
		operator.Users = []string{c.user}
	}
	described := *operator
	s.knows(func() []traces.Operator { return []traces.Operator{described} })
	var exit process.Exit
	err = s.run(&o, operator, plan, p, &exit)
	err = errors.Join(err, p.finish(s))
	operator.Instances = p.rows(operator.Process)
	s.knows(func() []traces.Operator { return []traces.Operator{*operator} })
	r, err := s.finish(err)
	if r != nil {
		r.Exit, r.ExitedByRecorder = operator.ExitCode, operator.ExitedByRecord
	}
	if r != nil {
		r.Signal = exit.Signal
	}
	return r, err
}

// profiler looks at the command, whose binary lies at PATH, from the kernel, where that is wanted and possible; else
// it is nil.
func (o *RunOptions) profiler(path string) (*profiler, error) {
	if o.EBPF == "" || o.EBPF == EBPFOff {
		return nil, nil
	}
	p, err := openProfiler(path, &o.Options)
	if err == nil && (p.unwatched() == nil || o.EBPF != EBPFOn) {
		if why := p.unwatched(); why != nil {
			o.note("recording samples, but no reconciles and stacks of calls: %v", why)
		}
		return p, nil
	}
	if err == nil {
		err = errors.Join(p.unwatched(), p.release())
	}
	if o.EBPF == EBPFOn {
		return nil, cli.CannotRun(fmt.Errorf("--ebpf on: %w", err))
	}
	o.note("recording without reconciles, stacks and samples: %v", err)
	return nil, nil
}

// newOperator finds the command, and its binary's PATH, before anything else is touched.
func newOperator(o *RunOptions) (operator *traces.Operator, path string, err error) {
	if o.Grace < 0 {
		return nil, "", cli.Usagef("--grace %s: want a time from 0 on, such as 10s", o.Grace)
	}
	if err := o.EBPF.check(); err != nil {
		return nil, "", err
	}
	if err := checkHz(o.Hz); err != nil {
		return nil, "", err
	}
	if err := o.Scrape.check(); err != nil {
		return nil, "", err
	}
	if err := o.onlyWatches(!o.NoCapture, "leave out --no-capture"); err != nil {
		return nil, "", err
	}
	if len(o.Command) == 0 {
		return nil, "", cli.Usagef("no operator command: write it after --, as in: oprec run --out t.optrace -- ./manager")
	}
	path, err = exec.LookPath(o.Command[0])
	switch {
	case errors.Is(err, exec.ErrDot):
		return nil, "", cli.Usagef("operator command %s: not on the PATH, only in this folder; say ./%s", o.Command[0], o.Command[0])
	case errors.Is(err, exec.ErrNotFound):
		return nil, "", cli.Usagef("operator command %s: not on the PATH", o.Command[0])
	case errors.Is(err, fs.ErrPermission):
		return nil, "", cli.Usagef("operator command %s: not an executable file", o.Command[0])
	case err != nil:
		return nil, "", cli.Usagef("operator command %s: no such file", o.Command[0])
	}
	name := o.Name
	if name == "" {
		name = filepath.Base(path)
	}
	sum, err := hashFile(path)
	if err != nil {
		return nil, "", cli.Usagef("operator command %s: %w", o.Command[0], pathless(err))
	}
	return &traces.Operator{Process: name, Command: o.Command, BinarySHA256: sum}, path, nil
}

func hashFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// run has the world recorded before the operator can change it. EXIT is how that ends.
func (s *session) run(o *RunOptions, operator *traces.Operator, plan *plan, profiler *profiler, exit *process.Exit) (err error) {
	capture, err := s.startCapture(plan)
	defer capture.wait()
	defer s.cancel(nil)
	if err != nil {
		return err
	}
	door, err := s.openDoor("127.0.0.1:0", "", operator.Process, false)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := door.close(); err == nil {
			err = closeErr
		}
	}()
	home, err := os.MkdirTemp("", "oprec-home-")
	if err != nil {
		return cli.CannotRun(err)
	}
	defer func() { _ = os.RemoveAll(home) }()
	p, err := process.Wall{}.Start(process.Spec{
		Name: operator.Process, Command: o.Command, Kubeconfig: door.Kubeconfig, Home: home,
		Env:    append(append(os.Environ(), o.Env...), "KUBECONFIG="+door.Kubeconfig),
		Output: s.output(o, operator.Process),
	})
	if err != nil {
		return err
	}
	s.begun.Store(true)
	if err := profiler.only(pidOf(p), operator.Process); err != nil {
		s.lose(newLoss("probes", -1, "the operator could not be looked at: "+err.Error()))
		o.note("recording without reconciles, stacks and samples: %v", err)
	}
	reported := make(chan struct{})
	go func() {
		defer close(reported)
		s.report()
	}()
	scraping := s.scrape(operator.Process)
	select {
	case <-p.Done():
		scraping.end(false)
	case <-s.ctx.Done():
		scraping.end(true)
		grace := o.Grace
		if grace == 0 {
			grace = 10 * time.Second
		}
		p.Stop(grace)
	}
	*exit = p.Exit()
	operator.ExitCode, operator.ExitedByRecord = &exit.Code, exit.Stopped
	if s.ctx.Err() == nil {
		s.settle(capture)
	}
	s.cancel(nil)
	<-reported
	return nil
}

// pidOf is the number of a process that Wall started.
func pidOf(p process.Process) int { return p.(interface{ PID() int }).PID() }

// settleTime lets the watches deliver what the operator wrote last.
const settleTime = 500 * time.Millisecond

func (s *session) settle(c *capture) {
	if c == nil {
		return
	}
	select {
	case <-time.After(settleTime):
	case <-s.ctx.Done():
	}
}

// output passes the operator's lines on and records them.
func (s *session) output(o *RunOptions, name string) func(stream, line string) {
	log := process.LogTo(s, name, s.now)
	return func(stream, line string) {
		log(stream, line)
		w := o.Stderr
		if stream == "stdout" {
			w = o.Stdout
		}
		if w == nil {
			return
		}
		if cut, ok := strings.CutSuffix(line, oplog.Continues); ok {
			_, _ = io.WriteString(w, cut)
			return
		}
		_, _ = fmt.Fprintln(w, line)
	}
}
