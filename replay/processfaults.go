package replay

import (
	"fmt"
	"strings"
	"time"

	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/sim/fault"
)

// checkPlan refuses what cannot be carried out in this run.
func checkPlan(o *Options, ops anyOf) error {
	for _, f := range o.Plan.Faults {
		if fault.NeedsWorld(f) && o.Clock == ClockWall {
			if o.fellBack != nil {
				return cli.CannotRun(fmt.Errorf("plan: %s: needs --clock virtual: %w", f, o.fellBack))
			}
			return cli.Usagef("plan: %s: needs --clock virtual", f)
		}
		if p := fault.ProcessOf(f); p != "" && p != "operator" && ops.named(p) == nil {
			var names []string
			for _, op := range ops {
				names = append(names, op.Name)
			}
			return cli.Usagef("plan: %s: no process of this run is called %s; there is %s", f, p, strings.Join(names, ", "))
		}
	}
	return checkNames(o.Plan, o.Trace.Manifest().Resources)
}

// Skips is by how much a plan moves the clock on.
func Skips(p *fault.Plan) (sum time.Duration) {
	for _, f := range p.Faults {
		if s, ok := f.(*fault.Skip); ok {
			sum += s.Clock
		}
	}
	return sum
}

// act carries out what a plan does to a process or to the clock, and notes what it does to watches.
func (v *virtualRun) act(a fault.Action) error {
	if v.ending {
		return nil
	}
	g := v.processes[a.Process]
	switch a.Do {
	case fault.DoKill:
		g.proc.Kill() // nothing, if it has ended by itself
		g.flush()
		g.away, g.stopped = true, true
	case fault.DoStart:
		if !g.ended() {
			return nil // another fault has brought it back
		}
		if err := v.comeback(g); err != nil {
			return err
		}
	case fault.DoPause:
		g.proc.Pause()
	case fault.DoResume:
		g.proc.Resume()
	case fault.DoSkip:
		v.skip(a.Clock)
	case fault.DoCurrent, fault.DoCut, fault.DoAlter: // the door has done it
	}
	v.decide("process", a.String(), a.Fault)
	return nil
}

// skip moves the clock on. The outsiders stood still with everybody else: what they do keeps its distance.
func (v *virtualRun) skip(d time.Duration) {
	v.world.Skip(d)
	s := v.stage
	if s.held != 0 {
		return // the next step waits for the operator; it counts how long
	}
	s.late += d
	if s.next != nil {
		v.world.Retime(s.next, s.next.At()+int64(d))
	}
	v.world.SetLimit(s.limit())
}

// endPlan leaves the processes as they are when the run's time is over, so that they can be asked to end.
func (v *virtualRun) endPlan() {
	v.ending = true
	for _, g := range v.guests {
		g.away = false
		g.proc.Resume()
	}
}
