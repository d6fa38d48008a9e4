package cluster

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"syscall"

	"github.com/opreplay/opreplay/sim/apiserver"
	"github.com/opreplay/opreplay/sim/front"
	"github.com/opreplay/opreplay/sim/process/virtual"
	"github.com/opreplay/opreplay/sim/wire"
)

// Network is what connects the processes of a world: they reach the API server, and the API server
// reaches the webhooks that they serve. It is a virtual.Network.
type Network struct {
	// Access says where the API server is.
	Access *Access
	// Door takes the connections to it.
	Door *front.Door
	// Server and Supervisor are asked for what is behind a Service, and to connect to a process.
	Server     *apiserver.Server
	Supervisor *virtual.Supervisor
	// Client says who a process is to the API server; nil: the cluster's administrator.
	Client func(*virtual.Process) front.Client
	// Refused, if set, is told of every connection that goes elsewhere.
	Refused func(p *virtual.Process, network string, addr netip.AddrPort)

	listeners []listener // in the order in which they began
	heard     map[int]bool
	dialled   int
}

type listener struct {
	p    *virtual.Process
	addr netip.AddrPort
}

// Connect implements virtual.Network.
func (n *Network) Connect(p *virtual.Process, network string, addr netip.AddrPort, st *virtual.Stream) error {
	if network == "tcp" && n.Door != nil {
		switch addr {
		case n.Access.Plain():
			n.Door.Accept(n.client(p), stream{st}, wire.Options{})
			return nil
		case n.Access.Secure():
			n.Door.Accept(n.client(p), stream{st}, wire.Options{TLS: n.Access.TLS()})
			return nil
		}
	}
	if n.Refused != nil {
		n.Refused(p, network, addr)
	}
	return syscall.ECONNREFUSED
}

func (n *Network) client(p *virtual.Process) front.Client {
	if n.Client != nil {
		return n.Client(p)
	}
	return front.Client{Process: p.Spec().Name, User: apiserver.Admin.Name, Groups: apiserver.Admin.Groups}
}

// Listen implements virtual.Network.
func (n *Network) Listen(p *virtual.Process, addr netip.AddrPort) {
	n.listeners = append(n.listeners, listener{p, addr})
	if n.heard == nil {
		n.heard = map[int]bool{}
	}
	n.heard[int(addr.Port())] = true
}

// Unlisten implements virtual.Network.
func (n *Network) Unlisten(p *virtual.Process, addr netip.AddrPort) {
	n.listeners = slices.DeleteFunc(n.listeners, func(l listener) bool { return l == listener{p, addr} })
}

// Serves reports whether HOST:PORT, as a webhook's configuration names it, is or has been served by a
// process of this world. The webhooks of others, which a recorded cluster may have had, are not called:
// they would refuse every write.
func (n *Network) Serves(host string, port int) bool {
	target, ok := n.target(host, port)
	return ok && n.heard[target]
}

// target is the port of the pods; ok is false for a host that is no Service of the cluster.
func (n *Network) target(host string, port int) (target int, ok bool) {
	name, ok := strings.CutSuffix(host, ".svc")
	if !ok {
		return 0, false
	}
	name, namespace, ok := strings.Cut(name, ".")
	if !ok {
		return 0, false
	}
	target, _ = n.Server.TargetPort(namespace, name, port)
	return target, true
}

// errNoEndpoint is what the API server sees of a Service without a pod that listens.
var errNoEndpoint = errors.New("connect: connection refused")

// Dial connects the API server to the process that serves HOST:PORT: the one that has listened on the
// Service's target port for longest. Services have no pods here that could be selected by labels, so the
// port tells them apart.
func (n *Network) Dial(host string, port int) (wire.Stream, error) {
	target, ok := n.target(host, port)
	if !ok {
		return nil, fmt.Errorf("dial tcp: lookup %s: no such host", host)
	}
	for _, l := range n.listeners {
		if _, ended := l.p.Exited(); ended || int(l.addr.Port()) != target {
			continue
		}
		n.dialled++
		from := netip.AddrPortFrom(n.Access.Host, uint16(32768+n.dialled%28000))
		to := l.addr
		if to.Addr().IsUnspecified() {
			to = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), to.Port())
		}
		st, err := n.Supervisor.Dial(l.p, to, from)
		if err != nil {
			return nil, fmt.Errorf("dial tcp %s: %w", net.JoinHostPort(host, fmt.Sprint(port)), errNoEndpoint)
		}
		return stream{st}, nil
	}
	return nil, fmt.Errorf("dial tcp %s: %w", net.JoinHostPort(host, fmt.Sprint(port)), errNoEndpoint)
}

// CallWebhook is apiserver.Webhooks.Call in a world: the turn goes back to the world with the call.
func CallWebhook(r *http.Request, t *tls.Config) (*http.Response, error) {
	c, err := callOut(r, t)
	if err != nil {
		return nil, err
	}
	return wire.Out(r.Context(), c)
}

// Convert is apiserver.Webhooks.Convert in a world. One that nobody serves is called too, and fails: no
// object can be shown in a form that only another knows.
func (n *Network) Convert(r *http.Request, t *tls.Config) (*http.Response, error) {
	c, err := callOut(r, t)
	if err != nil {
		return nil, err
	}
	return n.Door.CallOut(c)
}

func callOut(r *http.Request, t *tls.Config) (*wire.CallOut, error) {
	c := &wire.CallOut{Request: r, TLS: t}
	if r.Body == nil {
		return c, nil
	}
	var err error
	if c.Body, err = io.ReadAll(r.Body); err != nil {
		return nil, err
	}
	return c, r.Body.Close()
}

// stream is a supervisor's stream in wire's words.
type stream struct{ st *virtual.Stream }

// Read implements wire.Stream. The world reads when the processes stand still, and then asks all connections.
func (s stream) Read(p []byte) (int, error) {
	if !s.st.Ready() {
		return 0, wire.ErrWouldBlock
	}
	n, err := s.st.Read(p)
	if n == 0 && err == nil {
		err = wire.ErrWouldBlock
	}
	return n, err
}

// Write implements wire.Stream.
func (s stream) Write(p []byte) (int, error) {
	n, err := s.st.Write(p)
	if n < len(p) && err == nil {
		err = wire.ErrWouldBlock
	}
	return n, err
}

// Close implements wire.Stream.
func (s stream) Close() error { return s.st.Close() }
