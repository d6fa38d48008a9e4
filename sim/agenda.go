package sim

import (
	"math"
	"slices"
	"strings"
)

// Never is the time of an item that waits for something other than time: one that a fault holds.
const Never = math.MaxInt64

// Item is one pending step of the world.
type Item struct {
	// Lane is what keeps its order: items of one lane are applied in the order in which they were
	// scheduled, whatever their times. "" gives the item a lane of its own.
	Lane string
	// Kind is what sort of step it is, in one word: request, answer, deliver, outsider, fault, …
	Kind string
	// Subject says what the step is about, in words.
	Subject string
	// Rule is the plan's fault that timed it, in its one-line form; "" for none.
	Rule string
	// About is what the step is about, for who looks at it as it is taken: a call, an event. It may be nil.
	About any
	// Apply does it. It may schedule further items.
	Apply func() error

	at   int64
	seq  uint64
	lane *lane
	done bool
}

// At is the earliest virtual time of the item, in nanoseconds since the Unix epoch.
func (i *Item) At() int64 { return i.at }

// agenda is the pending items, by lane. Its methods look at lanes in an order that depends on nothing
// but the history of calls.
type agenda struct {
	lanes []*lane // those with items, sorted by name and then age
	seq   uint64
	size  int
}

type lane struct {
	name  string
	born  uint64
	items []*Item
}

func compareLanes(a, b *lane) int {
	if c := strings.Compare(a.name, b.name); c != 0 {
		return c
	}
	switch {
	case a.born < b.born:
		return -1
	case a.born > b.born:
		return 1
	}
	return 0
}

func (g *agenda) add(at int64, it *Item) {
	g.seq++
	it.at, it.seq, it.done = at, g.seq, false
	key := &lane{name: it.Lane}
	if it.Lane == "" {
		key.born = it.seq // its own
	}
	i, found := slices.BinarySearchFunc(g.lanes, key, compareLanes)
	if !found {
		g.lanes = slices.Insert(g.lanes, i, key)
	}
	it.lane = g.lanes[i]
	it.lane.items = append(it.lane.items, it)
	g.size++
}

// remove takes an item out, wherever in its lane it stands.
func (g *agenda) remove(it *Item) {
	if it.done || it.lane == nil {
		return
	}
	it.done = true
	l := it.lane
	l.items = slices.DeleteFunc(l.items, func(o *Item) bool { return o == it })
	g.size--
	if len(l.items) == 0 {
		if i, found := slices.BinarySearchFunc(g.lanes, l, compareLanes); found {
			g.lanes = slices.Delete(g.lanes, i, i+1)
		}
	}
}

// drop takes out all items of a lane.
func (g *agenda) drop(name string) {
	if i, found := slices.BinarySearchFunc(g.lanes, &lane{name: name}, compareLanes); found {
		for _, it := range g.lanes[i].items {
			it.done = true
			g.size--
		}
		g.lanes = slices.Delete(g.lanes, i, i+1)
	}
}

// next is the earliest time of any lane's first item, and the first items that share it.
func (g *agenda) next() (at int64, heads []*Item) {
	at = Never
	for _, l := range g.lanes {
		switch head := l.items[0]; {
		case head.at < at:
			at, heads = head.at, append(heads[:0], head)
		case head.at == at && at != Never:
			heads = append(heads, head)
		}
	}
	return at, heads
}
