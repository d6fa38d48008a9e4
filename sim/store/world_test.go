package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
)

var epoch = time.Date(2020, time.January, 1, 0, 0, 0, 0, time.UTC)

// fixture is a store with pods and a clock that is turned by hand.
type fixture struct {
	*Store
	t    testing.TB
	pods *resource
	now  time.Time
}

func newFixture(t testing.TB, o Options) *fixture {
	f := &fixture{t: t, now: epoch}
	o.Clock = func() time.Time { return f.now }
	f.Store = New(o)
	f.pods = pods(f.Store)
	t.Cleanup(f.Close)
	return f
}

// create stores a pod as the registry would hand it over: with a random uid and the wall clock's time.
func (f *fixture) create(ctx context.Context, name string) *example.Pod {
	f.t.Helper()
	p := podNamed(name)
	p.UID, p.CreationTimestamp = "random", metav1.Now()
	p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m", Operation: "Update", Time: new(metav1.Now())}}
	out := &example.Pod{}
	if err := f.pods.Create(ctx, keyOf(name), p, out, 0); err != nil {
		f.t.Fatal(err)
	}
	return out
}

func (f *fixture) update(name string, change func(*example.Pod)) *example.Pod {
	f.t.Helper()
	out := &example.Pod{}
	if err := f.pods.GuaranteedUpdate(f.t.Context(), keyOf(name), out, false, nil,
		storage.SimpleUpdate(func(o runtime.Object) (runtime.Object, error) {
			change(o.(*example.Pod))
			return o, nil
		}), nil); err != nil {
		f.t.Fatal(err)
	}
	return out
}

func (f *fixture) delete(name string) {
	f.t.Helper()
	if err := f.pods.Delete(f.t.Context(), keyOf(name), &example.Pod{}, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{}); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) names(opts storage.ListOptions) []string {
	f.t.Helper()
	opts.Recursive = true
	opts.Predicate = storage.Everything
	list := &example.PodList{}
	if err := f.pods.GetList(f.t.Context(), "/pods/", opts, list); err != nil {
		f.t.Fatal(err)
	}
	var out []string
	for _, p := range list.Items {
		out = append(out, p.Name+p.Labels["v"])
	}
	return out
}

func (f *fixture) watch(ctx context.Context, rv string) watch.Interface {
	f.t.Helper()
	w, err := f.pods.Watch(ctx, "/pods/", storage.ListOptions{ResourceVersion: rv, Predicate: storage.Everything, Recursive: true})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(w.Stop)
	return w
}

func expectEvents(t *testing.T, w watch.Interface, events ...string) {
	t.Helper()
	for _, want := range events {
		select {
		case ev, ok := <-w.ResultChan():
			got := "closed"
			if st, isStatus := ev.Object.(*metav1.Status); isStatus {
				got = fmt.Sprint("ERROR ", st.Code)
			} else if ok {
				m, err := meta.Accessor(ev.Object)
				if err != nil {
					t.Fatal(err)
				}
				got = fmt.Sprintf("%s %s", ev.Type, m.GetName())
			}
			if got != want {
				t.Fatalf("event %q, want %q", got, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("no %q within 10 s", want)
		}
	}
}

func TestStamps(t *testing.T) {
	f := newFixture(t, Options{Seed: 1})
	a := f.create(t.Context(), "a")
	if a.UID == "random" || len(a.UID) != 36 || a.UID[14] != '4' {
		t.Errorf("uid %q", a.UID)
	}
	if !a.CreationTimestamp.Time.Equal(epoch) || !a.ManagedFields[0].Time.Time.Equal(epoch) {
		t.Errorf("times %v %v", a.CreationTimestamp, a.ManagedFields[0].Time)
	}
	f.now = epoch.Add(time.Hour)
	old := metav1.NewTime(epoch.Add(-time.Hour))
	b := f.update("a", func(p *example.Pod) {
		p.ManagedFields = append(p.ManagedFields,
			metav1.ManagedFieldsEntry{Manager: "n", Time: new(metav1.Now())},
			metav1.ManagedFieldsEntry{Manager: "client's own", Time: &old})
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = new(metav1.Now()), new(int64(30))
	})
	if b.UID != a.UID || !b.CreationTimestamp.Time.Equal(epoch) {
		t.Errorf("uid or creation time changed: %v", b.ObjectMeta)
	}
	times := map[string]time.Time{}
	for _, e := range b.ManagedFields {
		times[e.Manager] = e.Time.Time
	}
	for manager, want := range map[string]time.Time{"m": epoch, "n": f.now, "client's own": old.Time} {
		if got := times[manager]; !got.Equal(want) {
			t.Errorf("managedFields of %s at %v, want %v", manager, got, want)
		}
	}
	if got, want := b.DeletionTimestamp.Time, f.now.Add(30*time.Second); !got.Equal(want) {
		t.Errorf("deletion at %v, want %v", got, want)
	}
}

func TestAmend(t *testing.T) {
	f := newFixture(t, Options{Amend: func(obj runtime.Object, fix func(*metav1.Time)) {
		if p := obj.(*example.Pod); p.Status.StartTime != nil {
			fix(p.Status.StartTime)
		}
	}})
	f.create(t.Context(), "a")
	a := f.update("a", func(p *example.Pod) { p.Status.StartTime = new(metav1.Now()) })
	if !a.Status.StartTime.Time.Equal(epoch) {
		t.Errorf("start at %v", a.Status.StartTime)
	}
}

func TestUIDsAndNames(t *testing.T) {
	make2 := func(seed uint64, first, second string) (map[string]string, *fixture) {
		f := newFixture(t, Options{Seed: seed})
		f.create(t.Context(), first)
		f.create(t.Context(), second)
		return map[string]string{
			"a": string(f.update("a", func(*example.Pod) {}).UID), "b": string(f.update("b", func(*example.Pod) {}).UID),
		}, f
	}
	one, f := make2(1, "a", "b")
	reversed, _ := make2(1, "b", "a")
	other, _ := make2(2, "a", "b")
	if one["a"] != reversed["a"] || one["b"] != reversed["b"] {
		t.Error("uids depend on the order of unrelated creates")
	}
	if one["a"] == other["a"] || one["a"] == one["b"] {
		t.Error("uids repeat")
	}
	f.delete("a")
	if again := f.create(t.Context(), "a"); string(again.UID) == one["a"] {
		t.Error("a second incarnation has the first one's uid")
	}
	gr := schema.GroupResource{Resource: "pods"}
	n1, n2, n3 := f.GenerateName(gr, "ns", "web-"), f.GenerateName(gr, "ns", "web-"), f.GenerateName(gr, "other", "web-")
	if n1 == n2 || n1 == n3 || len(n1) != len("web-12345") {
		t.Errorf("names %s %s %s", n1, n2, n3)
	}
}

func TestHint(t *testing.T) {
	f := newFixture(t, Options{})
	at := epoch.Add(-24 * time.Hour)
	a := f.create(WithHint(t.Context(), Hint{UID: "recorded", ResourceVersion: 100, Time: at}), "a")
	if a.UID != "recorded" || a.ResourceVersion != "100" || !a.CreationTimestamp.Time.Equal(at) {
		t.Errorf("%v", a.ObjectMeta)
	}
	b := f.create(WithHint(t.Context(), Hint{ResourceVersion: 50}), "b")
	if b.ResourceVersion != "101" {
		t.Errorf("a hint below the newest version gave %s, want 101", b.ResourceVersion)
	}
}

func TestSameCallsSameBytes(t *testing.T) {
	run := func() *Snapshot {
		f := newFixture(t, Options{Seed: 5})
		for i := range 50 {
			f.now = f.now.Add(time.Second)
			f.create(t.Context(), fmt.Sprint("p", i))
			f.update(fmt.Sprint("p", i), func(p *example.Pod) { p.Labels = map[string]string{"v": fmt.Sprint(i)} })
			if i%5 == 0 {
				f.delete(fmt.Sprint("p", i))
			}
		}
		return f.Snapshot()
	}
	if !run().Equal(run()) {
		t.Error("two runs differ")
	}
}

func TestSnapshotAndRestore(t *testing.T) {
	f := newFixture(t, Options{Seed: 1})
	f.create(t.Context(), "a")
	f.create(t.Context(), "b")
	snap := f.Snapshot()
	external := f.watch(WithClient(t.Context(), Client{}), fmt.Sprint(f.ResourceVersion()))
	internal := f.watch(t.Context(), fmt.Sprint(f.ResourceVersion()))

	life := func() *Snapshot {
		f.delete("a")
		f.update("b", func(p *example.Pod) { p.Labels = map[string]string{"v": "2"} })
		f.create(t.Context(), "a")
		f.create(t.Context(), "c")
		return f.Snapshot()
	}
	first := life()
	expectEvents(t, external, "DELETED a", "MODIFIED b", "ADDED a", "ADDED c")
	expectEvents(t, internal, "DELETED a", "MODIFIED b", "ADDED a", "ADDED c")

	f.Restore(snap)
	if !f.Snapshot().Equal(snap) || !slices.Equal(f.names(storage.ListOptions{}), []string{"a", "b"}) {
		t.Errorf("restored: %v", f.names(storage.ListOptions{}))
	}
	expectEvents(t, external, "closed")
	expectEvents(t, internal, "closed") // what it saw never was
	if second := life(); !second.Equal(first) {
		t.Error("the same life after a restore gave another world")
	}
	if !f.Snapshot().Equal(first) || snap.Equal(first) {
		t.Error("a snapshot changed")
	}

	// Nothing changed since: internal watches stay, external ones end.
	f.Restore(snap)
	external = f.watch(WithClient(t.Context(), Client{}), fmt.Sprint(f.ResourceVersion()))
	internal = f.watch(t.Context(), fmt.Sprint(f.ResourceVersion()))
	f.Restore(snap)
	expectEvents(t, external, "closed")
	f.create(t.Context(), "d")
	expectEvents(t, internal, "ADDED d")
}

// Worlds that part from one snapshot must not write into each other's history.
func TestHistoriesPart(t *testing.T) {
	f := newFixture(t, Options{})
	for i := range 20 { // whatever spare capacity the journal has
		from := f.Snapshot()
		f.create(t.Context(), fmt.Sprint("one", i))
		one := f.Snapshot()
		f.Restore(from)
		f.create(t.Context(), fmt.Sprint("two", i))
		f.Restore(one)
		expectEvents(t, f.watch(t.Context(), fmt.Sprint(from.ResourceVersion())), fmt.Sprint("ADDED one", i))
	}
}

func TestListOfAnyVersion(t *testing.T) {
	f := newFixture(t, Options{})
	var states [][]string
	var versions []uint64
	note := func() {
		states, versions = append(states, f.names(storage.ListOptions{})), append(versions, f.ResourceVersion())
	}
	for i := range 20 {
		f.create(t.Context(), fmt.Sprint("p", i))
		note()
		f.update(fmt.Sprint("p", i), func(p *example.Pod) { p.Labels = map[string]string{"v": fmt.Sprint("-", i)} })
		note()
		if i%3 == 0 {
			f.delete(fmt.Sprint("p", i))
			note()
		}
	}
	check := func(from int) {
		t.Helper()
		for i := from; i < len(states); i++ {
			got := f.names(storage.ListOptions{ResourceVersion: fmt.Sprint(versions[i]), ResourceVersionMatch: metav1.ResourceVersionMatchExact})
			if !slices.Equal(got, states[i]) {
				t.Errorf("at %d: %v, want %v", versions[i], got, states[i])
			}
		}
	}
	check(0)
	f.Compact(versions[25])
	check(25)
	err := f.pods.GetList(t.Context(), "/pods/", storage.ListOptions{
		ResourceVersion: fmt.Sprint(versions[24]), ResourceVersionMatch: metav1.ResourceVersionMatchExact, Recursive: true, Predicate: storage.Everything,
	}, &example.PodList{})
	if !apierrors.IsResourceExpired(err) {
		t.Errorf("list before the compaction: %v", err)
	}
}

// A client that does not read costs nothing, and after a compaction it has to list again.
func TestSlowWatchFallsBehindCompaction(t *testing.T) {
	asked := make(chan string, 300)
	f := newFixture(t, Options{Gate: GateFunc(func(_ context.Context, _ WatchInfo, ev Event) error {
		asked <- ev.Name
		return nil
	})})
	slow := f.watch(WithClient(t.Context(), Client{}), fmt.Sprint(f.ResourceVersion()))
	for i := range 300 {
		f.create(t.Context(), fmt.Sprintf("p%03d", i))
	}
	expectEvents(t, slow, "ADDED p000", "ADDED p001")
	for name := range asked {
		if name == "p002" { // is on its way, and the gate is not asked about more before it has arrived
			break
		}
	}
	f.Compact(f.ResourceVersion())
	expectEvents(t, slow, "ADDED p002", "ERROR 410", "closed")
}

func TestGateOrder(t *testing.T) {
	var asked []string
	release := make(chan struct{})
	held := make(chan struct{})
	f := newFixture(t, Options{Gate: GateFunc(func(ctx context.Context, w WatchInfo, ev Event) error {
		asked = append(asked, fmt.Sprintf("%s %s %v %s", ev.Type, ev.Name, ev.Initial, w.Client.UserAgent))
		if ev.Name == "b" {
			close(held)
			select {
			case <-release:
			case <-ctx.Done():
			}
		}
		return nil
	})})
	f.create(t.Context(), "a")
	w, err := f.pods.Watch(WithClient(t.Context(), Client{UserAgent: "op"}), "/pods/ns/", storage.ListOptions{
		SendInitialEvents: new(true), Recursive: true,
		Predicate: storage.SelectionPredicate{Label: labels.Everything(), Field: fields.Everything(), AllowWatchBookmarks: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	if infos := f.Watches(); len(infos) != 1 || infos[0].Namespace != "ns" || infos[0].Client.UserAgent != "op" {
		t.Errorf("watches: %+v", infos)
	}
	expectEvents(t, w, "ADDED a", "BOOKMARK ")
	f.create(t.Context(), "b")
	f.create(t.Context(), "c")
	<-held
	if len(w.ResultChan()) != 0 {
		t.Error("a held event was delivered")
	}
	close(release)
	expectEvents(t, w, "ADDED b", "ADDED c")
	want := []string{"ADDED a true op", "BOOKMARK  true op", "ADDED b false op", "ADDED c false op"}
	if !slices.Equal(asked, want) {
		t.Errorf("the gate was asked %q, want %q", asked, want)
	}
}

// A stream that ends while the gate holds it must not leave its goroutine behind.
func TestGateIsReleasedWhenTheClientLeaves(t *testing.T) {
	entered, left := make(chan struct{}), make(chan struct{})
	f := newFixture(t, Options{Gate: GateFunc(func(ctx context.Context, _ WatchInfo, _ Event) error {
		close(entered)
		<-ctx.Done()
		close(left)
		return ctx.Err()
	})})
	w := f.watch(WithClient(t.Context(), Client{}), fmt.Sprint(f.ResourceVersion()))
	f.create(t.Context(), "a")
	<-entered
	w.Stop()
	<-left
	expectEvents(t, w, "closed")
	if n := len(f.Watches()); n != 0 {
		t.Errorf("%d watches are left", n)
	}
}

func TestLoad(t *testing.T) {
	f := newFixture(t, Options{})
	f.create(t.Context(), "a")
	was := fmt.Sprint(f.ResourceVersion())
	internal := f.watch(t.Context(), was)
	for name, rv := range map[string]string{"a": "40", "b": "30"} {
		p := podNamed(name)
		p.UID, p.ResourceVersion, p.CreationTimestamp = "recorded", rv, metav1.NewTime(epoch.Add(-time.Hour))
		p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m", Time: new(metav1.NewTime(epoch.Add(-time.Minute)))}}
		if err := f.Load(example.Resource("pods"), p, nil); err != nil {
			t.Fatal(err)
		}
		got := &example.Pod{}
		if err := f.pods.Get(t.Context(), keyOf(name), storage.GetOptions{}, got); err != nil {
			t.Fatal(err)
		}
		if got.ResourceVersion != rv || got.UID != "recorded" || !got.CreationTimestamp.Equal(&p.CreationTimestamp) || !got.ManagedFields[0].Time.Equal(p.ManagedFields[0].Time) {
			t.Errorf("loaded %v as %v", p.ObjectMeta, got.ObjectMeta)
		}
	}
	if c := f.create(t.Context(), "c"); c.ResourceVersion != "41" {
		t.Errorf("the next version is %s, want 41", c.ResourceVersion)
	}
	for range 2 { // in the order of the map
		if ev := <-internal.ResultChan(); ev.Type == watch.Error {
			t.Errorf("an informer that was there before got %v", ev)
		}
	}
	expectEvents(t, internal, "ADDED c")
	expectEvents(t, f.watch(t.Context(), was), "ERROR 410", "closed")
	expectEvents(t, f.watch(t.Context(), "40"), "ADDED c")
	if err := f.Load(schema.GroupResource{Resource: "nothing"}, podNamed("x"), nil); err == nil {
		t.Error("an unserved resource was loaded")
	}
}

func TestExpire(t *testing.T) {
	f := newFixture(t, Options{})
	for name, ttl := range map[string]uint64{"a": 60, "b": 120, "c": 0} {
		if err := f.pods.Create(t.Context(), keyOf(name), podNamed(name), nil, ttl); err != nil {
			t.Fatal(err)
		}
	}
	if at, ok := f.NextExpiry(); !ok || !at.Equal(epoch.Add(time.Minute)) {
		t.Errorf("next expiry %v %v", at, ok)
	}
	snap := f.Snapshot()
	for _, c := range []struct {
		at   time.Duration
		want int
	}{{59 * time.Second, 0}, {time.Minute, 1}, {119 * time.Second, 0}, {2 * time.Minute, 1}, {time.Hour, 0}} {
		f.now = epoch.Add(c.at)
		if n := f.Expire(); n != c.want {
			t.Errorf("at %v: %d expired, want %d", c.at, n, c.want)
		}
	}
	if got := f.names(storage.ListOptions{}); !slices.Equal(got, []string{"c"}) {
		t.Errorf("left: %v", got)
	}
	f.Restore(snap)
	if at, ok := f.NextExpiry(); !ok || !at.Equal(epoch.Add(time.Minute)) {
		t.Errorf("next expiry after a restore %v %v", at, ok)
	}
}

func BenchmarkStore(b *testing.B) {
	f := newFixture(b, Options{})
	for i := range 1000 {
		f.create(b.Context(), fmt.Sprint("p", i))
	}
	b.Run("snapshot", func(b *testing.B) {
		for b.Loop() {
			f.Snapshot()
		}
	})
	b.Run("restore", func(b *testing.B) {
		snap := f.Snapshot()
		for b.Loop() {
			f.Restore(snap)
		}
	})
	b.Run("fork", func(b *testing.B) { // and go on in the fork: a snapshot, back to it, a write
		snap := f.Snapshot()
		for b.Loop() {
			f.Restore(snap)
			f.create(b.Context(), "fork")
			f.Snapshot()
		}
		f.Restore(snap)
	})
	b.Run("list-of-a-past-version", func(b *testing.B) {
		then := f.ResourceVersion()
		for i := range 100 {
			f.update("p1", func(p *example.Pod) { p.Labels = map[string]string{"v": fmt.Sprint("past", i)} })
		}
		opts := storage.ListOptions{
			ResourceVersion: fmt.Sprint(then), ResourceVersionMatch: metav1.ResourceVersionMatchExact,
			Predicate: storage.Everything, Recursive: true,
		}
		for b.Loop() {
			if err := f.pods.GetList(b.Context(), "/pods/", opts, &example.PodList{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("create", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			f.create(b.Context(), fmt.Sprint("new", i))
		}
	})
	b.Run("update", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			f.update("p1", func(p *example.Pod) { p.Labels = map[string]string{"v": fmt.Sprint(i)} })
		}
	})
}

// History is kept as it is stored; what was decoded of it goes once everybody has been told.
func TestHistoryKeepsNoDecodedForms(t *testing.T) {
	f := newFixture(t, Options{})
	f.create(t.Context(), "a")
	w := f.watch(t.Context(), "0")
	defer w.Stop()
	const changes = 3 * fullChanges
	read := func(n int) {
		for range n {
			<-w.ResultChan()
		}
	}
	kept := func() (n int) {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, c := range f.state.journal(f.pods.prefix).changes {
			if c.before != nil && c.before.forms.Load() != nil {
				n++
			}
		}
		return n
	}
	read(1)
	for range changes {
		f.update("a", func(p *example.Pod) {
			p.Labels = map[string]string{"n": f.GenerateName(example.Resource("pods"), "", "n")}
		})
		read(1)
	}
	// The stream may have one event still in hand when the next commit looks where it stands.
	if n := kept(); n > fullChanges+1 {
		t.Errorf("%d of %d replaced versions keep their decoded form, want at most %d", n, changes, fullChanges+1)
	}
	old := f.watch(t.Context(), "2")
	defer old.Stop()
	for range changes {
		if ev := <-old.ResultChan(); ev.Type != watch.Modified {
			t.Fatalf("a watch of the past gets %v", ev)
		}
	}
}

// A write that changes nothing must find the managers in the order in which the registry will put them.
func TestManagersAreInTheOrderOfTheWorldsTimes(t *testing.T) {
	f := newFixture(t, Options{})
	f.create(t.Context(), "a")
	p := f.update("a", func(p *example.Pod) {
		// By the wall clock b came first; in the world all is of one second.
		p.ManagedFields = append(p.ManagedFields,
			metav1.ManagedFieldsEntry{Manager: "b", Operation: "Update", Time: new(metav1.Now())},
			metav1.ManagedFieldsEntry{Manager: "a", Operation: "Update", Time: new(metav1.NewTime(time.Now().Add(time.Second)))})
	})
	var got []string
	for _, e := range p.ManagedFields {
		got = append(got, e.Manager)
	}
	if want := []string{"a", "b", "m"}; !slices.Equal(got, want) {
		t.Errorf("the managers are %v, want %v", got, want)
	}
}

func TestTooLarge(t *testing.T) {
	f := newFixture(t, Options{})
	before := f.ResourceVersion()
	p := podNamed("a")
	p.Annotations = map[string]string{"x": strings.Repeat("x", maxRequest)}
	err := f.pods.Create(t.Context(), keyOf("a"), p, &example.Pod{}, 0)
	if err == nil || err.Error() != "etcdserver: request is too large" {
		t.Errorf("creating it: %v", err)
	}
	f.create(t.Context(), "b")
	err = f.pods.GuaranteedUpdate(t.Context(), keyOf("b"), &example.Pod{}, false, nil, storage.SimpleUpdate(func(o runtime.Object) (runtime.Object, error) {
		o.(*example.Pod).Annotations = p.Annotations
		return o, nil
	}), nil)
	if err == nil || err.Error() != "etcdserver: request is too large" {
		t.Errorf("updating to it: %v", err)
	}
	if now := f.ResourceVersion(); now != before+1 {
		t.Errorf("refused writes took versions: %d, want %d", now, before+1)
	}
}
