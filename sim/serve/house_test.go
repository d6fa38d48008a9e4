package serve

import (
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/opreplay/opreplay/sim/apiserver"
)

// Each tick has its effect: a bookmark for a watch, the end of an old Event, and, at the second one, that of history.
func TestHousework(t *testing.T) {
	var now atomic.Pointer[time.Time]
	now.Store(&apiserver.DefaultTime)
	server, l := open(t, apiserver.Options{Clock: func() time.Time { return *now.Load() }})
	defer l.Close() //nolint:errcheck // test
	client := kubernetes.NewForConfigOrDie(server.Config(apiserver.Admin)).CoreV1()
	ctx := t.Context()
	f := &Front{server: server, ending: ctx}
	bookmarks, expiry, compaction := make(chan time.Time), make(chan time.Time), make(chan time.Time)
	go f.housework(bookmarks, expiry, compaction)
	// Once the next tick is taken, what the one before it was for is done.
	tick := func(c chan time.Time) { c <- time.Time{}; bookmarks <- time.Time{} }

	bookmarks <- time.Time{} // from now on history is kept
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "e"}, InvolvedObject: corev1.ObjectReference{Namespace: "default"},
	}
	if _, err := client.Events("default").Create(ctx, event, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	old := server.Store().ResourceVersion()
	w, err := client.ConfigMaps("default").Watch(ctx, metav1.ListOptions{AllowWatchBookmarks: true})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	tick(bookmarks)
	if ev := <-w.ResultChan(); ev.Type != watch.Bookmark {
		t.Errorf("the watch got %v", ev)
	}
	tick(expiry)
	if _, err := client.Events("default").Get(ctx, "e", metav1.GetOptions{}); err != nil {
		t.Errorf("an Event that is new: %v", err)
	}
	later := apiserver.DefaultTime.Add(2 * time.Hour)
	now.Store(&later)
	tick(expiry)
	if _, err := client.Events("default").Get(ctx, "e", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("an Event two hours old: %v", err)
	}
	exact := metav1.ListOptions{ResourceVersion: strconv.FormatUint(old, 10), ResourceVersionMatch: metav1.ResourceVersionMatchExact}
	for i, gone := range []bool{false, true} {
		tick(compaction)
		_, err := client.ConfigMaps("default").List(ctx, exact)
		if apierrors.IsResourceExpired(err) != gone || !gone && err != nil {
			t.Errorf("after compaction %d, version %s: %v", i+1, exact.ResourceVersion, err)
		}
	}
}
