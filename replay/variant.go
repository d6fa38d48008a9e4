package replay

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/sim/actor"
	"github.com/opreplay/opreplay/sim/fault"
	"github.com/opreplay/opreplay/traces"
)

// Variant is one run of a Session: what is not as in its Options.
type Variant struct {
	// Plan alters the run; nil is the empty plan, with seed 0.
	Plan *fault.Plan
	// Threads is the order of the operators' threads; "" is the Options'.
	Threads Threads
	// Env are KEY=VALUE pairs that are added to the Options'.
	Env []string
	// Without are the recorded seqs of the outsiders' steps that are left out, beside the Options'.
	Without []int64
	// Replicas is how many processes there are of each operator; 0 is one. The others are called NAME-2, NAME-3, …
	Replicas int
	// Out is the folder for the run's trace. Without it there is none: the rows go to Rows, and the
	// Result has no Hash.
	Out  string
	Rows *Rows
	// More, if set, is asked in virtual time when the run's time is over, and says for how much longer it goes
	// on; 0 ends it.
	More func() time.Duration
}

// Rows is a run's trace in memory, in the order of Seq.
type Rows struct{ All []traces.Record }

// Append implements traces.Appender.
func (m *Rows) Append(r traces.Record) error {
	r.Header().Seq = m.Seq() + 1
	m.All = append(m.All, r)
	return nil
}

// Seq implements traces.Appender.
func (m *Rows) Seq() int64 { return int64(len(m.All)) }

// Play plays the recording once. The Options' own plan, seed and folder do not count, and runs in memory are for
// virtual time only: there all rows come from one goroutine.
func (s *Session) Play(ctx context.Context, v Variant) (*Result, error) {
	began, cpu := time.Now(), cpuTime()
	r := &run{o: s.o, ops: s.ops, script: s.script, notes: slices.Clone(s.notes), begin: s.start, session: s, rows: v.Rows, more: v.More}
	r.o.Plan, r.o.Out = cmp.Or(v.Plan, &fault.Plan{}), v.Out
	r.o.Threads = cmp.Or(v.Threads, r.o.Threads)
	r.o.Env = slices.Concat(r.o.Env, v.Env)
	r.ops = replicas(r.ops, v.Replicas)
	if err := checkPlan(&r.o, r.ops); err != nil {
		return nil, err
	}
	if v.Rows != nil && r.o.Clock != ClockVirtual {
		return nil, cli.Usagef("only a run in virtual time can be kept in memory")
	}
	if len(v.Without) > 0 {
		r.script = s.script.without(v.Without)
	}
	result, err := r.run(ctx)
	if err != nil {
		return nil, err
	}
	if v.Rows == nil {
		if result.Hash, err = traceHash(v.Out); err != nil {
			return nil, cli.CannotRun(err)
		}
	}
	result.spent(time.Since(began), cpuTime()-cpu)
	return result, nil
}

// replicas are N processes of each operator.
func replicas(ops anyOf, n int) (all anyOf) {
	for i := 1; i <= max(n, 1); i++ {
		for _, op := range ops {
			twin := *op
			if i > 1 {
				twin.Name = fmt.Sprintf("%s-%d", op.Name, i)
			}
			all = append(all, &twin)
		}
	}
	return all
}

// Script is the recording with the operator taken out.
func (s *Session) Script() *Script { return s.script }

// Start is the runs' first moment.
func (s *Session) Start() time.Time { return s.start }

// Names are the operators' processes.
func (s *Session) Names() (all []string) {
	for _, op := range s.ops {
		all = append(all, op.Name)
	}
	return all
}

// without is the script without the steps of those recorded seqs. The others keep their times.
func (s *Script) without(seqs []int64) *Script {
	less := *s
	less.Steps = slices.DeleteFunc(slices.Clone(s.Steps), func(x actor.Step) bool { return slices.Contains(seqs, x.Seq) })
	return &less
}
