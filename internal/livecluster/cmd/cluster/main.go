// Command cluster runs a real Kubernetes control plane on this machine until ^C: `make cluster`.
package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/internal/livecluster"
)

func main() { cli.Main(newRootCmd()) }

func newRootCmd() *cobra.Command {
	var (
		o         livecluster.Options
		buildOnly bool
	)
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Run etcd, kube-apiserver and, if asked for, kube-controller-manager until ^C",
		Example: `  go run ./internal/livecluster/cmd/cluster
  go run ./internal/livecluster/cmd/cluster --controllers --audit-log --dir /tmp/my-cluster
  go run ./internal/livecluster/cmd/cluster --controllers=garbage-collector-controller,namespace-controller
  go run ./internal/livecluster/cmd/cluster --build-only`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Controllers = expand(o.Controllers)
			o.Progress = func(format string, args ...any) {
				_, _ = fmt.Fprintf(cmd.ErrOrStderr(), format+"\n", args...)
			}
			if buildOnly {
				_, err := livecluster.Binaries(cmd.Context(), o.Progress, livecluster.Etcd, livecluster.APIServer,
					livecluster.ControllerManager, livecluster.Kubectl)
				return err
			}
			return run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), o)
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&o.Controllers, "controllers", nil,
		`run these controllers; without a list, those that make sense without nodes ("default")`)
	flags.Lookup("controllers").NoOptDefVal = defaultList
	flags.BoolVar(&o.AuditLog, "audit-log", false, "write an audit log with whole bodies")
	flags.StringVar(&o.AuditWebhook, "audit-webhook", "", "post audit events to this http:// URL on the loopback interface")
	flags.StringVar(&o.Dir, "dir", "", "keep data, logs and kubeconfigs in this folder (default: a temporary one)")
	flags.BoolVar(&buildOnly, "build-only", false, "find or build the binaries, and start nothing")
	return cmd
}

const defaultList = "default"

// expand puts the default controllers in the place of the word "default".
func expand(controllers []string) []string {
	var all []string
	for _, c := range controllers {
		if c == defaultList {
			all = append(all, livecluster.DefaultControllers()...)
			continue
		}
		all = append(all, c)
	}
	return all
}

func run(ctx context.Context, stdout, stderr io.Writer, o livecluster.Options) error {
	began := time.Now()
	c, err := livecluster.Up(ctx, o)
	if ctx.Err() != nil {
		return nil // ^C while it started; Up has put away what there was
	}
	if err != nil {
		return err
	}
	defer c.Stop()
	_, _ = fmt.Fprintf(stderr, "Kubernetes %s is ready after %.1f s; logs are in %s\n", c.Version(), time.Since(began).Seconds(), c.Dir())
	if o.AuditLog {
		_, _ = fmt.Fprintf(stderr, "audit log: %s\n", c.AuditLogFile())
	}
	if len(o.Controllers) > 0 {
		_, _ = fmt.Fprintf(stderr, "controllers: %s\n", strings.Join(o.Controllers, ", "))
	}
	kubectl, err := c.Kubectl()
	if err != nil {
		kubectl = livecluster.Kubectl
	}
	_, _ = fmt.Fprintf(stderr, "In another shell:\n\n")
	_, _ = fmt.Fprintf(stdout, "  export KUBECONFIG=%s\n", c.KubeconfigFile())
	_, _ = fmt.Fprintf(stderr, "  %s get namespaces\n\n^C stops it.\n", kubectl)
	err = c.Wait(ctx)
	if err == nil {
		_, _ = fmt.Fprintln(stderr, "stopping")
	}
	return err
}
