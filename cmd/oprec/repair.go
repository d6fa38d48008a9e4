package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/traces"
)

func newRepairCmd() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "repair TRACE",
		Short: "Complete the trace of a recording that was killed",
		Long: `repair takes what a recording that was killed (SIGKILL, a power cut, no memory) had written to its journal,
makes files of it, and states in the trace that its end is missing: at most what came in the last tenth of a
second. The trace is then sound. It may be interrupted and run again; a trace that was closed in order stays
as it is, and one that is still being recorded is refused.`,
		Example: `  oprec repair t.optrace && oprec verify t.optrace`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			done, err := traces.Repair(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if output == "json" {
				enc := json.NewEncoder(cmd.OutOrStdout())
				enc.SetIndent("", "  ")
				return enc.Encode(done)
			}
			switch {
			case done.Untouched:
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: it was closed in order, there is nothing to repair\n", args[0])
			case done.Torn > 0:
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: repaired, %d rows came back from its journal; its last %d bytes were written in part\n", args[0], done.Rows, done.Torn)
			default:
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: repaired, %d rows came back from its journal\n", args[0], done.Rows)
			}
			return err
		},
	}
	cli.OutputFlag(cmd, &output, "text", "json")
	return cmd
}
