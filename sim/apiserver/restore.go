package apiserver

import (
	"github.com/opreplay/opreplay/sim/store"
)

// Restore makes the world what it was at a snapshot of its Store, in microseconds, or in some milliseconds
// when CRDs have been written since; external watches end. No request may be under way.
func (s *Server) Restore(snap *store.Snapshot) error {
	crds := s.world.Changed(snap, crdGR)
	s.world.Restore(snap)
	if crds {
		if err := s.customs.restored(); err != nil {
			return err
		}
	}
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
