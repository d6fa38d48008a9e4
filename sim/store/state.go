package store

import (
	"bytes"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sort"
	"strings"
	"sync/atomic"

	"github.com/tidwall/btree"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// entry is one stored version of one object. It is immutable but for the cache of decoded forms.
type entry struct {
	key     string
	rev     uint64
	data    []byte // as etcd would hold it: the storage version, without resourceVersion
	expires int64  // nanoseconds since the Unix epoch; 0 never
	forms   atomic.Pointer[form]
}

// form is an entry as one resource's codec decodes it. The versions of a custom resource have a codec
// each, and a changed CRD gets new ones, so an entry can have several.
type form struct {
	by    *resource
	obj   runtime.Object
	stale bool // the next write is to store it anew, changed or not
	next  *form
}

// maxForms bounds the cache of one entry; more than the served versions of a CRD seldom live at once.
const maxForms = 4

// object gives the entry as r decodes it. The result is shared: callers copy before they change it.
func (e *entry) object(r *resource) (runtime.Object, error) {
	f, err := e.form(r)
	if err != nil {
		return nil, err
	}
	return f.obj, nil
}

func (e *entry) form(r *resource) (*form, error) {
	first := e.forms.Load()
	n := 0
	for f := first; f != nil; f = f.next {
		if f.by == r {
			return f, nil
		}
		n++
	}
	plain, stale, err := r.fromStorage(e.key, e.data)
	if err != nil {
		return nil, err
	}
	obj, err := r.decode(plain, e.rev)
	if err != nil {
		return nil, err
	}
	rest := first
	if n >= maxForms {
		rest = nil
	}
	f := &form{by: r, obj: obj, stale: stale, next: rest}
	// Somebody faster decoded the same; then ours is just not kept.
	e.forms.CompareAndSwap(first, f)
	return f, nil
}

// objectAfter is object for an entry that holds what BEFORE holds at a later version.
func (e *entry) objectAfter(r *resource, before *entry) (runtime.Object, error) {
	for f := e.forms.Load(); f != nil; f = f.next {
		if f.by == r {
			return f.obj, nil
		}
	}
	was, err := before.object(r)
	if err != nil {
		return nil, err
	}
	obj := was.DeepCopyObject()
	// An object that cannot carry a version is still an object.
	_ = r.versioner.UpdateObject(obj, e.rev)
	e.forms.CompareAndSwap(e.forms.Load(), &form{by: r, obj: obj, next: e.forms.Load()})
	return obj, nil
}

// change is one commit. A create has no before, a delete no after.
type change struct {
	rev           uint64
	key           string
	before, after *entry
	// gone is the deleted object at the version of its deletion: what a DELETED event shows.
	gone *entry
}

// journal is the history of one resource, oldest first.
type journal struct {
	changes []*change
	dropped int    // changes compacted away; cursors count them
	bare    int    // changes before this cursor keep no decoded forms of what they replaced
	floor   uint64 // no watch can begin before it, since changes were dropped by age
}

// fullChanges is how many of a journal's newest changes keep the decoded forms of what they replaced, for
// watches that begin a little in the past.
const fullChanges = 32

// shed drops decoded forms that are five times as large as what is stored: those of objects that were replaced,
// once every stream has passed the change, that is the cursor PASSED. What still needs one decodes it again.
func (j *journal) shed(passed int) {
	for passed = min(passed, j.end()-fullChanges); j.bare < passed; j.bare++ {
		if j.bare < j.dropped {
			continue
		}
		c := j.changes[j.bare-j.dropped]
		if c.before != nil {
			c.before.forms.Store(nil)
		}
		if c.gone != nil {
			c.gone.forms.Store(nil)
		}
	}
}

func (j *journal) end() int { return j.dropped + len(j.changes) }

// after gives the cursor behind all changes up to rev.
func (j *journal) after(rev uint64) int {
	return j.dropped + j.upTo(rev)
}

type tree = btree.Map[string, *entry]

// state is the whole world; all that Snapshot keeps and Restore brings back.
type state struct {
	rev       uint64
	compacted uint64 // states and events before it are gone
	listable  uint64 // states before it are; see Age
	objects   *tree
	journals  map[string]*journal // by resource prefix
	// counts of creations by key and of generated names by base: uids and names are made from them.
	counts *btree.Map[string, uint32]
	// expiries holds expiryKey of every object with a time to live.
	expiries *btree.Map[string, struct{}]
}

func newState() state {
	return state{
		rev: 1, objects: new(tree), journals: map[string]*journal{},
		counts: new(btree.Map[string, uint32]), expiries: new(btree.Map[string, struct{}]),
	}
}

// fork copies in time independent of the number of objects: trees share their nodes, journals their
// changes (their capacity is clipped, so that neither side appends into the other's).
func (s *state) fork() state {
	f := *s
	f.objects, f.counts, f.expiries = s.objects.Copy(), s.counts.Copy(), s.expiries.Copy()
	f.journals = maps.Clone(s.journals)
	for k, j := range f.journals {
		f.journals[k] = &journal{changes: slices.Clip(j.changes), dropped: j.dropped, bare: j.bare, floor: j.floor}
	}
	return f
}

func (s *state) journal(prefix string) *journal {
	j := s.journals[prefix]
	if j == nil {
		j = &journal{}
		s.journals[prefix] = j
	}
	return j
}

// next counts up and returns how often it was called for key before.
func (s *state) next(key string) uint32 {
	n, _ := s.counts.Get(key)
	s.counts.Set(key, n+1)
	return n
}

// set makes e the object at its key (nil: none) without a journal entry.
func (s *state) set(key string, old, e *entry) {
	if old != nil && old.expires != 0 {
		s.expiries.Delete(expiryKey(old))
	}
	if e == nil {
		s.objects.Delete(key)
		return
	}
	s.objects.Set(key, e)
	if e.expires != 0 {
		s.expiries.Set(expiryKey(e), struct{}{})
	}
}

func expiryKey(e *entry) string { return fmt.Sprintf("%020d %s", e.expires, e.key) }

// at is the objects as they were at rev, for the resource of prefix only: the newest ones with the
// later changes taken back.
func (s *state) at(prefix string, rev uint64) *tree {
	j := s.journals[prefix]
	if j == nil || len(j.changes) == 0 || j.changes[len(j.changes)-1].rev <= rev {
		return s.objects
	}
	t := s.objects.Copy()
	for _, c := range slices.Backward(j.changes) {
		if c.rev <= rev {
			break
		}
		if c.before == nil {
			t.Delete(c.key)
		} else {
			t.Set(c.key, c.before)
		}
	}
	return t
}

// compact forgets what led to the state at rev. That state itself can still be listed and watched from.
func (s *state) compact(rev uint64) {
	s.compacted = max(s.compacted, rev)
	for _, j := range s.journals {
		j.drop(j.upTo(rev))
	}
}

// oldestState is the first version whose state can be listed.
func (s *state) oldestState() uint64 { return max(s.compacted, s.listable) }

// upTo is how many of a journal's changes are not newer than rev.
func (j *journal) upTo(rev uint64) int {
	return sort.Search(len(j.changes), func(i int) bool { return j.changes[i].rev > rev })
}

// drop forgets the n oldest changes.
func (j *journal) drop(n int) {
	j.changes = slices.Clone(j.changes[n:])
	j.dropped += n
}

// watchWindow is how many changes of a resource a watch cache holds at least, however old they are
// (k8s.io/apiserver/pkg/storage/cacher, defaultLowerBoundCapacity).
const watchWindow = 100

// age is what Age does; cached says whether the resource with a prefix has a watch cache.
func (s *state) age(rev uint64, cached func(prefix string) bool) {
	s.listable = max(s.listable, rev)
	for prefix, j := range s.journals {
		n := j.upTo(rev)
		if cached(prefix) {
			n = min(n, max(len(j.changes)-watchWindow, 0))
		}
		if n == 0 {
			continue
		}
		j.floor = j.changes[n-1].rev
		if n < len(j.changes) {
			j.floor = j.changes[n].rev - 1 // the cache does not know what it has dropped
		}
		j.drop(n)
	}
}

// ascend calls fn for every object under prefix from key start on, in the order of keys.
func ascend(t *tree, prefix, start string, fn func(*entry) bool) {
	t.Ascend(start, func(k string, e *entry) bool {
		return strings.HasPrefix(k, prefix) && fn(e)
	})
}

// Snapshot is a world as it was. It stays valid for ever and may be restored any number of times.
type Snapshot struct{ state state }

// ResourceVersion is the newest version in the snapshot.
func (s *Snapshot) ResourceVersion() uint64 { return s.state.rev }

// Snapshot keeps the world as it is now.
func (s *Store) Snapshot() *Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &Snapshot{state: s.state.fork()}
}

// Restore makes the world what it was at the snapshot. External watches end. Internal ones go on where
// their resource's history is the same in both worlds, and end where it is not: their informers list
// again.
func (s *Store) Restore(snap *Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.state.journals
	clear(s.views)
	clear(s.forgotten)
	s.state = snap.state.fork()
	for _, w := range slices.Clone(s.streams) {
		if w.external || !sameEnd(old[w.r.prefix], s.state.journals[w.r.prefix]) {
			w.stopLocked()
		}
	}
}

// sameEnd tells whether two journals of one resource end with the same change. A missing journal is as
// good as an empty one.
func sameEnd(a, b *journal) bool {
	last := func(j *journal) *change {
		if j == nil || len(j.changes) == 0 {
			return nil
		}
		return j.changes[len(j.changes)-1]
	}
	end := func(j *journal) int {
		if j == nil {
			return 0
		}
		return j.end()
	}
	return end(a) == end(b) && last(a) == last(b)
}

// Changed tells whether a resource's history differs between the world as it is and a snapshot.
func (s *Store) Changed(since *Snapshot, gr schema.GroupResource) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.resources[gr]
	return r != nil && !sameEnd(s.state.journals[r.prefix], since.state.journals[r.prefix])
}

// Compact forgets history before rev: an exact list of an older state and a watch from an older
// version get 410 Gone. It bounds the store's memory.
func (s *Store) Compact(rev uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.compact(min(rev, s.state.rev))
	for _, w := range s.streams {
		w.wakeUp()
	}
}

// Age forgets what a real cluster forgets when its API server has etcd compacted at a version, which it does every five
// minutes with the version of five minutes before: no older state can be listed. Watches are served from the watch
// cache, which knows a resource's newest hundred changes, or more where they are not older than REV; those of events,
// which have none, from etcd.
func (s *Store) Age(rev uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	uncached := map[string]bool{}
	for _, r := range s.resources {
		if !r.cached {
			uncached[r.prefix] = true
		}
	}
	s.state.age(min(rev, s.state.rev), func(prefix string) bool { return !uncached[prefix] })
	for _, w := range s.streams {
		w.wakeUp()
	}
}

// Object is a stored object in its stored form.
type Object struct {
	Key             string // as in etcd: /registry/pods/default/web-0
	ResourceVersion uint64
	// Data is the storage encoding (protobuf for built-in kinds, JSON for custom resources), without
	// resourceVersion. It must not be changed.
	Data []byte
}

// All yields every object in the order of keys.
func (s *Store) All() iter.Seq[Object] { return s.Snapshot().All() }

// All yields every object of the snapshot in the order of keys.
func (s *Snapshot) All() iter.Seq[Object] {
	return func(yield func(Object) bool) {
		s.state.objects.Scan(func(k string, e *entry) bool {
			return yield(Object{Key: k, ResourceVersion: e.rev, Data: e.data})
		})
	}
}

// Equal tells whether two snapshots hold the same objects, byte for byte, at the same versions.
func (s *Snapshot) Equal(o *Snapshot) bool {
	a, b := s.state.objects.Values(), o.state.objects.Values()
	return s.state.rev == o.state.rev && slices.EqualFunc(a, b, func(a, b *entry) bool {
		return a == b || a.key == b.key && a.rev == b.rev && bytes.Equal(a.data, b.data)
	})
}
