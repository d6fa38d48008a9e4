package cases

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/replay"
	"github.com/opreplay/opreplay/replay/trial"
	"github.com/opreplay/opreplay/traces"
)

// Status is what came of a case, in a word.
type Status string

// The statuses.
const (
	OK     Status = "ok"
	Failed Status = "failed" // what came of it is not what is expected
	Error  Status = "error"  // it could not be run
)

// Result is what came of a case.
type Result struct {
	Name   string `json:"name"`
	Dir    string `json:"folder"`
	Status Status `json:"status"`
	// Problems say of one that Failed what is not as expected, of an Error what went wrong.
	Problems []string `json:"problems,omitempty"`
	// Seen is what came of it, in the words of what is expected.
	Seen Expect `json:"seen"`
	// Alarms are what Seen.Findings are of.
	Alarms []trial.Alarm `json:"alarms,omitempty"`
	// Hash is that of the run with the plan, or of the unaltered one if there is no plan.
	Hash string        `json:"hash,omitempty"`
	Took time.Duration `json:"tookNanoseconds"` // by the wall's clock
}

// Command is that of the last of OTHERS that is for this operator (one whose name is that of the case's program, or that
// has no name), or else the case's own.
func (c *Case) Command(others []replay.Operator) []string {
	if other := c.Other(others); other != nil {
		return other
	}
	return append([]string{c.program()}, c.Operator[1:]...)
}

// Other is the command of the last of OTHERS that is for this operator; nil: there is none.
func (c *Case) Other(others []replay.Operator) (command []string) {
	for _, o := range others {
		if o.Name == "" || o.Name == filepath.Base(c.Operator[0]) {
			command = o.Command
		}
	}
	return command
}

// program is the case's own, as it can be started from here: one with a slash in it is looked for from the case's folder
// and then from where opsim is started.
func (c *Case) program() string {
	p := c.Operator[0]
	if filepath.Base(p) == p || filepath.IsAbs(p) {
		return p
	}
	here := filepath.Join(c.Dir, p)
	switch {
	case !isFile(here):
		return p
	case filepath.Base(here) == here:
		return "." + string(filepath.Separator) + here // and not on the PATH
	}
	return here
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// Options are those of the case's runs, with another command of the operator's or its own. Their trace is to be
// closed.
func (c *Case) Options(command []string) (o trial.Options, err error) {
	t, err := c.Try()
	if err != nil {
		return o, err
	}
	op := replay.Operator{Command: command}
	if r := c.Recorded; r != nil {
		op.Identity = replay.Identity{Process: r.Process, UserAgents: r.UserAgents, Users: r.Users, FieldManagers: r.FieldManagers}
	}
	o = trial.Options{
		Settle: c.Settle, Bound: c.Bound, Invariants: c.Invariants,
		Replay: replay.Options{
			Operators: []replay.Operator{op}, Env: c.Env, Seed: c.Seed, Start: c.Start, InCluster: replay.InCluster(c.InCluster),
			Plan: t.Plan, RBAC: c.RBAC, Clock: replay.ClockVirtual, Tool: "opsim " + cli.ThisBuild().Version,
		},
	}
	o.Replay.Trace, err = traces.Open(c.TraceDir())
	return o, err
}

// Run runs a case with its own operator, or one of OTHERS (Command). The error is that the context has ended.
func (c *Case) Run(ctx context.Context, others []replay.Operator) (*Result, error) {
	began := time.Now()
	r := &Result{Name: c.Name, Dir: c.Dir}
	err := c.run(ctx, c.Command(others), r)
	r.Took = time.Since(began)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		r.Status, r.Problems = Error, []string{err.Error()}
	}
	return r, nil
}

func (c *Case) run(ctx context.Context, command []string, r *Result) error {
	t, err := c.Try()
	if err != nil {
		return err
	}
	o, err := c.Options(command)
	if err != nil {
		return err
	}
	defer func() { _ = o.Replay.Trace.Close() }()
	runner, err := trial.Open(ctx, o)
	if err != nil {
		return err
	}
	defer runner.Close()
	ref, err := runner.Reference(ctx, t.Without)
	if err != nil {
		return err
	}
	out, err := runner.Run(ctx, t)
	if err != nil {
		return err
	}
	if out.Verdict == trial.Failed {
		return fmt.Errorf("the plan cannot be run: %s", out.Error)
	}
	r.Hash = out.Hash
	r.Seen = See(ref, out)
	r.Alarms = slices.Concat(ref.Alarms, out.Alarms)
	if r.Problems = c.Expect.problems(r, out); len(r.Problems) > 0 {
		r.Status = Failed
	} else {
		r.Status = OK
	}
	return nil
}

// See is what came of a run: what the unaltered run showed, and what the plan's showed beyond that.
func See(ref *trial.Reference, out *trial.Outcome) (e Expect) {
	e = Expect{Findings: []Finding{}, Unmatched: out.Unmatched, Final: FinalSame}
	for _, a := range slices.Concat(ref.Alarms, out.Alarms) {
		if f := FindingOf(&a); !slices.Contains(e.Findings, f) {
			e.Findings = append(e.Findings, f)
		}
	}
	switch {
	case slices.ContainsFunc(out.Alarms, func(a trial.Alarm) bool { return a.AtEnd() }):
		e.Final = FinalDiffers
	case out.Skipped > 0, out.Endless, out.Strayed > 0:
		e.Final = finalUnknown
	}
	return e
}

// problems say in what a run is not as expected.
func (e *Expect) problems(r *Result, out *trial.Outcome) (all []string) {
	for _, f := range e.Findings {
		if !slices.ContainsFunc(r.Seen.Findings, f.means) {
			all = append(all, fmt.Sprintf("expected, and not there: %s", f))
		}
	}
	told := map[Finding]bool{}
	for _, a := range r.Alarms {
		f := FindingOf(&a)
		if told[f] || e.expected(f) {
			continue
		}
		told[f] = true
		all = append(all, fmt.Sprintf("not expected: %s: %s", f, a.What))
	}
	for _, u := range r.Seen.Unmatched {
		if !slices.Contains(e.Unmatched, u) {
			all = append(all, "a part of the plan met nothing, so that it is another test: "+u)
		}
	}
	for _, u := range e.Unmatched {
		if !slices.Contains(r.Seen.Unmatched, u) {
			all = append(all, "a part of the plan was expected to meet nothing, and did: "+u)
		}
	}
	switch {
	case e.Final == FinalAny || e.Final == r.Seen.Final:
	case r.Seen.Final == finalUnknown && out.Endless:
		all = append(all, "the end was not compared: a fault of the plan has no end, or waited in vain for it")
	case r.Seen.Final == finalUnknown:
		all = append(all, fmt.Sprintf("the end was not compared: %d changes by outsiders did not fit the cluster any more", out.Skipped))
	case e.Final == FinalDiffers:
		all = append(all, "expected to end otherwise than the unaltered run, and ends as that does")
	default:
		all = append(all, "expected to end as the unaltered run does, and ends otherwise")
	}
	return all
}
