package conformance

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/opreplay/opreplay/internal/livecluster"
	"github.com/opreplay/opreplay/sim/apiserver"
	"github.com/opreplay/opreplay/sim/serve"
)

// lag is how far the world's clock is behind the wall clock: it must not be ahead of it.
const lag = 24 * time.Hour

// pair starts both servers; ours is asked as processes of a world ask it if door says so, and with inCBOR both
// know that form.
func pair(t *testing.T, door, inCBOR bool) *Pair {
	t.Helper()
	o := livecluster.Options{}
	if inCBOR {
		o.FeatureGates = []string{"CBORServingAndStorage=true"}
	}
	cluster := livecluster.Shared(t, o)
	config := cluster.Config()
	config.DisableCompression = true
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	real := &Server{Name: "real", URL: config.Host, Client: plain(transport), Now: time.Now}
	return &Pair{Real: real, Ours: embedded(t, door, inCBOR), Known: KnownDifferences, Webhooks: hooks(t)}
}

// hooks serves the webhooks that both servers call.
func hooks(t *testing.T) Webhooks {
	t.Helper()
	h := httptest.NewTLSServer(Hooks())
	t.Cleanup(h.Close)
	return Webhooks{URL: h.URL, CA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw})}
}

// asAdmin has requests made by the user that the live cluster's administrator is.
func asAdmin(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r.WithContext(apiserver.WithUser(r.Context(), apiserver.User{Name: "admin", Groups: []string{"system:masters"}})))
	})
}

// embedded is the API server of a simulated cluster, with TLS and HTTP/2 as the real one has, or behind the door of a
// world, without.
func embedded(t *testing.T, door, inCBOR bool) *Server {
	t.Helper()
	now := func() time.Time { return time.Now().Add(-lag).UTC() }
	clock := &paced{}
	if door {
		clock.keepUp()
		now = func() time.Time { return time.Unix(0, clock.Now()).UTC() }
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := apiserver.New(ctx, apiserver.Options{
		Seed: 1, Clock: now, ServiceCIDR: "10.0.0.0/24", Address: listener.Addr().String(),
		RBAC: true, EnableAdmission: []string{apiserver.PluginStorageProtection},
		Tokens: apiserver.Tokens{Issuer: "https://kubernetes.default.svc"}, Webhooks: serve.Webhooks(), CBOR: inCBOR,
	})
	if err != nil {
		t.Fatal(err)
	}
	fresh := func() {
		// What the real server's watch cache, which began after the sequence's past, does not have either.
		s.Store().Compact(s.Store().ResourceVersion())
	}
	if door {
		_ = listener.Close() // its address is all that is wanted of it
		t.Cleanup(s.Close)
		transport := throughDoor(t, s, clock)
		return &Server{Name: "ours", URL: "http://" + listener.Addr().String(), Client: plain(transport), Now: now, Fresh: fresh}
	}
	h := httptest.NewUnstartedServer(asAdmin(s.Handler()))
	_ = h.Listener.Close() // we bring our own
	h.Listener, h.EnableHTTP2 = listener, true
	h.StartTLS()
	t.Cleanup(func() {
		s.Close() // ends the watches, without which the HTTP server would wait
		h.Close()
	})
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: h.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs},
		ForceAttemptHTTP2: true, DisableCompression: true,
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &Server{Name: "ours", URL: h.URL, Client: plain(transport), Now: now, Fresh: fresh}
}
