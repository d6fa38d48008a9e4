package html

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/opreplay/opreplay/analysis"
	"github.com/opreplay/opreplay/traces"
)

// dataOf is the data in a page.
func dataOf(t *testing.T, page string) *data {
	t.Helper()
	_, text, ok := strings.Cut(page, `<script type="application/json" id="data">`)
	if !ok {
		t.Fatal("a page without data")
	}
	text, _, _ = strings.Cut(text, "</script>")
	d := &data{}
	if err := json.Unmarshal([]byte(text), d); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestSameTraceSamePage(t *testing.T) {
	trace, result := everything(t, 900)
	o := Options{Reference: trace}
	first := write(t, trace, result, o)
	if write(t, trace, result, o) != first {
		t.Error("two pages of one trace differ")
	}
}

// What a page counts is what the trace holds.
func TestCounts(t *testing.T) {
	m := newMade(t)
	m.state(0, traces.Sync, "still", 9, `{}`)
	m.state(0, traces.Added, "a", 1, `{"spec":{"n":1,"big":9007199254740993}}`)
	m.state(0, traces.Sync, "a", 1, `{"spec":{"n":1,"big":9007199254740993}}`) // the same state, in a list
	second := m.state(time.Second, traces.Modified, "a", 2, `{"spec":{"n":2,"big":9007199254740992},"metadata":{"resourceVersion":"2"}}`)
	m.call(time.Second, 10*time.Millisecond, "update", "a", 409)
	m.call(time.Second, 30*time.Millisecond, "update", "a", 200)
	m.call(time.Second, time.Hour, "watch", "a", 200) // no call to be slow
	m.add(time.Second, &traces.Reconcile{Controller: "pods", Namespace: "shop", Name: "a", Start: m.now + int64(time.Second) - int64(3*time.Millisecond)})
	m.add(0, &traces.KernelEvent{Kind: "refused", Address: "::1", Port: 443, Count: 7})
	r := &analysis.Result{Findings: []analysis.Finding{{ID: "F1", Group: "F1", Objects: []analysis.Object{{Resource: "pods", Namespace: "shop", Name: "a"}}}}}
	page := write(t, m.open(), r, Options{})
	d := dataOf(t, page)
	count := map[string]int{}
	for _, k := range d.Run.Kind {
		count[d.Kinds[k]]++
	}
	for kind, want := range map[string]int{"added": 1, "listed": 0, "modified": 1, "conflict": 1, "update": 1, "read": 0, "reconcile": 1, "kernel event": 1} {
		if count[kind] != want {
			t.Errorf("%d %s, want %d", count[kind], kind, want)
		}
	}
	if !strings.Contains(page, "1 objects that were there and never changed") {
		t.Error("an object that never changed is not counted")
	}
	if q := d.Latency; len(q.N) != 2 || q.P50[0] != 10 || q.P99[1] != 30 {
		t.Errorf("latencies %+v, want one of 10 ms and one of 30 ms", q)
	}
	if h := d.Duration; len(h.Bounds) != 1 || h.Bounds[0] != 5 || h.Counts[0][0] != 1 {
		t.Errorf("durations %+v, want one up to 5 ms", h)
	}
	if h := d.Kernel; len(h.Cells) != 1 || h.Cells[0][2] != 7 || h.Rows[0] != "refused ::1 port 443" {
		t.Errorf("kernel events %+v, want 7 of one kind", h)
	}
	changes := d.Changes[strconv.FormatInt(second, 10)]
	if len(changes) != 2 || changes[0] != (change{"spec.big", "9007199254740993", "9007199254740992"}) || changes[1] != (change{"spec.n", "1", "2"}) {
		t.Errorf("changes %+v, want spec.big and spec.n", changes)
	}
}

// The first difference from the reference is the one that is first in the run's time.
func TestBeside(t *testing.T) {
	run, ref := newMade(t), newMade(t)
	for _, m := range []*made{run, ref} {
		m.state(time.Second, traces.Added, "a", 1, "")
		m.state(time.Second, traces.Added, "b", 2, "")
	}
	run.state(time.Second, traces.Deleted, "b", 3, "")
	ref.state(time.Second, traces.Modified, "b", 3, "")
	ref.state(time.Second, traces.Modified, "a", 4, "")
	run.state(2*time.Second, traces.Modified, "a", 5, "")
	run.state(time.Second, traces.Modified, "a", 6, "")
	d := dataOf(t, write(t, run.open(), &analysis.Result{}, Options{Reference: ref.open()}))
	b := d.Beside
	if b.Lane != "pods shop/b" || b.What != "deleted in this run, modified in the reference" || b.At != 2000 || b.Reference != 2000 {
		t.Errorf("first difference %+v", b)
	}
	if len(b.Lanes) != 2 || b.Lanes[0] != "pods shop/a" {
		t.Errorf("lanes %v", b.Lanes)
	}
}

const hostile = "</script><script>window.stolen=1</script><img src=x onerror=window.stolen=1>"

// A trace's texts stay texts, wherever a page has them.
func TestHostileTrace(t *testing.T) {
	m := newMade(t, traces.Loss{Source: hostile, Reason: hostile})
	m.add(0, &traces.Stack{StackID: 1, Frames: []traces.Frame{{Function: hostile, File: hostile}}})
	big := strings.Repeat(hostile, 1<<20/len(hostile))
	m.state(0, traces.Added, hostile, 1, `{"metadata":{"annotations":{"a":"x"}}}`)
	object, _ := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{hostile: big}}})
	m.state(time.Second, traces.Modified, hostile, 2, string(object))
	m.call(time.Second, time.Millisecond, hostile, hostile, 200)
	pass := m.add(0, &traces.Reconcile{Controller: hostile, Namespace: "shop", Name: hostile, Outcome: "error", Error: hostile, Start: m.now})
	m.add(0, &traces.Sample{StackID: 1, Weight: 1, ReconcileID: pass})
	m.add(0, &traces.KernelEvent{Kind: hostile, Address: hostile})
	m.add(0, &traces.Decision{Kind: hostile, Subject: hostile, Rule: hostile})
	f := analysis.Finding{
		ID: "F1", Group: "F1", Detector: hostile, Severity: hostile, Certainty: hostile, Process: hostile, What: hostile, Cause: hostile, Field: hostile, Manager: hostile, Stack: 1,
		Reproduce: hostile, Objects: []analysis.Object{{Resource: "pods", Namespace: "shop", Name: hostile}},
		Statistics: []analysis.Statistic{{Name: hostile, Unit: hostile, Method: hostile}}, Evidence: analysis.Evidence{Total: 1, Items: []analysis.Item{{Seq: 2, What: hostile}}},
	}
	r := &analysis.Result{Findings: []analysis.Finding{f}, Notes: []analysis.Note{{Detector: hostile, What: hostile}}, Caveats: []string{hostile}}
	trace := m.open()
	page := write(t, trace, r, Options{Reference: trace})
	if n := strings.Count(page, "<script"); n != 3 {
		t.Errorf("%d scripts in the page, want its own 3", n)
	}
	if strings.Contains(page, "<img src=x") {
		t.Error("markup of the trace is markup of the page")
	}
	if len(page) > len(echartsJS)+200_000 {
		t.Errorf("a large annotation makes a page of %d bytes", len(page))
	}
	b := open(t, page, 1280, 900)
	b.look()
	b.shot("hostile")
	if eval[bool](b, `'stolen' in window`) {
		t.Error("a text of the trace was run")
	}
}

// Without a trace's rows a page says that there is nothing, rather than draw it.
func TestNothing(t *testing.T) {
	page := body(write(t, newMade(t).open(), &analysis.Result{}, Options{}))
	for _, want := range []string{"No findings.", "No reconciles were recorded", "No API calls were recorded", "No kernel events were recorded", "No stacks were recorded"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in the page", want)
		}
	}
}

// More than a page has room for is left out evenly, but for what findings are about, and said.
func TestLeftOut(t *testing.T) {
	g := &gathered{lanes: map[[2]string]*lane{}}
	found, plain := g.lane("objects", "found"), g.lane("objects", "plain")
	found.found = true
	for i := range MaxEvents {
		g.add(event{lane: plain, seq: int64(i)})
		if i%100 == 0 {
			g.add(event{lane: found, seq: int64(i)})
		}
	}
	g.choose()
	kept := map[*lane]int{}
	for _, e := range g.events {
		kept[e.lane]++
	}
	if kept[found] != MaxEvents/100 || kept[plain] != MaxEvents/2 || g.left != MaxEvents/2 {
		t.Errorf("kept %d of the finding's events and %d of the others, left out %d", kept[found], kept[plain], g.left)
	}
}
