package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"

	"github.com/spf13/cobra"

	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/replay"
	"github.com/opreplay/opreplay/replay/cases"
)

// testFlags are the flags of opsim test.
type testFlags struct {
	operators      []string
	parallel       int
	junit, output  string
	update, worker bool
}

func newTestCmd() *cobra.Command {
	var f testFlags
	cmd := &cobra.Command{
		Use:   "test [CASE|DIR]…",
		Short: "Run regression cases and compare what comes of each with what is expected",
		Long: `Test runs each case: a folder with a recording, an operator's command, a plan that alters the run, and what has to
come of it (case.yaml). A case fails if a finding is there that is not expected, or one is not there that is; if the
end is not as it says; and if a part of the plan met nothing, for then it tests something else. Without arguments the
cases in this folder are run, and those in folders below it.

'opsim explore --keep DIR' writes cases. It expects what is. Once the operator is mended, 'opsim test --update'
expects that; look at what it says has changed. See docs/ci.md.

Runs are in virtual time (linux/amd64).

Exit codes: 0 all is as expected; 1 something is not; 2 bad input; 3 a case could not be run.`,
		Example: `  opsim test cases

  # the same with another build of the operator; for CI
  opsim test cases --operator ./manager-pr-123 --junit report.xml

  # of several operators' cases, those of one with another binary
  opsim test traces/cases --operator 'staleclaim=bin/zoo/staleclaim --fixed'

  # the operator is mended: that is expected from now on
  opsim test cases/finding-1 --update`,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	fl := cmd.Flags()
	fl.StringArrayVar(&f.operators, "operator", nil, "run this command in place of the cases' own, or NAME=COMMAND: in place of the program NAME; may come several times")
	fl.IntVar(&f.parallel, "parallel", 0, "cases at a time (default: one a processor)")
	fl.StringVar(&f.junit, "junit", "", "also write a report in JUnit's form to this file")
	fl.BoolVar(&f.update, "update", false, "expect from now on what is, and say what that changes")
	fl.BoolVar(&f.worker, "worker", false, "")
	_ = fl.MarkHidden("worker") // what it starts itself
	cli.OutputFlag(cmd, &f.output, "text", "json")
	return cmd
}

func (f *testFlags) run(cmd *cobra.Command, args []string) error {
	if f.worker {
		return cases.Serve(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
	}
	if len(args) == 0 {
		args = []string{"."}
	}
	all, err := cases.Find(args)
	if err != nil {
		return err
	}
	others, err := parseOperators(f.operators)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return cli.CannotRun(err)
	}
	report, err := cases.RunAll(cmd.Context(), all, cases.SuiteOptions{
		Others: others, Workers: f.parallel, Progress: cli.NewProgress(cmd.ErrOrStderr()),
		Worker: func(ctx context.Context) *exec.Cmd { return exec.CommandContext(ctx, self, "test", "--worker") },
	})
	if err != nil {
		return err
	}
	if f.update {
		if err := update(cmd, all, report); err != nil {
			return err
		}
	}
	return f.print(cmd, report)
}

func parseOperators(texts []string) (all []replay.Operator, err error) {
	for _, text := range texts {
		op, err := replay.ParseOperator(text)
		if err != nil {
			return nil, cli.Usagef("--operator %q: %w", text, err)
		}
		if len(op.Command) == 0 {
			return nil, cli.Usagef("--operator %q: no command", text)
		}
		all = append(all, op)
	}
	return all, nil
}

// update makes what is seen what is expected, and says so on the standard error.
func update(cmd *cobra.Command, all []*cases.Case, report *cases.Report) error {
	for i, r := range report.Cases {
		if r.Status != cases.Failed {
			continue
		}
		changes, err := all[i].Update(r)
		if err != nil {
			return err
		}
		for _, change := range changes {
			if _, err := fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", r.Name, change); err != nil {
				return err
			}
		}
		if len(changes) > 0 {
			r.Status, r.Problems = cases.OK, nil
		}
	}
	return nil
}

func (f *testFlags) print(cmd *cobra.Command, report *cases.Report) (err error) {
	if f.junit != "" {
		var text bytes.Buffer
		if err := report.JUnit(&text); err != nil {
			return err
		}
		if err := os.WriteFile(f.junit, text.Bytes(), 0o600); err != nil {
			return cli.Usagef("--junit: %w", err)
		}
	}
	if f.output == "json" {
		err = cli.WriteJSON(cmd.OutOrStdout(), report)
	} else {
		err = report.Text(cmd.OutOrStdout())
	}
	if err == nil {
		err = report.Err()
	}
	return err
}
