package store

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/apitesting"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"
	"k8s.io/apiserver/pkg/storage"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"
)

var (
	scheme = runtime.NewScheme()
	codecs = serializer.NewCodecFactory(scheme)
)

func init() {
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	utilruntime.Must(example.AddToScheme(scheme))
	utilruntime.Must(examplev1.AddToScheme(scheme))
}

// pods opens the example resource that the upstream suite works with.
func pods(s *Store) *resource {
	return s.open(resourceConfig{
		codec: apitesting.TestCodec(codecs, examplev1.SchemeGroupVersion), gr: example.Resource("pods"),
		resourcePrefix: "/pods/",
		keyFunc: func(o runtime.Object) (string, error) {
			return storage.NamespaceKeyFunc("/pods/", o)
		},
		newFunc: func() runtime.Object { return &example.Pod{} },
	})
}

func increaseRV(s *Store) storagetesting.IncreaseRVFunc {
	return func(context.Context, *testing.T) int64 {
		s.AdvanceTo(s.ResourceVersion() + 1)
		return int64(s.ResourceVersion())
	}
}

// compaction compacts and takes a version, as it does in etcd, where the API server notes each
// compaction in a key.
func compaction(s *Store) storagetesting.Compaction {
	return func(_ context.Context, t *testing.T, rv string) {
		r, err := storage.APIObjectVersioner{}.ParseResourceVersion(rv)
		if err != nil {
			t.Fatal(err)
		}
		s.AdvanceTo(s.ResourceVersion() + 1)
		s.Compact(r)
	}
}

// stored checks what etcd's own conformance test checks of a stored object.
func stored(r *resource) storagetesting.KeyValidation {
	return func(_ context.Context, t *testing.T, key string) {
		e, _ := r.get(key)
		if e == nil {
			t.Fatalf("nothing stored at %s", key)
		}
		obj, err := runtime.Decode(r.codec, e.data)
		if err != nil {
			t.Fatal(err)
		}
		if rv := obj.(*example.Pod).ResourceVersion; rv != "" {
			t.Errorf("stored object has resourceVersion %q", rv)
		}
	}
}

// every calls fn on a ticker until the test ends: the parts of the suite that wait for the store to do
// something by itself need somebody who turns the handle.
func every(t *testing.T, d time.Duration, fn func()) {
	done := make(chan struct{})
	tick := time.NewTicker(d)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-tick.C:
				fn()
			case <-done:
				return
			}
		}
	}()
	t.Cleanup(func() { close(done); <-stopped; tick.Stop() })
}

// TestConformance runs the suite that etcd's and the cacher's storage are tested with upstream. Left
// out are the tests whose subject is the transformer for encryption at rest (TransformationFailure,
// WatchError, WatchErrorIsBlockingFurtherEvents, GuaranteedUpdate and its ChecksStoredData,
// ListResourceVersionMatch, the corrupt-object ones): this store has none.
func TestConformance(t *testing.T) {
	type fn = func(context.Context, *testing.T, storage.Interface)
	for name, f := range map[string]fn{
		"CreateWithTTL":                          storagetesting.RunTestCreateWithTTL,
		"CreateWithKeyExist":                     storagetesting.RunTestCreateWithKeyExist,
		"Get":                                    storagetesting.RunTestGet,
		"UnconditionalDelete":                    storagetesting.RunTestUnconditionalDelete,
		"ConditionalDelete":                      storagetesting.RunTestConditionalDelete,
		"DeleteWithSuggestion":                   storagetesting.RunTestDeleteWithSuggestion,
		"DeleteWithSuggestionAndConflict":        storagetesting.RunTestDeleteWithSuggestionAndConflict,
		"DeleteWithConflict":                     storagetesting.RunTestDeleteWithConflict,
		"DeleteWithSuggestionOfDeletedObject":    storagetesting.RunTestDeleteWithSuggestionOfDeletedObject,
		"ValidateDeletionWithSuggestion":         storagetesting.RunTestValidateDeletionWithSuggestion,
		"ValidateDeletionWithOnlySuggestion":     storagetesting.RunTestValidateDeletionWithOnlySuggestionValid,
		"PreconditionalDeleteWithSuggestion":     storagetesting.RunTestPreconditionalDeleteWithSuggestion,
		"PreconditionalDeleteWithOnlySuggestion": storagetesting.RunTestPreconditionalDeleteWithOnlySuggestionPass,
		"GetListRecursivePrefix":                 storagetesting.RunTestGetListRecursivePrefix,
		"GuaranteedUpdateWithTTL":                storagetesting.RunTestGuaranteedUpdateWithTTL,
		"GuaranteedUpdateWithConflict":           storagetesting.RunTestGuaranteedUpdateWithConflict,
		"GuaranteedUpdateWithSuggestion":         storagetesting.RunTestGuaranteedUpdateWithSuggestionAndConflict,
		"ListPaging":                             storagetesting.RunTestListPaging,
		"NamespaceScopedList":                    storagetesting.RunTestNamespaceScopedList,
		"KeySchema":                              storagetesting.RunTestKeySchema,
		"Watch":                                  storagetesting.RunTestWatch,
		"DeleteTriggerWatch":                     storagetesting.RunTestDeleteTriggerWatch,
		"WatchFromNonZero":                       storagetesting.RunTestWatchFromNonZero,
		"DelayedWatchDelivery":                   storagetesting.RunTestDelayedWatchDelivery,
		"WatchContextCancel":                     storagetesting.RunTestWatchContextCancel,
		"WatcherTimeout":                         storagetesting.RunTestWatcherTimeout,
		"WatchDeleteEventObjectHaveLatestRV":     storagetesting.RunTestWatchDeleteEventObjectHaveLatestRV,
		"WatchInitializationSignal":              storagetesting.RunTestWatchInitializationSignal,
		"ClusterScopedWatch":                     storagetesting.RunTestClusterScopedWatch,
		"NamespaceScopedWatch":                   storagetesting.RunTestNamespaceScopedWatch,
		"SendInitialEventsCompatibility":         storagetesting.RunSendInitialEventsBackwardCompatibility,
		"WatchSemantics":                         storagetesting.RunWatchSemantics,
		"WatchSemanticInitialEventsExtended":     storagetesting.RunWatchSemanticInitialEventsExtended,
		"WatchListMatchSingle":                   storagetesting.RunWatchListMatchSingle,
		"BookmarksWithCorrectResourceVersion":    storagetesting.RunTestOptionalWatchBookmarksWithCorrectResourceVersion,
	} {
		t.Run(name, func(t *testing.T) {
			s := New(Options{Seed: 1})
			t.Cleanup(s.Close)
			if strings.HasSuffix(name, "TTL") {
				every(t, 50*time.Millisecond, func() { s.Expire() })
			}
			if strings.HasPrefix(name, "Bookmarks") {
				every(t, 10*time.Millisecond, s.Bookmark)
			}
			f(t.Context(), t, pods(s))
		})
	}
}

// TestConformanceWithHelp is the rest of the suite: tests that need to look into the store.
func TestConformanceWithHelp(t *testing.T) {
	ignoreCalls := func(*testing.T, uint64, uint64) {} // counts reads of etcd
	for name, f := range map[string]func(context.Context, *testing.T, *Store, *resource){
		"Create": func(ctx context.Context, t *testing.T, _ *Store, r *resource) {
			storagetesting.RunTestCreate(ctx, t, r, stored(r))
		},
		"List": func(ctx context.Context, t *testing.T, s *Store, r *resource) {
			storagetesting.RunTestList(ctx, t, r, compaction(s), false, nil)
		},
		"ConsistentList": func(ctx context.Context, t *testing.T, s *Store, r *resource) {
			storagetesting.RunTestConsistentList(ctx, t, r, increaseRV(s), false, true, false)
		},
		"CompactRevision": func(ctx context.Context, t *testing.T, s *Store, r *resource) {
			storagetesting.RunTestCompactRevision(ctx, t, r, increaseRV(s), compaction(s))
		},
		"GetListNonRecursive": func(ctx context.Context, t *testing.T, s *Store, r *resource) {
			storagetesting.RunTestGetListNonRecursive(ctx, t, increaseRV(s), r)
		},
		"ListContinuation": func(ctx context.Context, t *testing.T, _ *Store, r *resource) {
			storagetesting.RunTestListContinuation(ctx, t, r, ignoreCalls)
		},
		"ListPaginationRareObject": func(ctx context.Context, t *testing.T, _ *Store, r *resource) {
			storagetesting.RunTestListPaginationRareObject(ctx, t, r, ignoreCalls)
		},
		"ListContinuationWithFilter": func(ctx context.Context, t *testing.T, _ *Store, r *resource) {
			storagetesting.RunTestListContinuationWithFilter(ctx, t, r, ignoreCalls)
		},
		"ListInconsistentContinuation": func(ctx context.Context, t *testing.T, s *Store, r *resource) {
			storagetesting.RunTestListInconsistentContinuation(ctx, t, r, compaction(s))
		},
		"WatchFromZero": func(ctx context.Context, t *testing.T, s *Store, r *resource) {
			storagetesting.RunTestWatchFromZero(ctx, t, r, compaction(s))
		},
		"ProgressNotify": func(ctx context.Context, t *testing.T, s *Store, r *resource) {
			every(t, 100*time.Millisecond, s.Bookmark)
			storagetesting.RunOptionalTestProgressNotify(ctx, t, r, increaseRV(s))
		},
		"WatchDispatchBookmarkEvents": func(ctx context.Context, t *testing.T, s *Store, r *resource) {
			every(t, 10*time.Millisecond, s.Bookmark)
			storagetesting.RunTestWatchDispatchBookmarkEvents(ctx, t, r, true)
		},
		"Stats": func(ctx context.Context, t *testing.T, _ *Store, r *resource) {
			storagetesting.RunTestStats(ctx, t, r, r.codec, identity.NewEncryptCheckTransformer(), false)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(Options{Seed: 1})
			t.Cleanup(s.Close)
			f(t.Context(), t, s, pods(s))
		})
	}
}

func podNamed(name string) *example.Pod {
	return &example.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
}

func keyOf(name string) string { return fmt.Sprintf("/pods/ns/%s", name) }
