package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/traces"
)

func newVerifyCmd() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "verify TRACE",
		Short: "Check a trace to the last byte",
		Long: `verify reads everything in a trace and lists what is wrong with it, each with file and place: sizes and
SHA-256 against the manifest, columns and their types, the order and ranges of rows, sequence numbers
given twice, objects that are not JSON or differ from their hash, references that lead nowhere, files
that belong to no trace, and whether the recording was closed in order.

Exit code 0: all is well; 1: problems, listed on standard output; 2: this is no trace, or its manifest or
the size of a file is so wrong that it cannot be opened.`,
		Example: `  oprec verify t.optrace

  # in a script
  oprec verify t.optrace -o json | jq -r '.problems[].file' | sort -u`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := traces.Open(args[0])
			if err != nil {
				return err
			}
			defer t.Close() //nolint:errcheck // only read
			problems, err := t.Verify(cmd.Context())
			if err != nil {
				return err
			}
			if err := printProblems(cmd, output, t, problems); err != nil {
				return err
			}
			if len(problems) > 0 {
				return cli.ErrFindings
			}
			return nil
		},
	}
	cli.OutputFlag(cmd, &output, "text", "json")
	return cmd
}

func printProblems(cmd *cobra.Command, output string, t *traces.Trace, problems []traces.Problem) error {
	m := t.Manifest()
	if output == "json" {
		enc := json.NewEncoder(cmd.OutOrStdout())
		enc.SetIndent("", "  ")
		return enc.Encode(struct {
			Trace    string           `json:"trace"`
			Files    int              `json:"files"`
			Rows     int64            `json:"rows"`
			Problems []traces.Problem `json:"problems"`
		}{t.Dir(), len(m.Files), m.Rows(), append([]traces.Problem{}, problems...)})
	}
	for _, p := range problems {
		if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", p.File, p.Detail); err != nil {
			return err
		}
	}
	verdict := "all is well"
	if n := len(problems); n > 0 {
		verdict = fmt.Sprintf("problems: %d", n)
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: %s, %s, %s\n", t.Dir(), cli.Count(len(m.Files), "file"), cli.Count(int(m.Rows()), "row"), verdict)
	return err
}
