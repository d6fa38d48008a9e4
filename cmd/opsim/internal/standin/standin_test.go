package standin

import (
	"net"
	"testing"

	"github.com/opreplay/opreplay/sim/serve"
)

// Whoever does not say where to listen is not reached by others: anonymous users may do everything by default.
func TestAPIServerListensOnLoopback(t *testing.T) {
	if host := newAPIServerCmd().Flag("bind-address").DefValue; !serve.Loopback(net.JoinHostPort(host, "6443")) {
		t.Errorf("by default it listens on %s", host)
	}
}
