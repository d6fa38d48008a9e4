package store

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Options configure a Store.
type Options struct {
	// Seed decides uids and generated names.
	Seed uint64
	// Clock is the world's time. It should lie before the wall clock, since that is how a time that the
	// API server took from the wall clock is told from a world's time. nil: the wall clock itself, and
	// no time needs to be put right.
	Clock func() time.Time
	// Gate, if set, is asked before every event of an external watch.
	Gate Gate
	// Amend, if set, is called for every object about to be stored. It calls fix for each field of
	// its kind that the API server fills from the wall clock, beyond those of metadata; fix puts
	// such a time right and leaves others alone.
	Amend func(obj runtime.Object, fix func(*metav1.Time))
	// Verify panics where a short cut gives another result than the long way. It is for tests.
	Verify bool
}

// Store is the world's memory. All methods may be called from any goroutine.
type Store struct {
	opts Options
	// born is the wall time of New. A metadata time at or after it cannot be one of the world's,
	// nor one from a recording: it was read from the wall clock just now.
	born time.Time
	// live: the world's time is the wall clock's.
	live bool
	gate atomic.Pointer[Gate]

	mu        sync.Mutex
	state     state
	resources map[schema.GroupResource]*resource // the one opened last
	versions  map[string]*resource               // of custom resources, the one opened last of each version
	streams   []*stream                          // in the order of their beginning
	lastID    uint64
	// What single processes are shown otherwise; see view.go.
	views     map[string][]View
	forgotten map[string]map[schema.GroupResource]uint64
}

// New makes an empty world.
func New(o Options) *Store {
	live := o.Clock == nil
	if live {
		o.Clock = func() time.Time { return time.Now().UTC() }
	}
	s := &Store{
		opts: o, live: live, born: time.Now().Truncate(time.Second), state: newState(),
		resources: map[schema.GroupResource]*resource{}, versions: map[string]*resource{}, views: map[string][]View{},
		forgotten: map[string]map[schema.GroupResource]uint64{},
	}
	if o.Gate != nil {
		s.SetGate(o.Gate)
	}
	return s
}

// ResourceVersion is the newest version.
func (s *Store) ResourceVersion() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.rev
}

// AdvanceTo makes new versions continue after rev, if it is higher than the newest.
func (s *Store) AdvanceTo(rev uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.rev = max(s.state.rev, rev)
}

// GenerateName completes metadata.generateName as the API server does, with five characters made from
// the seed, the resource, the namespace and how many names this base got before.
func (s *Store) GenerateName(gr schema.GroupResource, namespace, base string) string {
	// The API server's own rules: k8s.io/apiserver/pkg/storage/names and, for the characters,
	// k8s.io/apimachinery/pkg/util/rand.
	const alphabet, suffix, longest = "bcdfghjklmnpqrstvwxz2456789", 5, 63
	if len(base) > longest-suffix {
		base = base[:longest-suffix]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := strings.Join([]string{"name", gr.String(), namespace, base}, " ")
	sum := s.draw(key, s.state.next(key))
	name := []byte(base)
	for _, b := range sum[:suffix] {
		name = append(name, alphabet[int(b)%len(alphabet)])
	}
	return string(name)
}

// draw is the seeded randomness: a function of what it is for and of how often it was asked.
func (s *Store) draw(what string, n uint32) [sha256.Size]byte {
	b := binary.BigEndian.AppendUint64(nil, s.opts.Seed)
	b = binary.BigEndian.AppendUint32(b, n)
	return sha256.Sum256(append(b, what...))
}

// Reseed has what is made from now on decided by another seed. Objects that are there keep their uids.
func (s *Store) Reseed(seed uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opts.Seed = seed
}

// uid makes a version 4 UUID for the n-th object at key.
func (s *Store) uid(key string, n uint32) types.UID {
	u := s.draw("uid "+key, n)
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	return types.UID(fmt.Sprintf("%x-%x-%x-%x-%x", u[0:4], u[4:6], u[6:8], u[8:10], u[10:16]))
}

// commit stores e (nil: deletes) at key and tells the watches. mu is held.
func (s *Store) commit(r *resource, key string, before, after *entry, rev uint64) *change {
	s.state.rev = max(s.state.rev, rev)
	s.state.set(key, before, after)
	c := &change{rev: rev, key: key, before: before, after: after}
	if after == nil {
		c.gone = &entry{key: key, rev: rev, data: before.data}
	}
	j := s.state.journal(r.prefix)
	j.changes = append(j.changes, c)
	passed := j.end()
	for _, w := range s.streams {
		if w.r.prefix == r.prefix {
			passed = min(passed, w.cursor)
			w.wakeUp()
		}
	}
	j.shed(passed)
	return c
}

// nextRev is the version that a write with ctx takes. mu is held.
func (s *Store) nextRev(ctx context.Context) uint64 {
	return max(s.state.rev+1, HintFrom(ctx).ResourceVersion)
}

// Expire deletes the objects whose time to live is over by the clock, and reports how many.
func (s *Store) Expire() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	due := fmt.Sprintf("%020d", s.opts.Clock().UnixNano()+1)
	n := 0
	for {
		k, _, ok := s.state.expiries.Min()
		if !ok || k >= due {
			return n
		}
		_, key, _ := strings.Cut(k, " ")
		e, _ := s.state.objects.Get(key)
		s.commit(s.owner(key), key, e, nil, s.state.rev+1)
		n++
	}
}

// NextExpiry is when the next object's time to live is over; ok is false when none has one.
func (s *Store) NextExpiry() (at time.Time, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, _, ok := s.state.expiries.Min()
	if !ok {
		return time.Time{}, false
	}
	var ns int64
	_, _ = fmt.Sscanf(k, "%d", &ns)
	return time.Unix(0, ns).UTC(), true
}

// owner finds the resource whose objects have keys like key. mu is held.
func (s *Store) owner(key string) *resource {
	for _, r := range s.resources {
		if strings.HasPrefix(key, r.prefix) {
			return r // cohabiting resources share a prefix, and any of them will do
		}
	}
	panic("store: no resource for key " + key)
}

// Bookmark sends a bookmark with the newest version to every watch that asked for bookmarks, after the
// events it has yet to get. A real API server does so about once a minute.
func (s *Store) Bookmark() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.streams {
		if w.bookmarks {
			w.bookmarkDue = true
			w.wakeUp()
		}
	}
}

// Watches lists the open external watches in the order of their beginning.
func (s *Store) Watches() []WatchInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []WatchInfo
	for _, w := range s.streams {
		if w.external {
			out = append(out, w.info)
		}
	}
	return out
}

// Close ends all watches.
func (s *Store) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range slices.Clone(s.streams) {
		w.stopLocked()
	}
}
