package main

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/replay/cases"
	"github.com/opreplay/opreplay/replay/trial"
	"github.com/opreplay/opreplay/replay/verify"
)

// verifyFlags are the flags of opsim verify.
type verifyFlags struct {
	operator        string
	budget, workers int
	out, output     string
	worker          bool
}

func newVerifyCmd() *cobra.Command {
	var f verifyFlags
	cmd := &cobra.Command{
		Use:   "verify CASE --operator 'CMD'",
		Short: "Does a fix hold, under a case's plan and under those around it?",
		Long: `Verify runs a regression case with another build of its operator, and then what lies around the case's plan: other
seeds and orders of threads, other occurrences of the calls and events that the plan names, half and twice its times,
and the plans of the same kinds that 'opsim explore' would try of the new build. The fix holds if none of these runs
has an alarm, the unaltered one included; an alarm that the case does not speak of counts too.

Runs are in virtual time (linux/amd64).

Exit codes: 0 it holds; 1 it does not; 2 bad input; 3 the runs could not take place.`,
		Example: `  opsim verify cases/finding-1 --operator './manager-fixed --metrics-bind-address=0'

  # a case of the zoo and its mended twin, and more plans than usual
  opsim verify traces/cases/halfcreate/faulty --operator 'bin/zoo/halfcreate --fixed' --budget 300`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.operator, "operator", "", "the command of the build that is to be fixed")
	_ = cmd.MarkFlagRequired("operator")
	fl.IntVar(&f.budget, "budget", verify.DefaultBudget, "how many plans to run")
	fl.IntVar(&f.workers, "workers", 0, "runs at a time (default: one a processor)")
	fl.StringVar(&f.out, "out", "", "file for the plan of the first run with an alarm (default: CASE's name with -still.yaml in this folder)")
	fl.BoolVar(&f.worker, "worker", false, "")
	_ = fl.MarkHidden("worker") // what it starts itself
	cli.OutputFlag(cmd, &f.output, "text", "json")
	return cmd
}

func (f *verifyFlags) run(cmd *cobra.Command, dir string) error {
	c, err := cases.Load(dir)
	if err != nil {
		return err
	}
	ops, err := parseOperators([]string{f.operator})
	if err != nil {
		return err
	}
	if f.worker {
		t, err := c.Options(ops[0].Command)
		if err != nil {
			return err
		}
		defer func() { _ = t.Replay.Trace.Close() }()
		return trial.Serve(cmd.Context(), t, cmd.InOrStdin(), cmd.OutOrStdout())
	}
	self, err := os.Executable()
	if err != nil {
		return cli.CannotRun(err)
	}
	r, err := verify.Run(cmd.Context(), verify.Options{
		Case: c, Command: ops[0].Command, Budget: f.budget, Workers: f.workers, Progress: cli.NewProgress(cmd.ErrOrStderr()),
		Worker: func(ctx context.Context) *exec.Cmd {
			return exec.CommandContext(ctx, self, append(slices.Clone(os.Args[1:]), "--worker")...)
		},
	})
	if err != nil {
		return err
	}
	return f.print(cmd, c, r)
}

func (f *verifyFlags) print(cmd *cobra.Command, c *cases.Case, r *verify.Result) error {
	file := f.out
	if file == "" {
		file = c.Name + "-still.yaml"
	}
	if len(r.Shown) > 0 {
		if err := os.WriteFile(file, []byte(r.Shown[0].Try.Plan.String()), 0o600); err != nil {
			return cli.CannotRun(err)
		}
	}
	var err error
	if f.output == "json" {
		err = cli.WriteJSON(cmd.OutOrStdout(), r)
	} else {
		again := caseCommand(c, f.operator)
		err = r.Text(cmd.OutOrStdout(), func(s verify.Shown) string { return again(s.Try, r.Names, file) })
	}
	if err == nil {
		err = r.Err()
	}
	return err
}

// caseCommand is the opsim replay that shows a run of a case again.
func caseCommand(c *cases.Case, operator string) func(trial.Try, []string, string) string {
	f := trialFlags{settle: c.Settle}
	f.replay.operators, f.replay.env = []string{operator}, c.Env
	if f.settle == 0 {
		f.settle = trial.DefaultSettle
	}
	if !c.Start.IsZero() {
		f.replay.start = c.Start.Format(time.RFC3339Nano)
	}
	if c.Recorded != nil {
		f.replay.process = c.Recorded.Process
	}
	return f.command(c.TraceDir())
}
