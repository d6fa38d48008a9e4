package recorder

import (
	"strings"
	"time"

	"github.com/opreplay/opreplay/traces"
)

// histories are the last versions of objects. What did not change for long is forgotten when there is too much text.
type histories struct {
	young, old map[objectName]*history
	bytes      int       // of young
	created    []created // lately, for calls that do not know the name
}

type objectName struct{ group, resource, namespace, name string }

type created struct {
	at time.Duration
	of *history
}

// history is an object's last versions, oldest first.
type history struct {
	name   objectName
	states []*state
}

// Bounds of what is remembered.
const (
	historyBytes = 64 << 20 // of text, of each of two generations
	maxStates    = 4096     // of an object
	lately       = 10 * time.Second
)

func nameOf(id *traces.Identity) objectName {
	return objectName{id.Group, id.Resource, id.Namespace, id.Name}
}

func (h *histories) find(n objectName) *history {
	if o := h.young[n]; o != nil {
		return o
	}
	o := h.old[n]
	if o != nil {
		delete(h.old, n)
		h.keep(o)
	}
	return o
}

func (h *histories) keep(o *history) {
	if h.bytes > historyBytes || h.young == nil {
		h.young, h.old, h.bytes = map[objectName]*history{}, h.young, 0
	}
	h.young[o.name] = o
	for _, s := range o.states {
		h.bytes += len(s.row.Object)
	}
}

func (h *histories) add(at time.Duration, e *traces.WatchEvent) {
	n := nameOf(&e.Identity)
	o := h.find(n)
	s := &state{at: at, row: e}
	if o == nil {
		// What a watch adds was not there before; what it modifies was, and has been forgotten.
		o = &history{name: n}
		s.known = e.Type == string(traces.Added)
		h.keep(o)
	} else {
		s.before, s.known = o.states[len(o.states)-1], true
		if s.before.row.ResourceVersion == e.ResourceVersion && s.before.row.Type != string(traces.Deleted) && e.Type != string(traces.Deleted) {
			return // the same once more, by another watch
		}
	}
	if e.Type == string(traces.Added) {
		for len(h.created) > 0 && at-h.created[0].at > lately {
			h.created = h.created[1:]
		}
		h.created = append(h.created, created{at, o})
	}
	o.states = append(o.states, s)
	h.bytes += len(e.Object)
	o.trim(at)
}

// trim forgets versions that no call under way can have made, but for the last two.
func (o *history) trim(now time.Duration) {
	n := 0
	for len(o.states)-n > 2 && (now-o.states[n].at > lately || len(o.states)-n > maxStates) {
		n++
	}
	if n > len(o.states)/2 { // now and then, not each time
		o.states = append(o.states[:0:0], o.states[n:]...)
		o.states[0].before, o.states[0].known = nil, false
	}
}

// named are the versions of the object that a call is about. One that is to get its name from the API server may be
// any that was created.
func (h *histories) named(row *traces.Request) []*state {
	n := nameOf(&row.Identity)
	if n.name != "" {
		if o := h.find(n); o != nil {
			return o.states
		}
		return nil
	}
	var all []*state
	for _, c := range h.created {
		if o := c.of; o.name.group == n.group && o.name.resource == n.resource && o.name.namespace == n.namespace {
			all = append(all, o.states...)
		}
	}
	return all
}

// last is the object as it was last told of before a time.
func (h *histories) last(row *traces.Request, before time.Duration) (found *state) {
	if row.Name == "" {
		return nil
	}
	for _, s := range h.named(row) {
		if s.at < before {
			found = s
		}
	}
	if !found.there() {
		return nil
	}
	return found
}

// prefixed says whether a name may be one that the API server made of a prefix.
func prefixed(name, generateName string) bool {
	return generateName != "" && strings.HasPrefix(name, generateName) && len(name) > len(generateName)
}
