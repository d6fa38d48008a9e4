package apiserver

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/opreplay/opreplay/sim/store"
)

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
}

func (w *world) addConfigMap(name string) *corev1.ConfigMap {
	w.t.Helper()
	cm, err := w.kub.CoreV1().ConfigMaps("default").Create(w.t.Context(), configMap(name), metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return cm
}

// next is the next event as text, "closed" at the stream's end.
func next(t *testing.T, in watch.Interface) string {
	t.Helper()
	select {
	case ev, ok := <-in.ResultChan():
		if !ok {
			return "closed"
		}
		if err := apierrors.FromObject(ev.Object); ev.Type == watch.Error {
			return fmt.Sprintf("ERROR %d", err.(apierrors.APIStatus).Status().Code)
		}
		m, err := meta.Accessor(ev.Object)
		if err != nil {
			t.Fatal(err)
		}
		end := ""
		if m.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true" {
			end = " end"
		}
		return strings.TrimSpace(fmt.Sprintf("%s %s", ev.Type, m.GetName())) + end
	case <-time.After(20 * time.Second):
		t.Fatal("no event within 20 s")
		return ""
	}
}

func expect(t *testing.T, in watch.Interface, events ...string) {
	t.Helper()
	for _, e := range events {
		if got := next(t, in); got != e {
			t.Fatalf("event %q, want %q", got, e)
		}
	}
}

func TestWatch(t *testing.T) {
	w := newWorld(t, Options{})
	ctx := t.Context()
	api := w.kub.CoreV1().ConfigMaps("default")
	a := w.addConfigMap("a")
	w.addConfigMap("b")

	from, err := api.Watch(ctx, metav1.ListOptions{ResourceVersion: a.ResourceVersion, AllowWatchBookmarks: true})
	if err != nil {
		t.Fatal(err)
	}
	list, err := api.Watch(ctx, metav1.ListOptions{
		SendInitialEvents: ptr.To(true), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true,
		FieldSelector: "metadata.name!=b",
	})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, from, "ADDED b")
	expect(t, list, "ADDED a", "BOOKMARK end")
	a.Data = map[string]string{"k": "v"}
	if _, err := api.Update(ctx, a, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := api.Delete(ctx, "b", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	expect(t, from, "MODIFIED a", "DELETED b")
	w.Store().Bookmark()
	expect(t, from, "BOOKMARK")
	expect(t, list, "MODIFIED a", "BOOKMARK")
}

func TestListAtVersion(t *testing.T) {
	w := newWorld(t, Options{})
	ctx := t.Context()
	api := w.kub.CoreV1().ConfigMaps("default")
	rv := w.addConfigMap("a").ResourceVersion
	w.addConfigMap("b")
	if err := api.Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	exact := metav1.ListOptions{ResourceVersion: rv, ResourceVersionMatch: metav1.ResourceVersionMatchExact}
	l, err := api.List(ctx, exact)
	if err != nil || len(l.Items) != 1 || l.Items[0].Name != "a" || l.ResourceVersion != rv {
		t.Errorf("exact list: %v, %v", err, l)
	}
	l, err = api.List(ctx, metav1.ListOptions{ResourceVersion: rv, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan})
	if err != nil || len(l.Items) != 1 || l.Items[0].Name != "b" {
		t.Errorf("list not older than: %v, %v", err, l)
	}
	future := fmt.Sprint(w.Store().ResourceVersion() + 100)
	if _, err := api.List(ctx, metav1.ListOptions{ResourceVersion: future, ResourceVersionMatch: metav1.ResourceVersionMatchExact}); !apierrors.IsTimeout(err) {
		t.Errorf("list in the future: %v", err)
	}
	for i := range 4 {
		w.addConfigMap(fmt.Sprint("p", i))
	}
	page, err := api.List(ctx, metav1.ListOptions{Limit: 2})
	if err != nil || len(page.Items) != 2 || page.Continue == "" || *page.RemainingItemCount != 3 {
		t.Fatalf("page: %v, %v", err, page.ListMeta)
	}
	w.addConfigMap("between") // not in a list that began before it
	rest, err := api.List(ctx, metav1.ListOptions{Continue: page.Continue})
	if err != nil || len(rest.Items) != 3 {
		t.Errorf("rest: %v, %d items", err, len(rest.Items))
	}

	w.Store().Compact(w.Store().ResourceVersion())
	if _, err := api.List(ctx, exact); !apierrors.IsResourceExpired(err) {
		t.Errorf("exact list of a compacted version: %v", err)
	}
	in, err := api.Watch(ctx, metav1.ListOptions{ResourceVersion: rv})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, in, "ERROR 410", "closed")
}

// client-go's own informer over WatchList, through the end of its watches.
func TestInformer(t *testing.T) {
	w := newWorld(t, Options{})
	w.addWidgets()
	w.post(widgetPath, widget("a", ""))
	inf := dynamicinformer.NewFilteredDynamicInformer(w.dyn, widgetGVR, "", 0, cache.Indexers{}, nil).Informer()
	seen := make(chan string, 10)
	if _, err := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { m, _ := meta.Accessor(o); seen <- "add " + m.GetName() },
		DeleteFunc: func(o any) { seen <- "delete" },
	}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go inf.RunWithContext(ctx)
	for _, want := range []string{"add a", "add b", "add c", "delete"} {
		select {
		case got := <-seen:
			if got != want {
				t.Fatalf("%q, want %q", got, want)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("no %q within 20 s", want)
		}
		switch want {
		case "add a":
			w.post(widgetPath, widget("b", ""))
		case "add b":
			w.Store().Restore(w.Store().Snapshot()) // ends the watch
			w.post(widgetPath, widget("c", ""))
		case "add c":
			w.must(http.StatusOK, http.MethodDelete, widgetPath+"/c", "application/json", "")
		}
	}
}

// holdGate holds the events of one object until released.
type holdGate struct {
	name     string
	held     chan store.Event
	released chan struct{}
	mu       sync.Mutex
	infos    []store.WatchInfo
}

func (g *holdGate) Deliver(ctx context.Context, w store.WatchInfo, ev store.Event) error {
	g.mu.Lock()
	g.infos = append(g.infos, w)
	g.mu.Unlock()
	if ev.Name != g.name {
		return nil
	}
	g.held <- ev
	select {
	case <-g.released:
	case <-ctx.Done():
	}
	return nil
}

func TestGateHoldsAStream(t *testing.T) {
	g := &holdGate{name: "slow", held: make(chan store.Event, 1), released: make(chan struct{})}
	w := newWorld(t, Options{Gate: g})
	ctx := t.Context()
	api := w.kub.CoreV1().ConfigMaps("default")
	rv := fmt.Sprint(w.Store().ResourceVersion())
	in, err := api.Watch(ctx, metav1.ListOptions{ResourceVersion: rv})
	if err != nil {
		t.Fatal(err)
	}
	other, err := api.Watch(ctx, metav1.ListOptions{ResourceVersion: rv, FieldSelector: "metadata.name=after"})
	if err != nil {
		t.Fatal(err)
	}
	w.addConfigMap("before")
	w.addConfigMap("slow")
	w.addConfigMap("after")
	expect(t, in, "ADDED before")
	ev := <-g.held
	if ev.Type != watch.Added || ev.Namespace != "default" || ev.ResourceVersion == 0 || ev.Initial {
		t.Errorf("held: %+v", ev)
	}
	// The write stands and other streams go on; in this one nothing overtakes.
	if _, err := api.Get(ctx, "slow", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	expect(t, other, "ADDED after")
	select {
	case ev := <-in.ResultChan():
		t.Fatalf("a held stream delivered %v", ev)
	default:
	}
	close(g.released)
	expect(t, in, "ADDED slow", "ADDED after")

	g.mu.Lock()
	defer g.mu.Unlock()
	for _, i := range g.infos {
		if i.Resource.Resource != "configmaps" || i.Namespace != "default" || !strings.HasPrefix(i.Client.UserAgent, "typed-tester/") || i.Client.User != Admin.Name {
			t.Errorf("watch info %+v", i)
		}
	}
}

func TestGateEndsAStream(t *testing.T) {
	gone := apierrors.NewResourceExpired("too late")
	w := newWorld(t, Options{Gate: store.GateFunc(func(_ context.Context, _ store.WatchInfo, ev store.Event) error {
		switch ev.Name {
		case "gone":
			return gone
		case "cut":
			return context.Canceled
		}
		return nil
	})})
	api := w.kub.CoreV1().ConfigMaps("default")
	for name, want := range map[string][]string{"gone": {"ERROR 410", "closed"}, "cut": {"closed"}} {
		in, err := api.Watch(t.Context(), metav1.ListOptions{ResourceVersion: fmt.Sprint(w.Store().ResourceVersion())})
		if err != nil {
			t.Fatal(err)
		}
		w.addConfigMap(name)
		expect(t, in, want...)
	}
}

// The server's own informers must see CRDs whatever the gate does.
func TestGateSparesInternalWatches(t *testing.T) {
	w := newWorld(t, Options{Gate: store.GateFunc(func(ctx context.Context, _ store.WatchInfo, _ store.Event) error {
		<-ctx.Done()
		return ctx.Err()
	})})
	w.addWidgets()
	w.post(widgetPath, widget("a", ""))
}
