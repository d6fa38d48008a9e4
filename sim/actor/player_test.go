package actor

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/opreplay/opreplay/sim/apiserver"
)

var (
	server *apiserver.Server
	world  *client
)

func TestMain(m *testing.M) {
	var err error
	if server, err = apiserver.New(context.Background(), apiserver.Options{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	world = &client{via: server.Outsider(apiserver.Admin)}
	code := m.Run()
	server.Close()
	os.Exit(code)
}

// made creates an object as anybody might, and returns it.
func made(t *testing.T, r Ref, object string) map[string]any {
	t.Helper()
	o, err := decode(object)
	if err != nil {
		t.Fatal(err)
	}
	metadata(o)["name"] = r.Name
	collection := r
	collection.Name = ""
	a, err := world.call(t.Context(), http.MethodPost, collection.path(""), nil, "application/json", o)
	if err != nil || !a.ok() {
		t.Fatalf("create %s: %v %s", r, err, a.message())
	}
	return a.object
}

func got(t *testing.T, r Ref) map[string]any {
	t.Helper()
	o, err := world.get(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func apply(t *testing.T, refs map[string]Ref, s Step) Outcome {
	t.Helper()
	p := NewPlayer(Options{Write: server.Outsider(apiserver.Admin), Read: server.Outsider(apiserver.Admin), Refs: refs})
	out, err := p.Apply(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// at is a member deep in an object, as JSON text.
func at(t *testing.T, o map[string]any, path ...string) string {
	t.Helper()
	var v any = o
	for _, p := range path {
		m, _ := v.(map[string]any)
		v = m[p]
	}
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func ref(group, resource, name string) Ref {
	return Ref{Group: group, Version: "v1", Resource: resource, Namespace: "default", Name: name}
}

const podSpec = `"spec":{"containers":[{"name":"c","image":"i"}]}`

func TestCreate(t *testing.T) {
	r := ref("apps", "deployments", "create")
	const uid = "12345678-0000-4000-8000-000000000001"
	born := time.Date(2019, 5, 1, 0, 0, 0, 0, time.UTC)
	s := Step{
		Ref: r, Kind: Create, UID: uid, ResourceVersion: 100000, Time: born, Manager: "kubectl-create",
		After: `{"metadata":{"name":"create","namespace":"default","uid":"` + uid + `","resourceVersion":"100000","generation":7,"managedFields":[{}]},
			"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},` + podSpec + `}},
			"status":{"replicas":3}}`,
	}
	if out := apply(t, nil, s); out.Result != Applied {
		t.Fatalf("%+v", out)
	}
	o := got(t, r)
	if at(t, o, "metadata", "uid") != `"`+uid+`"` || at(t, o, "metadata", "creationTimestamp") != `"2019-05-01T00:00:00Z"` {
		t.Errorf("metadata is %s", at(t, o, "metadata"))
	}
	if at(t, o, "status", "replicas") != "3" {
		t.Errorf("status is %s", at(t, o, "status"))
	}
	// The status was patched after the create, which had the recorded version.
	if at(t, o, "metadata", "resourceVersion") != `"100001"` {
		t.Errorf("resourceVersion is %s", at(t, o, "metadata", "resourceVersion"))
	}
	if !strings.Contains(at(t, o, "metadata", "managedFields"), `"manager":"kubectl-create"`) {
		t.Errorf("managedFields are %s", at(t, o, "metadata", "managedFields"))
	}
	if out := apply(t, nil, s); out != skipped("it exists already") {
		t.Errorf("the second time: %+v", out)
	}
}

// answering is an API server that refuses all writes in one way.
type answering struct {
	code   int32
	reason metav1.StatusReason
}

func (a answering) RoundTrip(*http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	w.WriteHeader(int(a.code))
	err := json.NewEncoder(w).Encode(metav1.Status{Status: metav1.StatusFailure, Code: a.code, Reason: a.reason, Message: "no"})
	return w.Result(), err
}

// TestCreateRefused: that a name is taken is one of the reasons of a 409.
func TestCreateRefused(t *testing.T) {
	s := Step{Ref: ref("", "configmaps", "refused"), Kind: Create, After: `{"metadata":{"name":"refused","namespace":"default"}}`}
	for reason, want := range map[metav1.StatusReason]Outcome{
		metav1.StatusReasonConflict:      skipped("refused: no"),
		metav1.StatusReasonAlreadyExists: {Waiting, "it exists already, and is being deleted"}, // there is none
	} {
		p := NewPlayer(Options{Write: answering{http.StatusConflict, reason}, Read: server.Outsider(apiserver.Admin)})
		if out, err := p.Apply(t.Context(), s); err != nil || out != want {
			t.Errorf("%s: %+v %v, want %+v", reason, out, err, want)
		}
	}
}

func TestChange(t *testing.T) {
	r := ref("apps", "deployments", "change")
	// Now: somebody else's label, another number of replicas, a condition of the operator's own.
	made(t, r, `{"metadata":{"labels":{"other":"1","gone":"1"},"finalizers":["example.com/other"]},
		"spec":{"paused":true,"replicas":1,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},`+podSpec+`}}}`)
	now := `{"status":{"conditions":[{"type":"Mine","status":"True"}]}}`
	if a, err := world.call(t.Context(), http.MethodPatch, r.path("status"), nil, "application/merge-patch+json", json.RawMessage(now)); err != nil || !a.ok() {
		t.Fatal(err, a.message())
	}
	s := Step{
		Ref: r, Kind: Change, Manager: "kubectl-edit",
		Before: `{"metadata":{"resourceVersion":"1","labels":{"gone":"1"},"finalizers":["example.com/old"]},"spec":{"replicas":3},"status":{"conditions":[]}}`,
		After: `{"metadata":{"resourceVersion":"2","labels":{"new":"1"},"finalizers":["example.com/new"]},"spec":{"replicas":5},
			"status":{"conditions":[{"type":"Available","status":"True"}],"replicas":5}}`,
	}
	if out := apply(t, nil, s); out.Result != Applied {
		t.Fatalf("%+v", out)
	}
	o := got(t, r)
	for want, path := range map[string][]string{
		`{"new":"1","other":"1"}`:                 {"metadata", "labels"},
		`["example.com/other","example.com/new"]`: {"metadata", "finalizers"},
		`5`:    {"spec", "replicas"},
		`true`: {"spec", "paused"},
	} {
		if have := at(t, o, path...); have != want {
			t.Errorf("%v is %s, want %s", path, have, want)
		}
	}
	if c := at(t, o, "status", "conditions"); !strings.Contains(c, `"Mine"`) || !strings.Contains(c, `"Available"`) || at(t, o, "status", "replicas") != "5" {
		t.Errorf("status is %s", at(t, o, "status"))
	}
	if out := apply(t, nil, s); out.Result != Unchanged {
		t.Errorf("the second time: %+v", out)
	}
	s.Name = "nobody"
	if out := apply(t, nil, s); out != skipped("there is no such object") {
		t.Errorf("of nobody: %+v", out)
	}
	s.Ref = Ref{Group: "example.com", Version: "v1", Resource: "widgets", Name: "w"}
	if out := apply(t, nil, s); out != skipped("widgets is not served") {
		t.Errorf("of a resource that is not there: %+v", out)
	}
}

func TestPodIsBoundAndRuns(t *testing.T) {
	r := ref("", "pods", "bound")
	made(t, r, `{`+podSpec+`}`)
	out := apply(t, nil, Step{
		Ref: r, Kind: Change,
		Before: `{"metadata":{},"spec":{},"status":{"phase":"Pending"}}`,
		After:  `{"metadata":{},"spec":{"nodeName":"n1"},"status":{"phase":"Running","podIP":"10.0.0.1"}}`,
	})
	o := got(t, r)
	if out.Result != Applied || at(t, o, "spec", "nodeName") != `"n1"` || at(t, o, "status", "phase") != `"Running"` {
		t.Errorf("%+v: node %s, status %s", out, at(t, o, "spec", "nodeName"), at(t, o, "status"))
	}
	// A pod on a node ends gracefully: asked first, and gone when its kubelet says so.
	deleted := Step{
		Ref: r, Kind: Delete,
		After: `{"metadata":{"deletionTimestamp":"2020-01-01T00:00:00Z","deletionGracePeriodSeconds":20}}`,
	}
	if out := apply(t, nil, deleted); out.Result != Applied || at(t, got(t, r), "metadata", "deletionGracePeriodSeconds") != "20" {
		t.Errorf("%+v: %s", out, at(t, got(t, r), "metadata"))
	}
	if out := apply(t, nil, Step{Ref: r, Kind: Delete}); out.Result != Applied || got(t, r) != nil {
		t.Errorf("%+v: it is still there", out)
	}
	if out := apply(t, nil, Step{Ref: r, Kind: Delete}); out != skipped("there is no such object") {
		t.Errorf("the second time: %+v", out)
	}
}

func TestFinalizers(t *testing.T) {
	r := ref("", "configmaps", "final")
	made(t, r, `{"metadata":{"finalizers":["example.com/a"]}}`)
	out := apply(t, nil, Step{
		Ref: r, Kind: Delete,
		After: `{"metadata":{"deletionTimestamp":"2020-01-01T00:00:00Z","deletionGracePeriodSeconds":0,"finalizers":["example.com/a","foregroundDeletion"]}}`,
	})
	if f := at(t, got(t, r), "metadata", "finalizers"); out.Result != Applied || !strings.Contains(f, "foregroundDeletion") {
		t.Errorf("%+v: finalizers %s", out, f)
	}
	out = apply(t, nil, Step{
		Ref: r, Kind: Change,
		Before: `{"metadata":{"deletionTimestamp":"2020-01-01T00:00:00Z","finalizers":["example.com/a","foregroundDeletion"]}}`,
		After:  `{"metadata":{"deletionTimestamp":"2020-01-01T00:00:00Z"}}`,
	})
	if out.Result != Applied || got(t, r) != nil {
		t.Errorf("%+v: it is still there", out)
	}
}

// TestOwners: uids of owners are those of this cluster, and what the garbage collector took goes only
// when the owner is gone here too.
func TestOwners(t *testing.T) {
	const recorded = "aaaaaaaa-0000-4000-8000-000000000001"
	owner, owned := ref("", "configmaps", "owner"), ref("", "configmaps", "owned")
	refs := map[string]Ref{recorded: owner}
	uid := metaText(made(t, owner, `{}`), "uid")
	object := `{"metadata":{"name":"owned","ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"owner","uid":"` + recorded + `"}]}}`
	if out := apply(t, refs, Step{Ref: owned, Kind: Create, After: object}); out.Result != Applied {
		t.Fatalf("%+v", out)
	}
	if have := at(t, got(t, owned), "metadata", "ownerReferences"); !strings.Contains(have, uid) {
		t.Errorf("ownerReferences are %s, want the uid %s", have, uid)
	}
	collected := Step{Ref: owned, Kind: Delete, Before: object, Collected: true}
	if out := apply(t, refs, collected); out.Result != Waiting {
		t.Errorf("with its owner there: %+v", out)
	}
	apply(t, refs, Step{Ref: owner, Kind: Delete})
	made(t, owner, `{}`) // a new incarnation is no owner
	if out := apply(t, refs, collected); out.Result != Applied || got(t, owned) != nil {
		t.Errorf("with its owner gone: %+v", out)
	}
}

// TestRace: an object that changes between the look and the write is looked at again.
func TestRace(t *testing.T) {
	r := ref("", "configmaps", "race")
	made(t, r, `{"data":{"a":"0"}}`)
	meddling := &meddler{t: t, via: server.Outsider(apiserver.Admin), ref: r}
	p := NewPlayer(Options{Write: meddling, Read: server.Outsider(apiserver.Admin)})
	out, err := p.Apply(t.Context(), Step{Ref: r, Kind: Change, Before: `{"metadata":{},"data":{"b":"1"}}`, After: `{"metadata":{},"data":{"b":"2"}}`})
	if err != nil || out.Result != Applied {
		t.Fatal(out, err)
	}
	if have := at(t, got(t, r), "data"); have != `{"a":"3","b":"2"}` || !slices.Equal(meddling.codes, []int{409, 409, 409, 200}) {
		t.Errorf("data is %s after answers %v", have, meddling.codes)
	}
}

// meddler changes the object before each of the first three writes.
type meddler struct {
	t     *testing.T
	via   http.RoundTripper
	ref   Ref
	codes []int
}

func (m *meddler) RoundTrip(r *http.Request) (*http.Response, error) {
	if n := len(m.codes); n < 3 {
		body := json.RawMessage(fmt.Sprintf(`{"data":{"a":"%d"}}`, n+1))
		if a, err := world.call(m.t.Context(), http.MethodPatch, m.ref.path(""), nil, "application/merge-patch+json", body); err != nil || !a.ok() {
			m.t.Error(err, a.message())
		}
	}
	res, err := m.via.RoundTrip(r)
	if err == nil {
		m.codes = append(m.codes, res.StatusCode)
	}
	return res, err
}
