package explore

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/opreplay/opreplay/sim/fault"
	"github.com/opreplay/opreplay/traces"
)

// viewLasts is how long a process is shown the past when it comes back, on top of what it may have to wait for the
// lease of the one before.
const viewLasts = 5 * time.Second

// views restart the operator on the state in which a thing was when a write that may depend on it was made, at a
// time when the thing has changed since.
func (l *list) views(kept []*call) {
	// What removes or makes things first: there a view of the past does most.
	order := slices.Clone(kept)
	rank := func(w *call) int { return slices.Index([]string{"delete", "create", "update", "patch"}, w.Verb) }
	slices.SortStableFunc(order, func(a, b *call) int { return rank(a) - rank(b) })
	for _, w := range order {
		for _, k := range slices.Sorted(maps.Keys(l.things)) {
			t := l.things[k]
			if !l.clients[resourceOf(&t.id)] {
				continue
			}
			if !l.related(w.key, k) {
				l.prune("a view of a thing that the write does not depend on", 1)
				continue
			}
			l.viewsOf(w, t)
		}
	}
}

func (l *list) viewsOf(w *call, t *thing) {
	i := t.stateAt(w.Start)
	if i < 0 || t.states[i].text == "" {
		l.prune("a view of a thing that was not there at the write", 1)
		return
	}
	var moments []int // states after which the operator is restarted
	for j := i + 1; j < len(t.states); j++ {
		if t.states[j].spec == t.states[i].spec && t.states[j].uid == t.states[i].uid {
			continue // only its status has changed
		}
		moments = append(moments, j)
	}
	if len(moments) == 0 {
		l.prune("a view of a thing that did not change after the write", 1)
		return
	}
	// Where another object has its name by now; where it has just changed; and at the end.
	chosen := []int{}
	for _, j := range moments {
		if t.states[j].uid != t.states[i].uid && t.states[j].text != "" {
			chosen = append(chosen, j)
			break
		}
	}
	for _, j := range []int{moments[0], moments[len(moments)-1]} {
		if !slices.Contains(chosen, j) {
			chosen = append(chosen, j)
		}
	}
	for n, j := range chosen {
		at := l.quiet(t.states[j].at)
		l.add(KindView, fmt.Sprint(n, w.Verb, resourceOf(&t.id), l.class(w)), &fault.Restart{
			Process: operator, At: fault.Moment{Time: at}, Comeback: fault.Comeback{
				RestartAfter: fault.DefaultRestart, For: viewLasts + l.leases,
				View: fault.View{Resource: resourceOf(&t.id), Name: t.id.Name, Namespace: t.id.Namespace, Call: w.selector()},
			},
		})
	}
}

// quiet is a time after a change at which the operator has reacted to it and others have not gone on: half-way to
// their next change, at most a second.
func (l *list) quiet(after int64) time.Duration {
	wait := time.Second
	if next, ok := l.nextOutside(after); ok {
		wait = min(wait, time.Duration(next-after)/2)
	}
	return (l.elapsed(after) + wait).Round(time.Millisecond)
}

// holds have each event come late: until after each later write that may depend on it, and until others have gone on.
func (l *list) holds(kept []*call) {
	for _, e := range l.events {
		waits := l.waits(e, kept)
		if len(waits) == 0 {
			l.prune("a delay of an event that nothing later depends on", 1)
		}
		for n, d := range waits {
			l.add(KindHold, fmt.Sprint(n, e.Type, e.resource(), e.byOp, e.nth), &fault.Hold{Watch: e.resource(), Client: operator, From: e.selector(), For: d})
		}
	}
}

// holdMargin is by how much an event comes later than what it is to come after.
const holdMargin = time.Second

// waits are how long an event is held: past the next write and past the next change by others that are related to
// it, and past the last ones, each once.
func (l *list) waits(e *event, kept []*call) (all []time.Duration) {
	var last time.Duration
	note := func(at int64) {
		d := (l.elapsed(at) - e.at + holdMargin).Round(100 * time.Millisecond)
		if d > last+last/2 { // one that is hardly longer shows nothing new
			all = append(all, d)
			last = d
		}
	}
	for _, c := range l.calls {
		if c.Start < e.TS || !l.related(c.key, e.key) {
			continue
		}
		if !l.outside(c) && !slices.Contains(kept, c) {
			continue
		}
		note(c.Start)
	}
	const most = 3
	if len(all) > most {
		l.prune("a delay between two that are tried", len(all)-most)
		all = append(all[:most-1:most-1], all[len(all)-1])
	}
	return all
}

// merges hide runs of events of one thing after which it is as before, or that end in another object of its name,
// or in between which the operator acted.
func (l *list) merges() {
	byKey := map[string][]*event{}
	for _, e := range l.events {
		byKey[e.key] = append(byKey[e.key], e)
	}
	for _, k := range slices.Sorted(maps.Keys(byKey)) {
		all := byKey[k]
		for i, from := range all {
			if from.byOp {
				l.prune("hiding an event of the operator's own write", 1)
				continue
			}
			l.mergesFrom(all, i)
		}
	}
}

// longestRun is how many changes by others are hidden at once.
const longestRun = 4

func (l *list) mergesFrom(all []*event, i int) {
	from, was := all[i], meaning(all[i].before)
	theirs := 0 // changes by others of the type of the last one, after from
	byType := map[string]int{}
	for _, to := range all[i+1:] {
		if to.byOp {
			continue
		}
		if theirs++; theirs > longestRun {
			break
		}
		byType[to.Type]++
		cancels := from.before != "" && to.Type != string(traces.Deleted) && meaning(to.Object) == was
		again := from.Type == string(traces.Deleted) && to.Type == string(traces.Added)
		class := "changes"
		switch {
		case cancels, from.Type == string(traces.Added) && to.Type == string(traces.Deleted):
			class = "cancels"
		case again || to.UID != from.UID:
			class = "another"
		case theirs > 1:
			l.prune("hiding a run of events that end in another state, beyond the first", 1)
			continue
		}
		sel := to.selector()
		sel.N = 0
		if n := byType[to.Type]; n > 1 || to.Type == from.Type && n > 0 {
			// Without a number it is the first of its type after from. The operator's own writes,
			// which it does not make while it sees nothing, are not counted.
			if n > 1 {
				sel.N = from.nth + n
			}
			if to.Type != from.Type && n > 1 {
				sel.N = to.nth
			}
		}
		l.add(KindMerge, fmt.Sprint(class, from.Type, to.Type, from.resource()), &fault.Merge{
			Watch: from.resource(), Client: operator, From: from.selector(), To: sel,
		})
	}
}

// cuts end a watch at an event, with a new list and without.
func (l *list) cuts() {
	// The end of an object first: it is what a list cannot show.
	events := slices.Clone(l.events)
	ends := func(e *event) int {
		if e.Type == string(traces.Deleted) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(events, func(a, b *event) int { return ends(a) - ends(b) })
	for _, gone := range []bool{true, false} {
		for _, e := range events {
			l.add(KindCut, fmt.Sprint(gone, e.Type, e.resource(), e.byOp), &fault.Cut{
				Watch: e.resource(), Client: operator, From: e.selector(), Gone: gone, Broken: !gone,
			})
		}
	}
}

// swaps have a write come after the next change by others that is related to it, and two writes that are under way
// at the same time in the other order.
func (l *list) swaps(kept []*call) {
	const near = 10 * time.Second
	for _, w := range kept {
		found := false
		for _, c := range l.calls {
			if c.Start <= w.Start || c.Start-w.Start > int64(near) || !l.outside(c) || !l.related(c.key, w.key) {
				continue
			}
			d := (time.Duration(c.Start-w.Start) + 10*time.Millisecond).Round(time.Millisecond)
			l.add(KindSwap, "others "+l.class(w), &fault.Latency{Request: w.selector(), Client: operator, Min: d, Max: d})
			found = true
			break
		}
		for _, o := range kept {
			if o == w || o.Start <= w.Start || o.Start >= w.TS {
				continue // not under way at the same time
			}
			d := (time.Duration(o.TS-w.Start) + time.Millisecond).Round(time.Millisecond)
			l.add(KindSwap, "own "+l.class(w)+o.kind, &fault.Latency{Request: w.selector(), Client: operator, Min: d, Max: d})
			found = true
		}
		if !found {
			l.prune("a write that races with nothing", 1)
		}
	}
}

// hasVersion says whether a body names the version on which it is based.
func hasVersion(body string) bool {
	if !strings.Contains(body, `"resourceVersion"`) {
		return false
	}
	var o struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	return json.Unmarshal([]byte(body), &o) == nil && o.Metadata.ResourceVersion != ""
}
