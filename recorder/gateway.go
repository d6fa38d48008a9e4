package recorder

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/opreplay/opreplay/internal/apicall"
	"github.com/opreplay/opreplay/internal/cli"
)

// gateway is the listening half of the recording proxy: loopback HTTP in, the cluster with the caller's
// credentials out, a Tap between.
type gateway struct {
	url    string
	server *http.Server
	cancel context.CancelFunc // ends the calls under way
	calls  sync.WaitGroup
}

// openGateway listens on ADDRESS and serves until close. With a token, only who calls paths below it is
// let in: a kubeconfig's server may have a path, while client-go keeps a bearer token to itself when the
// server has no TLS (clientcmd.ClientConfig), and TLS would cost both ends for nothing on loopback. Some calls
// lose the path (kubectl get --raw, whatever uses rest.Request.RequestURI): they may bring the token as the
// password of the URL, which Go's clients send.
func openGateway(c *cluster, address, token string, tap *apicall.Tap) (*gateway, error) {
	proxy, err := reverseProxy(c.config)
	if err != nil {
		return nil, err
	}
	if err := onLoopback("--listen", address, lends); err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, cli.Usagef("--listen %s: %w", address, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	g := &gateway{url: "http://" + listener.Addr().String() + prefix(token), cancel: cancel}
	handler := tap.Handler(proxy)
	g.server = &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			g.calls.Add(1)
			defer g.calls.Done()
			inner, ok := admit(r, token)
			if !ok {
				refuse(w, http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "this recording proxy takes only calls by the kubeconfig that it wrote")
				return
			}
			handler.ServeHTTP(w, inner)
		}),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: time.Minute,
		ErrorLog:          log.New(io.Discard, "", 0),
	}
	go func() { _ = g.server.Serve(listener) }()
	return g, nil
}

// lends is why the proxy listens on loopback only.
const lends = "the proxy lends out your credentials"

// onLoopback keeps a door that needs no password of the cluster's off the network, for the reason WHY.
func onLoopback(flag, address, why string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return cli.Usagef("%s %s: want HOST:PORT, such as 127.0.0.1:0", flag, address)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return cli.Usagef("%s %s: %s, so that this listens on loopback only, such as 127.0.0.1:0", flag, address, why)
	}
	return nil
}

// prefix is the path below which the API is served; "" for an open proxy.
func prefix(token string) string {
	if token == "" {
		return ""
	}
	return "/" + token
}

// address is that for a kubeconfig.
func (g *gateway) address(token string) string {
	if token == "" {
		return g.url
	}
	return strings.Replace(g.url, "http://", "http://"+gatewayUser+":"+token+"@", 1)
}

// gatewayUser is the user of the URL whose password is the token.
const gatewayUser = "oprec"

// admit checks the token and takes it off the path. Against DNS rebinding from a browser it checks that
// the caller meant this machine. The caller's own credentials will take the place of any that came.
func admit(r *http.Request, token string) (*http.Request, bool) {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if ip := net.ParseIP(strings.Trim(host, "[]")); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, false
	}
	inner := r.Clone(r.Context())
	inner.Header.Del("Authorization")
	want := prefix(token)
	switch {
	case len(r.URL.Path) >= len(want) && same(r.URL.Path[:len(want)], want):
		inner.URL.Path = r.URL.Path[len(want):]
		inner.URL.RawPath = strings.TrimPrefix(r.URL.RawPath, want)
	default:
		if user, password, ok := r.BasicAuth(); !ok || user != gatewayUser || !same(password, token) {
			return nil, false
		}
	}
	if inner.URL.Path == "" {
		inner.URL.Path = "/"
	}
	return inner, inner.URL.Path[0] == '/'
}

// same compares without telling by its time where two texts part.
func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// refuse answers with a Status, the form in which API clients expect errors.
func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: "oprec: " + message,
	})
}

// reverseProxy passes calls to the cluster of the config. Every write is flushed at once: there are
// watches among them.
func reverseProxy(config *rest.Config) (http.Handler, error) {
	target, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, cli.Usagef("the kubeconfig's server: %w", err)
	}
	transport, err := newTransport(config)
	if err != nil {
		return nil, cli.Usagef("the kubeconfig's credentials: %w", err)
	}
	return &httputil.ReverseProxy{
		Transport:     transport,
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: target.Scheme, Host: target.Host, Path: strings.TrimSuffix(target.Path, "/")})
			r.Out.Host = target.Host
			r.Out.URL.RawQuery = r.In.URL.RawQuery // as it came, not as Go would write it
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() != nil {
				return // nobody is there to be answered
			}
			refuse(w, http.StatusBadGateway, metav1.StatusReasonServiceUnavailable, "the API server does not answer: "+root(err).Error())
		},
	}, nil
}

// transport carries upgrades over HTTP/1.1, for HTTP/2 has none.
type transport struct{ plain, upgrade http.RoundTripper }

func newTransport(config *rest.Config) (*transport, error) {
	plain, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.NextProtos = []string{"http/1.1"}
	upgrade, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	return &transport{plain, upgrade}, nil
}

func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("Upgrade") != "" {
		return t.upgrade.RoundTrip(r)
	}
	return t.plain.RoundTrip(r)
}

// closeTimeout is how long calls under way may take to notice that the proxy ends.
const closeTimeout = 5 * time.Second

// close ends listening and all calls, and returns when their rows are appended.
func (g *gateway) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	g.cancel()
	if err := g.server.Shutdown(ctx); err != nil {
		_ = g.server.Close()
	}
	ended := make(chan struct{})
	go func() {
		g.calls.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return errors.New("calls through the proxy did not end; their rows are missing")
	}
}
