package events

import (
	"net/netip"
	"slices"
	"time"
)

// window is the time in which equal events become one.
const window = time.Second

// windows gathers events that are equal in all but time and thread, so that a storm becomes a row a second.
type windows struct {
	open  map[place]*gathered
	order []*gathered // by their first event
}

// place is what events have in common.
type place struct {
	kind    Kind
	pid, fd int
	address netip.AddrPort
	hash    uint64 // of the stack
}

type gathered struct {
	place
	first time.Duration
	event *Event
}

// maxOpen bounds the places of one window.
const maxOpen = 10_000

func placeOf(e *Event) place {
	p := place{e.Kind, e.PID, e.FD, netip.AddrPortFrom(e.Address, uint16(e.Port)), fnvOffset}
	for _, pc := range e.Stack {
		p.hash = (p.hash ^ pc) * fnvPrime
	}
	return p
}

// FNV-1a's constants, over words.
const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

// add takes an event. One that does not have to wait comes back.
func (w *windows) add(e *Event) *Event {
	p := placeOf(e)
	if g := w.open[p]; g != nil {
		g.event.Count++
		g.event.Time = max(g.event.Time, e.Time)
		return nil
	}
	if len(w.order) >= maxOpen {
		return e
	}
	if w.open == nil {
		w.open = map[place]*gathered{}
	}
	g := &gathered{p, e.Time, e}
	w.open[p] = g
	w.order = append(w.order, g)
	return nil
}

// due takes an event whose window is over at NOW, nil for none.
func (w *windows) due(now time.Duration) *Event {
	if len(w.order) == 0 || now-w.order[0].first < window {
		return nil
	}
	g := w.order[0]
	w.order = slices.Delete(w.order, 0, 1)
	delete(w.open, g.place)
	return g.event
}
