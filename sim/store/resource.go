package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/value"
)

// resource is the storage.Interface of one resource, or of one version of a custom resource.
type resource struct {
	s              *Store
	codec          runtime.Codec
	gr             schema.GroupResource
	pathPrefix     string // ends with "/"
	resourcePrefix string
	prefix         string // of the keys of all its objects; names its journal
	keyFunc        func(runtime.Object) (string, error)
	newFunc        func() runtime.Object
	versioner      storage.APIObjectVersioner
	transformer    value.Transformer // between codec and store; nil for none
	version        string            // apiVersion of a custom resource; "" for built-in kinds
	cached         bool              // answers as a watch cache does, else as etcd
	sizes          bool              // Stats tell how large objects are
}

var _ storage.Interface = (*resource)(nil)

// resourceConfig is what opening a resource needs.
type resourceConfig struct {
	codec                  runtime.Codec
	gr                     schema.GroupResource
	prefix, resourcePrefix string
	keyFunc                func(runtime.Object) (string, error)
	newFunc                func() runtime.Object
	transformer            value.Transformer
	cached                 bool
}

func (s *Store) open(c resourceConfig) *resource {
	path := "/" + strings.Trim(c.prefix, "/") + "/"
	if path == "//" {
		path = "/"
	}
	r := &resource{
		s: s, codec: c.codec, gr: c.gr, pathPrefix: path, resourcePrefix: c.resourcePrefix,
		prefix:  path + strings.Trim(c.resourcePrefix, "/") + "/",
		keyFunc: c.keyFunc, newFunc: c.newFunc, transformer: c.transformer, cached: c.cached,
		version: versionOf(c.newFunc()),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resources[c.gr] = r
	if r.version != "" {
		s.versions[c.gr.String()+" "+r.version] = r
	}
	return r
}

// Versioner implements storage.Interface.
func (r *resource) Versioner() storage.Versioner { return r.versioner }

func (r *resource) key(key string, recursive bool) (string, error) {
	k, err := storage.PrepareKey(r.resourcePrefix, key, recursive)
	if err != nil {
		return "", err
	}
	return r.pathPrefix + strings.TrimPrefix(k, "/"), nil
}

func (r *resource) decode(data []byte, rev uint64) (runtime.Object, error) {
	obj, _, err := r.codec.Decode(data, nil, r.newFunc())
	if err != nil {
		return nil, &unreadable{what: undecodable, rev: rev, err: err}
	}
	// An object that cannot carry a version is still an object.
	_ = r.versioner.UpdateObject(obj, rev)
	return obj, nil
}

// draft is an entry that is not stored yet and has no version.
type draft struct {
	*entry
	plain []byte         // its data before the transformer
	obj   runtime.Object // what it was made of, if there is no transformer
}

// encode makes an entry of obj, which it changes: what the API server took from the wall clock becomes the
// world's.
func (r *resource) encode(ctx context.Context, key string, before *entry, obj runtime.Object) (*draft, error) {
	if err := r.versioner.PrepareObjectForStorage(obj); err != nil {
		return nil, fmt.Errorf("PrepareObjectForStorage failed: %w", err)
	}
	r.s.stamp(ctx, key, before == nil, obj)
	plain, err := runtime.Encode(r.codec, obj)
	if err != nil {
		return nil, err
	}
	d := &draft{entry: &entry{key: key, data: plain}, plain: plain}
	if r.transformer == nil {
		d.obj = obj
		return d, d.fits()
	}
	if d.data, err = r.transformer.TransformToStorage(ctx, plain, value.DefaultContext(key)); err != nil {
		return nil, storage.NewInternalError(err)
	}
	return d, d.fits()
}

// fits says whether etcd would take it.
func (d *draft) fits() error {
	if len(d.key)+len(d.data) > maxRequest {
		return errTooLarge{}
	}
	return nil
}

// fromStorage undoes the transformer.
func (r *resource) fromStorage(key string, data []byte) (plain []byte, stale bool, err error) {
	if r.transformer == nil {
		return data, false, nil
	}
	plain, stale, err = r.transformer.TransformFromStorage(context.Background(), data, value.DefaultContext(key))
	if err != nil {
		return nil, false, untransformed{storage.NewInternalError(err)}
	}
	return plain, stale, nil
}

// written sets out to what was just stored, as etcd's answer is: decoded from what the codec made.
func (r *resource) written(d *draft, out runtime.Object) error {
	if r.transformer == nil {
		return r.copyOut(d.entry, out)
	}
	obj, err := r.decode(d.plain, d.rev)
	if err != nil {
		return err
	}
	return setTo(out, obj)
}

func setTo(out, obj runtime.Object) error {
	v, err := conversion.EnforcePtr(out)
	if err != nil {
		return fmt.Errorf("unable to convert output object to pointer: %w", err)
	}
	v.Set(reflect.ValueOf(obj).Elem())
	return nil
}

// copyOut sets out to a copy of what e holds.
func (r *resource) copyOut(e *entry, out runtime.Object) error {
	obj, err := e.object(r)
	if err != nil {
		return err
	}
	return setTo(out, obj.DeepCopyObject())
}

func (r *resource) get(key string) (e *entry, rev uint64) {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	e, _ = r.s.state.objects.Get(key)
	return e, r.s.state.rev
}

// Get implements storage.Interface.
func (r *resource) Get(_ context.Context, key string, opts storage.GetOptions, out runtime.Object) error {
	k, err := r.key(key, false)
	if err != nil {
		return err
	}
	if _, err := r.versioner.ParseResourceVersion(opts.ResourceVersion); err != nil && r.cached {
		return err // the watch cache does not call it a bad request, and clients see 500
	}
	e, rev := r.get(k)
	if err := r.notOlder(opts.ResourceVersion, rev); err != nil {
		return err
	}
	if e == nil {
		if opts.IgnoreNotFound {
			return runtime.SetZeroValue(out)
		}
		return storage.NewKeyNotFoundError(k, 0)
	}
	return corrupt(key, r.copyOut(e, out))
}

// notOlder refuses a wanted version that the world has not reached.
func (r *resource) notOlder(wanted string, rev uint64) error {
	if wanted == "" {
		return nil
	}
	w, err := r.versioner.ParseResourceVersion(wanted)
	if err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("invalid resource version: %v", err))
	}
	if w > rev {
		return r.tooLarge(w, rev)
	}
	return nil
}

// tooLarge is the answer to a wanted version that the world has not reached. A watch cache waits for it, three
// seconds (k8s.io/apiserver/pkg/storage/cacher/watch_cache.go), and then has the client come again.
func (r *resource) tooLarge(wanted, rev uint64) error {
	retry := 0
	if r.cached {
		retry = 1
	}
	return storage.NewTooLargeResourceVersionError(wanted, rev, retry)
}

// put commits after in the place of before (nil: a key that is free), and reports whether nobody was faster.
func (r *resource) put(ctx context.Context, key string, before *entry, after *draft) bool {
	var back runtime.Object
	if !mutated(ctx) {
		back = r.readsBackAs(after.obj, after.plain)
	}
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	if cur, _ := r.s.state.objects.Get(key); cur != before {
		return false
	}
	after.rev = r.s.nextRev(ctx)
	if back != nil && r.versioner.UpdateObject(back, after.rev) == nil {
		after.forms.Store(&form{by: r, obj: back})
	}
	r.s.commit(r, key, before, after.entry, after.rev)
	if before == nil {
		r.s.state.next(key)
	}
	return true
}

func (r *resource) expiry(ttl uint64) int64 {
	if ttl == 0 {
		return 0
	}
	return r.s.opts.Clock().Add(time.Duration(ttl) * time.Second).UnixNano()
}

// Create implements storage.Interface.
func (r *resource) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	k, err := r.key(key, false)
	if err != nil {
		return err
	}
	if v, err := r.versioner.ObjectResourceVersion(obj); err == nil && v != 0 {
		return storage.ErrResourceVersionSetOnCreate
	}
	if err := RefusalFrom(ctx); err != nil {
		return err
	}
	// Asked first, so that a refused create costs no encoding.
	if e, _ := r.get(k); e != nil {
		return storage.NewKeyExistsError(k, 0)
	}
	d, err := r.encode(ctx, k, nil, obj)
	if err != nil {
		return err
	}
	d.expires = r.expiry(ttl)
	if !r.put(ctx, k, nil, d) {
		return storage.NewKeyExistsError(k, 0)
	}
	if out == nil {
		return nil
	}
	return r.written(d, out)
}

// Delete implements storage.Interface. The suggestion is not needed: the newest version is at hand.
func (r *resource) Delete(ctx context.Context, key string, out runtime.Object, pre *storage.Preconditions,
	validate storage.ValidateObjectFunc, _ runtime.Object, opts storage.DeleteOptions,
) error {
	k, err := r.key(key, false)
	if err != nil {
		return err
	}
	if opts.ExpectTransformOrDecodeError {
		return r.deleteUnreadable(ctx, k, validate)
	}
	if err := RefusalFrom(ctx); err != nil {
		return err
	}
	for {
		e, _ := r.get(k)
		if e == nil {
			return storage.NewKeyNotFoundError(k, 0)
		}
		obj, err := e.object(r)
		if err != nil {
			return plainly(err)
		}
		obj = obj.DeepCopyObject()
		if err := pre.Check(k, obj); err != nil {
			return err
		}
		if err := validate(ctx, obj); err != nil {
			return err
		}
		if gone := r.remove(ctx, k, e); gone != nil {
			return r.copyOut(gone, out)
		}
	}
}

// remove deletes e and returns it at the version of its deletion; nil when e was no longer there.
func (r *resource) remove(ctx context.Context, key string, e *entry) *entry {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	if cur, _ := r.s.state.objects.Get(key); cur != e {
		return nil
	}
	return r.s.commit(r, key, e, nil, r.s.nextRev(ctx)).gone
}

// GuaranteedUpdate implements storage.Interface.
func (r *resource) GuaranteedUpdate(ctx context.Context, key string, out runtime.Object, ignoreNotFound bool,
	pre *storage.Preconditions, update storage.UpdateFunc, _ runtime.Object,
) error {
	k, err := r.key(key, false)
	if err != nil {
		return err
	}
	if _, err := conversion.EnforcePtr(out); err != nil {
		return fmt.Errorf("unable to convert output object to pointer: %w", err)
	}
	if err := RefusalFrom(ctx); err != nil {
		return err
	}
	for {
		before, _ := r.get(k)
		after, err := r.updated(ctx, k, before, ignoreNotFound, pre, update, out)
		if err != nil {
			return err
		}
		if after == nil {
			return r.copyOut(before, out)
		}
		if r.put(ctx, k, before, after) {
			return r.written(after, out)
		}
		if err := ctx.Err(); err != nil {
			return storage.NewTimeoutError(k, err.Error())
		}
	}
}

// updated is what update makes of before, nil when nothing changed.
func (r *resource) updated(ctx context.Context, key string, before *entry, ignoreNotFound bool,
	pre *storage.Preconditions, update storage.UpdateFunc, out runtime.Object,
) (*draft, error) {
	var cur runtime.Object
	var meta storage.ResponseMeta
	stale := false
	switch {
	case before != nil:
		f, err := before.form(r)
		if err != nil {
			return nil, plainly(err)
		}
		cur, stale, meta.ResourceVersion = f.obj.DeepCopyObject(), f.stale, before.rev
	case !ignoreNotFound:
		return nil, storage.NewKeyNotFoundError(key, 0)
	default:
		cur = emptyLike(out)
	}
	if err := pre.Check(key, cur); err != nil {
		return nil, err
	}
	obj, ttl, err := update(cur, meta)
	if err != nil {
		return nil, err
	}
	d, err := r.encode(ctx, key, before, obj)
	if err != nil {
		return nil, err
	}
	if before != nil && !stale && bytes.Equal(d.data, before.data) {
		return nil, nil
	}
	if ttl != nil {
		d.expires = r.expiry(*ttl)
	}
	return d, nil
}

func emptyLike(obj runtime.Object) runtime.Object {
	if u, ok := obj.(runtime.Unstructured); ok {
		return u.NewEmptyInstance()
	}
	return reflect.New(reflect.TypeOf(obj).Elem()).Interface().(runtime.Object)
}

// Stats implements storage.Interface.
func (r *resource) Stats(context.Context) (storage.Stats, error) {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	var st storage.Stats
	var size int64
	ascend(r.s.state.objects, r.prefix, r.prefix, func(e *entry) bool {
		st.ObjectCount++
		size += int64(len(e.data))
		return true
	})
	if r.sizes && st.ObjectCount > 0 {
		st.EstimatedAverageObjectSizeBytes = size / st.ObjectCount
	}
	return st, nil
}

// ReadinessCheck implements storage.Interface.
func (r *resource) ReadinessCheck() error { return nil }

// RequestWatchProgress implements storage.Interface. Only a watch cache calls it, and there is none.
func (r *resource) RequestWatchProgress(context.Context) error { return nil }

// GetCurrentResourceVersion implements storage.Interface.
func (r *resource) GetCurrentResourceVersion(context.Context) (uint64, error) {
	return r.s.ResourceVersion(), nil
}

// EnableResourceSizeEstimation implements storage.Interface.
func (r *resource) EnableResourceSizeEstimation(keys storage.KeysFunc) error {
	if keys == nil {
		return errors.New("KeysFunc cannot be nil")
	}
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	r.sizes = true
	return nil
}

// CompactRevision implements storage.Interface.
func (r *resource) CompactRevision() int64 {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	return int64(r.s.state.oldestState())
}
