package apiserver

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/registry/core/service/portallocator"
)

// The allocators of a real cluster pick at random, and that of ports keeps a bitmap beside the Services. These take
// the lowest free value and read what is used from the objects themselves, so that a restored or loaded
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
