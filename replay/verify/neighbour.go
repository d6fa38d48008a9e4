package verify

import (
	"reflect"
	"slices"
	"time"

	"github.com/opreplay/opreplay/replay"
	"github.com/opreplay/opreplay/replay/explore"
	"github.com/opreplay/opreplay/replay/trial"
	"github.com/opreplay/opreplay/sim/fault"
)

// Family is what makes a plan a neighbour.
type Family string

// The families, in the order in which they are run.
const (
	Own   Family = "the case's own plan"
	Seeds Family = "the plan with other seeds"
	Near  Family = "the plan with one thing altered"
	Alike Family = "other plans of its kinds"
)

// families is their order.
var families = []Family{Own, Seeds, Near, Alike}

// neighbour is a try and why it is run.
type neighbour struct {
	family Family
	try    trial.Try
}

// otherSeeds is how many.
const otherSeeds = 4

// neighbours are the tries around one, each once, at most BUDGET with itself. ALL are those of an exploration.
func neighbours(own trial.Try, all []explore.Planned, budget int) (list []neighbour) {
	seen := map[string]bool{}
	add := func(f Family, t trial.Try) {
		if k := t.Key(); !seen[k] && len(list) < budget {
			seen[k] = true
			list = append(list, neighbour{f, t})
		}
	}
	add(Own, own)
	for i := range uint64(otherSeeds) {
		t := own
		t.Plan = &fault.Plan{Seed: own.Plan.Seed + i + 1, Faults: own.Plan.Faults}
		if i%2 == 1 || own.Threads != "" {
			t.Threads = replay.ThreadsSeeded
		}
		add(Seeds, t)
	}
	if len(own.Without) > 0 {
		t := own
		t.Without = nil
		add(Near, t)
	}
	kinds := map[string]bool{}
	for i, f := range own.Plan.Faults {
		kinds[f.Kind()] = true
		for _, g := range altered(f) {
			t := own
			t.Plan = &fault.Plan{Seed: own.Plan.Seed, Faults: slices.Clone(own.Plan.Faults)}
			t.Plan.Faults[i] = g
			add(Near, t)
		}
	}
	for _, p := range all {
		if slices.ContainsFunc(p.Try.Plan.Faults, func(f fault.Fault) bool { return kinds[f.Kind()] }) {
			add(Alike, p.Try)
		}
	}
	return list
}

// altered are the forms of a fault with one thing about it altered that a plan may hold.
func altered(f fault.Fault) (all []fault.Fault) {
	was := parsed(f)
	alter(reflect.ValueOf(f).Elem(), func() {
		if g := parsed(f); g != nil && g.String() != was.String() && !unending(was, g) {
			all = append(all, g)
		}
	})
	return all
}

// parsed is a copy of a fault, nil if no plan may hold it.
func parsed(f fault.Fault) fault.Fault {
	p, err := fault.Parse("neighbour", []byte((&fault.Plan{Faults: []fault.Fault{f}}).String()))
	if err != nil || len(p.Faults) != 1 {
		return nil
	}
	return p.Faults[0]
}

// unending says whether the answers of all calls are committed in one of two faults and not in the other: who is
// never told that its writes were made (that it has the lease, say) is not expected to go on.
func unending(f, g fault.Fault) bool {
	a, ok := f.(*fault.Answer)
	if !ok {
		return false
	}
	b, ok := g.(*fault.Answer)
	return ok && a.Committed != b.Committed && a.Nth == 0 && a.Request.N == 0
}

// another are members of faults that make another fault of one: who never comes back is not expected to have done
// its work.
var another = []string{"Never", "Conversion", "Required", "Removed"}

// alter sets one thing about a fault after the other to what it could be as well, has NOTE look at the fault, and
// sets it back.
func alter(v reflect.Value, note func()) {
	set := func(x any) {
		was := reflect.New(v.Type()).Elem()
		was.Set(v)
		v.Set(reflect.ValueOf(x).Convert(v.Type()))
		note()
		v.Set(was)
	}
	switch x := v.Interface().(type) {
	case fault.Selector:
		if x.Verb == "" {
			return // it selects nothing
		}
		n := x.N
		for _, x.N = range []int{max(n, 1) + 1, n - 1} {
			if x.N > 0 {
				set(x)
			}
		}
	case time.Duration:
		if x > 0 {
			set(2 * x)
			set((x / 2).Round(time.Millisecond))
		}
	case int: // the number of an occurrence
		if x > 0 {
			set(x + 1)
			set(max(x-1, 1))
		}
	case bool:
		set(!x)
	default:
		if v.Kind() == reflect.Struct {
			for i := range v.NumField() {
				if !slices.Contains(another, v.Type().Field(i).Name) {
					alter(v.Field(i), note)
				}
			}
		}
	}
}
