package standin

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/opreplay/opreplay/internal/cli"
)

// etcdFlags are those that envtest sets, with the defaults of etcd.
type etcdFlags struct {
	listen  []string
	version bool
}

func newEtcdCmd() *cobra.Command {
	f := etcdFlags{}
	cmd := &cobra.Command{
		Use:   "etcd",
		Short: "Stand in for etcd: answer health checks",
		Long: `This etcd is opsim. It answers the health checks of envtest and stores nothing: the API server of the same
folder keeps its objects itself.`,
		Example: "  KUBEBUILDER_ASSETS=DIR go test ./...",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.version {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), "etcd Version: opsim")
				return err
			}
			noEffect(cmd)
			return f.run(cmd.Context())
		},
	}
	fl := cmd.Flags()
	fl.StringSliceVar(&f.listen, "listen-client-urls", []string{"http://localhost:2379"}, "where to answer /health")
	fl.BoolVar(&f.version, "version", false, "say that this is opsim")
	ignored(cmd, "etcd's data", "advertise-client-urls", "listen-peer-urls", "initial-advertise-peer-urls", "initial-cluster",
		"data-dir", "name", "log-level", "logger", "quota-backend-bytes", "snapshot-count")
	fl.Bool("unsafe-no-fsync", false, "without effect: nothing is stored")
	tolerant(cmd)
	return cmd
}

func (f *etcdFlags) run(ctx context.Context) error {
	mux := http.NewServeMux()
	mux.HandleFunc("/health", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"health":"true","reason":""}`)
	})
	mux.HandleFunc("/version", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"etcdserver":"opsim","etcdcluster":"opsim"}`)
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	defer server.Close() //nolint:errcheck // closes what it listens on
	failed := make(chan error, len(f.listen))
	for _, u := range f.listen {
		l, err := listen(ctx, u)
		if err != nil {
			return err
		}
		go func() { failed <- server.Serve(l) }()
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return cli.CannotRun(err)
	}
}

// listen listens at a URL as etcd takes them.
func listen(ctx context.Context, text string) (net.Listener, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, cli.Usagef("--listen-client-urls: %w", err)
	}
	network, address := "tcp", u.Host
	switch u.Scheme {
	case "http":
	case "unix":
		network, address = "unix", strings.TrimPrefix(text, "unix://")
	default:
		return nil, cli.Usagef("--listen-client-urls %s: want http://HOST:PORT", text)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, network, address)
	if err != nil {
		return nil, cli.CannotRun(fmt.Errorf("listen at %s: %w", text, err))
	}
	return l, nil
}
