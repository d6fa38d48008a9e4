package explore

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/opreplay/opreplay/replay"
	"github.com/opreplay/opreplay/replay/cases"
	"github.com/opreplay/opreplay/replay/trial"
)

// keep makes a regression case of a plan. It expects what is, for somebody to see.
func (c *campaign) keep(ctx context.Context, runner *trial.Runner, i int, t trial.Try) error {
	c.o.Progress.Set("finding %d of %d: keeping it as a case", i+1, len(c.result.Groups))
	ref, err := runner.Reference(ctx, t.Without)
	if err != nil {
		return err
	}
	out, err := c.pool.Run(ctx, t)
	if err != nil {
		return err
	}
	o := &c.o.Trial
	op := &o.Replay.Operators[0]
	k := &cases.Case{
		Operator: op.Command, Env: o.Replay.Env, Seed: runner.Seed(), Start: o.Replay.Start, RBAC: o.Replay.RBAC,
		Plan: cases.Plan{Inline: t.Plan.String()}, Threads: string(t.Threads), Procs: t.Procs, Replicas: t.Replicas, Without: t.Without,
		Settle: o.Settle, Bound: o.Bound, Invariants: o.Invariants, Expect: cases.See(ref, out),
	}
	if o.Replay.InCluster != replay.InClusterAuto {
		k.InCluster = string(o.Replay.InCluster)
	}
	if len(out.Alarms) > 0 {
		k.About = out.Alarms[0].What
	}
	if id := op.Identity; id.Process != "" || len(id.UserAgents)+len(id.Users)+len(id.FieldManagers) > 0 {
		k.Recorded = &cases.Recorded{Process: id.Process, UserAgents: id.UserAgents, Users: id.Users, FieldManagers: id.FieldManagers}
	}
	return k.Save(filepath.Join(c.o.Keep, fmt.Sprintf("finding-%d", i+1)), o.Replay.Trace.Dir())
}
