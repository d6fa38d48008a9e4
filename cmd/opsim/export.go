package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/opreplay/opreplay/analysis/report/export"
	"github.com/opreplay/opreplay/internal/cli"
)

func newExportCmd() *cobra.Command {
	var to, out string
	cmd := &cobra.Command{
		Use:   "export TRACE --to pprof",
		Short: "Turn a trace's stack samples into a profile that pprof opens",
		Long: `Export writes what a trace holds in a form that another tool reads. The form pprof is the stack samples of a
recording, with labels controller, key (namespace/name) and process for the reconcile that each was taken in.`,
		Example: `  opsim export t.optrace --to pprof --out t.pb.gz
  go tool pprof -top t.pb.gz

  # of one key alone; by reconciler
  go tool pprof -top -tagfocus key=shop/cart t.pb.gz
  go tool pprof -tags t.pb.gz`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if to != "pprof" {
				return cli.Usagef("--to %s: want pprof", to)
			}
			t, err := openTrace(cmd, args[0])
			if err != nil {
				return err
			}
			defer t.Close() //nolint:errcheck // only read
			var b bytes.Buffer
			periods, err := export.Pprof(cmd.Context(), t, &b)
			if err != nil {
				return cli.Usagef("%s: %w", args[0], err)
			}
			if out == "" {
				out = strings.TrimSuffix(filepath.Base(filepath.Clean(args[0])), ".optrace") + ".pb.gz"
			}
			if err := os.WriteFile(out, b.Bytes(), 0o600); err != nil {
				return cli.Usagef("--out %w", err)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d samples in %s; see them with\n  go tool pprof -http=: %s\n", periods, out, out)
			return err
		},
	}
	cmd.Flags().StringVar(&to, "to", "pprof", "the form: pprof")
	cmd.Flags().StringVar(&out, "out", "", "file to write (default: the trace's name with .pb.gz, in this folder)")
	_ = cmd.MarkFlagFilename("out")
	return cmd
}
