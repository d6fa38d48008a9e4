package recorder

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/opreplay/opreplay/internal/apicall"
	"github.com/opreplay/opreplay/traces"
)

// store is where a reflector puts what it sees (cache.ReflectorStore): it appends to the trace, and
// remembers of each object only its version, to tell after a relist what was missed.
type store struct {
	s      *session
	gvr    schema.GroupVersionResource
	stream string
	// changed and removed are told of every object that there is now, or no more; nil for none.
	changed func(raw string)
	removed func(name string)

	mu      sync.Mutex
	objects map[string]seen // by namespace/name
	synced  chan struct{}   // closed by the first Replace
	done    bool            // synced is closed
	last    time.Time       // of the last thing heard
	why     string          // of the next relist
	version string          // resource version reached
}

// seen is an object as it was last.
type seen struct {
	uid, version string
	generation   int64
}

func newStore(s *session, gvr schema.GroupVersionResource, namespace string) *store {
	group := gvr.Group
	if group == "" {
		group = "core"
	}
	stream := "capture/" + group + "/" + gvr.Resource
	if namespace != "" {
		stream += "/" + namespace
	}
	return &store{
		s: s, gvr: gvr, stream: stream,
		objects: map[string]seen{}, synced: make(chan struct{}), last: time.Now(),
	}
}

// row appends an object's row.
func (st *store) row(t traces.EventType, o *rawObject) error {
	object, meta := o.raw, o.meta
	if st.s.redact != nil && object != "" {
		redacted, err := st.s.redact.Redact(apicall.Subject{Group: st.gvr.Group, Resource: st.gvr.Resource}, []byte(object))
		if err != nil {
			st.s.lose(newLoss(st.stream, 1, "an object that can't be redacted: "+err.Error()))
			return nil
		}
		object = string(redacted)
	}
	e := meta.Event(st.gvr, t, object)
	e.TS, e.Stream, e.Process = st.s.now().UnixNano(), st.stream, Process
	return st.s.Append(e)
}

// Process is the process name of the recorder's own watch rows.
const Process = "oprec"

func (st *store) put(t traces.EventType, obj any) error {
	o := obj.(*rawObject)
	st.mu.Lock()
	defer st.mu.Unlock()
	st.last, st.version = time.Now(), o.ResourceVersion
	if t == traces.Deleted {
		st.forget(o.Namespace + "/" + o.Name)
	} else {
		st.keep(o)
	}
	return st.row(t, o)
}

func (st *store) keep(o *rawObject) {
	st.objects[o.Namespace+"/"+o.Name] = seen{o.meta.UID, o.meta.ResourceVersion, o.meta.Generation}
	if st.changed != nil {
		st.changed(o.raw)
	}
}

func (st *store) forget(key string) {
	delete(st.objects, key)
	if st.removed != nil {
		_, name, _ := strings.Cut(key, "/")
		st.removed(name)
	}
}

// Add implements cache.ReflectorStore.
func (st *store) Add(obj any) error { return st.put(traces.Added, obj) }

// Update implements cache.ReflectorStore.
func (st *store) Update(obj any) error { return st.put(traces.Modified, obj) }

// Delete implements cache.ReflectorStore.
func (st *store) Delete(obj any) error { return st.put(traces.Deleted, obj) }

// Resync implements cache.ReflectorStore.
func (st *store) Resync() error { return nil }

// Bookmark implements cache.ReflectorBookmarkStore.
func (st *store) Bookmark(version string) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.last, st.version = time.Now(), version
	return nil
}

// refused notes why the server ended a watch.
func (st *store) refused(status []byte) {
	m, err := apicall.ParseMeta(status)
	if err != nil {
		return
	}
	st.mu.Lock()
	st.why = strings.TrimSpace(fmt.Sprintf("%d %s", m.Code, m.Reason))
	st.mu.Unlock()
	_ = st.row(traces.Error, &rawObject{raw: string(status), meta: m})
}

// Replace implements cache.ReflectorStore: a list. The first is the world as the recording finds it. A
// later one comes after a gap: what differs from before the gap becomes rows (SYNC for what is there,
// DELETED without an object for what is gone) and the gap a loss.
func (st *store) Replace(list []any, version string) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	gap := gap{from: st.last, version: st.version}
	here := make(map[string]bool, len(list))
	for _, item := range list {
		o := item.(*rawObject)
		key := o.Namespace + "/" + o.Name
		here[key] = true
		before, known := st.objects[key]
		if known && before.uid == o.meta.UID && before.version == o.meta.ResourceVersion {
			continue
		}
		if st.done {
			gap.saw(known, before, o)
		}
		st.keep(o)
		if err := st.row(traces.Sync, o); err != nil {
			return err
		}
	}
	for key, before := range st.objects {
		if here[key] {
			continue
		}
		st.forget(key)
		gap.deleted++
		if err := st.gone(key, before); err != nil {
			return err
		}
	}
	if st.done {
		st.missed(gap, version)
	} else {
		st.done = true
		close(st.synced)
	}
	st.last, st.version, st.why = time.Now(), version, ""
	return nil
}

// gone appends the row of an object that a relist didn't show any more.
func (st *store) gone(key string, before seen) error {
	namespace, name, _ := strings.Cut(key, "/")
	return st.row(traces.Deleted, &rawObject{meta: apicall.Meta{
		Namespace: namespace, Name: name, UID: before.uid,
		ResourceVersion: before.version, Generation: before.generation,
	}})
}

// gap is what a relist showed of the time before it.
type gap struct {
	from                      time.Time
	version                   string
	changed, created, deleted int64
	states                    int64 // that there were for certain and nobody saw
}

func (g *gap) saw(known bool, before seen, o *rawObject) {
	switch {
	case !known:
		g.created++
		g.states += max(0, o.meta.Generation-1)
	case before.uid != o.meta.UID:
		g.created++
		g.deleted++
		g.states++ // the old one's last state
	default:
		g.changed++
		g.states += max(0, o.meta.Generation-before.generation-1)
	}
}

// missed states the gap's loss. Where the list has the version that the watch had reached, there was
// none.
func (st *store) missed(g gap, version string) {
	if version == g.version && g.changed+g.created+g.deleted == 0 {
		return
	}
	why := st.why
	if why == "" {
		why = "the watch broke"
	}
	l := newLoss(st.stream, -1, fmt.Sprintf(traces.Relisted+"%s (objects changed: %d, created: %d, deleted: %d)", why, g.changed, g.created, g.deleted))
	l.From = g.from.UTC()
	if n := g.states + g.deleted; n > 0 {
		l.Count = n
		l.Reason += fmt.Sprintf("; at least %s in between", count(n, "state was not seen", "states were not seen"))
	}
	st.s.lose(l)
	st.s.o.note("%s: %s", st.stream, l.Reason)
}

func newLoss(source string, n int64, reason string) traces.Loss {
	now := time.Now().UTC()
	return traces.Loss{Source: source, From: now, To: now, Count: n, Reason: reason}
}
