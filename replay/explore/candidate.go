package explore

import (
	"fmt"
	"slices"
	"time"

	"github.com/opreplay/opreplay/replay"
	"github.com/opreplay/opreplay/replay/trial"
	"github.com/opreplay/opreplay/sim/fault"
)

// Kind is a way to alter a run.
type Kind string

// The kinds of plans, in the order in which they take turns.
const (
	KindCrash   Kind = "crash"   // after a write, before its answer or after it
	KindLost    Kind = "lost"    // the answer of a write that was committed
	KindRefuse  Kind = "refuse"  // a write, once
	KindView    Kind = "view"    // a restart on a view of the past
	KindHold    Kind = "hold"    // an event comes late
	KindMerge   Kind = "merge"   // states in between are never seen
	KindCut     Kind = "cut"     // a watch ends at an event
	KindSwap    Kind = "swap"    // a write comes after the next change by others, or after another one of its own
	KindRestart Kind = "restart" // afresh from a state in between
	KindLeader  Kind = "leader"  // the lease is lost at a write
	KindClock   Kind = "clock"   // the clock jumps
	KindThreads Kind = "threads" // another interleaving of the operator's threads
	KindStorage Kind = "storage" // each write takes long
	KindToken   Kind = "token"   // the operator's token has expired
	KindQuota   Kind = "quota"   // a quota is reached
	KindWebhook Kind = "webhook" // a webhook is out of order, or says no
	KindSchema  Kind = "schema"  // a CRD refuses or prunes what it took
	KindUnserve Kind = "unserve" // an API version is gone
	KindRandom  Kind = "random"  // priorities by chance
)

// kinds are all kinds with how many plans of each stand in one turn.
var kinds = []struct {
	kind Kind
	turn int
}{
	{KindCrash, 2},
	{KindRefuse, 3},
	{KindHold, 2},
	{KindView, 2},
	{KindMerge, 2},
	{KindCut, 1},
	{KindLost, 1},
	{KindSwap, 1},
	{KindRestart, 1},
	{KindLeader, 2},
	{KindClock, 1},
	{KindThreads, 1},
	{KindStorage, 1},
	{KindToken, 1},
	{KindQuota, 1},
	{KindWebhook, 1},
	{KindSchema, 1},
	{KindUnserve, 1},
}

// candidate is a plan that may be run.
type candidate struct {
	kind Kind
	// class is shared by plans that do the same to objects that are treated alike; one of each class comes
	// before a second one of any.
	class string
	try   trial.Try
}

// Planned is a plan of an exploration.
type Planned struct {
	Index int
	Kind  Kind
	Try   trial.Try
}

// list collects candidates, each plan once.
type list struct {
	*past
	seed  uint64
	all   map[Kind][]candidate
	texts map[string]bool
}

func (l *list) add(kind Kind, class string, faults ...fault.Fault) {
	l.addTry(kind, class, trial.Try{Plan: &fault.Plan{Seed: l.seed, Faults: faults}})
}

func (l *list) addTry(kind Kind, class string, t trial.Try) {
	text := t.Key()
	if l.texts[text] {
		l.prune("the same plan as another", 1)
		return
	}
	l.texts[text] = true
	l.all[kind] = append(l.all[kind], candidate{kind, class, t})
}

func (p *past) prune(why string, n int) { p.pruned[why] += n }

// enumerate is all that there is to try of a past, in the order in which it is to be run, and what was pruned.
func enumerate(p *past, seed uint64, budget int) (plans []Planned, pruned map[string]int) {
	l := &list{past: p, seed: seed, all: map[Kind][]candidate{}, texts: map[string]bool{}}
	kept := l.distinctWrites()
	l.crashes(kept)
	l.refusals(kept)
	l.views(kept)
	l.holds(kept)
	l.merges()
	l.cuts()
	l.swaps(kept)
	l.restarts()
	l.leaders(kept)
	l.clocks()
	l.threads()
	l.states(kept)
	// A tenth of the budget is for chance.
	systematic := l.inTurn()
	chance := max(budget/10, budget-len(systematic))
	if n := budget - chance; n < len(systematic) {
		l.prune("beyond the budget", len(systematic)-n)
		systematic = systematic[:max(n, 0)]
	}
	for i := range min(chance, budget) {
		systematic = append(systematic, candidate{kind: KindRandom, try: l.random(i)})
	}
	for i, c := range systematic {
		plans = append(plans, Planned{Index: i, Kind: c.kind, Try: c.try})
	}
	return plans, p.pruned
}

// inTurn has the kinds take turns; within a kind the first plans of each class come first.
func (l *list) inTurn() (order []candidate) {
	for k, all := range l.all {
		rank, n := map[string]int{}, make([]int, len(all))
		index := make([]int, len(all))
		for i, c := range all {
			n[i], index[i] = rank[c.class], i
			rank[c.class]++
		}
		slices.SortStableFunc(index, func(a, b int) int { return n[a] - n[b] })
		sorted := make([]candidate, len(all))
		for i, j := range index {
			sorted[i] = all[j]
		}
		l.all[k] = sorted
	}
	for {
		before := len(order)
		for _, k := range kinds {
			n := min(k.turn, len(l.all[k.kind]))
			order = append(order, l.all[k.kind][:n]...)
			l.all[k.kind] = l.all[k.kind][n:]
		}
		if len(order) == before {
			return order
		}
	}
}

// maxAlike is how many writes of one thing that say the same are looked at: the first ones, and the last.
const maxAlike = 2

// distinctWrites are the operator's writes that plans are made about.
func (l *list) distinctWrites() (kept []*call) {
	same := map[string][]*call{}
	var order []string
	for _, w := range l.writes {
		if w.Code < 200 || w.Code > 299 {
			l.prune("a write that was refused in the unaltered run", 1)
			continue
		}
		k := w.kind + w.key + w.body
		if len(same[k]) == 0 {
			order = append(order, k)
		}
		same[k] = append(same[k], w)
	}
	chosen := map[*call]bool{}
	for _, k := range order {
		all := same[k]
		for _, w := range all[:min(len(all), maxAlike-1)] {
			chosen[w] = true
		}
		chosen[all[len(all)-1]] = true
		if n := len(all) - maxAlike; n > 0 {
			l.prune("a write that says what an earlier and a later one say", n)
		}
	}
	for _, w := range l.writes {
		if chosen[w] {
			kept = append(kept, w)
		}
	}
	return kept
}

// class is the shape of a write: what it does as the how manieth such thing to an object of its kind.
func (l *list) class(w *call) string {
	n := 0
	for _, o := range l.writes {
		if o.key == w.key && o.kind == w.kind && o.Start <= w.Start {
			n++
		}
	}
	return fmt.Sprint(w.kind, n)
}

const operator = "operator"

func (l *list) crashes(kept []*call) {
	for _, w := range kept {
		l.add(KindCrash, l.class(w), &fault.Crash{Process: operator, After: w.selector(), Comeback: back()})
		l.add(KindLost, l.class(w), &fault.Answer{Request: w.selector(), Code: fault.CodeLost, Committed: true})
	}
	for _, w := range kept {
		l.add(KindCrash, "answered "+l.class(w), &fault.Crash{Process: operator, After: w.selector(), Answered: true, Comeback: back()})
	}
}

func back() fault.Comeback { return fault.Comeback{RestartAfter: fault.DefaultRestart} }

// refusals are those that a write may meet.
var refusals = []fault.Answer{
	{Code: "409"}, {Code: "500"}, {Code: "429"}, {Code: fault.CodeTimeout}, {Code: fault.CodeTimeout, Committed: true},
}

func (l *list) refusals(kept []*call) {
	for _, w := range kept {
		for _, r := range refusals {
			if r.Code == "409" && !conflicts(w) {
				l.prune("a conflict for a write that names no version", 1)
				continue
			}
			r.Request = w.selector()
			l.add(KindRefuse, r.Code+fmt.Sprint(r.Committed)+l.class(w), &r)
		}
	}
}

// conflicts says whether another writer could have made the write a conflict: it says on which version it is based.
// A create conflicts with an object that is there, and there is none.
func conflicts(w *call) bool {
	return w.Verb == "update" || w.Verb != "create" && hasVersion(w.RequestBody)
}

// leaderPause is longer than the lease lasts, and than another replica waits for it.
func (l *list) leaderPause() time.Duration { return l.leases + l.leases/2 + 2*time.Second }

func (l *list) leaders(kept []*call) {
	if l.leases == 0 {
		return
	}
	// Whichever of two replicas leads: it cannot renew its lease any more.
	for _, client := range []string{l.operators[0], l.operators[0] + "-2"} {
		for _, code := range []string{"500", "403"} {
			l.addTry(KindLeader, "renew"+client+code, trial.Try{Replicas: 2, Plan: &fault.Plan{Seed: l.seed, Faults: []fault.Fault{
				&fault.Answer{Request: fault.Selector{Verb: "UPDATE", Resource: "leases"}, Client: client, Code: code},
			}}})
		}
	}
	for _, w := range kept {
		for _, process := range []string{operator, l.operators[0] + "-2"} {
			pause := &fault.Pause{Process: process, From: w.selector(), For: l.leaderPause()}
			l.addTry(KindLeader, process+l.class(w), trial.Try{Plan: &fault.Plan{Seed: l.seed, Faults: []fault.Fault{pause}}, Replicas: 2})
		}
		l.add(KindLeader, "alone "+l.class(w), &fault.Pause{Process: operator, From: w.selector(), For: l.leaderPause()})
	}
}

func (l *list) clocks() {
	for _, c := range l.calls {
		if l.outside(c) {
			l.add(KindClock, c.kind, &fault.Skip{Clock: time.Hour, At: fault.Moment{Call: c.selector()}})
		}
	}
}

func (l *list) restarts() {
	for _, c := range l.calls {
		if l.outside(c) {
			l.add(KindRestart, c.kind, &fault.Restart{Process: operator, At: fault.Moment{Call: c.selector()}, Comeback: back()})
		}
	}
}

// outside says whether somebody else than the operator made a call.
func (l *list) outside(c *call) bool { return !slices.Contains(l.operators, c.Process) }

// interleavings is how many orders of threads are tried with one and with several processors.
const interleavings = 8

func (l *list) threads() {
	for i := range interleavings {
		for _, procs := range []int{1, 2, 4} {
			l.addTry(KindThreads, fmt.Sprint(procs), trial.Try{
				Plan: &fault.Plan{Seed: l.seed + uint64(i) + 1}, Threads: replay.ThreadsSeeded, Procs: procs,
			})
		}
	}
}
