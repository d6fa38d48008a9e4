package explore

import (
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/opreplay/opreplay/replay"
	"github.com/opreplay/opreplay/replay/trial"
	"github.com/opreplay/opreplay/sim/fault"
)

// random is the n-th plan of chance, in the manner of PCT (Burckhardt et al., A Randomized Scheduler with
// Probabilistic Guarantees of Finding Bugs, ASPLOS 2010): what the operator hears of and what it asks gets a
// priority for the whole run, the lower the later it comes, and at a few points, chosen by chance, something
// happens.
func (l *list) random(n int) trial.Try {
	rnd := rand.New(rand.NewPCG(l.seed, uint64(n)+1))
	p := &fault.Plan{Seed: l.seed + uint64(n) + 100}
	t := trial.Try{Plan: p, Threads: replay.ThreadsSeeded, Procs: []int{1, 1, 2, 4}[rnd.IntN(4)]}
	watched := slices.Sorted(maps.Keys(l.clients))
	for _, i := range rnd.Perm(len(watched))[:min(len(watched), 3)] {
		d := latencies[rnd.IntN(len(latencies))]
		if d == 0 {
			continue
		}
		p.Faults = append(p.Faults, &fault.Latency{Watch: watched[i], Client: operator, Min: d / 2, Max: d})
	}
	if d := latencies[rnd.IntN(len(latencies)-1)]; d > 0 {
		p.Faults = append(p.Faults, &fault.Latency{Request: fault.Selector{Verb: "*", Resource: "*"}, Client: operator, Min: d / 10, Max: d})
	}
	const points = 2
	for range points {
		if f := l.chance(rnd); f != nil {
			p.Faults = append(p.Faults, f)
		}
	}
	return t
}

// latencies are the priorities: how much later something comes.
var latencies = []time.Duration{0, 50 * time.Millisecond, 500 * time.Millisecond, 3 * time.Second}

// chance is one fault at a point of chance; nil for none.
func (l *list) chance(rnd *rand.Rand) fault.Fault {
	writes := slices.DeleteFunc(slices.Clone(l.writes), func(w *call) bool { return w.Code < 200 || w.Code > 299 })
	if len(writes) == 0 {
		return nil
	}
	w := writes[rnd.IntN(len(writes))]
	switch rnd.IntN(5) {
	case 0:
		return &fault.Crash{Process: operator, After: w.selector(), Comeback: back()}
	case 1:
		return &fault.Answer{Request: w.selector(), Code: "500", Committed: rnd.IntN(2) == 0}
	case 2:
		return &fault.Answer{Request: w.selector(), Code: fault.CodeLost, Committed: true}
	case 3:
		if watched := slices.Sorted(maps.Keys(l.clients)); len(watched) > 0 {
			return &fault.Cut{Watch: watched[rnd.IntN(len(watched))], Client: operator, At: time.Duration(rnd.Int64N(int64(l.span))).Round(time.Millisecond), Gone: rnd.IntN(2) == 0}
		}
	}
	return nil
}
