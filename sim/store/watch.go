package store

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	utilflowcontrol "k8s.io/apiserver/pkg/util/flowcontrol"
)

// decorated are the resources whose registries change an object as a watch shows it (defaultOnRead in
// k8s.io/kubernetes/pkg/registry/core): they must not get what the store keeps.
var decorated = map[schema.GroupResource]bool{{Resource: "services"}: true, {Resource: "persistentvolumeclaims"}: true}

// streamBuffer is how many events may wait between an ungated stream and its client, as in
// k8s.io/apiserver/pkg/storage/etcd3. A gated stream has no buffer: an event that has passed the gate
// is on its way, and the gate is not asked about the next before the client took it.
const streamBuffer = 100

// stream is one watch: a cursor into its resource's journal.
type stream struct {
	r         *resource
	info      WatchInfo
	external  bool
	key       string // the object's, or with a trailing "/" the prefix of all
	pred      storage.SelectionPredicate
	bookmarks bool

	ctx  context.Context
	stop context.CancelFunc
	wake chan struct{} // capacity 1
	out  chan watch.Event

	// Guarded by Store.mu.
	failure     error    // reported first, then the stream ends
	initial     []*entry // what was there at the beginning and is yet to be sent
	initialRev  uint64
	began       uint64 // the version that it began with
	endInitial  bool   // a bookmark that ends the initial events is due
	cursor      int
	from        uint64 // changes up to it are not for this stream
	bookmarkDue bool
	held        bool // a view of the past holds it back; see view.go
	ending      bool // it ends before the change at
	endAt       int  // this cursor; see EndWatches
	prepared    int  // changes before this cursor have been decoded; see Prepare
}

// item is the next thing that a stream has to say.
type item struct {
	change   *change // or
	present  *entry  // an initial object, or
	bookmark uint64  // a bookmark at this version, or
	failure  error
	initial  bool
	end      bool // nothing follows
}

// Watch implements storage.Interface.
func (r *resource) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	k, err := r.key(key, opts.Recursive)
	if err != nil {
		return nil, err
	}
	rev, err := r.versioner.ParseResourceVersion(opts.ResourceVersion)
	if err != nil {
		return nil, err
	}
	w := &stream{
		r: r, key: k, pred: opts.Predicate, wake: make(chan struct{}, 1),
		bookmarks: opts.Predicate.AllowWatchBookmarks || opts.ProgressNotify,
	}
	if opts.Predicate.Empty() {
		w.pred = storage.Everything
	}
	w.describe(ctx, opts)
	w.ctx, w.stop = context.WithCancel(ctx)
	buffer := streamBuffer
	puller := pullerFrom(ctx)
	if puller != nil || w.external && r.s.currentGate() != nil {
		buffer = 0
	}
	w.out = make(chan watch.Event, buffer)
	r.s.begin(w, rev, opts)
	utilflowcontrol.WatchInitialized(ctx)
	if puller != nil {
		w.prepareAll()
		puller.Began(&Stream{w: w})
		return w, nil
	}
	go w.run()
	return w, nil
}

func (w *stream) describe(ctx context.Context, opts storage.ListOptions) {
	w.info.Client, w.external = ClientFrom(ctx)
	w.info.Resource = w.r.gr
	rest := strings.Split(strings.Trim(strings.TrimPrefix(w.key, w.r.prefix), "/"), "/")
	switch {
	case opts.Recursive:
		w.info.Namespace = rest[0]
	case len(rest) == 2:
		w.info.Namespace, w.info.Name = rest[0], rest[1]
	default:
		w.info.Name = rest[0]
	}
}

// begin sets where w starts and registers it. The rules are those of
// k8s.io/apiserver/pkg/storage/etcd3/watcher.go.
func (s *Store) begin(w *stream, rev uint64, opts storage.ListOptions) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastID++
	w.info.ID = s.lastID
	j := s.state.journal(w.r.prefix)
	wanted := opts.SendInitialEvents
	initial := wanted == nil && rev == 0 || wanted != nil && *wanted
	objects, now := s.state.objects, s.state.rev
	if initial || rev == 0 {
		if past, ok := w.r.past(w.ctx, opts.ResourceVersion); ok {
			objects, now = s.state.at(w.r.prefix, past), past
			w.held = true
		}
	} else {
		w.held = w.hold(rev)
	}
	w.began = now
	if !initial && rev > 0 {
		w.began = rev
	}
	switch {
	case initial && rev > now:
		w.failure = storage.NewTooLargeResourceVersionError(rev, now, 1)
	case initial:
		w.initial, w.initialRev = present(objects, w.key, opts.Recursive), now
		w.endInitial = wanted != nil && opts.Predicate.AllowWatchBookmarks
		w.cursor = j.after(now)
	case rev == 0:
		w.cursor = j.after(now)
	case w.expired(rev):
		w.failure = w.r.tooOld(rev)
	default:
		w.cursor, w.from = j.after(rev), rev
	}
	s.streams = append(s.streams, w)
}

// present lists what a stream that wants initial events gets.
func present(objects *tree, key string, recursive bool) []*entry {
	if !recursive {
		if e, ok := objects.Get(key); ok {
			return []*entry{e}
		}
		return nil
	}
	var out []*entry
	ascend(objects, key, key, func(e *entry) bool { out = append(out, e); return true })
	return out
}

// Stop implements watch.Interface.
func (w *stream) Stop() {
	w.r.s.mu.Lock()
	defer w.r.s.mu.Unlock()
	w.stopLocked()
}

func (w *stream) stopLocked() {
	w.stop()
	if i := slices.Index(w.r.s.streams, w); i >= 0 {
		w.r.s.streams = slices.Delete(w.r.s.streams, i, i+1)
	}
}

// ResultChan implements watch.Interface.
func (w *stream) ResultChan() <-chan watch.Event { return w.out }

func (w *stream) wakeUp() {
	select {
	case w.wake <- struct{}{}:
	default: // awake already
	}
}

func (w *stream) run() {
	defer close(w.out)
	defer w.Stop()
	for {
		it, ok := w.next()
		if !ok {
			select {
			case <-w.wake:
				continue
			case <-w.ctx.Done():
				return
			}
		}
		if it.end {
			return
		}
		ev, rev, err := w.event(it)
		if err == nil && ev.Type == "" {
			continue // not selected
		}
		if err == nil && w.external {
			err = w.pass(ev, rev, it.initial)
		}
		if err != nil {
			w.fail(err)
			return
		}
		if !w.send(ev) {
			return
		}
	}
}

func (w *stream) send(ev watch.Event) bool {
	select {
	case w.out <- ev:
		return true
	case <-w.ctx.Done():
		return false
	}
}

// pass asks the gate.
func (w *stream) pass(ev watch.Event, rev uint64, initial bool) error {
	g := w.r.s.currentGate()
	if g == nil {
		return nil
	}
	return g.Deliver(w.ctx, w.info, gateEvent(ev, rev, initial))
}

// fail reports err to the client if it is one that clients understand.
func (w *stream) fail(err error) {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		st := status.Status()
		w.send(watch.Event{Type: watch.Error, Object: &st})
	}
}

// next takes the stream's next item; ok is false when there is none yet.
func (w *stream) next() (it item, ok bool) {
	s := w.r.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.failure != nil {
		return item{failure: w.failure}, true
	}
	if len(w.initial) > 0 {
		it = item{present: w.initial[0], initial: true}
		w.initial = w.initial[1:]
		return it, true
	}
	if w.endInitial {
		w.endInitial = false
		return item{bookmark: w.initialRev, initial: true}, true
	}
	j := s.state.journal(w.r.prefix)
	if w.cursor < j.dropped {
		return item{failure: w.r.tooOld(w.from)}, true
	}
	horizon := w.horizon()
	for ; w.cursor < j.end(); w.cursor++ {
		if w.ending && w.cursor >= w.endAt {
			break
		}
		c := j.changes[w.cursor-j.dropped]
		if c.rev > horizon {
			return item{}, false
		}
		if c.rev > w.from && w.concerns(c.key) {
			w.cursor++
			return item{change: c}, true
		}
	}
	if w.ending && w.cursor >= w.endAt {
		return item{end: true}, true
	}
	if w.bookmarkDue && horizon == s.state.rev {
		w.bookmarkDue = false
		return item{bookmark: horizon}, true
	}
	return item{}, false
}

// tooOld is the answer to a watch from before the history; a watch cache words it otherwise than etcd
// (k8s.io/apiserver/pkg/storage/cacher/watch_cache_history.go). s.mu is held.
func (r *resource) tooOld(rev uint64) error {
	if r.cached {
		return apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", rev, r.oldest()))
	}
	return apierrors.NewResourceExpired(watchExpired)
}

func (w *stream) concerns(key string) bool {
	if strings.HasSuffix(w.key, "/") {
		return strings.HasPrefix(key, w.key)
	}
	return key == w.key
}

// event makes a watch event of an item; its Type is "" when the stream does not select it.
func (w *stream) event(it item) (ev watch.Event, rev uint64, err error) {
	switch {
	case it.failure != nil:
		return ev, 0, it.failure
	case it.bookmark != 0:
		obj := w.r.newFunc()
		if err := w.r.versioner.UpdateObject(obj, it.bookmark); err != nil {
			return ev, 0, err
		}
		if it.initial {
			err = storage.AnnotateInitialEventsEndBookmark(obj)
		}
		return watch.Event{Type: watch.Bookmark, Object: obj}, it.bookmark, err
	case it.present != nil:
		obj, ok, err := w.selects(it.present)
		if err != nil || !ok {
			return ev, 0, unwatchable(nil, err)
		}
		return watch.Event{Type: watch.Added, Object: obj}, it.present.rev, nil
	}
	ev, err = w.changed(it.change)
	return ev, it.change.rev, unwatchable(it.change, err)
}

// unwatchable is what a client is told of an event that cannot be read.
func unwatchable(c *change, err error) error {
	var why *unreadable
	switch {
	case err == nil:
		return nil
	case c != nil && c.after == nil && errors.As(err, &why):
		return &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonStoreReadError,
			Message: fmt.Sprintf("saw a DELETED event, but object data is corrupt - %v", why),
		}}
	}
	return apierrors.NewInternalError(plainly(err))
}

// changed is what a change means to this stream: an object that begins to match was added for it, one
// that ceases to match was deleted.
func (w *stream) changed(c *change) (ev watch.Event, err error) {
	var now, was runtime.Object
	var isIn, wasIn bool
	if c.after != nil {
		if now, isIn, err = w.selects(c.after); err != nil {
			return ev, err
		}
	}
	if c.before != nil {
		if w.pred.Empty() && c.after != nil {
			wasIn = true
		} else if was, wasIn, err = w.selects(c.before); err != nil {
			return ev, err
		}
	}
	switch {
	case isIn && wasIn:
		return watch.Event{Type: watch.Modified, Object: now}, nil
	case isIn:
		return watch.Event{Type: watch.Added, Object: now}, nil
	case !wasIn:
		return ev, nil
	case c.gone != nil:
		if was, err = c.gone.objectAfter(w.r, c.before); err == nil && decorated[w.r.gr] {
			was = was.DeepCopyObject()
		}
	default:
		was = was.DeepCopyObject()
		err = w.r.versioner.UpdateObject(was, c.rev)
	}
	return watch.Event{Type: watch.Deleted, Object: was}, err
}

func (w *stream) selects(e *entry) (runtime.Object, bool, error) {
	obj, err := e.object(w.r)
	if err != nil {
		return nil, false, err
	}
	ok, err := w.pred.Matches(obj)
	if ok && decorated[w.r.gr] {
		obj = obj.DeepCopyObject()
	}
	return obj, ok && err == nil, nil
}
