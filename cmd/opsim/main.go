// Command opsim replays a recorded operator and says what went wrong: see the packages replay and analysis.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/opreplay/opreplay/cmd/opsim/internal/standin"
	"github.com/opreplay/opreplay/internal/cli"
)

func main() {
	if cmd := standin.For(os.Args[0]); cmd != nil {
		cli.Main(cmd)
	}
	cli.Main(newRootCmd())
}

func newRootCmd() *cobra.Command {
	root := &cobra.Command{
		Use:   "opsim",
		Short: "Replay a recorded Kubernetes operator, alter its timings, name the fault",
		Long: `opsim plays a trace back against the operator's own unmodified binary: a simulated cluster whose API
server is the real one's code, with the recorded outsiders, and the timings that a plan asks for. Its
analysis says from a recorded or a simulated trace what went wrong, and why.

Exit codes: 0 fine; 1 findings or differences; 2 usage or bad input; 3 could not run.`,
		Example: `  # see it work: three recorded faults, replayed and named
  opsim demo

  # what went wrong in a recording? what led to an object as it is?
  opsim analyze t.optrace
  opsim why t.optrace sites.web.example.com/shop/front

  # run the same operator through it again, here
  opsim replay t.optrace --operator './manager --metrics-bind-address=0'`,
	}
	root.AddCommand(
		newDemoCmd(),
		newReplayCmd(),
		newExploreCmd(),
		newShrinkCmd(),
		newTestCmd(),
		newVerifyCmd(),
		newAnalyzeCmd(),
		newWhyCmd(),
		newReportCmd(),
		newExportCmd(),
		newServeCmd(),
		newVersionCmd(),
	)
	return root
}

func newVersionCmd() *cobra.Command { return cli.NewVersionCmd("opsim") }
