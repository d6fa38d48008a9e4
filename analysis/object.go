package analysis

import (
	"cmp"

	"github.com/opreplay/opreplay/analysis/internal/jsontext"
)

// Key names an object without its incarnation.
type Key struct{ Group, Resource, Namespace, Name string }

// State is one incarnation of an object.
type State struct {
	Object    // its uid last, beside what each row about it asks for
	Heartbeat bool
	Gone      bool

	captured bool // the recorder's own watch has shown it
	shared   bool // another object of that uid was seen later: one that two groups serve

	place   int32      // in the detectors' memories
	kept    uint64     // in which of them something is
	pending []*version // by RV
	told    perProcess[deliveries]

	// RV and Generation are those of the newest settled version, Body its text, "" when unknown. It is valid until the
	// next version settles.
	RV, Generation int64
	Body           string
	// Deleting is when the object was first seen with a deletionTimestamp; 0 otherwise.
	Deleting int64
	// Owner is the uid of its controller, else of its first owner.
	Owner string

	authors rings[written]
	text    []byte       // the memory of Body, which is used again for the next version
	top     jsontext.Top // of Body

	// GoneAt is when its deletion was seen, or that another of its name has taken its place.
	GoneAt   int64
	namesake *State // the next of that namespace and name
}

// Family is the uid that the object shares with its owner or its children.
func (s *State) Family() string { return cmp.Or(s.Owner, s.UID) }

// deliveries are the last versions of one object that one process was told of.
type deliveries struct {
	newest int64 // version
	last   rings[Delivery]
}

// Delivery is one version of an object reaching one process.
type Delivery struct {
	RV, Seq, TS int64
	// Event is false for the answer to a get, which wakes nobody.
	Event bool
}

func (s *State) newest() int64 {
	if n := len(s.pending); n > 0 {
		return max(s.RV, s.pending[n-1].rv)
	}
	return s.RV
}

// tell notes a delivery, and says the newest version that the process had been told of before.
func (s *State) tell(p *Process, d Delivery) (before int64) {
	t, _ := s.told.of(p)
	before, t.newest = t.newest, max(t.newest, d.RV)
	t.last.add(d)
	return before
}

// Newest is the newest version that the process was told of, by an event, a list or a get: 0 for none.
func (s *State) Newest(p *Process) int64 {
	if t := s.told.find(p); t != nil {
		return t.newest
	}
	return 0
}

// Key is the object's name without its incarnation.
func (s *State) Key() Key { return Key{s.Group, s.Resource, s.Namespace, s.Name} }

// Told is when the process was first told of a version from RV on: the zero Delivery when it was not. exact is
// false when it may have been told before, longer ago than is remembered.
func (s *State) Told(p *Process, rv int64) (first Delivery, exact bool) {
	exact = true
	t := s.told.find(p)
	if t == nil {
		return first, exact
	}
	for i := range t.last.len() {
		if d := t.last.newest(i); d.RV >= rv && (first.Seq == 0 || d.Seq < first.Seq) {
			first = *d
			exact = i < ring-1
		}
	}
	return first, exact
}

// Event is when the process got the event of exactly that version, the zero Delivery when it didn't.
func (s *State) Event(p *Process, rv int64) (event Delivery) {
	t := s.told.find(p)
	if t == nil {
		return event
	}
	for i := range t.last.len() {
		if d := t.last.newest(i); d.RV == rv && d.Event {
			event = *d // of several the first, by a watch that was not late
		} else if d.RV < rv-1 && event.Seq != 0 {
			break
		}
	}
	return event
}

// Authors yields the last writers, newest first.
func (s *State) Authors(f func(*Author) bool) {
	for i := range s.authors.len() {
		if a := s.authors.newest(i).author(); !f(&a) {
			return
		}
	}
}

// settledLate is whether the version that the call made has settled without it, because its answer took long.
func (s *State) settledLate(c *Call) bool {
	late := false
	s.Authors(func(a *Author) bool {
		late = a.RV == c.RV && a.Seq > c.StartSeq && a.Known != ByRequest
		return a.RV > c.RV
	})
	return late
}
