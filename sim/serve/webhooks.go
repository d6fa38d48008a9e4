package serve

import (
	"context"
	"crypto/tls"
	"net/http"

	"github.com/opreplay/opreplay/sim/apiserver"
)

// Webhooks calls admission and conversion webhooks over the network, as a real API server does. A webhook behind a
// Service is called by the Service's name, which leads nowhere unless this machine's resolver knows it;
// one with a URL is called there.
func Webhooks() apiserver.Webhooks {
	return apiserver.Webhooks{
		Serves:  func(context.Context, string, int) bool { return true },
		Call:    call,
		Convert: call,
	}
}

// call makes one call on a connection of its own, which ends with the answer.
func call(r *http.Request, t *tls.Config) (*http.Response, error) {
	return (&http.Transport{TLSClientConfig: t, DisableKeepAlives: true}).RoundTrip(r)
}
