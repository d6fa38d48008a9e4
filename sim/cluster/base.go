package cluster

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/opreplay/opreplay/sim/apiserver"
	"github.com/opreplay/opreplay/sim/store"
	"github.com/opreplay/opreplay/sim/wire"
)

// DefaultStart is where a world's clock begins.
var DefaultStart = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// Base is an API server from which worlds begin, one after the other. Making one takes about a second,
// beginning a world from it about a millisecond.
type Base struct {
	Server *apiserver.Server
	seed   uint64
	kept   *store.Snapshot

	mu    sync.Mutex // the API server's own goroutines read the clock when they like
	world *World     // that runs, or nil
}

// NewBase starts an API server with an empty cluster. One may be open in a process.
func NewBase(ctx context.Context, seed uint64) (*Base, error) {
	b := &Base{seed: seed}
	s, err := apiserver.New(ctx, apiserver.Options{Seed: seed, Clock: b.now, Webhooks: apiserver.Webhooks{
		Serves: func(ctx context.Context, host string, port int) bool {
			return b.world != nil && wire.CanCallOut(ctx) && b.world.Network.Serves(host, port)
		},
		Call: CallWebhook,
		Convert: func(r *http.Request, t *tls.Config) (*http.Response, error) {
			if b.world == nil {
				return nil, errNoEndpoint
			}
			return b.world.Network.Convert(r, t)
		},
	}})
	if err != nil {
		return nil, err
	}
	b.Server = s
	b.Keep()
	return b, nil
}

// now is the clock of the world that runs; before there is one it stands.
func (b *Base) now() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.world != nil {
		return b.world.sup.Now()
	}
	return DefaultStart
}

// run makes W the world that runs; nil for none.
func (b *Base) run(w *World) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.world = w
}

// Admin is a client configuration for setting the cluster up before a world begins.
func (b *Base) Admin() *rest.Config { return b.Server.Config(apiserver.Admin) }

// Keep makes the cluster as it is now the one in which worlds begin.
func (b *Base) Keep() { b.kept = b.Server.Store().Snapshot() }

// Close ends the world that runs, and the API server.
func (b *Base) Close() {
	if b.world != nil {
		_ = b.world.Close() // its processes are gone whatever it says
	}
	b.Server.Close()
}

// Begin begins a world. The one before must have been closed.
func (b *Base) Begin(o Options) (*World, error) {
	if b.world != nil {
		return nil, fmt.Errorf("cluster: the world before has not been closed")
	}
	if err := b.Server.Restore(b.kept); err != nil {
		return nil, err
	}
	return newWorld(b, o)
}
