package main

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/opreplay/opreplay/cmd/opsim/internal/standin"
	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/replay"
	"github.com/opreplay/opreplay/sim/apiserver"
	"github.com/opreplay/opreplay/sim/serve"
)

// serveFlags are the flags of opsim serve.
type serveFlags struct {
	at, listen, kubeconfig, assets, output, version string
	writable                                        bool
}

func newServeCmd() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve [TRACE]",
		Short: "Let kubectl and any client look at a recorded cluster as it was, or work on a live one",
		Long: `serve starts an API server with the cluster of a trace as it was at one moment, on loopback, until ^C. It cannot
be changed, but it answers everything that an API server can be asked without changing: get, describe, watch,
explain, auth can-i, and what would happen (diff, --dry-run=server).

With --writable the world is live: it begins with the trace's cluster, or empty without a TRACE, and is then
anybody's who has the kubeconfig. Its time is the wall clock; admission webhooks are called. There are no
controllers, no scheduler and no nodes. Nothing is kept when it ends.

With --assets DIR nothing is served: DIR gets programs that stand in for the kube-apiserver and etcd that envtest
starts, so that other people's test suites run on this API server.`,
		Example: `  # the cluster at the end of a recording, and half a minute after its beginning
  opsim serve t.optrace
  opsim serve t.optrace --at 30s

  # as it was when row 4711, of which a finding speaks, had been written
  opsim serve t.optrace --at 4711 --kubeconfig past.kubeconfig
  kubectl --kubeconfig past.kubeconfig get pods -A

  # an empty API server to try things on
  opsim serve --writable

  # somebody's envtest suite
  opsim serve --assets ./assets && KUBEBUILDER_ASSETS=$PWD/assets go test ./...`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.at, "at", "", "the moment: a row number, a time as 2026-01-31T12:00:00Z, or a time since the trace's beginning as 90s (default: its end)")
	fl.BoolVar(&f.writable, "writable", false, "a live world that can be changed")
	fl.StringVar(&f.version, "kubernetes", "", "version of Kubernetes to be, as v1.20.0: an older one also serves what was removed since (default: the recorded cluster's)")
	fl.StringVar(&f.listen, "listen", "127.0.0.1:0", "address to listen on; one that is not on the loopback interface lets others reach the cluster")
	fl.StringVar(&f.kubeconfig, "kubeconfig", "", "new file for the kubeconfig, which goes when the serving ends (default: one in a temporary folder)")
	fl.StringVar(&f.assets, "assets", "", "put stand-ins for kube-apiserver and etcd into this folder, and serve nothing")
	cli.OutputFlag(cmd, &f.output, "text", "json")
	return cmd
}

func (f *serveFlags) run(cmd *cobra.Command, args []string) error {
	if f.assets != "" {
		if len(args) > 0 || f.at != "" || f.writable {
			return cli.Usagef("--assets writes stand-ins and serves nothing: give it no TRACE, --at or --writable")
		}
		return f.writeAssets(cmd)
	}
	if _, err := version.ParseSemantic(f.version); f.version != "" && err != nil {
		return cli.Usagef("--kubernetes %s: want a version such as %s", f.version, apiserver.DefaultVersion)
	}
	if len(args) == 0 && !f.writable {
		return cli.Usagef("nothing to serve: name a TRACE, or have an empty world by --writable")
	}
	if len(args) == 0 && f.at != "" {
		return cli.Usagef("--at %s is a moment of a TRACE: name one", f.at)
	}
	var past *replay.Past
	o := apiserver.Options{Seed: worldSeed(), RBAC: true, Version: f.version}
	if len(args) == 1 {
		var recorded string
		var err error
		if past, recorded, err = f.read(cmd, args[0]); err != nil {
			return err
		}
		o.Version = cmp.Or(f.version, recorded)
	}
	return f.serve(cmd, args, past, o)
}

// read reads the trace's cluster.
func (f *serveFlags) read(cmd *cobra.Command, dir string) (*replay.Past, string, error) {
	trace, err := openTrace(cmd, dir)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = trace.Close() }()
	progress := cli.NewProgress(cmd.ErrOrStderr())
	progress.Set("reading %s", dir)
	past, err := replay.ReadPast(cmd.Context(), trace, f.at)
	progress.Done()
	return past, trace.Manifest().Cluster.Version, err
}

// serve serves until the command's context ends.
func (f *serveFlags) serve(cmd *cobra.Command, args []string, past *replay.Past, o apiserver.Options) error {
	ctx := cmd.Context()
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", f.listen)
	if err != nil {
		return cli.Usagef("--listen: %w", err)
	}
	defer l.Close() //nolint:errcheck // closed already when it was served
	if f.writable {
		o.Live, o.Quotas = true, true
		o.Webhooks, o.EnableAdmission = serve.Webhooks(), []string{apiserver.PluginStorageProtection}
	} else {
		o.ReadOnly = "this is the past, which cannot be changed; opsim serve --writable makes a live world of it"
		o.Clock = standing(past.Time)
	}
	o.Address = l.Addr().String()
	server, err := apiserver.New(ctx, o)
	if err != nil {
		return cli.CannotRun(err)
	}
	defer server.Close()
	if past != nil {
		if err := f.load(cmd, server, past); err != nil {
			return err
		}
	}
	host, _, _ := net.SplitHostPort(l.Addr().String())
	access, err := serve.NewAccess(host)
	if err != nil {
		return cli.CannotRun(err)
	}
	front, err := serve.Start(server, l, serve.Options{Access: access})
	if err != nil {
		return cli.CannotRun(err)
	}
	defer front.Stop()
	file, remove, err := f.writeKubeconfig(access, front.URL())
	if err != nil {
		return err
	}
	defer remove()
	if err := f.announce(cmd, args, past, front.URL(), file); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// load puts the past into the API server, and says what could not be.
func (f *serveFlags) load(cmd *cobra.Command, server *apiserver.Server, past *replay.Past) error {
	err := server.Load(cmd.Context(), past.Objects)
	if partly, ok := errors.AsType[*apiserver.LoadError](err); ok {
		_, err := fmt.Fprintf(cmd.ErrOrStderr(), "note: %s\n", partly)
		return err
	}
	if err != nil {
		return cli.CannotRun(fmt.Errorf("load the recorded cluster: %w", err))
	}
	return nil
}

// standing is a clock that stands. The API server's code wants one that lies behind the wall clock.
func standing(at time.Time) func() time.Time {
	if latest := time.Now().Add(-5 * time.Second); at.After(latest) {
		at = latest
	}
	return func() time.Time { return at.UTC() }
}

// writeKubeconfig writes it to a file that only its owner can read.
func (f *serveFlags) writeKubeconfig(access *serve.Access, url string) (file string, remove func(), err error) {
	text, err := access.Kubeconfig(url)
	if err != nil {
		return "", nil, err
	}
	if f.kubeconfig != "" {
		return f.kubeconfig, func() { _ = os.Remove(f.kubeconfig) }, writeSecret(f.kubeconfig, text)
	}
	dir, err := os.MkdirTemp("", "opsim-serve-")
	if err != nil {
		return "", nil, cli.CannotRun(err)
	}
	file, remove = filepath.Join(dir, "kubeconfig"), func() { _ = os.RemoveAll(dir) }
	if err := writeSecret(file, text); err != nil {
		remove()
		return "", nil, err
	}
	return file, remove, nil
}

// writeSecret writes a new file that only its owner can read. Of one that cannot be written whole nothing is left.
func writeSecret(file string, text []byte) error {
	out, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) //nolint:gosec // the user's own choice
	if errors.Is(err, fs.ErrExist) {
		return cli.Usagef("--kubeconfig: %s is there already: name a new file", file)
	}
	if err != nil {
		return cli.Usagef("--kubeconfig: %w", err)
	}
	_, err = out.Write(text)
	if err := errors.Join(err, out.Close()); err != nil {
		_ = os.Remove(file)
		return cli.CannotRun(err)
	}
	return nil
}

// announce says what is served, and how to get there.
func (f *serveFlags) announce(cmd *cobra.Command, args []string, past *replay.Past, url, file string) error {
	if f.output == "json" {
		said := map[string]any{"url": url, "kubeconfig": file, "writable": f.writable}
		if past != nil {
			said["trace"], said["time"], said["seq"], said["objects"] = args[0], past.Time, past.Seq, len(past.Objects)
		}
		return json.NewEncoder(cmd.OutOrStdout()).Encode(said)
	}
	what := "an empty world"
	if past != nil {
		what = args[0] + " " + past.String()
	}
	state := "read-only"
	if f.writable {
		state = "writable; nothing is kept when it ends"
	}
	_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "%s; %s\n", what, state)
	if !serve.Loopback(f.listen) {
		_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "others can reach %s; they need the kubeconfig's token\n", url)
	}
	_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "In another shell, until ^C here:\n\n")
	if whole, err := filepath.Abs(file); err == nil {
		file = whole
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "  export KUBECONFIG=%s\n", file)
	return err
}

func (f *serveFlags) writeAssets(cmd *cobra.Command) error {
	self, err := os.Executable()
	if err == nil {
		self, err = filepath.EvalSymlinks(self)
	}
	if err != nil {
		return cli.CannotRun(err)
	}
	dir, err := filepath.Abs(f.assets)
	if err != nil {
		return cli.CannotRun(err)
	}
	hasKubectl, err := standin.Write(dir, self)
	if err != nil {
		return err
	}
	if f.output == "json" {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{"assets": dir, "kubectl": hasKubectl})
	}
	if !hasKubectl {
		_, _ = fmt.Fprintln(cmd.ErrOrStderr(), "note: no kubectl on PATH, so there is none in the folder; few suites use it")
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "export KUBEBUILDER_ASSETS=%s\n", dir)
	return err
}

// worldSeed makes the uids of each world others.
func worldSeed() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // crypto/rand does not fail
	return binary.BigEndian.Uint64(b[:])
}
