package html

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/opreplay/opreplay/traces"
)

// flame is one box of a flame graph (Gregg, "The Flame Graph", CACM 2016): a function, as wide as the samples in
// which it stood at this place.
type flame struct {
	Name   string   `json:"name"`
	Where  string   `json:"where,omitempty"` // file:line of the call, or of the leaf
	Weight int64    `json:"weight"`          // sampling periods
	In     []*flame `json:"in,omitempty"`

	inner map[string]*flame
}

// samples are those of a trace, the same stacks of one reconcile added up, in the order of their first.
type samples struct {
	list []sample
	at   map[sample]int // with weight 0 → index
}

type sample struct{ stack, kernel, pass, weight int64 }

func newSamples() *samples { return &samples{at: map[sample]int{}} }

func (s *samples) add(x *traces.Sample) {
	id := sample{stack: x.StackID, kernel: x.KernelStackID, pass: x.ReconcileID}
	i, known := s.at[id]
	if !known {
		i = len(s.list)
		s.at[id] = i
		s.list = append(s.list, id)
	}
	s.list[i].weight += max(1, x.Weight)
}

// narrow is the share of all samples under which a box is not drawn.
const narrow = 1.0 / 2000

// flame builds the graph of the samples whose reconcile is wanted; of all for nil. It is nil when there are none.
func (g *gathered) flame(wanted func(reconcile int64) bool) *flame {
	root := &flame{Name: "all"}
	for _, s := range g.samples.list {
		if wanted != nil && !wanted(s.pass) {
			continue
		}
		root.Weight += s.weight
		at := root
		for _, id := range []int64{s.stack, s.kernel} {
			for _, f := range slices.Backward(g.stacks[id]) {
				at = at.child(&f)
				at.Weight += s.weight
			}
		}
	}
	if root.Weight == 0 {
		return nil
	}
	root.settle(int64(float64(root.Weight) * narrow))
	return root
}

func (f *flame) child(frame *traces.Frame) *flame {
	name := cmp.Or(frame.Function, "unknown")
	c := f.inner[name]
	if c == nil {
		c = &flame{Name: name, Where: fmt.Sprintf("%s:%d", frame.File, frame.Line)}
		if f.inner == nil {
			f.inner = map[string]*flame{}
		}
		f.inner[name] = c
	}
	return c
}

// settle orders boxes by name, as flame graphs do, and drops those that are too narrow to see.
func (f *flame) settle(least int64) {
	f.In = slices.SortedFunc(maps.Values(f.inner), func(a, b *flame) int { return cmp.Compare(a.Name, b.Name) })
	f.In = slices.DeleteFunc(f.In, func(c *flame) bool { return c.Weight < least })
	f.inner = nil
	for _, c := range f.In {
		c.settle(least)
	}
}
