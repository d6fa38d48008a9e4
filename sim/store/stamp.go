package store

import (
	"cmp"
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Stamp puts the world's times in the place of those that the API server took from the wall clock, in an object that
// need not come to be stored.
func (s *Store) Stamp(obj runtime.Object) { s.stamp(context.Background(), "", false, obj) }

// stamp gives an object about to be stored the world's uid and times.
//
// The generic registry fills uid and creationTimestamp of a new object together
// (k8s.io/apiserver/pkg/registry/rest.FillObjectMetaSystemFields) with a random uid; an object without
// creationTimestamp did not come through it and keeps the uid that it has.
func (s *Store) stamp(ctx context.Context, key string, isNew bool, obj runtime.Object) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return
	}
	hint := HintFrom(ctx)
	now := metav1.NewTime(s.opts.Clock().UTC().Truncate(time.Second))
	fix := func(t *metav1.Time) {
		if s.fromWallClock(t.Time) {
			*t = now
		}
	}
	created := m.GetCreationTimestamp()
	if isNew && !created.IsZero() {
		s.mu.Lock()
		n, _ := s.state.counts.Get(key) // counted up when the create is committed
		s.mu.Unlock()
		m.SetUID(s.uid(key, n))
		if hint.UID != "" {
			m.SetUID(hint.UID)
		}
		fix(&created)
		if !hint.Time.IsZero() {
			created = metav1.NewTime(hint.Time.UTC().Truncate(time.Second))
		}
		m.SetCreationTimestamp(created)
	}
	if t := m.GetDeletionTimestamp(); t != nil && s.fromWallClock(t.Time) {
		grace := time.Duration(0)
		if g := m.GetDeletionGracePeriodSeconds(); g != nil {
			grace = time.Duration(*g) * time.Second
		}
		d := metav1.NewTime(now.Add(grace))
		m.SetDeletionTimestamp(&d)
	}
	s.stampManagedFields(m, now)
	if s.opts.Amend != nil {
		s.opts.Amend(obj, fix)
	}
}

// stampManagedFields also puts the entries into the order that they have by the world's times. They came in
// that of the wall clock's, and would change places with the next write that changes nothing else.
func (s *Store) stampManagedFields(m metav1.Object, now metav1.Time) {
	if u, ok := m.(*unstructured.Unstructured); ok {
		s.stampRawManagedFields(u, now)
		return
	}
	fields := m.GetManagedFields()
	stamped := false
	for i := range fields {
		if t := fields[i].Time; t != nil && s.fromWallClock(t.Time) {
			fields[i].Time = &now
			stamped = true
		}
	}
	if stamped {
		slices.SortStableFunc(fields, entriesInOrder)
		m.SetManagedFields(fields)
	}
}

// entriesInOrder is the order of k8s.io/apimachinery/pkg/util/managedfields/internal, sortEncodedManagedFields.
func entriesInOrder(p, q metav1.ManagedFieldsEntry) int {
	seconds := func(t *metav1.Time) int64 {
		if t == nil {
			return 0
		}
		return t.Unix()
	}
	return cmp.Or(
		cmp.Compare(p.Operation, q.Operation), cmp.Compare(seconds(p.Time), seconds(q.Time)),
		cmp.Compare(p.Manager, q.Manager), cmp.Compare(p.APIVersion, q.APIVersion), cmp.Compare(p.Subresource, q.Subresource),
	)
}

// stampRawManagedFields does so without converting the entries back and forth, which would cost a custom resource
// as much as its encoding.
func (s *Store) stampRawManagedFields(u *unstructured.Unstructured, now metav1.Time) {
	metadata, _ := u.Object["metadata"].(map[string]any)
	entries, _ := metadata["managedFields"].([]any)
	stamped := false
	for _, e := range entries {
		entry, _ := e.(map[string]any)
		text, _ := entry["time"].(string)
		if t, err := time.Parse(time.RFC3339, text); err == nil && s.fromWallClock(t) {
			entry["time"] = now.UTC().Format(time.RFC3339)
			stamped = true
		}
	}
	if stamped {
		slices.SortStableFunc(entries, func(a, b any) int { return entriesInOrder(rawEntry(a), rawEntry(b)) })
	}
}

// rawEntry is what an entry is sorted by.
func rawEntry(v any) (e metav1.ManagedFieldsEntry) {
	m, _ := v.(map[string]any)
	field := func(name string) string {
		text, _ := m[name].(string)
		return text
	}
	e.Manager, e.Operation = field("manager"), metav1.ManagedFieldsOperationType(field("operation"))
	e.APIVersion, e.Subresource = field("apiVersion"), field("subresource")
	if t, err := time.Parse(time.RFC3339, field("time")); err == nil {
		e.Time = &metav1.Time{Time: t}
	}
	return e
}

// fromWallClock tells a time read from the wall clock in this process from the world's times and from
// recorded ones, which all lie before the store was made.
func (s *Store) fromWallClock(t time.Time) bool { return !s.live && !t.Before(s.born) }
