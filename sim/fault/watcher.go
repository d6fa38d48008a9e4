package fault

import (
	"fmt"
	"slices"
	"strings"
)

// Watcher finds the calls or the events that a selector means, and counts them exactly as a plan does: calls in the
// order in which they arrive, outsiders' included, events by their version. A selector without a number means each.
type Watcher struct {
	sel   Selector
	count counter
	hits  map[Ticket]bool // calls that have arrived
}

// Watch makes a Watcher. It must be made before the first call.
func (m *Machine) Watch(s Selector) *Watcher {
	w := &Watcher{sel: s, count: counter{sel: s}, hits: map[Ticket]bool{}}
	m.watchers = append(m.watchers, w)
	return w
}

// isEvent tells the selectors of events from those of calls.
func (s Selector) isEvent() bool {
	return s.Resource == "" || slices.Contains([]string{"ADDED", "MODIFIED", "DELETED"}, s.Verb)
}

// ParseWatched parses the selector of a call, or of an event: TYPE [RESOURCE/]NAME [-n NAMESPACE] [#N]. Without a
// resource it is the event of any.
func ParseWatched(text string) (Selector, error) {
	verb, _, _ := strings.Cut(strings.TrimSpace(text), " ")
	if verb == "*" || !slices.Contains(eventTypes, verb) {
		return ParseCall(text)
	}
	target := strings.TrimSpace(text)[len(verb):]
	resource, name, named := strings.Cut(target, "/")
	if !named {
		return ParseEvent(text)
	}
	s, err := ParseEvent(verb + " " + name)
	if s.Resource = strings.TrimSpace(resource); err == nil && (s.Resource == "" || strings.ContainsAny(s.Resource, " \t#\"'`{}[],")) {
		err = fmt.Errorf("selector %q: want TYPE RESOURCE/NAME, such as \"MODIFIED pods/db-0 #2\"", text)
	}
	return s, err
}

func (w *Watcher) arrive(c Call, t Ticket) {
	if !w.sel.isEvent() && w.count.call(c) {
		w.hits[t] = true
	}
}

func (w *Watcher) deliver(e Event) {
	if w.sel.isEvent() && w.means(e) {
		w.count.event(e)
	}
}

// means: an event's selector may name the resource, which in a plan the fault does.
func (w *Watcher) means(e Event) bool {
	return w.sel.matchEvent(e) && (w.sel.Resource == "" || matchResource(w.sel.Resource, e.Group, e.Resource))
}

// MeansCall says whether the call that has the ticket is one.
func (w *Watcher) MeansCall(t Ticket) bool { return w.hits[t] }

// MeansEvent says whether an event that is about to be delivered is one.
func (w *Watcher) MeansEvent(e Event) bool {
	return w.sel.isEvent() && w.means(e) && (w.sel.N == 0 || w.count.numbers[e.ResourceVersion] == w.sel.N)
}

// Seen is how many there were, the number aside.
func (w *Watcher) Seen() int { return w.count.seen }
