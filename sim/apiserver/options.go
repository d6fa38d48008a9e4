package apiserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"time"

	"github.com/opreplay/opreplay/sim/store"
)

// Options configure a Server. The zero value is a world at a fixed time with seed 0.
type Options struct {
	// Seed decides uids and generated names.
	Seed uint64
	// Clock is the world's time, in UTC. It must lie before the wall clock and not run past it: the
	// embedded code compares some stored times with the wall clock (a custom resource created less
	// than two seconds of wall time after its CRD was established waits for two seconds). nil: a
	// clock that stands at DefaultTime.
	Clock func() time.Time
	// Live makes the wall clock the world's time, for a world that is served to people and programs as
	// they are. Clock must be nil. Two live worlds differ.
	Live bool
	// ReadOnly, if set, has the writes of external requests fail with 405 and these words, and whatever the API
	// server would write on their behalf. Dry runs, reviews and requests for tokens write nothing and are answered.
	ReadOnly string
	// Gate, if set, is asked before every event of an external watch; see store.Gate.
	Gate store.Gate
	// Webhooks says how admission webhooks are called; the zero value calls none.
	Webhooks Webhooks
	// Tokens says how service account tokens are issued and known.
	Tokens Tokens
	// RBAC has every request need a permission by the world's roles and bindings; a new world has those
	// of every cluster. Else everybody may do everything.
	RBAC bool
	// Quotas has the status of ResourceQuotas kept as the controller in kube-controller-manager keeps it, after each
	// write of an external request and before its answer. Where nobody keeps it, quotas limit nothing.
	Quotas bool
	// EnableAdmission names admission plugins to add to those that are always there; see
	// PluginStorageProtection.
	EnableAdmission []string
	// ServiceCIDR is the range of cluster IPs, of either family; with two of both, separated by a comma, Services can
	// have addresses of both, and are of the first one's family unless they ask. "": DefaultServiceCIDR, or the one
	// that the cluster of the loaded objects used.
	ServiceCIDR string
	// Address is what the API server believes to be reachable at; clients see it in /api. "":
	// DefaultAddress. Nothing listens there.
	Address string
	// Log receives what the embedded API server logs about itself (klog, which is the process's: what
	// client-go logs in this process goes there too). nil: nothing.
	Log io.Writer
	// CBOR is the feature gate CBORServingAndStorage, which a real API server has off unless it is told: whoever asks
	// for application/cbor gets it.
	CBOR bool
	// Version is the gitVersion that /version reports, as vMAJOR.MINOR.PATCH. "": DefaultVersion. An older
	// one has the API versions that were removed since served too, as far as their types are still there.
	Version string

	// Verify panics where a short cut in the store gives another result than the long way. For tests.
	Verify bool

	cidrGiven bool
}

// Defaults of Options.
const (
	DefaultServiceCIDR = "10.96.0.0/12"
	DefaultAddress     = "127.0.0.1:6443"
	DefaultVersion     = "v1.37.2"
)

// DefaultTime is where the world's clock stands when Options give none.
var DefaultTime = time.Date(2020, time.January, 1, 0, 0, 0, 0, time.UTC)

func (o *Options) complete() (cidrs []netip.Prefix, err error) {
	switch {
	case o.Live && o.Clock != nil:
		return nil, errors.New("a live world's clock is the wall clock: it can have no other")
	case o.Live:
		o.Clock = func() time.Time { return time.Now().UTC() }
	case o.Clock == nil:
		o.Clock = func() time.Time { return DefaultTime }
	}
	if now := o.Clock(); !o.Live && !now.Before(time.Now().Add(-clockMargin)) {
		return nil, fmt.Errorf("the world's clock stands at %s: it must lie before the wall clock", now.Format(time.RFC3339))
	}
	o.cidrGiven = o.ServiceCIDR != ""
	if !o.cidrGiven {
		o.ServiceCIDR = DefaultServiceCIDR
	}
	if o.Log == nil {
		o.Log = io.Discard
	}
	if o.Address == "" {
		o.Address = DefaultAddress
	}
	if o.Version == "" {
		o.Version = DefaultVersion
	}
	for text := range strings.SplitSeq(o.ServiceCIDR, ",") {
		p, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err != nil || p.Addr().BitLen()-p.Bits() < 2 {
			return nil, fmt.Errorf("service CIDR %q: want a range such as %s or fd00:10:96::/112", text, DefaultServiceCIDR)
		}
		if p.Addr().Is6() && p.Bits() < 64 {
			return nil, fmt.Errorf("service CIDR %q: of IPv6 none can be larger than a /64", text)
		}
		cidrs = append(cidrs, p.Masked())
	}
	if len(cidrs) > 2 || len(cidrs) == 2 && familyOf(cidrs[0].Addr()) == familyOf(cidrs[1].Addr()) {
		return nil, fmt.Errorf("service CIDRs %q: want one range, or one of each family", o.ServiceCIDR)
	}
	return cidrs, nil
}

// storeClock is the clock of the store: none where its times need not be put right.
func (o *Options) storeClock() func() time.Time {
	if o.Live {
		return nil
	}
	return o.Clock
}

// clockMargin is how far behind the wall clock the world must begin: beyond the two seconds for which
// the CRD handler holds back creates.
const clockMargin = 3 * time.Second

// User is who makes a request.
type User struct {
	Name   string
	UID    string
	Groups []string // system:authenticated is added, but for one in system:unauthenticated
	Extra  map[string][]string
}

// Admin is the user of requests that name none.
var Admin = User{Name: "kubernetes-admin", Groups: []string{"system:masters"}}

type userKey struct{}

// WithUser makes requests with the returned context the user's. It goes before the headers
// X-Remote-User and X-Remote-Group, which do the same.
func WithUser(ctx context.Context, u User) context.Context {
	return context.WithValue(ctx, userKey{}, u)
}
