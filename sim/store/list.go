package store

import (
	"context"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
)

// GetList implements storage.Interface.
func (r *resource) GetList(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	prefix, err := r.key(key, opts.Recursive)
	if err != nil {
		return err
	}
	ptr, err := meta.GetItemsPtr(list)
	if err != nil {
		return err
	}
	items, err := conversion.EnforcePtr(ptr)
	if err != nil {
		return fmt.Errorf("need ptr to slice: %w", err)
	}
	if items.Kind() != reflect.Slice {
		return fmt.Errorf("need ptr to slice, not to %s", items.Type())
	}
	exact, from, err := storage.ValidateListOptions(prefix, r.versioner, opts)
	if err != nil {
		return err
	}
	found, rev, err := r.collect(ctx, prefix, from, uint64(exact), opts)
	if err != nil {
		return err
	}
	if r.cached && opts.ResourceVersion == "0" {
		// So does k8s.io/apiserver/pkg/storage/cacher (computeListLimit).
		opts.Predicate.Limit = 0
	}
	last, more, err := r.fill(items, found, opts.Predicate)
	if err != nil {
		return err
	}
	next, remaining, err := storage.PrepareContinueToken(last, prefix, int64(rev), int64(len(found)), more, opts)
	if err != nil {
		return err
	}
	return r.versioner.UpdateList(list, rev, next, remaining)
}

// collect gives the entries under prefix, from key from on if set, at version exact (0: the newest),
// and that version.
func (r *resource) collect(ctx context.Context, prefix, from string, exact uint64, opts storage.ListOptions) ([]*entry, uint64, error) {
	s := r.s
	s.mu.Lock()
	defer s.mu.Unlock()
	t, rev := s.state.objects, s.state.rev
	switch {
	case exact > rev:
		return nil, 0, r.tooLarge(exact, rev)
	case exact > 0 && exact < s.state.oldestState():
		return nil, 0, expiredList(prefix, from)
	case exact > 0:
		t, rev = s.state.at(r.prefix, exact), exact
	default:
		if past, ok := r.past(ctx, opts.ResourceVersion); ok {
			t, rev = s.state.at(r.prefix, past), past
		}
		if err := r.notOlder(opts.ResourceVersion, rev); err != nil {
			return nil, 0, err
		}
	}
	if !opts.Recursive {
		if e, ok := t.Get(prefix); ok {
			return []*entry{e}, rev, nil
		}
		return nil, rev, nil
	}
	if from == "" {
		from = prefix
	}
	var found []*entry
	ascend(t, prefix, from, func(e *entry) bool { found = append(found, e); return true })
	return found, rev, nil
}

// fill appends to items what pred selects, up to its limit. last is the key looked at last; more is set
// when entries remain.
func (r *resource) fill(items reflect.Value, found []*entry, pred storage.SelectionPredicate) (last string, more bool, err error) {
	size := len(found)
	if pred.Limit > 0 {
		size = min(size, int(pred.Limit))
	}
	items.Set(reflect.MakeSlice(items.Type(), 0, size))
	var failed failures
	for _, e := range found {
		if pred.Limit > 0 && int64(items.Len()) >= pred.Limit {
			more = true
			break
		}
		last = e.key
		obj, err := e.object(r)
		if err != nil {
			if failed.add(e.key, err) {
				break
			}
			continue
		}
		if ok, err := pred.Matches(obj); err == nil && ok {
			// A shallow copy, as the API server's watch cache gives: lists are read, not written.
			items.Set(reflect.Append(items, reflect.ValueOf(obj).Elem()))
		}
	}
	return last, more, failed.err(r.gr)
}

// The wording is that of k8s.io/apiserver/pkg/storage/etcd3/errors.go, which clients see.
const (
	listExpired     = "The resourceVersion for the provided list is too old."
	continueExpired = "The provided continue parameter is too old " +
		"to display a consistent list result. You can start a new list without " +
		"the continue parameter."
	continueInconsistent = "The provided continue parameter is too old " +
		"to display a consistent list result. You can start a new list without " +
		"the continue parameter, or use the continue token in this response to " +
		"retrieve the remainder of the results. Continuing with the provided " +
		"token results in an inconsistent list - objects that were created, " +
		"modified, or deleted between the time the first chunk was returned " +
		"and now may show up in the list."
	watchExpired = "The resourceVersion for the provided watch is too old."
)

// expiredList is the answer to a list at a compacted version. A client that was paging gets a token to
// go on with at the newest version (resourceVersion -1 in the token).
func expiredList(prefix, from string) error {
	if from == "" {
		return apierrors.NewResourceExpired(listExpired)
	}
	token, err := storage.EncodeContinue(from, prefix, -1)
	if err != nil {
		return apierrors.NewResourceExpired(continueExpired)
	}
	e := apierrors.NewResourceExpired(continueInconsistent)
	e.ErrStatus.ListMeta.Continue = token
	return e
}
