// Command peers runs controller-runtime's own specs on a real API server and on ours: `make peers`.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/internal/livecluster"
	"github.com/opreplay/opreplay/internal/peers"
)

func main() { cli.Main(newRootCmd()) }

type flags struct {
	opsim, dir string
	packages   []string
	oursOnly   bool
}

func newRootCmd() *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "peers",
		Short: "Run controller-runtime's own specs on a real API server and on opsim's",
		Long: `peers builds the test suites of controller-runtime from its module, unmodified, and has them start etcd and
kube-apiserver by envtest: first the real ones, then opsim's stand-ins. It prints both columns, package by package.

Exit code 1 means that a spec passes on the real API server and fails on ours; its name is printed.`,
		Example: `  go run ./internal/peers/cmd/peers --opsim bin/opsim
  go run ./internal/peers/cmd/peers --opsim bin/opsim --package pkg/client --ours-only`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.opsim, "opsim", "bin/opsim", "the opsim to test")
	fl.StringVar(&f.dir, "dir", "", "new folder for the copy, the programs and the logs (default: a temporary one, which stays if a spec is lost)")
	fl.StringSliceVar(&f.packages, "package", peers.ControllerRuntime.Packages, "packages whose suites to run")
	fl.BoolVar(&f.oursOnly, "ours-only", false, "do not run them on the real API server")
	return cmd
}

func (f *flags) run(cmd *cobra.Command) error {
	ctx := cmd.Context()
	dir := f.dir
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "opreplay-peers-"); err != nil {
			return cli.CannotRun(err)
		}
	}
	began := time.Now()
	say := func(format string, args ...any) {
		_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "%6.0f s  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
	}
	module := peers.ControllerRuntime
	module.Packages = f.packages
	suites, err := peers.Build(ctx, module, dir, say)
	if err != nil {
		return cli.CannotRun(err)
	}
	var real []peers.Result
	if !f.oursOnly {
		assets, err := realAssets(ctx, dir, say)
		if err != nil {
			return cli.CannotRun(err)
		}
		if real, err = suites.Run(ctx, "real", assets, say); err != nil {
			return cli.CannotRun(err)
		}
	}
	assets, err := ourAssets(ctx, dir, f.opsim)
	if err != nil {
		return cli.CannotRun(err)
	}
	ours, err := suites.Run(ctx, "ours", assets, say)
	if err != nil {
		return cli.CannotRun(err)
	}
	return f.report(cmd.OutOrStdout(), suites, dir, real, ours)
}

// realAssets are the real etcd, kube-apiserver and kubectl.
func realAssets(ctx context.Context, dir string, say peers.Progress) (string, error) {
	assets := filepath.Join(dir, "real-assets")
	if err := os.MkdirAll(assets, 0o700); err != nil {
		return "", err
	}
	found, err := livecluster.Binaries(ctx, say, livecluster.Etcd, livecluster.APIServer, livecluster.Kubectl)
	if err != nil {
		return "", err
	}
	for name, path := range found {
		if err := os.Symlink(path, filepath.Join(assets, name)); err != nil {
			return "", err
		}
	}
	return assets, nil
}

// ourAssets are opsim's stand-ins.
func ourAssets(ctx context.Context, dir, opsim string) (string, error) {
	opsim, err := filepath.Abs(opsim)
	if err != nil {
		return "", err
	}
	assets := filepath.Join(dir, "our-assets")
	out, err := exec.CommandContext(ctx, opsim, "serve", "--assets", assets).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s serve --assets: %w: %s", opsim, err, out)
	}
	return assets, nil
}

func (f *flags) report(w io.Writer, suites *peers.Suites, dir string, real, ours []peers.Result) error {
	_, _ = fmt.Fprintf(w, "%s %s, its own specs\n\n", suites.Path, suites.Version)
	if err := peers.Table(w, real, ours); err != nil {
		return err
	}
	for _, d := range peers.Lost(ours, real) {
		if !f.oursOnly {
			_, _ = fmt.Fprintf(w, "\nfails on the real API server and passes on ours: %s: %s (%s)\n", d.Package, d.Spec, d.Log)
		}
	}
	lost := slices.DeleteFunc(peers.Lost(real, ours), func(d peers.Difference) bool {
		why := peers.Race(d)
		if why != "" {
			_, _ = fmt.Fprintf(w, "\npasses on the real API server and lost a race on ours: %s: %s: %s (%s)\n", d.Package, d.Spec, why, d.Log)
		}
		return why != ""
	})
	for _, d := range lost {
		_, _ = fmt.Fprintf(w, "\npasses on the real API server and FAILS on ours: %s: %s (%s)\n", d.Package, d.Spec, d.Log)
	}
	failed := slices.ContainsFunc(ours, func(r peers.Result) bool { return r.Count(peers.Failed) > 0 || r.Error != "" })
	if len(lost) > 0 || f.oursOnly && failed {
		return cli.ErrFindings
	}
	if f.dir == "" && !failed {
		return os.RemoveAll(dir)
	}
	return nil
}
