package analysis

import (
	"cmp"
	"slices"
	"strings"

	"github.com/opreplay/opreplay/traces"
)

// belief is what a process was last told of an object, where that is not the newest that there is.
type belief struct {
	state *State // the object as it really is
	// uid and rv are what it was told; known is the newest version of the object of today that it had been told of
	// before, 0 for none.
	uid       string
	rv, known int64
	seq, ts   int64
}

// other is whether the belief is about an earlier object of that name.
func (b *belief) other() bool { return b.uid != b.state.UID }

// beliefs are the views of processes that are not of today: an event told them of an earlier incarnation than the one
// that exists, or of an older version than one that they had been told of before. An older version of the same object
// that a watch tells late, but in order, is none.
type beliefs struct {
	of map[*Process]map[Key]*belief
}

// maxBeliefs bounds the beliefs of one process.
const maxBeliefs = 1 << 10

// event takes in what a process is told, and returns the belief when it is a new one.
func (b *beliefs) event(m *Model, e *Event) *belief {
	w, p := e.Row, e.Process
	if p == nil || w.UID == "" {
		return nil
	}
	mine := b.of[p]
	if e.State != nil && w.ResourceVersion >= e.Told || w.Type == string(traces.Deleted) {
		if len(mine) > 0 {
			delete(mine, Key{w.Group, w.Resource, w.Namespace, w.Name})
		}
		return nil
	}
	s := e.State
	x := &belief{rv: w.ResourceVersion, known: e.Told, seq: w.Seq, ts: w.TS}
	if s == nil {
		if s = m.Object(Key{w.Group, w.Resource, w.Namespace, w.Name}); s == nil || s.Gone || s.UID == w.UID {
			return nil
		}
		x.known = s.Newest(p)
	}
	if s.Heartbeat || len(mine) >= maxBeliefs {
		return nil
	}
	if mine == nil {
		if b.of == nil {
			b.of = map[*Process]map[Key]*belief{}
		}
		mine = map[Key]*belief{}
		b.of[p] = mine
	}
	x.state, x.uid = s, strings.Clone(w.UID)
	mine[s.Key()] = x
	return x
}

// call forgets the belief of what the process reads from the API server itself.
func (b *beliefs) call(c *Call) {
	if mine := b.of[c.Process]; len(mine) > 0 && c.Verb == "get" && c.OK() && c.State != nil && c.Subresource == "" {
		if x := mine[c.State.Key()]; x != nil && c.RV >= max(x.known, x.state.RV) {
			delete(mine, c.State.Key())
		}
	}
}

// before are the beliefs that the process had when a call began, in the order in which it came by them.
func (b *beliefs) before(c *Call) []*belief {
	var out []*belief
	for _, x := range b.of[c.Process] {
		if x.seq <= c.StartSeq {
			out = append(out, x)
		}
	}
	slices.SortFunc(out, func(x, y *belief) int { return cmp.Compare(x.seq, y.seq) })
	return out
}
