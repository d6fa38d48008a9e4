package replay

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/sim/actor"
	"github.com/opreplay/opreplay/sim/process/virtual"
)

// Session is a recording made ready to be played any number of times. In virtual time its runs share one API
// server, which goes back to the recorded cluster between them. One at a time in a process, and one run at a time
// in it: see apiserver.ErrSecondServer.
type Session struct {
	o      Options
	ops    anyOf
	script *Script
	start  time.Time // the runs' first moment
	notes  []string
	ground *ground // of virtual runs; nil before the first one
}

// Open reads the recording and settles what Options left open.
func Open(ctx context.Context, o Options) (*Session, error) {
	if err := o.chooseClock(); err != nil {
		return nil, err
	}
	if len(o.BreakAt) > 0 && o.Clock != ClockVirtual {
		return nil, cli.Usagef("the world can only stand still in virtual time: no --break-at with --clock wall")
	}
	if o.Live && o.Clock != ClockVirtual {
		return nil, cli.Usagef("the cluster only lives in virtual time: no --live with --clock wall")
	}
	if o.InCluster == InClusterAlways && o.Clock != ClockVirtual {
		return nil, cli.Usagef("a pod's files can only be shown to an operator in virtual time: no --in-cluster with --clock wall")
	}
	o.complete()
	ops, err := resolve(ctx, &o)
	if err != nil {
		return nil, err
	}
	if err := checkPlan(&o, ops); err != nil {
		return nil, err
	}
	h, err := readHistory(ctx, o.Trace, anyOf(ops))
	if err != nil {
		return nil, err
	}
	if h.first == nil && !h.managed {
		return nil, cli.Usagef("%s: no call or write in it is the operator's (%s)", o.Trace.Dir(), anyOf(ops).knownBy())
	}
	script := makeScript(h)
	for _, seq := range o.Without {
		if !slices.ContainsFunc(script.Steps, func(x actor.Step) bool { return x.Seq == seq }) {
			return nil, cli.Usagef("%s: no outsider's change in it has the seq %d, to be left out", o.Trace.Dir(), seq)
		}
	}
	s := &Session{o: o, ops: ops, script: script.without(o.Without)}
	if o.fellBack != nil {
		s.notes = append(s.notes, o.fellBack.Error()+"; the operator ran on the wall clock instead")
	}
	s.settleStart(time.Now())
	return s, nil
}

// Close ends the API server.
func (s *Session) Close() {
	if s.ground != nil {
		s.ground.close()
		s.ground = nil
	}
}

// chooseClock settles ClockAuto.
func (o *Options) chooseClock() error {
	switch o.Clock {
	case ClockVirtual, ClockAuto, "":
	case ClockWall:
		return nil
	default:
		return cli.Usagef("clock %q: want virtual, wall or auto", o.Clock)
	}
	err := virtual.Probe()
	switch {
	case err == nil:
		o.Clock = ClockVirtual
	case o.Clock == ClockVirtual:
		return cli.CannotRun(err)
	default:
		o.Clock, o.fellBack = ClockWall, err
	}
	return nil
}

// settleStart sets the runs' first moment: the recorded one, or the one that is asked for. The API server wants a
// run to lie before the wall's time; where it would not, it is moved back by whole days, so that the time of day
// and with it all that goes by it stays.
func (s *Session) settleStart(now time.Time) {
	s.start = s.script.Start
	if !s.o.Start.IsZero() {
		s.start = s.o.Start.UTC()
	}
	latest := now.Add(-s.length()).UTC()
	if !s.start.After(latest) {
		return
	}
	const day = 24 * time.Hour
	days := int((s.start.Sub(latest) + day - 1) / day)
	s.start = s.start.AddDate(0, 0, -days)
	s.notes = append(s.notes, fmt.Sprintf(
		"the run begins at %s, %d day(s) earlier than it would, so that all of it lies before the wall clock's time", s.start.Format(time.RFC3339), days))
}

// length is how much time a run may take, at most.
func (s *Session) length() time.Duration {
	const margin = 5 * time.Second // the API server wants three
	if s.o.Clock != ClockVirtual {
		return margin // it goes on as the wall clock does
	}
	waits := time.Duration(len(distinctWrites(s.script))) * max(s.o.Patience, 0)
	return firstCall + s.o.span(s.script) + Skips(s.o.Plan) + waits + s.o.Grace + s.o.Room + margin
}

// play plays the recording once, into the folder OUT.
func (s *Session) play(ctx context.Context, out string) (*Result, error) {
	return s.Play(ctx, Variant{Plan: s.o.Plan, Out: out})
}

// prepared is an API server in the state in which the operators found the cluster.
func (s *Session) prepared(ctx context.Context, seed uint64) (*ground, error) {
	if s.ground != nil {
		if err := s.ground.restore(seed); err != nil {
			s.Close()
			return nil, err
		}
		return s.ground, nil
	}
	s.o.Progress.Set("starting the API server with %d objects", len(s.script.Initial))
	g, err := newGround(ctx, s.start, s.script, s.o.server())
	if err != nil {
		return nil, err
	}
	if err := g.restore(seed); err != nil {
		g.close()
		return nil, err
	}
	s.ground = g
	return g, nil
}

// remove removes the trace of a run that nobody wants.
func remove(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return cli.CannotRun(err)
	}
	return nil
}
