package apiserver

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	"github.com/opreplay/opreplay/sim/store"
)

// live fills a world with a bit of everything, through its clients.
func live(w *world) {
	w.addWidgets()
	w.post(widgetPath, widget("a", `,"spec":{"size":3}`))
	w.must(http.StatusOK, http.MethodPatch, widgetPath+"/a/status", mergePatch, `{"status":{"phase":"Ready"}}`)
	w.must(http.StatusOK, http.MethodPatch, widgetPath+"/a?fieldManager=one&force=true", applyPatch, widget("a", `,"spec":{"color":"red"}`))
	w.post(widgetPath, strings.Replace(widget("b", ""), `"name"`, `"finalizers":["example.com/hold"],"name"`, 1))
	w.must(http.StatusOK, http.MethodDelete, widgetPath+"/b", "application/json", "")
	ctx := w.t.Context()
	if _, err := w.kub.AppsV1().Deployments("default").Create(ctx, deployment("web"), metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	for _, name := range []string{"svc-1", "svc-2"} {
		if _, err := w.kub.CoreV1().Services("default").Create(ctx, service(name, "", 0), metav1.CreateOptions{}); err != nil {
			w.t.Fatal(err)
		}
	}
	p := pod("p")
	p.Name, p.GenerateName, p.Spec.NodeName = "", "p-", "node-1"
	created, err := w.kub.CoreV1().Pods("default").Create(ctx, p, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.kub.CoreV1().Pods("default").Delete(ctx, created.Name, metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

const childEnv = "OPSIM_TEST_WORLD_SEED"

// TestChildWorld is run in processes of its own by TestSameSeedSameBytes.
func TestChildWorld(t *testing.T) {
	seed := os.Getenv(childEnv)
	if seed == "" {
		t.Skip("only as a child of TestSameSeedSameBytes")
	}
	var n uint64
	if _, err := fmt.Sscan(seed, &n); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, Options{Seed: n})
	live(w)
	fmt.Printf("world:\n%s:world\n", dump(w.Server))
}

func TestSameSeedSameBytes(t *testing.T) {
	child := func(seed string) string {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChildWorld$", "-test.v")
		cmd.Env = append(os.Environ(), childEnv+"="+seed)
		out, err := cmd.CombinedOutput()
		_, text, ok := strings.Cut(string(out), "world:\n")
		text, _, ok2 := strings.Cut(text, ":world\n")
		if err != nil || !ok || !ok2 {
			t.Fatalf("child: %v: %s", err, out)
		}
		return text
	}
	one, two, other := child("7"), child("7"), child("8")
	if one != two {
		t.Errorf("same seed, other bytes:\n%s", firstDifference(one, two))
	}
	if one == other {
		t.Error("the seed has no effect")
	}
	// A second server in a process with a past does the same.
	newWorld(t, Options{Seed: 3}).Close()
	w := newWorld(t, Options{Seed: 7})
	live(w)
	if here := dump(w.Server); here != one {
		t.Errorf("second server of a process:\n%s", firstDifference(one, here))
	}
}

func firstDifference(a, b string) string {
	as, bs := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(as), len(bs)) {
		if as[i] != bs[i] {
			return as[i] + "\n" + bs[i]
		}
	}
	return fmt.Sprintf("%d lines, %d lines", len(as), len(bs))
}

// Nothing that is stored holds a time but the world's.
func TestTimesAreTheWorlds(t *testing.T) {
	now := time.Date(2021, time.May, 4, 10, 0, 0, 0, time.UTC)
	w := newWorld(t, Options{Clock: func() time.Time { return now }})
	live(w)
	year := []byte(fmt.Sprint(time.Now().Year()))
	for o := range w.Store().All() {
		if bytes.Contains(o.Data, append(year, '-')) {
			t.Errorf("%s holds a time of the wall clock: %q", o.Key, o.Data)
		}
	}
	text := mustJSON(t, w.get(widgetPath+"/b"))
	for _, f := range []string{`"creationTimestamp":"2021-05-04T10:00:00Z"`, `"deletionTimestamp":"2021-05-04T10:00:00Z"`, `"time":"2021-05-04T10:00:00Z"`} {
		if !strings.Contains(text, f) {
			t.Errorf("no %s in %s", f, text)
		}
	}
}

func TestSnapshotRestore(t *testing.T) {
	w := newWorld(t, Options{})
	live(w)
	before := w.Store().Snapshot()
	text := dump(w.Server)
	mutate := func() string {
		w.post(widgetPath, strings.Replace(widget("c", ""), `"name":"c"`, `"generateName":"c-"`, 1))
		w.must(http.StatusOK, http.MethodDelete, widgetPath+"/a", "application/json", "")
		if _, err := w.kub.CoreV1().Services("default").Create(t.Context(), service("svc-3", "", 0), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		return dump(w.Server)
	}
	first := mutate()
	if err := w.Restore(before); err != nil {
		t.Fatal(err)
	}
	if got := dump(w.Server); got != text {
		t.Fatalf("restored:\n%s", firstDifference(text, got))
	}
	// The same again comes out the same: uids, versions, addresses.
	if second := mutate(); second != first {
		t.Errorf("the same after a restore:\n%s", firstDifference(first, second))
	}
}

func TestIdentity(t *testing.T) {
	w := newWorld(t, Options{})
	operator := kubernetes.NewForConfigOrDie(w.config("my-operator/v1.2 (linux)"))
	cm := configMap("a")
	cm.Data = map[string]string{"k": "v"} // an object without fields has no managers
	cm, err := operator.CoreV1().ConfigMaps("default").Create(t.Context(), cm, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c := w.Config(User{Name: "alice", Groups: []string{"devs"}})
	c.UserAgent = "kubectl/v1.37.2"
	alice := kubernetes.NewForConfigOrDie(c)
	cm.Labels = map[string]string{"by": "alice"}
	cm, err = alice.CoreV1().ConfigMaps("default").Update(t.Context(), cm, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var managers []string
	for _, f := range cm.ManagedFields {
		managers = append(managers, f.Manager)
	}
	if got := strings.Join(managers, " "); got != "kubectl my-operator" && got != "my-operator kubectl" {
		t.Errorf("managers: %s", got)
	}
	whoami := func(body string, header ...string) string {
		u := w.must(http.StatusCreated, http.MethodPost, "/apis/authentication.k8s.io/v1/selfsubjectreviews", "application/json", body, header...)
		return field(u, "status.userInfo.username") + " " + field(u, "status.userInfo.groups")
	}
	review := `{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`
	if got, want := whoami(review), "kubernetes-admin [system:masters system:authenticated]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := whoami(review, "X-Remote-User", "bob", "X-Remote-Group", "ops"), "bob [ops system:authenticated]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestHints(t *testing.T) {
	w := newWorld(t, Options{})
	client := kubernetes.NewForConfigOrDie(w.Config(Admin))
	rev := w.Store().ResourceVersion()
	at := time.Date(2019, time.March, 2, 1, 0, 0, 0, time.UTC)
	ctx := store.WithHint(t.Context(), store.Hint{UID: "11111111-2222-4333-8444-555555555555", ResourceVersion: rev + 50, Name: "cm-recorded", Time: at})
	cm := configMap("")
	cm.GenerateName = "cm-"
	cm, err := client.CoreV1().ConfigMaps("default").Create(ctx, cm, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if cm.Name != "cm-recorded" || cm.UID != "11111111-2222-4333-8444-555555555555" || cm.ResourceVersion != fmt.Sprint(rev+50) || !cm.CreationTimestamp.Time.Equal(at) {
		t.Errorf("hinted: %+v", cm.ObjectMeta)
	}
	// A version that is taken already is no help.
	ctx = store.WithHint(t.Context(), store.Hint{ResourceVersion: rev})
	cm.Data = map[string]string{"k": "v"}
	cm, err = client.CoreV1().ConfigMaps("default").Update(ctx, cm, metav1.UpdateOptions{})
	if err != nil || cm.ResourceVersion != fmt.Sprint(rev+51) {
		t.Errorf("%v, version %s, want %d", err, cm.ResourceVersion, rev+51)
	}
}

// recorded reads all of a world through its API, as a recording would.
func recorded(w *world) (out []Recorded) {
	lists, err := w.kub.ServerPreferredResources()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, l := range lists {
		gv, err := schema.ParseGroupVersion(l.GroupVersion)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, r := range l.APIResources {
			if !strings.Contains(fmt.Sprint(r.Verbs), "list") {
				continue
			}
			gvr := gv.WithResource(r.Name)
			list, err := w.dyn.Resource(gvr).List(w.t.Context(), metav1.ListOptions{})
			if err != nil {
				w.t.Fatal(err)
			}
			for _, o := range list.Items {
				out = append(out, Recorded{gvr, []byte(mustJSON(w.t, &o))})
			}
		}
	}
	return out
}

func TestLoadKeepsEverything(t *testing.T) {
	source := newWorld(t, Options{Seed: 99, ServiceCIDR: "10.40.0.0/16", Clock: func() time.Time { return DefaultTime.Add(-1000 * time.Hour) }})
	live(source)
	objs := recorded(source)
	highest := source.Store().ResourceVersion()
	source.Close()

	w := newWorld(t, Options{Seed: 1})
	if err := w.Load(t.Context(), objs); err != nil {
		t.Fatal(err)
	}
	if len(objs) < 12 {
		t.Fatalf("%d objects recorded", len(objs))
	}
	for _, o := range objs {
		u := object(t, string(o.Object))
		path := fmt.Sprintf("/apis/%s/%s", o.Group, o.Version)
		if o.Group == "" {
			path = "/api/" + o.Version
		}
		if ns := u.GetNamespace(); ns != "" {
			path += "/namespaces/" + ns
		}
		got := w.get(path + "/" + o.Resource + "/" + u.GetName())
		if a, b := string(o.Object), mustJSON(t, got); a != b {
			t.Errorf("%s %s:\n%s\n%s", o.Resource, u.GetName(), a, b)
		}
	}
	if rv := w.addConfigMap("new").ResourceVersion; rv != fmt.Sprint(highest+1) {
		t.Errorf("the next version is %s, want %d", rv, highest+1)
	}
	// The range of addresses and what is used of it come with the Services.
	svc, err := w.kub.CoreV1().Services("default").Create(t.Context(), service("svc-3", "", 0), metav1.CreateOptions{})
	if err != nil || svc.Spec.ClusterIP != "10.40.1.3" || svc.Spec.Ports[0].NodePort != 30088 {
		t.Errorf("%v, %s %v", err, svc.Spec.ClusterIP, svc.Spec.Ports)
	}
	// Life goes on from where it was recorded.
	w.must(http.StatusOK, http.MethodPatch, widgetPath+"/b", mergePatch, `{"metadata":{"finalizers":null}}`)
	if code, _ := w.do(http.MethodGet, widgetPath+"/b", "", ""); code != http.StatusNotFound {
		t.Errorf("after its last finalizer: %d, want 404", code)
	}
}

func TestLoadReportsWhatItCannot(t *testing.T) {
	w := newWorld(t, Options{})
	crd := strings.Replace(asJSON(t, widgetCRD), `"name":"widgets.example.com"`, `"name":"widgets.example.com","resourceVersion":"100","uid":"u-crd"`, 1)
	cr := strings.Replace(widget("a", ""), `"name"`, `"resourceVersion":"90","uid":"u-a","name"`, 1)
	noKind := strings.Replace(strings.Replace(cr, `"kind":"Widget",`, "", 1), `"name":"a"`, `"name":"b"`, 1)
	err := w.Load(t.Context(), []Recorded{
		{widgetGVR, []byte(cr)},
		{widgetGVR, []byte(noKind)},
		{crdGVR, []byte(crd)},
		{schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, []byte(`{"metadata":{"name":"cm","namespace":"default","resourceVersion":"95"},"data":{"k":"v"}}`)},
		{widgetGVR, []byte(strings.Replace(strings.Replace(cr, `"a"`, `"c"`, 1), "v1", "v7", 1))},
		{schema.GroupVersionResource{Group: "example.com", Version: "v7", Resource: "widgets"}, []byte(cr)},
		{schema.GroupVersionResource{Group: "metrics.k8s.io", Version: "v1beta1", Resource: "nodes"}, []byte(`{"kind":"NodeMetrics","metadata":{"name":"x"}}`)},
		{schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, []byte(`{"metadata":`)},
		{schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, []byte(`{"metadata":{"name":"s","resourceVersion":"x"}}`)},
	})
	var failed *LoadError
	if !errors.As(err, &failed) || len(failed.Skipped) != 4 || failed.Total != 9 {
		t.Fatalf("%v", err)
	}
	for _, want := range []string{"4 of 9", "nodes.metrics.k8s.io: this API server does not serve the resource", `"x" is not a number`, "not a JSON object", "example.com/v7"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %s", want, err)
		}
	}
	want(t, w.get(widgetPath+"/a"), "metadata.resourceVersion", "90", "metadata.uid", "u-a", "kind", "Widget")
	want(t, w.get(widgetPath+"/b"), "kind", "Widget")
	want(t, w.get(widgetPath+"/c"), "apiVersion", "example.com/v1") // the resource decides, not the text
	want(t, w.get("/api/v1/namespaces/default/configmaps/cm"), "data.k", "v", "kind", "ConfigMap", "metadata.resourceVersion", "95")
	want(t, w.get(crdPath+"/widgets.example.com"), "metadata.uid", "u-crd")
}
