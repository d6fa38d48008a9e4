package main

import (
	"os"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/opreplay/opreplay/analysis"
	"github.com/opreplay/opreplay/analysis/report"
	"github.com/opreplay/opreplay/internal/cli"
)

func newAnalyzeCmd() *cobra.Command {
	var output, baseline string
	var names []string
	var notes bool
	cmd := &cobra.Command{
		Use:   "analyze TRACE",
		Short: "Say what went wrong in a trace, why, and how sure that is",
		Long: `Analyze reads a recorded or simulated trace once and reports the faults in it, the worst first: what
happens, why, which object and process, how sure it is, and where in the trace to look. It needs neither a
cluster nor the operator's binary.

The detectors are ` + strings.Join(analysis.Names(), ", ") + `; docs/findings has a page for each.

With --baseline it says what the trace has or does that another doesn't, such as one from before an upgrade or of a
mended operator: findings that are new, worse or gone, and rates, latencies, writes per object, durations of reconciles
and of deletions that differ by more than chance.

Exit code 1 means that there are findings, or with --baseline that there is a difference; 0 that there is none.`,
		Example: `  opsim analyze run.optrace
  opsim analyze run.optrace -o json

  # for an issue, for code scanning, for CI, for the log of a GitHub workflow
  opsim analyze run.optrace -o markdown
  opsim analyze run.optrace -o sarif > opsim.sarif
  opsim analyze run.optrace -o junit > opsim.xml
  opsim analyze run.optrace -o github

  opsim analyze run.optrace --detector self-loop,churn --notes

  # what did the new version change?
  opsim analyze --baseline v1.optrace v2.optrace`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o := analysis.Options{}
			if len(names) > 0 {
				chosen, err := analysis.Select(names)
				if err != nil {
					return cli.Usagef("--detector: %w", err)
				}
				o.Detectors = chosen
			}
			if baseline != "" {
				return compare(cmd, baseline, args[0], o, output)
			}
			result, err := analyze(cmd, args[0], o)
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			switch output {
			case "json":
				err = report.JSON(out, result)
			case "markdown":
				err = report.Markdown(out, result)
			case "sarif":
				err = report.SARIF(out, result)
			case "junit":
				err = report.JUnit(out, result)
			case "github":
				err = report.GitHub(out, result)
			default:
				err = report.Text(out, result, report.Options{Color: report.Terminal(out), Notes: notes})
			}
			if err == nil && len(result.Findings) > 0 {
				err = cli.ErrFindings
			}
			return err
		},
	}
	cli.OutputFlag(cmd, &output, "text", "json", "markdown", "sarif", "junit", "github")
	cmd.Flags().StringVar(&baseline, "baseline", "", "a trace to compare with")
	cmd.Flags().StringSliceVar(&names, "detector", nil, "run only these detectors")
	cmd.Flags().BoolVar(&notes, "notes", false, "also print what is no fault but worth knowing")
	_ = cmd.RegisterFlagCompletionFunc("detector", cobra.FixedCompletions(analysis.Names(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func analyze(cmd *cobra.Command, dir string, o analysis.Options) (*analysis.Result, error) {
	trace, err := openTrace(cmd, dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = trace.Close() }()
	collectLess()
	progress := cli.NewProgress(cmd.ErrOrStderr())
	o.Progress = func(n int64) { progress.Set("analyzing %s: %d records", dir, n) }
	result, err := analysis.Analyze(cmd.Context(), trace, o)
	progress.Done()
	return result, err
}

// compare says what changed from a baseline to a trace.
func compare(cmd *cobra.Command, baseline, dir string, o analysis.Options, output string) error {
	if output != "text" && output != "json" {
		return cli.Usagef("--output %s: a comparison is text or json", output)
	}
	before, err := openTrace(cmd, baseline)
	if err != nil {
		return err
	}
	defer func() { _ = before.Close() }()
	after, err := openTrace(cmd, dir)
	if err != nil {
		return err
	}
	defer func() { _ = after.Close() }()
	collectLess()
	progress := cli.NewProgress(cmd.ErrOrStderr())
	o.Progress = func(n int64) { progress.Set("comparing %s with %s: %d records", dir, baseline, n) }
	c, err := analysis.Compare(cmd.Context(), before, after, o)
	progress.Done()
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if output == "json" {
		err = report.ComparisonJSON(out, c)
	} else {
		err = report.Comparison(out, c, report.Options{Color: report.Terminal(out)})
	}
	if err == nil && len(c.New)+len(c.Worse)+len(c.Better)+len(c.Gone)+len(c.Shifts) > 0 {
		err = cli.ErrFindings
	}
	return err
}

// collectLess has the garbage collector run less often than by default, unless the environment has a say: an analysis
// makes much garbage beside the little that it keeps, and a third of its time would go into looking for it. Half a
// gibibyte is what a long trace may take.
func collectLess() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(448 << 20)
	}
}
