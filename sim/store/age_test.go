package store

import (
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
)

// TestAge: what is old can't be listed; it can be watched from where a watch cache still has what came after it.
func TestAge(t *testing.T) {
	f := newFixture(t, Options{})
	versions := make([]uint64, watchWindow+10)
	for i := range versions {
		f.create(t.Context(), fmt.Sprintf("p%03d", i))
		versions[i] = f.ResourceVersion()
	}
	const old = watchWindow + 5 // compacted up to this one
	list := func(i int) error {
		return f.pods.GetList(t.Context(), "/pods/", storage.ListOptions{
			ResourceVersion: fmt.Sprint(versions[i]), ResourceVersionMatch: metav1.ResourceVersionMatchExact, Recursive: true, Predicate: storage.Everything,
		}, &example.PodList{})
	}
	first := func(i int) string {
		t.Helper()
		ev, open := <-f.watch(t.Context(), fmt.Sprint(versions[i])).ResultChan()
		if !open {
			t.Fatalf("the watch from %d ended without a word", versions[i])
		}
		if p, ok := ev.Object.(*example.Pod); ok {
			return p.Name
		}
		return string(apierrors.ReasonForError(apierrors.FromObject(ev.Object)))
	}
	check := func(what string, list error, expired bool, watched, want string) {
		t.Helper()
		if apierrors.IsResourceExpired(list) != expired || list != nil && !expired {
			t.Errorf("%s: listed with %v", what, list)
		}
		if watched != want {
			t.Errorf("%s: watched from, it begins with %s, want %s", what, watched, want)
		}
	}
	before := f.Snapshot()
	for _, cached := range []bool{true, false} {
		f.Restore(before)
		f.pods.cached = cached
		f.Age(versions[old])
		if cached {
			// The newest hundred are p010 to p109; from one before the first of them a watch can begin.
			check("before the window", list(8), true, first(8), "Expired")
			check("at its beginning", list(9), true, first(9), "p010")
			check("before the compaction", list(old-1), true, first(old-1), "p105")
		} else {
			check("before the compaction", list(old-1), true, first(old-1), "Expired")
		}
		check("at the compaction", list(old), false, first(old), "p106")
	}
}
