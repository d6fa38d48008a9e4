package store

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

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

func (s *Store) stampManagedFields(m metav1.Object, now metav1.Time) {
	fields := m.GetManagedFields()
	for i := range fields {
		if t := fields[i].Time; t != nil && s.fromWallClock(t.Time) {
			fields[i].Time = &now
		}
	}
	if len(fields) > 0 {
		m.SetManagedFields(fields)
	}
}

// fromWallClock tells a time read from the wall clock in this process from the world's times and from
// recorded ones, which all lie before the store was made.
func (s *Store) fromWallClock(t time.Time) bool { return !s.live && !t.Before(s.born) }
