package analysis

import (
	"iter"
	"slices"
)

// memory is what a detector keeps of each object: a place in its State, which is found without a search. What is kept
// of an object ends with take, in the detector's Gone.
//
//	type Twice struct {
//		created memory[tries]
//	}
//
//	func (d *Twice) memories() []placed { return []placed{&d.created} }
//
// A detector belongs to one analysis.
type memory[T any] struct {
	place int
	// late is what was kept of objects after they had gone, such as the answer to a slow call.
	late map[*State]*T
}

// placed is a memory whose place is given when an analysis begins.
type placed interface{ at(place int) }

// rememberer is a detector with memories.
type rememberer interface{ memories() []placed }

func (m *memory[T]) at(place int) { m.place = place }

// of is what is kept of the object, nil for nothing.
func (m *memory[T]) of(s *State) *T {
	if s.Gone || m.place >= len(s.slots) {
		return m.late[s]
	}
	x, _ := s.slots[m.place].(*T)
	return x
}

// keep puts x in place of what was kept of the object.
func (m *memory[T]) keep(s *State, x *T) {
	if !s.Gone && m.place < len(s.slots) {
		s.slots[m.place] = x
		return
	}
	if m.late == nil {
		m.late = map[*State]*T{}
	}
	m.late[s] = x
}

// take is what was kept of an object that is gone, and is no longer.
func (m *memory[T]) take(s *State) *T {
	if x := m.late[s]; x != nil {
		delete(m.late, s)
		return x
	}
	if m.place >= len(s.slots) {
		return nil
	}
	x, _ := s.slots[m.place].(*T)
	s.slots[m.place] = nil
	return x
}

// all yields what is kept, in no particular order.
func (m *memory[T]) all(of *Model) iter.Seq2[*State, *T] {
	return func(yield func(*State, *T) bool) {
		for s := range of.Objects {
			if x := m.of(s); x != nil && !yield(s, x) {
				return
			}
		}
		for s, x := range m.late {
			if !yield(s, x) {
				return
			}
		}
	}
}

// sorted are the objects of which something is kept.
func (m *memory[T]) sorted(of *Model) []*State {
	var states []*State
	for s := range m.all(of) {
		states = append(states, s)
	}
	slices.SortFunc(states, func(a, b *State) int { return a.Object.compare(b.Object) })
	return states
}

// perProcess is a list of one T for each process: they are few, mostly one.
type perProcess[T any] struct {
	process *Process
	x       T
	next    *perProcess[T]
}

// find is the process's, nil where there is none. The list may be nil.
func (l *perProcess[T]) find(p *Process) *T {
	for ; l != nil; l = l.next {
		if l.process == p {
			return &l.x
		}
	}
	return nil
}

// all yields the processes with what is theirs.
func (l *perProcess[T]) all(yield func(*Process, *T) bool) {
	for ; l != nil; l = l.next {
		if !yield(l.process, &l.x) {
			return
		}
	}
}

// of is the process's in a list, made if there is none: made says so.
func of[T any](list **perProcess[T], p *Process) (x *T, made bool) {
	if x := (*list).find(p); x != nil {
		return x, false
	}
	l := &perProcess[T]{process: p, next: *list}
	*list = l
	return &l.x, true
}
