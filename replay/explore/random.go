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

// deepest is one more than the most change points that a plan of chance has. PCT's depth d, how many orders of steps a bug
// takes, has d-1 of them.
const deepest = 3

// turn is by how much an actor's steps come later for each actor above it: longer than what an operator takes to react.
const turn = 200 * time.Millisecond

// random is the n-th plan of chance, in the manner of PCT (Burckhardt, Kothari, Musuvathi, Nagarakatte: A Randomized Scheduler
// with Probabilistic Guarantees of Finding Bugs, ASPLOS 2010, section 2.3). Its actors are what may lag behind each other in a
// real cluster: the watch of each resource, and the calls about each. Each gets a priority of its own, in an order of
// chance, and is late by a turn for each one above it.
//
// At some steps of the unaltered run, the change points, chosen by chance and none twice, the actor whose step it is falls
// below all others: that step is late by at least a turn for each actor, and events of the same watch that come during that time
// wait behind it. Unlike in PCT the actor is in its place again after it, so that the paper's bound of how likely a plan shows
// a bug does not hold.
//
// Every third plan has a fault besides.
func (l *list) random(n int) trial.Try {
	rnd := rand.New(rand.NewPCG(l.seed, uint64(n)+1))
	p := &fault.Plan{Seed: l.seed + uint64(n) + 100}
	t := trial.Try{Plan: p, Threads: replay.ThreadsSeeded, Procs: []int{1, 1, 2, 4}[rnd.IntN(4)]}
	actors := l.actors()
	for i, late := range rnd.Perm(len(actors)) {
		if d := time.Duration(late) * turn; d > 0 {
			p.Faults = append(p.Faults, actors[i].late(d))
		}
	}
	last := time.Duration(len(actors)) * turn
	if steps := l.steps(last); len(steps) > 0 {
		for _, i := range rnd.Perm(len(steps))[:min(rnd.IntN(deepest), len(steps))] {
			p.Faults = append(p.Faults, steps[i])
		}
	}
	if n%3 == 2 {
		if f := l.chance(rnd); f != nil {
			p.Faults = append(p.Faults, f)
		}
	}
	return t
}

// actor is something whose steps have an order of their own: a watch, or the calls about a resource.
type actor struct {
	watch string
	calls fault.Selector
}

// late has the actor's steps come later.
func (a actor) late(d time.Duration) fault.Fault {
	return &fault.Latency{Watch: a.watch, Request: a.calls, Client: operator, Min: d, Max: d}
}

// actors are those of the unaltered run.
func (l *list) actors() (all []actor) {
	for _, w := range slices.Sorted(maps.Keys(l.clients)) {
		all = append(all, actor{watch: w})
	}
	called := map[string]fault.Selector{}
	for _, w := range l.writes {
		s := fault.Selector{Verb: "*", Resource: w.sel.Resource, Subresource: w.sel.Subresource}
		if s.Subresource != "" {
			s.Name = "*"
		}
		called[s.String()] = s
	}
	for _, k := range slices.Sorted(maps.Keys(called)) {
		all = append(all, actor{calls: called[k]})
	}
	return all
}

// steps are the steps of the unaltered run, as the faults by which the actor of each falls below all others for that step.
func (l *list) steps(late time.Duration) (all []fault.Fault) {
	for _, e := range l.events {
		all = append(all, &fault.Hold{Watch: e.resource(), Client: operator, From: e.selector(), For: late})
	}
	for _, w := range l.writes {
		if w.Code >= 200 && w.Code <= 299 {
			all = append(all, &fault.Latency{Request: w.selector(), Client: operator, Min: late, Max: late})
		}
	}
	return all
}

// chance is one fault at a point of chance; nil for none.
func (l *list) chance(rnd *rand.Rand) fault.Fault {
	writes := slices.DeleteFunc(slices.Clone(l.writes), func(w *call) bool { return w.Code < 200 || w.Code > 299 })
	if len(writes) == 0 {
		return nil
	}
	w := writes[rnd.IntN(len(writes))]
	switch rnd.IntN(4) {
	case 0:
		return &fault.Crash{Process: operator, After: w.selector(), Comeback: back()}
	case 1:
		return &fault.Answer{Request: w.selector(), Code: "500", Committed: rnd.IntN(2) == 0}
	case 2:
		return &fault.Answer{Request: w.selector(), Code: fault.CodeLost, Committed: true}
	}
	watched := slices.Sorted(maps.Keys(l.clients))
	if len(watched) == 0 || l.span <= 0 {
		return nil
	}
	at := time.Duration(rnd.Int64N(int64(l.span))).Round(time.Millisecond)
	return &fault.Cut{Watch: watched[rnd.IntN(len(watched))], Client: operator, At: max(at, time.Millisecond), Gone: rnd.IntN(2) == 0}
}
