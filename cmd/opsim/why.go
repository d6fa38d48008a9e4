package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/opreplay/opreplay/analysis/causal"
	"github.com/opreplay/opreplay/analysis/report"
	"github.com/opreplay/opreplay/internal/cli"
)

func newWhyCmd() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "why TRACE OBJECT[@RV]",
		Short: "Say what led to a version of an object, step by step",
		Long: `Why follows a version of an object back to what began it: the write that made it, the line of code and the
reconcile of that write, the event that queued the reconcile, the version that the event told of, and so on. Each step
says whether the trace has it recorded or how it was inferred, and how sure that is.

OBJECT is RESOURCE[.GROUP]/[NAMESPACE/]NAME, or as findings print it; without @RV it is the newest version in the trace.
seq:N stands for the row of that number, as evidence of findings names rows.`,
		Example: `  opsim why run.optrace sites.web.example.com/shop/front
  opsim why run.optrace 'sites.web.example.com shop/front@1012'
  opsim why run.optrace seq:221 -o json`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			target, err := causal.ParseTarget(args[1])
			if err != nil {
				return cli.Usagef("OBJECT %w", err)
			}
			trace, err := openTrace(cmd, args[0])
			if err != nil {
				return err
			}
			defer func() { _ = trace.Close() }()
			chain, err := causal.Why(cmd.Context(), trace, target)
			if missing, ok := errors.AsType[*causal.NotFoundError](err); ok {
				return cli.Usagef("%w; see oprec inspect for what there is", missing)
			}
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if output == "json" {
				return report.WhyJSON(out, chain)
			}
			return report.Why(out, chain, report.Options{Color: report.Terminal(out)})
		},
	}
	cli.OutputFlag(cmd, &output, "text", "json")
	return cmd
}
