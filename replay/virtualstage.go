package replay

import (
	"context"
	"time"

	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/sim"
)

// virtualStage is the stage of a virtual run: each of the script's steps is a step of the world.
type virtualStage struct {
	*stage
	v    *virtualRun
	due  time.Duration // of the next step since the operator's first call, without what the script is late
	next *sim.Item     // on the agenda
	// held is since when the next step waits for the operator's recorded writes; 0: it does not.
	held  int64
	again *sim.Item // the steps that wait for an object to go
}

func newVirtualStage(v *virtualRun) *virtualStage {
	s := newStage(v.run, v.door.Outsider(outsider, "system:masters"))
	s.elapsed = v.elapsed
	return &virtualStage{stage: s, v: v}
}

// start puts the first step on the agenda: the operator has made its first call.
func (s *virtualStage) start() {
	s.v.world.SetLimit(s.limit())
	s.schedule()
}

// limit is when the run ends if the script is not late.
func (s *virtualStage) limit() int64 {
	d := s.v.o.span(s.v.script)
	if s.v.o.Limit > 0 {
		return s.v.first + int64(d) // it is the run's end, however late the script is
	}
	return s.v.first + int64(d+s.late)
}

func (s *virtualStage) schedule() {
	if s.played == len(s.v.script.Steps) {
		return
	}
	step := s.v.script.Steps[s.played]
	last := time.Duration(0)
	if s.played > 0 {
		last = s.v.script.Steps[s.played-1].At
	}
	s.due += s.r.o.gap(step.At - last)
	s.put(s.v.first + int64(s.due+s.late))
}

func (s *virtualStage) put(at int64) {
	step := s.v.script.Steps[s.played]
	s.next = s.v.world.At(at, sim.Item{Lane: "script", Kind: "outsider", Subject: step.String(), Apply: s.turn})
}

// turn is the time of the next step: it is applied, unless it has to wait for the operator.
func (s *virtualStage) turn() error {
	step := s.v.script.Steps[s.played]
	now := s.v.world.Nanos()
	if s.held == 0 {
		s.want(step)
	}
	if patience := s.v.o.Patience; patience > 0 && len(s.missing()) > 0 {
		if s.held == 0 {
			s.held = now
			s.put(now + int64(patience)) // or earlier: see look
			if s.v.o.Limit == 0 {
				s.v.world.SetLimit(s.limit() + int64(patience)) // waiting must not use up the run's time
			}
			return nil
		}
		if now-s.held >= int64(patience) {
			s.despair(step)
		}
	}
	if s.held != 0 {
		s.late += time.Duration(now - s.held)
		s.held = 0
		s.v.world.SetLimit(s.limit())
	}
	if err := s.apply(context.Background(), step, false); err != nil {
		return err
	}
	s.played++
	if step.Resource == "customresourcedefinitions" {
		if err := s.v.observeAll(); err != nil {
			return cli.CannotRun(err)
		}
	}
	s.retryLater()
	s.schedule()
	return nil
}

// look lets a step that waits go on as soon as the operator has written what it waits for.
func (s *virtualStage) look() {
	if s.held == 0 {
		return
	}
	if len(s.missing()) == 0 {
		s.v.world.Retime(s.next, s.v.world.Nanos())
	}
}

// retryLater tries the steps that wait for an object to go, every tick as long as there are any.
func (s *virtualStage) retryLater() {
	if s.again != nil || len(s.waits) == 0 {
		return
	}
	s.again = s.v.world.After(tick, sim.Item{Kind: "outsider", Subject: "changes that wait", Apply: func() error {
		s.again = nil
		err := s.retry(context.Background())
		s.retryLater()
		return err
	}})
}

// end applies what is left when the time is over.
func (s *virtualStage) end(ctx context.Context) error { return s.giveUp(ctx) }
