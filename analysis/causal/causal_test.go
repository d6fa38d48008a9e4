package causal

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/opreplay/opreplay/traces"
)

// recorded is a recording by oprec run of the zoo's operator statusloop, which writes its status on every pass with a
// fresh time, with what eBPF saw: which line made each call, in which reconcile, queued by what.
const recorded = "testdata/statusloop.optrace"

func open(t *testing.T, dir string) *traces.Trace {
	t.Helper()
	tr, err := traces.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tr.Close() })
	return tr
}

func graph(t *testing.T, dir string) *Graph {
	t.Helper()
	g, err := read(context.Background(), open(t, dir), nil, 1, 1<<40)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func why(t *testing.T, dir, target string) []Step {
	t.Helper()
	to, err := ParseTarget(target)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Why(context.Background(), open(t, dir), to)
	if err != nil {
		t.Fatal(err)
	}
	return c.Steps
}

// The loop is told once: event, write with its line of code, reconcile, hundreds of times. Before it come the user's
// change, and who that was, from managedFields.
func TestWhyOfARecordedLoop(t *testing.T) {
	steps := why(t, recorded, "sites.web.example.com/web/shop")
	if len(steps) < 5 {
		t.Fatalf("%d steps", len(steps))
	}
	for i, want := range []struct {
		kind Kind
		what string
		code string
	}{
		{Event, "statusloop is told of version 577 of sites.web.example.com web/shop (MODIFIED), which changed status.conditions[*].lastTransitionTime", ""},
		{Write, "statusloop patches status of sites.web.example.com web/shop", "statusloop/main.go:77 (main.(*SiteReconciler).Reconcile)"},
		{Reconcile, "statusloop reconciles web/shop in controller site", ""},
	} {
		s := steps[i]
		if s.Kind != want.kind || s.What != want.what || s.Code != want.code || s.Times < 250 || i > 0 && s.Known != "recorded" {
			t.Errorf("step %d: %+v", i, s)
		}
	}
	last := steps[len(steps)-1]
	if last.Kind != Unknown || last.What != "field manager kubectl-create, whose request was not recorded" || last.Confidence == 0 {
		t.Errorf("the end: %+v", last)
	}
	if !strings.Contains(steps[len(steps)-2].What, "which changed spec.title") {
		t.Errorf("before the end: %+v", steps[len(steps)-2])
	}
}

// Without the recorded links the same causes are found, at least as often as the confidences say.
func TestInferenceIsAsGoodAsItSays(t *testing.T) {
	truth, blind, without := graph(t, recorded), graph(t, recorded), graph(t, recorded)
	for _, g := range []*Graph{blind, without} {
		for _, n := range g.rows {
			n.Reconcile, n.Trigger = 0, 0
		}
	}
	clear(without.passes)
	type tally struct{ right, all int }
	how := map[string]*tally{}
	claimed := map[string]float64{}
	count := func(n, want, got *Node, guess Link) {
		key := string(n.Kind) + ", by " + guess.By
		if how[key] == nil {
			how[key] = &tally{}
		}
		how[key].all++
		claimed[key] = guess.Confidence
		// The same version by another row is the same cause.
		if got != nil && (got.Seq == want.Seq || got.Object.ResourceVersion == want.Object.ResourceVersion && got.Object.UID == want.Object.UID && want.Kind == Event) {
			how[key].right++
		}
	}
	for seq, n := range truth.rows {
		want, link := truth.Cause(n)
		if n.Kind != Write && n.Kind != Reconcile || !link.Recorded {
			continue
		}
		got, guess := blind.Cause(blind.rows[seq])
		count(n, want, got, guess)
		if trigger, link := truth.Cause(want); n.Kind == Write && link.Recorded {
			got, guess := without.Cause(without.rows[seq])
			count(n, trigger, got, guess)
		}
	}
	all := 0
	for key, x := range how {
		t.Logf("%s: %d of %d right, confidence %.1f", key, x.right, x.all, claimed[key])
		all += x.all
		if x.all >= 20 && float64(x.right) < claimed[key]*float64(x.all) {
			t.Errorf("%s: %d of %d right, and it claims %.1f", key, x.right, x.all, claimed[key])
		}
	}
	if all < 500 {
		t.Errorf("only %d links were tried", all)
	}
}

// The bundled recordings have no reconciles: a write follows from the newest event of its object's family.
func TestWhyWithoutReconciles(t *testing.T) {
	steps := why(t, "../../traces/cases/statusrace.optrace", "databases.data.example.com data/orders")
	kinds := ""
	for _, s := range steps {
		kinds += string(s.Kind) + " "
	}
	if kinds != "event write event write event write event unknown " {
		t.Error(kinds)
	}
	if s := steps[2]; s.Known != "inferred" || s.Confidence >= 1 || s.By == "" {
		t.Errorf("%+v", s)
	}
	if s := steps[len(steps)-1]; !strings.Contains(s.What, "kubectl-edit") {
		t.Errorf("%+v", s)
	}
	// A delete leaves no entry in managedFields: that the newest manager is the operator doesn't make it its delete.
	steps = why(t, "../../traces/cases/orphanfinalizer.optrace", "records.dns.example.com/dns/rig")
	if s := steps[len(steps)-1]; len(steps) != 2 || !strings.HasPrefix(s.What, "somebody deleted it") {
		t.Errorf("%+v", steps)
	}
}

func TestWhyOfNothing(t *testing.T) {
	for _, s := range []string{"pods", "pods/a/b/c", "pods/web@x", "seq:no", "pods//x", "seq:-1"} {
		if _, err := ParseTarget(s); err == nil {
			t.Errorf("%q is a target", s)
		}
	}
	for _, s := range []string{"pods/shop/none", "sites.web.example.com/web/shop@1", "seq:999999"} {
		to, err := ParseTarget(s)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Why(context.Background(), open(t, recorded), to)
		if _, ok := errors.AsType[*NotFoundError](err); !ok {
			t.Errorf("%s: %v", s, err)
		}
	}
}

// scene makes a trace whose truth is known.
type scene struct {
	g   *Graph
	seq int64
	ts  int64
}

func (s *scene) head() traces.Head {
	s.seq++
	return traces.Head{Seq: s.seq, TS: s.ts}
}

func id(name, uid string, rv int64) traces.Identity {
	return traces.Identity{Group: "g.io", Version: "v1", Resource: "things", Namespace: "n", Name: name, UID: uid, ResourceVersion: rv}
}

func (s *scene) event(o traces.Identity, kind, body string) int64 {
	w := &traces.WatchEvent{Head: s.head(), Identity: o, Process: "op", Type: kind, Object: body}
	s.g.Add(w)
	return w.Seq
}

func (s *scene) pass(o traces.Identity, start int64, change func(*traces.Reconcile)) int64 {
	r := &traces.Reconcile{Head: s.head(), Process: "op", Controller: "c", Namespace: o.Namespace, Name: o.Name, Start: start, Outcome: "success", KnownBy: "log"}
	if change != nil {
		change(r)
	}
	s.g.Add(r)
	return r.Seq
}

// Each way in which a reconcile is queued, and one that nothing explains.
func TestWhatQueuedAReconcile(t *testing.T) {
	s := &scene{g: NewGraph(), ts: 1e18}
	a, b := id("a", "ua", 1), id("b", "ub", 2)
	e1 := s.event(a, "ADDED", `{"metadata":{"name":"a"}}`)
	p1 := s.pass(a, 1e18+1, func(r *traces.Reconcile) { r.RequeueAfter = 30e9 })
	s.ts += 30e9 + 5e6
	p2 := s.pass(a, s.ts, func(r *traces.Reconcile) { r.Outcome = "error"; r.Error = "boom" })
	s.ts += 20e6
	p3 := s.pass(a, s.ts, nil)
	s.ts += 3600e9
	p4 := s.pass(a, s.ts, nil)
	s.ts += 1e9
	b.Name = "child"
	e5 := s.event(b, "ADDED", `{"metadata":{"name":"child","ownerReferences":[{"uid":"ua","controller":true}]}}`)
	s.ts += 1e6
	p5 := s.pass(a, s.ts, nil)
	for _, c := range []struct {
		name  string
		pass  int64
		cause int64
		conf  float64
	}{
		{"an event", p1, e1, onlyEvent}, {"a requeue", p2, p1, timedRequeue}, {"an error", p3, p2, timedRetry}, {"nothing", p4, 0, 0}, {"what it owns", p5, e5, onlyEvent},
	} {
		n, link := s.g.Cause(s.g.rows[c.pass])
		got := int64(0)
		if n != nil {
			got = n.Seq
		}
		if got != c.cause || link.Confidence != c.conf || link.Recorded || link.By == "" {
			t.Errorf("%s: row %d, want %d; %+v", c.name, got, c.cause, link)
		}
	}
}

// A deletion makes no version that an answer carries: the delete under way is its cause; a no-op write is no cause.
func TestWhatMadeAVersion(t *testing.T) {
	s := &scene{g: NewGraph(), ts: 1e18}
	write := func(verb string, o traces.Identity, code int32) int64 {
		r := &traces.Request{StartSeq: s.seq, Start: s.ts - 1e6, Head: s.head(), Identity: o, Process: "op", Verb: verb, Code: code}
		s.g.Add(r)
		return r.Seq
	}
	w1 := write("create", id("a", "u", 5), 201)
	e1 := s.event(id("a", "u", 5), "ADDED", `{"metadata":{"name":"a"}}`)
	noop := write("update", id("a", "u", 5), 200)
	refused := write("update", id("a", "", 0), 409)
	w2 := write("delete", id("a", "u", 0), 200)
	e2 := s.event(id("a", "u", 6), "DELETED", `{"metadata":{"name":"a"}}`)
	for event, want := range map[int64]int64{e1: w1, e2: w2} {
		n, _ := s.g.Cause(s.g.rows[event])
		if n == nil || n.Seq != want {
			t.Errorf("event %d: %+v, want row %d (not %d, which changed nothing, nor %d, which was refused)", event, n, want, noop, refused)
		}
	}
	if n, link := s.g.Cause(s.g.rows[w1]); n != nil || link.By == "" {
		t.Error("a write that nothing led to:", n, link)
	}
}

// Loops through several objects, and chains that are no loops, are told right.
func TestRepeats(t *testing.T) {
	node := func(name string) step { return step{node: &Node{Kind: Event, Object: traces.Identity{Name: name}}} }
	walk := func(names string) (out []step) {
		for _, n := range strings.Split(names, "") {
			out = append(out, node(n))
		}
		return out
	}
	for in, want := range map[string]string{"abababc": "2×3", "abc": "1×1", "abcabcab": "3×2", "abcd": "1×1", "ab": "1×1"} {
		cycle, times := repeats(walk(in))
		if got := fmt.Sprintf("%d×%d", cycle, times); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

func TestOwnLine(t *testing.T) {
	frame := func(function, file string) traces.Frame {
		return traces.Frame{Function: function, File: file, Line: 7}
	}
	frames := []traces.Frame{
		frame("net/http.(*Client).Do", "net/http/client.go"),
		frame("k8s.io/client-go/rest.(*Request).Do", "k8s.io/client-go@v0.37.2/rest/request.go"),
		frame("github.com/acme/op/internal/controller.(*R).Reconcile", "github.com/acme/op/internal/controller/r.go"),
		frame("main.main", "github.com/acme/op/main.go"),
	}
	if got := Line(Own(frames)); got != "controller/r.go:7 (controller.(*R).Reconcile)" {
		t.Error(got)
	}
	if Own(frames[:2]) != nil || Line(nil) != "" {
		t.Error("a library's line is the operator's")
	}
	for function, want := range map[string]bool{"main.f": true, "runtime.main": false, "encoding/json.Marshal": false, "sigs.k8s.io/controller-runtime/pkg/client.(*client).Update": false, "example.com/x.F": true, "gopkg.in/op.v1.F": true} {
		if own(function) != want {
			t.Errorf("%s is own: %v", function, !want)
		}
	}
}

// Several rows are explained in one go, each as if alone, in the order in which they were asked for.
func TestExplain(t *testing.T) {
	rows := []int64{357, 999_999, 309}
	chains, err := Explain(context.Background(), open(t, recorded), rows)
	if err != nil || len(chains) != len(rows) {
		t.Fatal(err, len(chains))
	}
	if len(chains[1]) != 0 {
		t.Errorf("a row that isn't there: %+v", chains[1])
	}
	for i, want := range map[int]string{0: "statusloop/main.go:52 (main.(*SiteReconciler).Reconcile)", 2: "statusloop/main.go:77 (main.(*SiteReconciler).Reconcile)"} {
		if len(chains[i]) < 3 || chains[i][0].Seq != rows[i] || chains[i][0].Code != want {
			t.Errorf("row %d: %+v", rows[i], chains[i])
		}
	}
}
