// Command oprec records a live Kubernetes operator into a trace: see the package recorder.
package main

import (
	"github.com/spf13/cobra"

	"github.com/opreplay/opreplay/internal/cli"
)

func main() { cli.Main(newRootCmd()) }

func newRootCmd() *cobra.Command {
	root := &cobra.Command{
		Use:   "oprec",
		Short: "Record a Kubernetes operator: what it saw, what it did, where its time went",
		Long: `oprec records a live Kubernetes operator into a trace, a folder of Parquet tables: every watch event
that it could see, every API call that it made, every line that it logged. opsim plays a trace back
and says what went wrong.

Exit codes: 0 fine; 1 findings or differences; 2 usage or bad input; 3 could not run.`,
		Example: `  # run an operator locally and record all that it does until ^C
  oprec run --out t.optrace -- ./manager --metrics-bind-address=0

  # record everything that changes in a cluster for five minutes
  oprec capture --out t.optrace --duration 5m

  # what is in it?
  oprec inspect t.optrace`,
	}
	root.AddCommand(
		newRunCmd(),
		newCaptureCmd(),
		newProxyCmd(),
		newInspectCmd(),
		newVerifyCmd(),
		newRepairCmd(),
		newVersionCmd(),
	)
	return root
}

func newVersionCmd() *cobra.Command { return cli.NewVersionCmd("oprec") }
