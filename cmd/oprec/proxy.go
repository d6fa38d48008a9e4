package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/opreplay/opreplay/recorder"
)

func newProxyCmd() *cobra.Command {
	var o recorder.ProxyOptions
	var access recorder.Access
	cmd := &cobra.Command{
		Use:   "proxy --out TRACE",
		Short: "Record every API call of whoever uses its kubeconfig",
		Long: `proxy listens on loopback, writes a kubeconfig that leads to it, and passes every call on to the
cluster with your credentials. Calls, answers and watch deliveries are written to the trace; exec and
port-forward pass through.

The kubeconfig's server has a secret path, without which the proxy lets nobody in; with --open it has none.`,
		Example: `  # a debugger starts the operator: record what it does
  oprec proxy --out t.optrace --write-kubeconfig /tmp/recorded.kubeconfig
  KUBECONFIG=/tmp/recorded.kubeconfig dlv debug ./cmd/manager

  # the cluster's other changes too
  oprec proxy --out t.optrace --capture`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := prepare(cmd, &o.Options, access); err != nil {
				return err
			}
			stdout := cmd.OutOrStdout()
			o.Ready = func(e recorder.Endpoint) {
				_, _ = fmt.Fprintf(stdout, "recording at %s; use it with\n  export KUBECONFIG=%s\n", e.URL, e.Kubeconfig)
			}
			r, err := recorder.Proxy(cmd.Context(), o)
			return finish(stdout, r, err)
		},
	}
	recordingFlags(cmd, &o.Options, &access)
	watchFlags(cmd, &o.Options)
	f := cmd.Flags()
	f.StringVar(&o.Listen, "listen", "127.0.0.1:0", "loopback address; port 0 takes a free one")
	f.StringVar(&o.Kubeconfig, "write-kubeconfig", "", "where to write the kubeconfig for clients (default: a temporary file)")
	f.StringVar(&o.Name, "name", "", "process name of all calls (default: each client's own, from its User-Agent)")
	f.BoolVar(&o.Open, "open", false, "serve without a secret path: to every user of this machine")
	f.BoolVar(&o.Capture, "capture", false, "watch the cluster too, as oprec capture does")
	return cmd
}
