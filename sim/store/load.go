package store

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Load puts an object into the world as it was recorded, in the place of one with the same key: with
// its uid, times and managedFields, and at its resourceVersion. Nothing is validated or defaulted.
//
// obj is in the form that the resource's registry stores (internal for built-in kinds, unstructured for
// custom resources). data, if not nil, is its stored form; else obj is encoded, which needs the
// resource to be served already.
//
// History begins with a load: a watch or exact list from before it gets 410 Gone.
func (s *Store) Load(gr schema.GroupResource, obj runtime.Object, data []byte) error {
	s.mu.Lock()
	r := s.in(gr, obj)
	s.mu.Unlock()
	if r == nil {
		return fmt.Errorf("resource %s is not served", gr)
	}
	rev, err := r.versioner.ObjectResourceVersion(obj)
	if err != nil {
		return fmt.Errorf("resourceVersion: %w", err)
	}
	key, err := r.keyOf(obj)
	if err != nil {
		return err
	}
	if data == nil {
		obj = obj.DeepCopyObject()
		if err := r.versioner.PrepareObjectForStorage(obj); err != nil {
			return err
		}
		if data, err = runtime.Encode(r.codec, obj); err != nil {
			return fmt.Errorf("encode: %w", err)
		}
	}
	e := &entry{key: key, rev: rev, data: data}
	if _, err := e.object(r); err != nil {
		return fmt.Errorf("decode as stored: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.rev == 0 {
		e.rev = s.state.rev + 1
	}
	before, _ := s.state.objects.Get(key)
	s.commit(r, key, before, e, e.rev)
	if before == nil {
		s.state.next(key)
	}
	s.state.compacted = s.state.rev
	return nil
}

func (r *resource) keyOf(obj runtime.Object) (string, error) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return "", err
	}
	if m.GetName() == "" {
		return "", fmt.Errorf("object without a name")
	}
	k, err := r.keyFunc(obj)
	if err != nil {
		return "", err
	}
	return r.key(k, false)
}

// Objects gives all objects of a resource as its registry sees them, in the order of keys. They are
// shared and must not be changed. An unserved resource has none.
func (s *Store) Objects(gr schema.GroupResource) ([]runtime.Object, error) {
	s.mu.Lock()
	r := s.resources[gr]
	var found []*entry
	if r != nil {
		ascend(s.state.objects, r.prefix, r.prefix, func(e *entry) bool { found = append(found, e); return true })
	}
	s.mu.Unlock()
	out := make([]runtime.Object, 0, len(found))
	for _, e := range found {
		obj, err := e.object(r)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.key, err)
		}
		out = append(out, obj)
	}
	return out, nil
}

// Object gives one object of a cluster-scoped resource as its registry sees it, or nil. It is shared
// and must not be changed.
func (s *Store) Object(gr schema.GroupResource, name string) (runtime.Object, error) {
	s.mu.Lock()
	r := s.resources[gr]
	var e *entry
	if r != nil {
		e, _ = s.state.objects.Get(r.prefix + name)
	}
	s.mu.Unlock()
	if e == nil {
		return nil, nil
	}
	return e.object(r)
}

// NewObject makes an empty object of a resource as its registry stores it; nil for a resource that is
// not served.
func (s *Store) NewObject(gr schema.GroupResource) runtime.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.resources[gr]
	if r == nil {
		return nil
	}
	return r.newFunc()
}
