package analysis

import (
	"iter"
	"slices"
)

// memory is what a detector keeps of each object, found without a search: the values for all objects are in one list,
// each at its object's place in it, so that what is looked at together lies together. What is kept of an object ends
// with take, in the detector's Gone.
//
//	type Twice struct {
//		created memory[tries]
//	}
//
//	func (d *Twice) memories() []placed { return []placed{&d.created} }
//
// A detector belongs to one analysis.
type memory[T any] struct {
	bit    uint64 // of State.kept
	chunks [][]T  // a value stays where it is, however many come
	// late is what was kept of objects after they had gone, such as the answer to a slow call.
	late map[*State]*T
}

// chunkBits is how many bits of an object's place are those within a chunk.
const chunkBits = 7

// maxMemories is how many memories there may be: as many as State.kept has bits.
const maxMemories = 64

// placed is a memory that is told which it is when an analysis begins.
type placed interface{ is(nth int) }

// rememberer is a detector with memories.
type rememberer interface{ memories() []placed }

func (m *memory[T]) is(nth int) { m.bit = 1 << nth }

// of is what is kept of the object, nil for nothing.
func (m *memory[T]) of(s *State) *T {
	if s.Gone {
		return m.late[s]
	}
	if s.kept&m.bit == 0 {
		return nil
	}
	return m.at(s)
}

// at is the object's place in the list, which must reach so far.
func (m *memory[T]) at(s *State) *T { return &m.chunks[s.place>>chunkBits][s.place&(1<<chunkBits-1)] }

// open is what is kept of the object, the zero T if nothing was.
func (m *memory[T]) open(s *State) *T {
	if s.Gone {
		x := m.late[s]
		if x == nil {
			if m.late == nil {
				m.late = map[*State]*T{}
			}
			x = new(T)
			m.late[s] = x
		}
		return x
	}
	if s.kept&m.bit != 0 {
		return m.at(s)
	}
	for int(s.place>>chunkBits) >= len(m.chunks) {
		m.chunks = append(m.chunks, make([]T, 1<<chunkBits))
	}
	s.kept |= m.bit
	x := m.at(s)
	*x = *new(T) // another object's, which was not taken
	return x
}

// take is what was kept of an object that is gone or going, and is no longer; nil for nothing.
func (m *memory[T]) take(s *State) *T {
	if x := m.late[s]; x != nil {
		delete(m.late, s)
		return x
	}
	if s.kept&m.bit == 0 {
		return nil
	}
	at := m.at(s)
	x := *at
	*at = *new(T)
	s.kept &^= m.bit
	return &x
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

// perProcess is a list of one T for each process, the first in place: they are few, mostly one. The zero perProcess is
// an empty list.
type perProcess[T any] struct {
	process *Process
	next    *perProcess[T]
	x       T
}

// find is the process's, nil where there is none. The list may be nil.
func (l *perProcess[T]) find(p *Process) *T {
	for ; l != nil; l = l.next {
		if l.process == p && p != nil {
			return &l.x
		}
	}
	return nil
}

// all yields the processes with what is theirs.
func (l *perProcess[T]) all(yield func(*Process, *T) bool) {
	for ; l != nil; l = l.next {
		if l.process != nil && !yield(l.process, &l.x) {
			return
		}
	}
}

// of is the process's, made if there is none: made says so.
func (l *perProcess[T]) of(p *Process) (x *T, made bool) {
	if x := l.find(p); x != nil {
		return x, false
	}
	if l.process != nil {
		l.next = &perProcess[T]{next: l.next}
		l = l.next
	}
	l.process = p
	return &l.x, true
}
