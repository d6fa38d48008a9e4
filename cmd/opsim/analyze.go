package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/opreplay/opreplay/analysis"
	"github.com/opreplay/opreplay/analysis/report"
	"github.com/opreplay/opreplay/internal/cli"
)

func newAnalyzeCmd() *cobra.Command {
	var output string
	var names []string
	var notes bool
	cmd := &cobra.Command{
		Use:   "analyze TRACE",
		Short: "Say what went wrong in a trace, why, and how sure that is",
		Long: `Analyze reads a recorded or simulated trace once and reports the faults in it, the worst first: what
happens, why, which object and process, how sure it is, and where in the trace to look. It needs neither a
cluster nor the operator's binary.

The detectors are ` + strings.Join(analysis.Names(), ", ") + `; docs/findings has a page for each.

Exit code 1 means that there are findings, 0 that there are none.`,
		Example: `  opsim analyze run.optrace
  opsim analyze run.optrace -o json

  # for an issue, for code scanning, for CI, for the log of a GitHub workflow
  opsim analyze run.optrace -o markdown
  opsim analyze run.optrace -o sarif > opsim.sarif
  opsim analyze run.optrace -o junit > opsim.xml
  opsim analyze run.optrace -o github

  opsim analyze run.optrace --detector self-loop,churn --notes`,
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
	progress := cli.NewProgress(cmd.ErrOrStderr())
	o.Progress = func(n int64) { progress.Set("analyzing %s: %d records", dir, n) }
	result, err := analysis.Analyze(cmd.Context(), trace, o)
	progress.Done()
	return result, err
}
