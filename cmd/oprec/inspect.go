package main

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/traces"
	"github.com/opreplay/opreplay/traces/inspect"
)

func newInspectCmd() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "inspect TRACE",
		Short: "Say what a trace holds: span, objects, callers, rates, sizes, losses",
		Long: `inspect sums up a trace: how and where it was made, what span it covers and what is known to be missing,
watch events and writes over time, the busiest resources, and who called the API server how often.

It counts and does not judge: "opsim analyze" says what is wrong with the operator, "oprec verify"
whether the trace's files are sound.`,
		Example: `  oprec inspect t.optrace

  # the ten busiest callers, for a script
  oprec inspect t.optrace -o json | jq '.callers[:10]'`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := traces.Open(args[0])
			if err != nil {
				return err
			}
			defer t.Close() //nolint:errcheck // only read
			s, err := inspect.Summarize(cmd.Context(), t)
			if err != nil {
				return err
			}
			if output == "json" {
				enc := json.NewEncoder(cmd.OutOrStdout())
				enc.SetIndent("", "  ")
				return enc.Encode(s)
			}
			return inspect.Text(cmd.OutOrStdout(), s)
		},
	}
	cli.OutputFlag(cmd, &output, "text", "json")
	return cmd
}
