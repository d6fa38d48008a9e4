package virtual

import "math/rand/v2"

// Seeded picks by a pseudo-random generator: each seed is another interleaving of threads, as repeatable as FIFO.
type Seeded struct{ r *rand.Rand }

// NewSeeded returns a picker for seed.
func NewSeeded(seed uint64) *Seeded {
	return &Seeded{rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))}
}

// Pick returns one of n with equal chance.
func (p *Seeded) Pick(n int) int { return p.r.IntN(n) }
