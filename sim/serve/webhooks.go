package serve

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"sync"

	"github.com/opreplay/opreplay/sim/apiserver"
)

// Webhooks calls admission webhooks over the network, as a real API server does. A webhook behind a
// Service is called by the Service's name, which leads nowhere unless this machine's resolver knows it;
// one with a URL is called there.
func Webhooks() apiserver.Webhooks {
	return apiserver.Webhooks{
		Serves: func(context.Context, string, int) bool { return true },
		Call:   call,
	}
}

// call makes one call on a connection of its own.
func call(r *http.Request, t *tls.Config) (*http.Response, error) {
	transport := &http.Transport{TLSClientConfig: t, DisableKeepAlives: true}
	resp, err := transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	resp.Body = &lastBody{ReadCloser: resp.Body, transport: transport}
	return resp, nil
}

// lastBody ends the transport with the body.
type lastBody struct {
	io.ReadCloser
	transport *http.Transport
	once      sync.Once
}

// Close implements io.Closer.
func (b *lastBody) Close() error {
	err := b.ReadCloser.Close()
	b.once.Do(b.transport.CloseIdleConnections)
	return err
}
