package apiserver

import (
	"encoding/binary"
	"fmt"
	"net"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/registry/core/service/ipallocator"
	"k8s.io/kubernetes/pkg/registry/core/service/portallocator"
)

// The allocators of a real cluster pick at random and keep a bitmap beside the Services. These take the
// lowest free value and read what is used from the Services themselves, so that a restored or loaded
// world has the right ones without being told. Only values given to a Service that is not yet stored
// are kept here, and only until it is.

// reservations are values handed out and not yet seen in a stored Service.
type reservations[T comparable] struct {
	mu       sync.Mutex
	services func() []runtime.Object
	uses     func(*api.Service) []T
	held     map[T]bool
}

func newReservations[T comparable](services func() []runtime.Object, uses func(*api.Service) []T) reservations[T] {
	return reservations[T]{services: services, uses: uses, held: map[T]bool{}}
}

// used lists all values in use. mu is held.
func (r *reservations[T]) used() map[T]bool {
	used := map[T]bool{}
	for _, o := range r.services() {
		for _, v := range r.uses(o.(*api.Service)) {
			used[v] = true
			delete(r.held, v) // stored: the Service holds it now
		}
	}
	for v := range r.held {
		used[v] = true
	}
	return used
}

func (r *reservations[T]) release(v T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.held, v)
}

func (r *reservations[T]) has(v T) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.used()[v]
}

// forget drops all reservations: the world was replaced.
func (r *reservations[T]) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.held)
}

// ipAllocator implements ipallocator.Interface for IPv4.
type ipAllocator struct {
	reservations[uint32]
	cidr   *net.IPNet
	dryRun bool
}

func newIPAllocator(cidr *net.IPNet, services func() []runtime.Object) *ipAllocator {
	return &ipAllocator{cidr: cidr, reservations: newReservations(services, clusterIPs)}
}

func clusterIPs(svc *api.Service) []uint32 {
	var out []uint32
	for _, s := range svc.Spec.ClusterIPs {
		if ip := net.ParseIP(s).To4(); ip != nil {
			out = append(out, binary.BigEndian.Uint32(ip))
		}
	}
	return out
}

// bounds gives the first and last usable address and the first of those that are given out unasked. As
// in a real cluster the lower part of the range is left to Services that name their address
// (k8s.io/kubernetes/pkg/registry/core/service/ipallocator, calculateRangeOffset).
func (a *ipAllocator) bounds() (first, dynamic, last uint32) {
	ones, bits := a.cidr.Mask.Size()
	size := uint32(1)<<(bits-ones) - 1
	base := binary.BigEndian.Uint32(a.cidr.IP.To4())
	offset := uint32(0)
	if size > 16 {
		offset = min(max(16, (size+1)/16), 256)
	}
	return base + 1, base + 1 + offset, base + size - 1
}

// setCIDR moves the range.
func (a *ipAllocator) setCIDR(cidr *net.IPNet) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cidr = cidr
}

// Allocate implements ipallocator.Interface.
func (a *ipAllocator) Allocate(ip net.IP) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	// As k8s.io/kubernetes/pkg/registry/core/service/ipallocator: MetaAllocator finds no range, and a range has no such
	// address; a dry run asks a range at once, and goes no further.
	if !a.dryRun && !a.cidr.Contains(ip) {
		return ipallocator.ErrMismatchedNetwork
	}
	first, _, last := a.bounds()
	v4 := ip.To4()
	if v4 == nil || binary.BigEndian.Uint32(v4) < first || binary.BigEndian.Uint32(v4) > last {
		return &ipallocator.ErrNotInRange{IP: ip, ValidRange: a.cidr.String()}
	}
	if a.dryRun {
		return nil
	}
	v := binary.BigEndian.Uint32(v4)
	if a.used()[v] {
		return ipallocator.ErrAllocated
	}
	a.held[v] = true
	return nil
}

// AllocateNext implements ipallocator.Interface.
func (a *ipAllocator) AllocateNext() (net.IP, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.dryRun {
		return a.cidr.IP, nil // the real one does not look for a free one either
	}
	used := a.used()
	first, dynamic, last := a.bounds()
	for _, span := range [][2]uint32{{dynamic, last}, {first, dynamic - 1}} {
		for v := span[0]; v <= span[1]; v++ {
			if !used[v] {
				a.held[v] = true
				return net.IP(binary.BigEndian.AppendUint32(nil, v)), nil
			}
		}
	}
	return nil, ipallocator.ErrFull
}

// Release implements ipallocator.Interface.
func (a *ipAllocator) Release(ip net.IP) error {
	if ip := ip.To4(); ip != nil && !a.dryRun {
		a.release(binary.BigEndian.Uint32(ip))
	}
	return nil
}

// Has implements ipallocator.Interface.
func (a *ipAllocator) Has(ip net.IP) bool {
	v4 := ip.To4()
	return v4 != nil && a.has(binary.BigEndian.Uint32(v4))
}

// ForEach implements ipallocator.Interface.
func (a *ipAllocator) ForEach(fn func(net.IP)) {
	a.mu.Lock()
	used := a.used()
	a.mu.Unlock()
	for v := range used {
		fn(net.IP(binary.BigEndian.AppendUint32(nil, v)))
	}
}

// CIDR implements ipallocator.Interface.
func (a *ipAllocator) CIDR() net.IPNet {
	a.mu.Lock()
	defer a.mu.Unlock()
	return *a.cidr
}

// IPFamily implements ipallocator.Interface.
func (a *ipAllocator) IPFamily() api.IPFamily { return api.IPv4Protocol }

// Destroy implements ipallocator.Interface.
func (a *ipAllocator) Destroy() {}

// EnableMetrics implements ipallocator.Interface.
func (a *ipAllocator) EnableMetrics() {}

// DryRun implements ipallocator.Interface: it reserves nothing, and knows no more than the range.
func (a *ipAllocator) DryRun() ipallocator.Interface {
	cidr := a.CIDR()
	return &ipAllocator{cidr: &cidr, dryRun: true, reservations: newReservations(a.services, a.uses)}
}

// The node ports of a real cluster, by default (--service-node-port-range).
const firstNodePort, lastNodePort = 30000, 32767

// portAllocator implements portallocator.Interface.
type portAllocator struct{ reservations[int] }

func newPortAllocator(services func() []runtime.Object) *portAllocator {
	return &portAllocator{newReservations(services, nodePorts)}
}

func nodePorts(svc *api.Service) []int {
	var out []int
	for _, p := range svc.Spec.Ports {
		if p.NodePort != 0 {
			out = append(out, int(p.NodePort))
		}
	}
	if p := svc.Spec.HealthCheckNodePort; p != 0 {
		out = append(out, int(p))
	}
	return out
}

// Allocate implements portallocator.Interface.
func (a *portAllocator) Allocate(port int) error {
	if port < firstNodePort || port > lastNodePort {
		return &portallocator.ErrNotInRange{ValidPorts: fmt.Sprintf("%d-%d", firstNodePort, lastNodePort)}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.used()[port] {
		return portallocator.ErrAllocated
	}
	a.held[port] = true
	return nil
}

// AllocateNext implements portallocator.Interface. As in a real cluster the first ports are left to
// Services that name theirs (portallocator, calculateRangeOffset: 86 of the default range).
func (a *portAllocator) AllocateNext() (int, error) {
	const static = 86
	a.mu.Lock()
	defer a.mu.Unlock()
	used := a.used()
	for i := range lastNodePort - firstNodePort + 1 {
		p := firstNodePort + (static+i)%(lastNodePort-firstNodePort+1)
		if !used[p] {
			a.held[p] = true
			return p, nil
		}
	}
	return 0, portallocator.ErrFull
}

// Release implements portallocator.Interface.
func (a *portAllocator) Release(port int) error { a.release(port); return nil }

// Has implements portallocator.Interface.
func (a *portAllocator) Has(port int) bool { return a.has(port) }

// ForEach implements portallocator.Interface.
func (a *portAllocator) ForEach(fn func(int)) {
	a.mu.Lock()
	used := a.used()
	a.mu.Unlock()
	for p := range used {
		fn(p)
	}
}

// Destroy implements portallocator.Interface.
func (a *portAllocator) Destroy() {}

// EnableMetrics implements portallocator.Interface.
func (a *portAllocator) EnableMetrics() {}

// first is the first address of the range: that of the API server itself.
func (a *ipAllocator) first() net.IP {
	a.mu.Lock()
	defer a.mu.Unlock()
	first, _, _ := a.bounds()
	return net.IP(binary.BigEndian.AppendUint32(nil, first))
}
