package main

import (
	"github.com/spf13/cobra"

	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/recorder"
)

func newRunCmd() *cobra.Command {
	var o recorder.RunOptions
	var access recorder.Access
	cmd := &cobra.Command{
		Use:   "run --out TRACE [flags] [--] COMMAND [ARGUMENT…]",
		Short: "Run an operator locally and record all that it sees, does and logs",
		Long: `run starts the operator with KUBECONFIG set to a recording proxy, and records its API calls, what its
watches deliver, its log, and with them every change in the cluster, as oprec capture does. It ends when
the operator ends, at ^C or after --duration; the operator is asked by SIGTERM and killed after --grace.

Exit code 0: the operator ended well, or was ended by ^C or --duration; 1: it failed, that is, it ended by a
signal or with another exit code than 0, which the last line says; the trace is whole all the same. 2 and 3
are oprec's own: bad usage, or the recording could not take place.

Where it may (Linux on amd64, root or CAP_BPF and CAP_PERFMON), run looks at the operator from the kernel too: which
reconcile made a call and from which line, why each reconcile ran, and where processor time went. It needs no change
to the operator's binary, which must be a Go program.

What follows the command is the operator's own: flags of oprec's stand before it. The -- between them may be left out.

{kubeconfig} in an argument stands for the proxy's kubeconfig, for operators that do not read KUBECONFIG.`,
		Example: `  # until ^C
  oprec run --out t.optrace -- ./manager --metrics-bind-address=0

  # as the operator's own service account, for two minutes
  oprec run --out t.optrace --as system:serviceaccount:shop:shop-operator --duration 2m -- ./manager

  # with its own metrics, every five seconds
  oprec run --out t.optrace --scrape http://127.0.0.1:8080/metrics --scrape-interval 5s -- ./manager --metrics-bind-address=127.0.0.1:8080

  # an operator that takes the file by a flag
  oprec run --out t.optrace -- ./operator --config={kubeconfig}`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Command = args
			for _, name := range []string{"hz", "kernel-events", "read-loop-rate", "read-loop-hold"} {
				if o.EBPF == recorder.EBPFOff && cmd.Flags().Changed(name) {
					return cli.Usagef("--%s does nothing with --ebpf off", name)
				}
			}
			if err := checkScrape(cmd, &o.Scrape); err != nil {
				return err
			}
			if err := prepare(cmd, &o.Options, access); err != nil {
				return err
			}
			o.Stdout, o.Stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
			r, err := recorder.Run(cmd.Context(), o)
			if err = finish(cmd.ErrOrStderr(), r, err); err == nil && r.Failed() {
				err = cli.ErrFindings // the summary says how it ended
			}
			return err
		},
	}
	recordingFlags(cmd, &o.Options, &access)
	watchFlags(cmd, &o.Options)
	f := cmd.Flags()
	f.SetInterspersed(false)
	f.StringVar(&o.Name, "name", "", "the operator's name in the trace (default: the command's base name)")
	f.DurationVar(&o.Grace, "grace", 0, "how long the operator may take to end after SIGTERM (default 10s)")
	profileFlags(cmd, &o.Options)
	scrapeFlags(cmd, &o.Scrape)
	f.StringVar((*string)(&o.EBPF), "ebpf", "auto", "look at the operator from the kernel: auto (where possible), on (else fail), off")
	f.BoolVar(&o.NoCapture, "no-capture", false, "record the operator's own calls and watches alone")
	return cmd
}
