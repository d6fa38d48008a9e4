package main

import (
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/opreplay/opreplay/cmd/opsim/internal/demo"
	"github.com/opreplay/opreplay/internal/cli"
)

func newDemoCmd() *cobra.Command {
	var o demo.Options
	var form string
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Replay three recorded faults, name them, and show that the mended twins have none",
		Long: `demo replays the bundled traces, which were recorded from small faulty operators on a real API server,
against the same operators and against their mended twins, and analyses the runs. It needs the operators'
binaries ('make build' puts them beside opsim, in zoo/), no cluster, no root and no network, and takes
less than a minute.

The operators are in examples/operators, each with what is wrong with it.`,
		Example: `  opsim demo

  # keep the runs' traces in a folder of your choice
  opsim demo --out runs && opsim analyze runs/statusrace-faulty.optrace`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := complete(&o); err != nil {
				return err
			}
			line := cli.NewProgress(cmd.ErrOrStderr())
			o.Progress = line.Set
			report, err := demo.Play(cmd.Context(), o)
			line.Done()
			if err != nil {
				return err
			}
			if form == "json" {
				encoder := json.NewEncoder(cmd.OutOrStdout())
				encoder.SetIndent("", "  ")
				err = encoder.Encode(report)
			} else {
				err = report.Text(cmd.OutOrStdout())
			}
			if err == nil && !report.AsExpected {
				err = cli.ErrFindings
			}
			return err
		},
	}
	cmd.Flags().StringVar(&o.Zoo, "zoo", "", "folder of the operators' binaries (default: zoo beside opsim)")
	cmd.Flags().StringVar(&o.Out, "out", "", "new folder for the runs' traces (default: a temporary one, which stays)")
	cmd.Flags().IntVar(&o.Parallel, "parallel", 0, "runs at a time (default: all)")
	cli.OutputFlag(cmd, &form, "text", "json")
	return cmd
}

// complete fills in what the flags left open.
func complete(o *demo.Options) (err error) {
	if o.Parallel < 0 {
		return cli.Usagef("--parallel %d: want a number from 1, or 0 for all", o.Parallel)
	}
	if o.Opsim, err = os.Executable(); err != nil {
		return cli.CannotRun(err)
	}
	if o.Zoo == "" {
		o.Zoo = filepath.Join(filepath.Dir(o.Opsim), "zoo")
	}
	if o.Out == "" {
		o.Out, err = os.MkdirTemp("", "opsim-demo-")
		return cli.CannotRun(err)
	}
	if entries, err := os.ReadDir(o.Out); err == nil && len(entries) > 0 {
		return cli.Usagef("folder %s is not empty: name a new one with --out", o.Out)
	}
	if err := os.MkdirAll(o.Out, 0o700); err != nil {
		return cli.Usagef("--out: %w", err)
	}
	return nil
}
