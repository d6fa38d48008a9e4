package replay

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/opreplay/opreplay/sim/apiserver"
	"github.com/opreplay/opreplay/sim/cluster"
	"github.com/opreplay/opreplay/sim/store"
	"github.com/opreplay/opreplay/sim/wire"
)

// ground is an API server with the cluster that the operators came to, to which it goes back for each run:
// starting one takes a second, going back some microseconds.
type ground struct {
	server *apiserver.Server
	kept   *store.Snapshot
	start  time.Time
	clock  atomic.Pointer[func() time.Time] // of the run under way; nil: the clock stands at start
	net    atomic.Pointer[cluster.Network]  // of the run under way
	note   string                           // on what the server does not have
}

func newGround(ctx context.Context, start time.Time, script *Script, o apiserver.Options) (*ground, error) {
	g := &ground{start: start}
	var err error
	// What is there before a run is the same for all seeds, so that runs of different ones can share it.
	o.Clock, o.Webhooks = g.now, apiserver.Webhooks{Serves: g.serves, Call: cluster.CallWebhook, Convert: g.convert}
	if g.server, err = apiserver.New(ctx, o); err != nil {
		return nil, err
	}
	if g.note, err = load(ctx, g.server, script); err != nil {
		g.server.Close()
		return nil, fmt.Errorf("load the recorded cluster: %w", err)
	}
	g.kept = g.server.Store().Snapshot()
	return g, nil
}

func (g *ground) now() time.Time {
	if clock := g.clock.Load(); clock != nil {
		return (*clock)()
	}
	return g.start
}

// serves reports whether a webhook is served by a process of the run under way.
func (g *ground) serves(ctx context.Context, host string, port int) bool {
	net := g.net.Load()
	return net != nil && wire.CanCallOut(ctx) && net.Serves(host, port)
}

// convert calls a conversion webhook in the run under way.
func (g *ground) convert(r *http.Request, t *tls.Config) (*http.Response, error) {
	net := g.net.Load()
	if net == nil {
		return nil, errors.New("no process of a run serves it")
	}
	return net.Convert(r, t)
}

// follow makes CLOCK and NET the server's, until stand.
func (g *ground) follow(clock func() time.Time, net *cluster.Network) {
	g.clock.Store(&clock)
	g.net.Store(net)
}

// stand stops the server's clock.
func (g *ground) stand() {
	g.clock.Store(nil)
	g.net.Store(nil)
}

// restore makes the cluster what it was, for a run with this seed. The first run too begins so.
func (g *ground) restore(seed uint64) error {
	g.server.Reseed(seed)
	return g.server.Restore(g.kept)
}

func (g *ground) close() { g.server.Close() }
