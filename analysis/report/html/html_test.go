package html

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/opreplay/opreplay/analysis"
	"github.com/opreplay/opreplay/analysis/report"
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
	d := dataOf(t, page).Runs[0]
	count := map[string]int{}
	for _, k := range d.Timeline.Kind {
		count[kinds[k]]++
	}
	for kind, want := range map[string]int{"added": 1, "listed": 0, "modified": 1, "conflict": 1, "update": 1, "read": 0, "reconcile": 1, "kernel event": 1} {
		if count[kind] != want {
			t.Errorf("%d %s, want %d", count[kind], kind, want)
		}
	}
	if !strings.Contains(page, "1 object that was there and never changed has no lane") {
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
	b := d.Runs[0].Beside
	if b.Lane != "pods shop/b" || b.What != "deleted in this run, modified in the reference" || b.At != 2000 || b.Reference != 2000 {
		t.Errorf("first difference %+v", b)
	}
	if len(b.Lanes) != 2 || b.Lanes[0] != "pods shop/a" {
		t.Errorf("lanes %v", b.Lanes)
	}
}

// A finding with a rhythm has its periodogram, or its autocorrelation where it drifts, with the line that chance stays
// under; one of retries its delays with the fit.
func TestRhythm(t *testing.T) {
	trace, result := everything(t, 900)
	page := write(t, trace, result, Options{})
	d := dataOf(t, page).Runs[0].Findings
	for i, lags := range []bool{false, true} {
		r := d[i].Rhythm
		if r == nil || r.Lags != lags || r.Period < 9 || r.Period > 12 || r.Line <= 0 || slices.Max(r.Strength[1:]) <= r.Line || len(r.Seconds) != len(r.Strength) {
			t.Errorf("%s: %+v", d[i].ID, r)
		}
	}
	if d[0].Backoff != nil || d[1].Backoff == nil || d[1].Backoff.Ratio != 2 {
		t.Errorf("backoffs %v and %v, want the second finding's", d[0].Backoff, d[1].Backoff)
	}
	if c := d[0].Changes; len(c) != 1 || c[0] != (rateChange{399, "12/s → 5/s"}) { // the trace begins at 1 ms
		t.Errorf("changes %v", c)
	}
	for _, want := range []string{"the rate is 5/s, before it was 12/s", "places come every 9.", "Each delay is 2 times the one before"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in the page", want)
		}
	}
}

// Several traces are one page: all findings in one list, the worst first, each with its trace, and a part for each trace.
func TestSeveral(t *testing.T) {
	var runs []Run
	for _, weight := range []float64{1, 9} {
		m := newMade(t)
		m.state(time.Second, traces.Added, "a", 1, "")
		m.state(time.Second, traces.Modified, "a", 2, "")
		m.call(time.Second, time.Millisecond, "update", "a", 200)
		f := func(id, what string, s analysis.Severity, weight float64) analysis.Finding {
			return analysis.Finding{ID: id, Group: id, Severity: s, What: what, First: begin, Last: begin.Add(3 * time.Second), Effect: analysis.Effect{Weight: weight}, Objects: []analysis.Object{{Resource: "pods", Namespace: "shop", Name: "a"}}}
		}
		runs = append(runs, Run{m.open(), &analysis.Result{Findings: []analysis.Finding{
			f("F1", fmt.Sprintf("error %v", weight), analysis.Error, weight), f("F2", fmt.Sprintf("warning %v", weight), analysis.Warning, 99),
		}}})
	}
	page := pageOf(t, Options{}, runs...)
	at := 0
	for _, want := range []string{
		"4 findings, 4 causes: 2 of severity error, 2 of less",
		"error 9.", "trace-2-top", "error 1.", "trace-1-top", "warning 1.", "warning 9.", // the list
		`id="trace-1-top"`, `id="trace-1-F1"`, "error 1.", `id="trace-1-timeline"`, `id="trace-2-top"`, `id="trace-2-F1"`, "error 9.", `id="trace-2-timeline"`,
	} {
		i := strings.Index(page[at:], want)
		if i < 0 {
			t.Fatalf("no %q in its place", want)
		}
		at += i
	}
	if names := titles(runs); names[0] == names[1] || strings.Count(names[0], "/") != 1 {
		t.Errorf("two folders of one name are told apart as %q", names)
	}
	for _, width := range []int{1280, 390} {
		b := open(t, page, width, 900)
		if n := b.look(); n != "8" { // of each trace two findings', the timeline, the latencies
			t.Errorf("%s charts, want 8", n)
		}
		b.fits()
		b.shot(fmt.Sprint("several-", width))
		b.accessible()
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

// A page of more than it has room for has all that findings name, thins the lanes that no finding is about first, each
// evenly, and says how much is not there.
func TestThinned(t *testing.T) {
	named := []analysis.Item{{Seq: 77_777}, {Seq: 99_999}, {Seq: 100_001}}
	r := &analysis.Result{Findings: []analysis.Finding{{
		Objects: []analysis.Object{{Resource: "pods", Name: "found"}}, Evidence: analysis.Evidence{Items: named},
	}}}
	g := newGathered(r, gathering{most: 1000})
	for seq := range int64(100_002) {
		name := "plain"
		switch {
		case seq == 50_000:
			name = "rare"
		case seq%400 == 1:
			name = "pods found"
		}
		g.add(event{lane: g.lane("objects", name), seq: seq, ts: seq, kind: kindModified})
	}
	g.choose()
	kept, late, has := map[string]int{}, 0, map[int64]bool{}
	for _, e := range g.keep.events {
		kept[e.lane.name]++
		has[e.seq] = true
		if e.lane.name == "plain" && e.seq > 50_000 {
			late++
		}
	}
	for _, x := range named {
		if !has[x.Seq] {
			t.Errorf("event %d, which a finding names, is not in the page", x.Seq)
		}
	}
	if kept["rare"] != 1 || kept["pods found"] != 251 { // one in 400 and its last
		t.Errorf("kept %v, want all of the rare and the finding's lanes", kept)
	}
	if n := kept["plain"]; n < 300 || n > 749 || late < n/3 || late > 2*n/3 {
		t.Errorf("kept %d of the plain lane, %d of its second half, want what there is room for, evenly", n, late)
	}
	l := g.left
	if l.All != 100_002 || l.Drawn != len(g.keep.events) || len(l.Said()) != 1 || !strings.HasPrefix(l.Said()[0], report.Plural(100_002-l.Drawn, "", "events are")) {
		t.Errorf("says %q of %+v", l.Said(), l)
	}
}

// Where lanes that findings are about have more than the page has room for, they are thinned too.
func TestFindingsThinned(t *testing.T) {
	r := &analysis.Result{Findings: []analysis.Finding{{Objects: []analysis.Object{{Resource: "pods", Name: "found"}}, Row: 9_998}}}
	g := newGathered(r, gathering{most: 1000})
	for seq := range int64(10_000) {
		g.add(event{lane: g.lane("objects", "pods found"), seq: seq, kind: kindModified})
	}
	g.choose()
	n := len(g.keep.events)
	if n < 500 || n > 1000 || g.keep.events[n-2].seq < 9_900 && g.keep.events[n-1].seq != 9_998 {
		t.Errorf("kept %d events, the last %d", n, g.keep.events[n-1].seq)
	}
	if said := g.left.Said(); len(said) != 1 || !strings.Contains(said[0], "findings are about every 16th is drawn") {
		t.Errorf("says %q", said)
	}
}

// Events that findings name are all there, however many they are and whatever lane they are on: what is thinned is the rest.
func TestManyNamed(t *testing.T) {
	var named []analysis.Item
	for seq := range int64(300) {
		named = append(named, analysis.Item{Seq: seq})
	}
	r := &analysis.Result{Findings: []analysis.Finding{{
		Objects: []analysis.Object{{Resource: "pods", Name: "found"}}, Evidence: analysis.Evidence{Items: named},
	}}}
	g := newGathered(r, gathering{most: 1000})
	for seq := range int64(2300) {
		name := "plain"
		if seq >= 300 {
			name = "pods found"
		}
		g.add(event{lane: g.lane("objects", name), seq: seq, ts: seq, kind: kindModified})
	}
	g.choose()
	kept := map[string]int{}
	for _, e := range g.keep.events {
		kept[e.lane.name]++
	}
	if kept["plain"] != 300 || kept["pods found"] != 500 {
		t.Errorf("kept %v, want the 300 that are named and every fourth of the finding's", kept)
	}
}

// Lanes that findings are about are all there, and those of events that they name; the busiest of the others fill the rest.
func TestNamedLanes(t *testing.T) {
	f := analysis.Finding{Row: 1}
	for i := range MaxLanes + 10 {
		f.Objects = append(f.Objects, analysis.Object{Resource: "pods", Name: fmt.Sprint("found-", i)})
	}
	g := newGathered(&analysis.Result{Findings: []analysis.Finding{f}}, gathering{most: 10_000})
	var seq int64
	mark := func(group, name string, kind kind) {
		seq++
		g.add(event{lane: g.lane(group, name), seq: seq, kind: kind})
	}
	mark("reconciles", "reconcile pods shop/named", kindReconcile)
	for _, o := range f.Objects {
		mark("objects", o.String(), kindModified)
	}
	for range 3 {
		mark("objects", "pods other", kindModified)
	}
	g.choose()
	if n := len(g.chosen); n != MaxLanes+11 || g.lane("reconciles", "reconcile pods shop/named").index < 0 {
		t.Errorf("%d lanes, want the finding's %d and that of the reconcile that it names", n, MaxLanes+10)
	}
	if !slices.ContainsFunc(g.keep.events, func(e event) bool { return e.seq == 1 }) {
		t.Error("an event that a finding names is not there")
	}
	if l := g.left; l.Lanes != 1 || l.Folded != 3 {
		t.Errorf("%d lanes with %d events have no room, want the one that nothing is said of", l.Lanes, l.Folded)
	}
}

// A watch that begins anew tells of all objects again, however much came in between: that is no change of them.
func TestToldAgain(t *testing.T) {
	g := newGathered(&analysis.Result{}, gathering{most: 1000, compared: true})
	var seq int64
	tell := func(typ traces.EventType, name string, version int64) {
		seq++
		g.watch(&traces.WatchEvent{Head: traces.Head{Seq: seq, TS: seq}, Identity: pod(name, version), Type: string(typ)})
	}
	tell(traces.Added, "a", 1)
	tell(traces.Added, "gone", 2)
	tell(traces.Modified, "a", 3)
	for version := range int64(2*generation + 2) {
		tell(traces.Modified, "busy", version+4)
	}
	again := pod("gone", seq+10)
	again.UID = "another"
	tell(traces.Sync, "a", 3)
	tell(traces.Modified, "a", 3)
	tell(traces.Added, "a", 1)
	tell(traces.Deleted, "gone", seq+9)
	g.watch(&traces.WatchEvent{Head: traces.Head{Seq: seq + 1}, Identity: again, Type: string(traces.Added)})
	tell(traces.Modified, "a", seq+11)
	for name, want := range map[string][]kind{"pods shop/a": {kindAdded, kindModified, kindModified}, "pods shop/gone": {kindAdded, kindDeleted, kindAdded}} {
		var got []kind
		for _, m := range g.history[name] {
			got = append(got, m.kind)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// In the list of several traces' findings those of one cause stay together, the cause first, as each analysis has them, and
// stand where their worst would.
func TestRank(t *testing.T) {
	f := func(group, what string, s analysis.Severity, weight float64) *finding {
		return &finding{Finding: analysis.Finding{Group: group, What: what, Severity: s, Effect: analysis.Effect{Weight: weight}}}
	}
	p := page{Runs: []*run{
		{Findings: []*finding{f("F1", "light cause", analysis.Warning, 1), f("F1", "heavy effect", analysis.Error, 9), f("F3", "least", analysis.Warning, 2)}},
		{Findings: []*finding{f("F1", "middle", analysis.Error, 5), f("F2", "its neighbour", analysis.Error, 4)}},
	}}
	p.rank()
	var got []string
	for _, x := range p.Ranked {
		got = append(got, x.What)
	}
	if want := []string{"light cause", "heavy effect", "middle", "its neighbour", "least"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
