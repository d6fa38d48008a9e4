package analysis

import (
	"cmp"
	"slices"

	"github.com/opreplay/opreplay/analysis/internal/meta"
	"github.com/opreplay/opreplay/traces"
)

// told is a watch event that reached a recorded process.
type told struct {
	seq, ts, rv int64
	state       *State
	kind        uint8 // in eventTypes
}

// eventTypes are the types of events, so that what is kept keeps no row's memory.
var eventTypes = [...]traces.EventType{traces.Error, traces.Modified, traces.Added, traces.Sync, traces.Deleted, traces.Bookmark}

// eventType is its place among them; what is none is an error.
func eventType(t string) uint8 {
	for i, known := range eventTypes {
		if t == string(known) {
			return uint8(i)
		}
	}
	return 0
}

// maxTold is how many of the last events to recorded processes are remembered, to know a reconcile's trigger by its
// seq: a key waits in a queue while others are served.
const maxTold = 1 << 16

// window remembers the last events to recorded processes, in the order of seq.
type window struct {
	events queue[told]
}

func (w *window) add(t told) {
	w.events.push(t)
	if w.events.len() > maxTold {
		w.events.pop()
	}
}

// find is the event of that seq, nil when it was none or was too long ago.
func (w *window) find(seq int64) *told {
	list := w.events.items[w.events.head:]
	// Events come at an even pace, so this one is near where its seq would be on a line from the first to the last.
	const near, tries = 16, 4
	for n := 0; n < tries && len(list) > 4*near; n++ {
		first, last := list[0].seq, list[len(list)-1].seq
		if seq < first || seq > last {
			return nil
		}
		i := int(float64(seq-first) / float64(max(1, last-first)) * float64(len(list)-1))
		from, to := max(0, i-near), min(len(list), i+near)
		switch {
		case list[from].seq > seq:
			list = list[:from]
		case list[to-1].seq < seq:
			list = list[to:]
		default:
			list = list[from:to]
		}
	}
	i, ok := slices.BinarySearchFunc(list, seq, func(t told, seq int64) int { return cmp.Compare(t.seq, seq) })
	if !ok {
		return nil
	}
	return &list[i]
}

// deliver tells the detectors of a watch row, and remembers what its process knows from it.
func (m *Model) deliver(p *Process, s *State, w *traces.WatchEvent) {
	e := &m.event
	*e = Event{Row: w, Process: p, State: s}
	if s != nil {
		e.Newest = s.newest()
		if meta.Captures(w.Process) {
			m.standIn(s, w)
		}
		if p != nil {
			e.Told = s.tell(p, Delivery{RV: w.ResourceVersion, Seq: w.Seq, TS: w.TS, Event: true})
			if len(m.on.passes) > 0 {
				m.told.add(told{w.Seq, w.TS, w.ResourceVersion, s, eventType(w.Type)})
			}
		}
	}
	for _, d := range m.on.events {
		d.Event(m, e)
	}
	e.Row = nil
}

// standIn takes an event of the recorder's own watch for one to each process whose watches could not be recorded, for
// its calls were seen by probes. Both are served at once; the trace states this as a loss.
func (m *Model) standIn(s *State, w *traces.WatchEvent) {
	for i := range m.Manifest.Operators {
		o := &m.Manifest.Operators[i]
		if !o.Probed {
			continue
		}
		p := m.process(o.Process)
		if p == nil {
			continue
		}
		s.tell(p, Delivery{RV: w.ResourceVersion, Seq: w.Seq, TS: w.TS, Event: true})
		if len(m.on.passes) > 0 {
			m.told.add(told{w.Seq, w.TS, w.ResourceVersion, s, eventType(w.Type)})
		}
	}
}
