package standin

import (
	"context"
	"crypto"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/token/tokenfile"
	"k8s.io/client-go/util/keyutil"

	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/sim/apiserver"
	"github.com/opreplay/opreplay/sim/serve"
)

// apiServerFlags are the flags of kube-apiserver that have an effect here, with its defaults but for
// --bind-address.
type apiServerFlags struct {
	bind      string
	port      int
	files     serve.Files
	tokens    string
	cidr      string
	authorize []string
	issuers   []string
	keys      []string
	signer    string
	version   bool
}

func newAPIServerCmd() *cobra.Command {
	f := apiServerFlags{}
	cmd := &cobra.Command{
		Use:   "kube-apiserver",
		Short: "Stand in for kube-apiserver, for envtest",
		Long: `This kube-apiserver is opsim: the API server's real handlers over a store in memory, for tests. It takes the flags
of kube-apiserver; those that are not listed here have no effect, which is said on standard error. Its objects end
with it.`,
		Example: "  KUBEBUILDER_ASSETS=DIR go test ./...",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.version {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), "Kubernetes", apiserver.DefaultVersion)
				return err
			}
			noEffect(cmd)
			return f.run(cmd.Context())
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.bind, "bind-address", "127.0.0.1", "address to listen on; kube-apiserver's own default is every one of this machine")
	fl.IntVar(&f.port, "secure-port", 6443, "port to listen on")
	fl.StringVar(&f.files.Dir, "cert-dir", "/var/run/kubernetes", "folder of apiserver.crt and apiserver.key, which are made if need be")
	fl.StringVar(&f.files.Cert, "tls-cert-file", "", "the server's certificate")
	fl.StringVar(&f.files.Key, "tls-private-key-file", "", "and its key")
	fl.StringVar(&f.files.ClientCA, "client-ca-file", "", "authority of client certificates")
	fl.StringVar(&f.tokens, "token-auth-file", "", "static tokens, as token,user,uid,\"group,group\"")
	fl.BoolVar(&f.files.Anonymous, "anonymous-auth", true, "take who shows nothing for system:anonymous")
	fl.StringSliceVar(&f.authorize, "authorization-mode", []string{"AlwaysAllow"}, "RBAC: what roles and bindings allow; anything else: everything is allowed")
	fl.StringSliceVar(&f.issuers, "service-account-issuer", nil, "who issues service account tokens")
	fl.StringSliceVar(&f.keys, "service-account-key-file", nil, "public keys of service account tokens")
	fl.StringVar(&f.signer, "service-account-signing-key-file", "", "private key of service account tokens")
	fl.StringVar(&f.cidr, "service-cluster-ip-range", "", "range of the addresses of Services, or one of each family")
	fl.BoolVar(&f.version, "version", false, "print the version of Kubernetes")
	ignored(cmd, "etcd", "etcd-servers")
	ignored(cmd, "other server to be known to", "advertise-address")
	ignored(cmd, "kubelet", "allow-privileged")
	tolerant(cmd)
	return cmd
}

func (f *apiServerFlags) run(ctx context.Context) error {
	address := net.JoinHostPort(f.bind, strconv.Itoa(f.port))
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return cli.CannotRun(fmt.Errorf("listen at %s: %w", address, err))
	}
	defer l.Close() //nolint:errcheck // closed already when it was served
	tokens, err := f.issue()
	if err != nil {
		return err
	}
	server, err := apiserver.New(ctx, apiserver.Options{
		Seed: seed(), Live: true, ServiceCIDR: f.cidr, Address: l.Addr().String(),
		Webhooks: serve.Webhooks(), Tokens: tokens, Log: os.Stderr,
		RBAC: slices.Contains(f.authorize, "RBAC"), EnableAdmission: []string{apiserver.PluginStorageProtection},
	})
	if err != nil {
		return cli.CannotRun(err)
	}
	defer server.Close()
	f.files.Host = f.bind
	f.files.Tokens = []authenticator.Token{server}
	if tokens.Others != nil {
		f.files.Tokens = append(f.files.Tokens, tokens.Others)
	}
	access, err := serve.FilesAccess(f.files)
	if err != nil {
		return cli.CannotRun(err)
	}
	front, err := serve.Start(server, l, serve.Options{Access: access, Nodes: true})
	if err != nil {
		return cli.CannotRun(err)
	}
	<-ctx.Done()
	front.Stop()
	return nil
}

// issue reads the files of tokens and their keys.
func (f *apiServerFlags) issue() (t apiserver.Tokens, err error) {
	if len(f.issuers) > 0 {
		t.Issuer = f.issuers[0]
	}
	if f.signer != "" {
		key, err := keyutil.PrivateKeyFromFile(f.signer)
		if err != nil {
			return t, cli.Usagef("--service-account-signing-key-file: %w", err)
		}
		signer, ok := key.(crypto.Signer)
		if !ok {
			return t, cli.Usagef("--service-account-signing-key-file %s: a %T cannot sign", f.signer, key)
		}
		t.Signer = signer
	}
	for _, file := range f.keys {
		keys, err := keyutil.PublicKeysFromFile(file)
		if err != nil {
			return t, cli.Usagef("--service-account-key-file: %w", err)
		}
		t.Keys = append(t.Keys, keys...)
	}
	if f.tokens == "" {
		return t, nil
	}
	known, err := tokenfile.NewCSV(f.tokens)
	if err != nil {
		return t, cli.Usagef("--token-auth-file: %w", err)
	}
	t.Others = known
	return t, nil
}

// seed makes the uids of each start others.
func seed() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // crypto/rand does not fail
	return binary.BigEndian.Uint64(b[:])
}
