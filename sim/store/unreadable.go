package store

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/value"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
)

// An object that is stored and cannot be read: a custom resource whose conversion webhook fails is the everyday
// case. What clients see of one is decided in k8s.io/apiserver/pkg/storage/etcd3 (corrupt_obj_deleter.go,
// feature AllowUnsafeMalformedObjectDeletion), whose words and rules these are.

// unreadable is why an object cannot be read.
type unreadable struct {
	what string
	rev  uint64
	err  error
}

const (
	untransformable = "data from the storage is not transformable"
	undecodable     = "object not decodable"
)

func (e *unreadable) Error() string { return fmt.Sprintf("%s revision=%d: %v", e.what, e.rev, e.err) }
func (e *unreadable) Unwrap() error { return e.err }

// untransformed marks an error of the transformer, which reads of single objects and of lists put in different
// words.
type untransformed struct{ storage.InternalError }

// Unwrap gives the InternalError, so that errors.As sees through.
func (e untransformed) Unwrap() error { return e.InternalError }

// plainly takes the mark off.
func plainly(err error) error {
	if t, ok := err.(untransformed); ok { //nolint:errorlint // it is never wrapped
		return t.InternalError
	}
	return err
}

// corrupt is what a read of the object at key answers.
func corrupt(key string, err error) error {
	var why *unreadable
	if errors.As(err, &why) {
		return storage.NewCorruptObjError(key, why)
	}
	return plainly(err)
}

// deleteUnreadable deletes what cannot be read, and nothing else.
func (r *resource) deleteUnreadable(ctx context.Context, key string, validate storage.ValidateObjectFunc) error {
	for {
		e, _ := r.get(key)
		if e == nil {
			return storage.NewKeyNotFoundError(key, 0)
		}
		if _, err := e.object(r); err == nil {
			return storage.NewInvalidObjError(key, "unsafe deletion is not allowed because the object is decodable from storage")
		}
		if err := validate(ctx, nil); err != nil {
			return err // a dry run's too
		}
		if err := RefusalFrom(ctx); err != nil {
			return err
		}
		if r.remove(ctx, key, e) != nil {
			return nil
		}
	}
}

// interpreting has a transformer's errors mean that the object is unreadable, as in a real API server.
type interpreting struct{ value.Transformer }

// TransformFromStorage implements value.Transformer.
func (t interpreting) TransformFromStorage(ctx context.Context, data []byte, at value.Context) ([]byte, bool, error) {
	out, stale, err := t.Transformer.TransformFromStorage(ctx, data, at)
	if err != nil {
		err = &unreadable{what: untransformable, err: err}
	}
	return out, stale, err
}

// mostUnreadable is how many a list names.
const mostUnreadable = 100

// failures are what a list could not read.
type failures struct {
	all []error
	// abort ends the list, if it is not nil.
	abort error
}

var errTooMany = errors.New("too many errors, the list is truncated")

// add notes a failure and says whether the list ends with it.
func (f *failures) add(key string, err error) (done bool) {
	if t, ok := err.(untransformed); ok { //nolint:errorlint // it is never wrapped
		err = storage.NewInternalError(fmt.Errorf("unable to transform key %q: %w", key, errors.Unwrap(t.InternalError)))
	}
	var why *unreadable
	if !errors.As(err, &why) || !utilfeature.DefaultFeatureGate.Enabled(features.AllowUnsafeMalformedObjectDeletion) {
		f.abort = err
		return true
	}
	f.all = append(f.all, storage.NewCorruptObjError(key, why))
	if len(f.all) >= mostUnreadable {
		f.abort = errTooMany
	}
	return f.abort != nil
}

// err is the answer to the list, nil when nothing failed.
func (f *failures) err(gr schema.GroupResource) error {
	if len(f.all) == 0 {
		return f.abort
	}
	var causes []metav1.StatusCause
	for _, err := range f.all {
		var at *storage.StorageError
		if errors.As(err, &at) {
			causes = append(causes, metav1.StatusCause{
				Type: metav1.CauseTypeUnexpectedServerResponse, Field: at.Key, Message: err.Error(),
			})
		}
	}
	switch {
	case errors.Is(f.abort, errTooMany):
		causes = append(causes, metav1.StatusCause{Type: metav1.CauseTypeTooMany, Message: errTooMany.Error()})
	case f.abort != nil:
		causes = append(causes, metav1.StatusCause{Type: metav1.CauseTypeUnexpectedServerResponse, Message: f.abort.Error()})
	}
	message := fmt.Sprintf("failed to read one or more %s from the storage: %v", gr, f.all[0])
	if len(f.all) > 1 {
		message = fmt.Sprintf("%s (and %d more)", message, len(f.all)-1)
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonStoreReadError,
		Details: &metav1.StatusDetails{Group: gr.Group, Kind: gr.Resource, Name: "list", Causes: causes},
		Message: message,
	}}
}
