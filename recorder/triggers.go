package recorder

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/opreplay/opreplay/traces"
)

// queue is a work queue: what was put into it since its last pass of each key.
type queue struct{ added map[string][]addition }

// addition is one reason for a key's next pass.
type addition struct {
	at, due  time.Duration
	someTime bool  // due at a time that only the queue's rate limiter knows
	trigger  int64 // seq of the event that it follows from; 0 none, or unclear
}

// Bounds of a queue that nobody seems to work on.
const (
	maxKeys      = 100_000
	maxAdditions = 64 // of one key
)

func (q *queue) add(key string, a addition) {
	if len(q.added) >= maxKeys {
		clear(q.added)
	}
	if list := q.added[key]; len(list) < maxAdditions {
		q.added[key] = append(list, a)
	}
}

// started takes the additions of a key that its pass, begun at START, answers, and gives the trigger of the
// one that came due first.
func (q *queue) started(key string, start time.Duration) (trigger int64) {
	list := q.added[key]
	n := 0
	for n < len(list) && list[n].at <= start {
		n++
	}
	if n == 0 {
		return 0
	}
	first := list[0]
	for _, a := range list[1:n] {
		// What the rate limiter holds back would have begun a pass before the event, had it been due.
		if first.someTime && !a.someTime || !a.someTime && a.due < first.due {
			first = a
		}
	}
	if list = slices.Delete(list, 0, n); len(list) == 0 {
		delete(q.added, key)
	} else {
		q.added[key] = list
	}
	return first.trigger
}

// how says what the stack of an addition tells of it.
type how struct {
	self, owner bool // by controller-runtime's handler for the object itself, or for its owner
	waited      bool // by the queue, when its time had come
	priority    bool // to controller-runtime's priority queue
}

func describeAddition(frames []traces.Frame) (h how) {
	h.priority = len(frames) > 0 && strings.Contains(frames[0].Function, "/priorityqueue.")
	for _, f := range frames {
		switch {
		case strings.Contains(f.Function, "EnqueueRequestForObject"):
			h.self = true
		case strings.Contains(f.Function, "nqueueRequestForOwner"):
			h.owner = true
		case strings.HasSuffix(f.Function, ").waitingLoop"):
			h.waited = true
		}
	}
	return h
}

// delivery is an event that was delivered to the process, as a reason for a pass of a key.
type delivery struct {
	at       time.Duration
	row      *traces.WatchEvent
	resource string // group/resource
	version  string // of the object
	self     bool   // the key is the object's own, not its owner's
	usedBy   []listener
}

// listener is a goroutine that events are handed to. Its number tells it from the next one with its descriptor.
type listener struct {
	goroutine
	id uint64
}

// deliveries finds the event that an addition to a queue follows from: that a handler of an informer's was
// given before, about the same key. Each handler runs on a goroutine of its own and hears of one resource.
type deliveries struct {
	young, old map[string][]*delivery // by key
	resources  map[listener]string    // what a goroutine hears of
	// slack is by how much an event may come to us later than to the process: 0 where we hear it first.
	slack time.Duration
}

const maxDeliveries = 16 // remembered of one key

func newDeliveries() *deliveries {
	return &deliveries{young: map[string][]*delivery{}, resources: map[listener]string{}}
}

func (d *deliveries) add(at time.Duration, e *traces.WatchEvent) {
	if t := traces.EventType(e.Type); t == traces.Bookmark || t == traces.Error {
		return
	}
	resource, version := e.Group+"/"+e.Resource, e.ObjectHash
	d.put(keyOf(e.Namespace, e.Name), &delivery{at: at, row: e, resource: resource, version: version, self: true})
	for _, owner := range ownersOf(e.Object) {
		// Whether the owner has a namespace its reference does not say.
		d.put(keyOf(e.Namespace, owner), &delivery{at: at, row: e, resource: resource, version: version})
		if e.Namespace != "" {
			d.put(keyOf("", owner), &delivery{at: at, row: e, resource: resource, version: version})
		}
	}
}

func ownersOf(object string) (names []string) {
	if !strings.Contains(object, `"ownerReferences"`) {
		return nil
	}
	var o struct {
		Metadata struct {
			OwnerReferences []struct {
				Name string `json:"name"`
			} `json:"ownerReferences"`
		} `json:"metadata"`
	}
	if json.Unmarshal([]byte(object), &o) != nil {
		return nil
	}
	for _, r := range o.Metadata.OwnerReferences {
		if !slices.Contains(names, r.Name) {
			names = append(names, r.Name)
		}
	}
	return names
}

func (d *deliveries) put(key string, v *delivery) {
	list := d.of(key)
	if len(list) >= maxDeliveries {
		list = list[len(list)-maxDeliveries+1:]
	}
	if len(d.young) >= maxKeys {
		d.young, d.old = map[string][]*delivery{}, d.young
	}
	d.young[key] = append(list[:len(list):len(list)], v)
}

func (d *deliveries) of(key string) []*delivery {
	if list := d.young[key]; list != nil {
		return list
	}
	return d.old[key]
}

// tooClose is the time between two events below which an addition may be the answer to either.
const tooClose = 20 * time.Millisecond

// cause is the event that made the goroutine add KEY at the time AT, nil where that is unclear.
func (d *deliveries) cause(at time.Duration, by listener, key string, h how) *traces.WatchEvent {
	found, late := d.candidates(at, by, key, h)
	switch {
	case len(late) == 0:
	case len(found) == 0:
		found = late[:1]
	case at-found[len(found)-1].at > d.slack:
		return nil // the older one, or the one that we have heard after the process has
	}
	if len(found) == 0 {
		return nil
	}
	last := found[len(found)-1]
	for _, v := range found {
		if v.resource != last.resource {
			return nil // it can't be told yet which of the resources this goroutine hears of
		}
	}
	if _, listens := d.resources[by]; !listens && len(d.resources) < maxKeys {
		d.resources[by] = last.resource
	}
	for _, v := range d.of(key) {
		if v.resource == last.resource && v.at <= max(at, last.at) {
			v.usedBy = append(v.usedBy, by)
		}
	}
	if n := len(found); n > 1 && last.at-found[n-2].at < tooClose {
		return nil
	}
	return last.row
}

// candidates are the events about KEY that the goroutine may have been handed before AT, and those of which that
// can't be said: we have heard them a little later.
func (d *deliveries) candidates(at time.Duration, by listener, key string, h how) (found, late []*delivery) {
	hears, listens := d.resources[by]
	for _, v := range d.of(key) {
		list := &found
		if v.at > at {
			list = &late
		}
		n := len(*list)
		switch {
		case v.at > at+d.slack, h.self && !v.self, h.owner && v.self, listens && v.resource != hears, slices.Contains(v.usedBy, by):
			continue
		case n > 0 && (*list)[n-1].resource == v.resource && (*list)[n-1].version == v.version:
			continue // the same once more, by another watch
		}
		*list = append(*list, v)
	}
	return found, late
}
