package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/replay"
	"github.com/opreplay/opreplay/replay/cases"
	"github.com/opreplay/opreplay/replay/trial"
	"github.com/opreplay/opreplay/replay/verify"
)

// verifyFlags are the flags of opsim verify.
type verifyFlags struct {
	operators       []string
	budget, workers int
	out, output     string
	worker          bool
}

func newVerifyCmd() *cobra.Command {
	var f verifyFlags
	cmd := &cobra.Command{
		Use:   "verify CASE|DIR… --operator 'CMD'",
		Short: "Does a fix hold, under a case's plan and under those around it?",
		Long: `Verify runs a regression case with another build of its operator, and then what lies around the case's plan: other
seeds and orders of threads, other occurrences of the calls and events that the plan names, half and twice its times,
and the plans of the same kinds that 'opsim explore' would try of the new build. The fix holds if none of these runs
has an alarm, the unaltered one included; an alarm that the case does not speak of counts too.

Of a folder of cases those are verified that an --operator is for, one after the other: NAME=COMMAND is for the cases
whose program is called NAME, a COMMAND alone for all of them.

Runs are in virtual time (linux/amd64).

Exit codes: 0 it holds; 1 it does not; 2 bad input; 3 the runs could not take place.`,
		Example: `  opsim verify cases/finding-1 --operator './manager-fixed --metrics-bind-address=0'

  # does it hold under all that was ever found?
  opsim verify cases --operator ./manager-fixed

  # a case of the zoo and its mended twin, and more plans than usual
  opsim verify traces/cases/halfcreate/faulty --operator 'bin/zoo/halfcreate --fixed' --budget 300`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	fl := cmd.Flags()
	fl.StringArrayVar(&f.operators, "operator", nil, "the command of the build that is to be fixed, or NAME=COMMAND; may come several times")
	_ = cmd.MarkFlagRequired("operator")
	fl.IntVar(&f.budget, "budget", verify.DefaultBudget, "how many plans to run of each case")
	fl.IntVar(&f.workers, "workers", 0, "runs at a time (default: one a processor)")
	fl.StringVar(&f.out, "out", "", "file for the plan of the first run with an alarm (default: CASE's name with -still.yaml in this folder)")
	fl.BoolVar(&f.worker, "worker", false, "")
	_ = fl.MarkHidden("worker") // what it starts itself
	cli.OutputFlag(cmd, &f.output, "text", "json")
	return cmd
}

func (f *verifyFlags) run(cmd *cobra.Command, args []string) error {
	all, ops, err := f.cases(args)
	if err != nil {
		return err
	}
	if f.worker {
		t, err := all[0].Options(all[0].Other(ops))
		if err != nil {
			return err
		}
		defer func() { _ = t.Replay.Trace.Close() }()
		return trial.Serve(cmd.Context(), t, cmd.InOrStdin(), cmd.OutOrStdout())
	}
	results := make([]*verify.Result, 0, len(all))
	var found error
	for _, c := range all {
		r, err := f.verify(cmd, c, c.Other(ops))
		if err != nil {
			return err
		}
		results = append(results, r)
		found = errors.Join(found, r.Err())
	}
	if f.output == "json" {
		if err := f.json(cmd, args, results); err != nil {
			return err
		}
	}
	return found
}

// json writes the result of the one case that was asked for, or a list of those of all.
func (f *verifyFlags) json(cmd *cobra.Command, args []string, results []*verify.Result) error {
	if len(args) == 1 && len(results) == 1 && cases.Is(args[0]) {
		return cli.WriteJSON(cmd.OutOrStdout(), results[0])
	}
	return cli.WriteJSON(cmd.OutOrStdout(), results)
}

// cases are those that an operator is for.
func (f *verifyFlags) cases(args []string) (mine []*cases.Case, ops []replay.Operator, err error) {
	all, err := cases.Find(args)
	if err != nil {
		return nil, nil, err
	}
	if ops, err = parseOperators(f.operators); err != nil {
		return nil, nil, err
	}
	for _, c := range all {
		if c.Other(ops) != nil {
			mine = append(mine, c)
		}
	}
	switch {
	case len(mine) == 0:
		return nil, nil, cli.Usagef("--operator %s: no case in %s has an operator of that name", strings.Join(f.operators, ", "), strings.Join(args, ", "))
	case len(mine) > 1 && f.out != "":
		return nil, nil, cli.Usagef("--out %s: a file is for one case, and there are %d", f.out, len(mine))
	}
	return mine, ops, nil
}

// verify verifies a case, and prints what came of it.
func (f *verifyFlags) verify(cmd *cobra.Command, c *cases.Case, command []string) (*verify.Result, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, cli.CannotRun(err)
	}
	words := []string{"verify", c.Dir, "--worker"}
	for _, op := range f.operators {
		words = append(words, "--operator", op)
	}
	r, err := verify.Run(cmd.Context(), verify.Options{
		Case: c, Command: command, Budget: f.budget, Workers: f.workers, Progress: cli.NewProgress(cmd.ErrOrStderr()),
		Worker: func(ctx context.Context) *exec.Cmd { return exec.CommandContext(ctx, self, words...) },
	})
	if err != nil {
		return nil, err
	}
	file := f.out
	if file == "" {
		file = strings.ReplaceAll(c.Name, "/", "-") + "-still.yaml"
	}
	again := ""
	if len(r.Shown) > 0 {
		if err := os.WriteFile(file, []byte(r.Shown[0].Try.Plan.String()), 0o600); err != nil {
			return nil, cli.CannotRun(err)
		}
		r.Again.Plan = file
		again = caseCommand(c, command)(r.Again)
	}
	if f.output == "json" {
		return r, nil // all of them at the end
	}
	return r, r.Text(cmd.OutOrStdout(), again)
}

// caseCommand is the opsim replay that shows a run of a case again.
func caseCommand(c *cases.Case, command []string) func(trial.Again) string {
	f := trialFlags{settle: c.Settle}
	r := &f.replay
	r.operators, r.env, r.rbac, r.inCluster = []string{shellWords(command)}, c.Env, c.RBAC, c.InCluster
	if f.settle == 0 {
		f.settle = trial.DefaultSettle
	}
	if !c.Start.IsZero() {
		r.start = c.Start.Format(time.RFC3339Nano)
	}
	if k := c.Recorded; k != nil {
		r.process = k.Process
		r.userAgent, r.serviceAccount, r.manager = first(k.UserAgents), first(k.Users), first(k.FieldManagers)
	}
	return f.command(c.TraceDir())
}

// first is what a flag of opsim replay can say of several.
func first(all []string) string {
	if len(all) == 0 {
		return ""
	}
	return all[0]
}
