package store

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// View is the past that a process is shown of one resource, as by an API server whose watch cache lags: a
// whole state of the resource, from which watches go on no further. Lists have its version, as a cache's have.
// Reads of single objects, exact lists, writes and their preconditions are not touched by it.
type View struct {
	Resource        schema.GroupResource
	ResourceVersion uint64
	// Cached leaves out reads that ask for the most recent state, which an API server does not answer from a
	// cache that lags. A watch that begins with such a read is not held back either.
	Cached bool
	// Shown, if set, is told of each list, and each watch with initial events, that is answered so; consistent
	// says that it asked for the most recent state. It is called with the store locked and must not use it.
	Shown func(consistent bool)
}

// SetViews makes VIEWS, at most one for each resource, all that PROCESS is shown of the past. Without any it is
// shown the present: its watches go on from where they stand.
func (s *Store) SetViews(process string, views ...View) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.views, process)
	if len(views) > 0 {
		s.views[process] = views
	}
	for _, w := range s.streams {
		w.wakeUp()
	}
}

// view is what ctx's client is shown of r; nil for the present. mu is held.
func (s *Store) view(client Client, gr schema.GroupResource) *View {
	for i, v := range s.views[client.Process] {
		if v.Resource == gr {
			return &s.views[client.Process][i]
		}
	}
	return nil
}

// past is the version at which a read by ctx's client that asks for WANTED is answered; ok is false for the
// newest one. mu is held.
func (r *resource) past(ctx context.Context, wanted string) (rev uint64, ok bool) {
	client, external := ClientFrom(ctx)
	if !external {
		return 0, false
	}
	v := r.s.view(client, r.gr)
	consistent := wanted == ""
	if v == nil || v.Cached && consistent || v.ResourceVersion >= r.s.state.rev {
		return 0, false
	}
	if v.Shown != nil {
		v.Shown(consistent)
	}
	return v.ResourceVersion, true
}

// horizon is the newest version of which w may tell. mu is held.
func (w *stream) horizon() uint64 {
	if w.held {
		if v := w.r.s.view(w.info.Client, w.r.gr); v != nil {
			return v.ResourceVersion
		}
	}
	return w.r.s.state.rev
}

// hold says whether a watch that begins at version rev is one that a view of the past holds back: not if
// its client knows of something newer already. mu is held.
func (w *stream) hold(rev uint64) bool {
	if !w.external {
		return false
	}
	v := w.r.s.view(w.info.Client, w.r.gr)
	return v != nil && rev <= v.ResourceVersion
}

// Resources lists what the store holds or could hold, in order.
func (s *Store) Resources() []schema.GroupResource {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []schema.GroupResource
	for gr := range s.resources {
		all = append(all, gr)
	}
	slices.SortFunc(all, func(a, b schema.GroupResource) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Resource, b.Resource))
	})
	return all
}

// LastSame is the newest version of the world in which the object was as it was at REV. changed is false
// when it still is so. An empty namespace stands for any.
func (s *Store) LastSame(gr schema.GroupResource, namespace, name string, rev uint64) (last uint64, changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.resources[gr]
	if r == nil {
		return s.state.rev, false
	}
	j := s.state.journal(r.prefix)
	for _, c := range j.changes[max(j.after(rev)-j.dropped, 0):] {
		rest := strings.TrimPrefix(c.key, r.prefix)
		if ns, n, has := strings.Cut(rest, "/"); rest == name || has && n == name && (namespace == "" || ns == namespace) {
			return c.rev - 1, true
		}
	}
	return s.state.rev, false
}

// Forget makes every version of a resource that PROCESS can know now too old for it to watch from, as when it
// reaches an API server that has started since: 410 Gone. The version that it would list takes the next
// number, as if something else in the cluster had been written, which in a real one happens all the time.
func (s *Store) Forget(process string, gr schema.GroupResource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.rev++
	if s.forgotten[process] == nil {
		s.forgotten[process] = map[schema.GroupResource]uint64{}
	}
	s.forgotten[process][gr] = s.state.rev
}

// expired says whether a watch from version rev is answered by 410 Gone. mu is held.
func (w *stream) expired(rev uint64) bool {
	s := w.r.s
	return rev < w.r.oldest() || w.external && rev < s.forgotten[w.info.Client.Process][w.r.gr]
}

// oldest is the first version from which the resource can be watched. s.mu is held.
func (r *resource) oldest() uint64 {
	oldest := max(r.s.state.compacted, r.s.state.journal(r.prefix).floor)
	if !r.cached {
		return max(oldest, r.s.state.listable)
	}
	return oldest
}

// Ahead lists the events that wait behind the one that Peek shows and are newer than version AFTER.
func (s *Stream) Ahead(after uint64) []Event {
	w := s.w
	var out []Event
	for _, c := range w.waiting(after) {
		if ev, err := w.changed(c); err == nil && ev.Type != "" {
			out = append(out, gateEvent(ev, c.rev, false))
		}
	}
	return out
}

// waiting lists the changes that the stream has yet to come to and that are newer than a version.
func (w *stream) waiting(after uint64) []*change {
	s := w.r.s
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.state.journal(w.r.prefix)
	horizon := w.horizon()
	var out []*change
	for i := max(w.cursor, j.after(after), j.dropped); i < j.end(); i++ {
		c := j.changes[i-j.dropped]
		if c.rev > horizon {
			break
		}
		if c.rev > w.from && w.concerns(c.key) {
			out = append(out, c)
		}
	}
	return out
}
