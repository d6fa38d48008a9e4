package analysis

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/opreplay/opreplay/analysis/internal/jsontext"
	"github.com/opreplay/opreplay/traces"
)

// version is a version of an object that has not settled.
type version struct {
	state           *State
	rv, gen         int64
	body            string
	seq, ts         int64 // of the row that showed it first
	call            *Call
	manager         string
	deleted, closed bool
}

func (m *Model) tick(h *traces.Head) {
	if m.FirstTS == 0 || h.TS < m.FirstTS {
		m.FirstTS = h.TS
	}
	m.LastTS = max(m.LastTS, h.TS)
	for m.pending.len() > 0 {
		v := m.pending.front()
		complete := v.body != "" && v.call != nil
		if !v.closed && !complete && m.LastTS-v.ts < settleAfter && m.pending.len() < maxPending {
			return
		}
		m.pending.pop()
		if !v.closed {
			m.settle(v.state, v.rv)
		}
		m.spare.put(v)
	}
}

// used is up to which row nothing is used any more, after the row of that seq: what waits has texts of the row that
// showed it first, and of later ones.
func (m *Model) used(seq int64) int64 {
	if m.pending.len() > 0 {
		return min(seq, m.pending.front().seq) - 1
	}
	return seq - 1
}

// finish settles all that waits.
func (m *Model) finish() {
	for m.pending.len() > 0 {
		if v := m.pending.pop(); !v.closed {
			m.settle(v.state, v.rv)
		}
	}
}

// find is the pending version of that number, made when it is new; nil when it is settled or older.
func (m *Model) find(s *State, rv int64, h *traces.Head) *version {
	if rv <= s.RV || s.Gone {
		return nil
	}
	i, found := slices.BinarySearchFunc(s.pending, rv, func(v *version, rv int64) int { return cmp.Compare(v.rv, rv) })
	if found {
		return s.pending[i]
	}
	v := m.spare.get()
	*v = version{state: s, rv: rv, seq: h.Seq, ts: h.TS}
	s.pending = slices.Insert(s.pending, i, v)
	m.pending.push(v)
	return v
}

// end tells the detectors of a deletion that made no version of its own.
func (m *Model) end(s *State, w *traces.WatchEvent) {
	c := &Change{State: s, Before: s.Body, After: s.Body, RV: s.RV, PrevRV: s.RV, Generation: s.Generation, PrevGen: s.Generation, Seq: w.Seq, TS: w.TS, Deleted: true, model: m, before: &s.top, after: s.top}
	for _, d := range m.on.changes {
		d.Change(m, c)
	}
	s.GoneAt = w.TS
	m.gone(s)
}

// settle hands the object's pending versions up to rv to the detectors.
func (m *Model) settle(s *State, rv int64) {
	n := 0
	for n < len(s.pending) && s.pending[n].rv <= rv {
		n++
	}
	for _, v := range s.pending[:n] {
		v.closed = true
	}
	for _, v := range s.pending[:n] {
		if s.Gone {
			break
		}
		m.change(s, v)
	}
	rest := copy(s.pending, s.pending[min(n, len(s.pending)):])
	clear(s.pending[rest:])
	s.pending = s.pending[:rest]
}

func (m *Model) change(s *State, v *version) {
	c := &m.scratch
	*c = Change{
		State: s, Before: s.Body, After: v.body, RV: v.rv, PrevRV: s.RV, Generation: v.gen, PrevGen: s.Generation,
		Seq: v.seq, TS: v.ts, Created: s.RV == 0, Deleted: v.deleted, model: m,
		before: &s.top,
		Author: Author{RV: v.rv, Seq: v.seq, TS: v.ts, Manager: v.manager},
	}
	if v.call != nil {
		c.Author.Call, c.Author.Process, c.Author.Manager, c.Author.Known = v.call, v.call.Process, v.call.Manager, ByRequest
	}
	if s.Heartbeat || c.Before == "" || c.After == "" {
		c.after = jsontext.Split(c.After)
	} else {
		c.after, c.leaves = m.differ.Follow(c.before, c.After)
		c.diffed, c.known = true, true
	}
	m.metadata(s, c)
	m.kin.change(m, c)
	for _, d := range m.on.changes {
		d.Change(m, c)
	}
	if c.Author.Call != nil {
		c.Author.Call.Body = ""
	}
	s.authors.add(c.written())
	s.RV, s.Generation = v.rv, v.gen
	m.bodies.keep(s, &c.after)
	m.bodies.shrink(m)
	if v.deleted {
		s.GoneAt = v.ts
		m.gone(s)
	}
}

// metadata notices what every detector wants to know of an object.
func (m *Model) metadata(s *State, c *Change) {
	if c.After == "" {
		return
	}
	if c.Created || c.Before == "" {
		s.Heartbeat = s.Heartbeat || heartbeatObject(s.Key(), c.After)
	}
	if s.Deleting != 0 || s.Heartbeat {
		return
	}
	leaves, known := c.Diff()
	changed := !known && strings.Contains(c.After, `"deletionTimestamp"`)
	for i := range leaves {
		changed = changed || leaves[i].Path == "metadata.deletionTimestamp"
	}
	if changed {
		if t, ok := c.Get("metadata", "deletionTimestamp"); ok && t != "null" {
			s.Deleting = c.TS
			if since, err := time.Parse(time.RFC3339, jsontext.Text(t)); err == nil && c.Created {
				s.Deleting = min(c.TS, since.UnixNano())
			}
		}
	}
}

// gone forgets an object, but for a tombstone.
func (m *Model) gone(s *State) {
	if s.Gone { // its deletion was among the versions that waited
		return
	}
	s.Gone = true
	m.unname(s)
	s.GoneAt = cmp.Or(s.GoneAt, m.LastTS)
	m.bodies.drop(s)
	for _, d := range m.on.gone {
		d.Gone(m, s)
	}
	m.kin.gone(s)
	s.authors, s.told = rings[written]{}, perProcess[deliveries]{} // a tombstone is name, uid and version
	s.kept, m.free = 0, append(m.free, s.place)
	m.tombs.push(s)
	if m.tombs.len() > maxTombs {
		m.forget(m.tombs.pop())
	}
}
