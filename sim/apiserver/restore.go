package apiserver

import (
	"errors"

	"github.com/opreplay/opreplay/sim/store"
)

// ErrCRDsChanged is returned by Restore when the world's CRDs have been written since the snapshot.
var ErrCRDsChanged = errors.New("apiserver: CRDs were written since the snapshot; such a world needs a new process")

// Restore makes the world what it was at a snapshot of its Store, in microseconds; external watches end.
// CRDs must not have been written since: the controllers behind them keep what they learned, and would
// act on a future that never was.
func (s *Server) Restore(snap *store.Snapshot) error {
	if s.world.Changed(snap, crdGR) {
		return ErrCRDsChanged
	}
	s.world.Restore(snap)
	s.ips.forget()
	s.ports.forget()
	s.hooks.forget()
	seedProcess(s.opts.Seed)
	s.requests.Store(0)
	return nil
}

// Reseed has the world's randomness from its next Restore on decided by another seed. What it had made by the time
// of the snapshot keeps its uids, so that a world which is reseeded and restored is the same whatever it was
// started with.
func (s *Server) Reseed(seed uint64) {
	s.opts.Seed = seed
	s.world.Reseed(seed)
}
