package recorder

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/opreplay/opreplay/bpf"
	"github.com/opreplay/opreplay/bpf/probes"
	"github.com/opreplay/opreplay/traces"
)

// desk is a trace that is a list, with a joiner before it. Program counters stand for the lines of NAMES.
type desk struct {
	*joiner
	last  int64
	rows  []traces.Record
	clock time.Duration
}

var names = map[uint64]string{
	1: "main.(*R).Reconcile", 2: "handler.(*TypedEnqueueRequestForObject[...]).Create", 3: "handler.(*enqueueRequestForOwner[...]).Update",
	4: "workqueue.(*delayingType[...]).waitingLoop", 5: "x/priorityqueue.(*priorityqueue[...]).AddWithOpts",
}

func newDesk(o joinOptions) *desk {
	d := &desk{}
	o.now = func() time.Duration { return d.clock }
	o.queries = true
	d.joiner = newJoiner(d, "op", d, o)
	return d
}

func (d *desk) number(h *traces.Head) {
	if h.Seq == 0 {
		d.last++
		h.Seq = d.last
	}
}

func (d *desk) write(r traces.Record) error {
	d.rows = append(d.rows, r)
	return nil
}

func (d *desk) Seq() int64 { return d.last }

func (d *desk) user(_ int, pcs []uint64, _ [2]uint64) (frames []traces.Frame) {
	for _, pc := range pcs {
		frames = append(frames, traces.Frame{Function: names[pc]})
	}
	return frames
}

func (d *desk) kernelFrames([]uint64) []traces.Frame { return nil }

// at has rows come at a time.
func (d *desk) at(t time.Duration, rows ...traces.Record) {
	d.clock = t
	for _, r := range rows {
		if !d.offer(r) {
			d.number(r.Header())
		}
	}
}

func of[T any](d *desk) (all []*T) {
	for _, r := range d.rows {
		if r, ok := r.(any).(*T); ok {
			all = append(all, r)
		}
	}
	return all
}

func event(kind probes.Kind, at time.Duration, goroutine uint64, name string, pcs ...uint64) *probes.Event {
	return &probes.Event{Kind: kind, Time: at, Goroutine: goroutine, GoID: goroutine, Namespace: "ns", Name: name, Queue: 9, Stack: pcs}
}

func delivered(resource, name, version, owner string) *traces.WatchEvent {
	object := fmt.Sprintf(`{"metadata":{"name":%q,"resourceVersion":%q}}`, name, version)
	if owner != "" {
		object = fmt.Sprintf(`{"metadata":{"name":%q,"resourceVersion":%q,"ownerReferences":[{"name":%q}]}}`, name, version, owner)
	}
	return &traces.WatchEvent{
		Identity: traces.Identity{Resource: resource, Namespace: "ns", Name: name}, Type: string(traces.Modified), Process: "op",
		Object: object, ObjectHash: traces.HashObject(object),
	}
}

const ms = time.Millisecond

// Which event a pass goes back to, from what was delivered and what was put into the queue.
func TestTrigger(t *testing.T) {
	pass := func(d *desk, at time.Duration) {
		d.addEvent(event(probes.Start, at, 1, "a"))
		d.addEvent(event(probes.Done, at+ms, 1, "a"))
	}
	for _, c := range []struct {
		name string
		play func(*desk)
		want string // the triggers of the passes
	}{
		{"the object's own event", func(d *desk) {
			d.at(1*ms, delivered("sites", "b", "1", ""), delivered("sites", "a", "2", ""))
			d.addEvent(event(probes.Add, 2*ms, 7, "a", 2))
			pass(d, 3*ms)
		}, "2"},
		{"its dependent's event, though its own came later", func(d *desk) {
			d.at(1*ms, delivered("pages", "p", "1", "a"))
			d.at(2*ms, delivered("sites", "a", "2", ""))
			d.addEvent(event(probes.Add, 3*ms, 7, "a", 3))
			pass(d, 4*ms)
		}, "1"},
		{"an event that comes after the addition is not its cause", func(d *desk) {
			d.addEvent(event(probes.Add, 1*ms, 7, "a", 2))
			d.at(2*ms, delivered("sites", "a", "2", ""))
			pass(d, 3*ms)
		}, "0"},
		{"two events that are too close", func(d *desk) {
			d.at(1*ms, delivered("sites", "a", "1", ""), delivered("sites", "a", "2", ""))
			d.addEvent(event(probes.Add, 2*ms, 7, "a", 2))
			pass(d, 3*ms)
		}, "0"},
		{"one event by two watches", func(d *desk) {
			d.at(1*ms, delivered("sites", "a", "1", ""), delivered("sites", "a", "1", ""))
			d.addEvent(event(probes.Add, 2*ms, 7, "a", 2))
			pass(d, 3*ms)
		}, "1"},
		{"each event leads to one addition", func(d *desk) {
			d.at(1*ms, delivered("sites", "a", "1", ""))
			d.addEvent(event(probes.Add, 2*ms, 7, "a", 2))
			pass(d, 3*ms)
			d.addEvent(event(probes.Add, 5*ms, 7, "a", 2))
			pass(d, 6*ms)
		}, "1 0"},
		{"a name that two resources have, and a handler that is not known yet", func(d *desk) {
			d.at(1*ms, delivered("sites", "a", "1", ""), delivered("shops", "a", "2", ""))
			d.addEvent(event(probes.Add, 2*ms, 7, "a", 2))
			pass(d, 3*ms)
		}, "0"},
		{"and one that is", func(d *desk) {
			d.at(1*ms, delivered("shops", "b", "1", ""))
			d.addEvent(event(probes.Add, 2*ms, 7, "b", 2))
			d.at(3*ms, delivered("shops", "a", "2", ""), delivered("sites", "a", "3", ""))
			d.addEvent(event(probes.Add, 4*ms, 7, "a", 2))
			pass(d, 5*ms)
		}, "2"},
		{"what came during the pass is the next one's", func(d *desk) {
			d.at(1*ms, delivered("sites", "a", "1", ""))
			d.addEvent(event(probes.Add, 2*ms, 7, "a", 2))
			d.addEvent(event(probes.Start, 30*ms, 1, "a"))
			d.at(40*ms, delivered("sites", "a", "2", ""))
			d.addEvent(event(probes.Add, 41*ms, 7, "a", 2))
			d.addEvent(event(probes.Done, 50*ms, 1, "a"))
			pass(d, 60*ms)
		}, "1 2"},
		{"a queue whose time has come", func(d *desk) {
			d.at(1*ms, delivered("sites", "a", "1", ""))
			d.addEvent(event(probes.Add, 2*ms, 8, "a", 2, 4))
			pass(d, 3*ms)
		}, "0"},
		{"an event before the time that the pass was put off to", func(d *desk) {
			later := event(probes.AddAfter, 1*ms, 1, "a", 5)
			later.After = time.Hour
			d.addEvent(later)
			d.at(40*ms, delivered("sites", "a", "1", ""))
			d.addEvent(event(probes.Add, 41*ms, 7, "a", 2))
			pass(d, 42*ms)
		}, "1"},
		{"and after it", func(d *desk) {
			later := event(probes.AddAfter, 1*ms, 1, "a", 5)
			later.After = 30 * ms
			d.addEvent(later)
			d.at(40*ms, delivered("sites", "a", "1", ""))
			d.addEvent(event(probes.Add, 41*ms, 7, "a", 2))
			pass(d, 42*ms)
		}, "0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDesk(joinOptions{})
			c.play(d)
			d.close()
			var got []string
			for _, r := range of[traces.Reconcile](d) {
				got = append(got, fmt.Sprint(r.Trigger))
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("triggers %s, want %s", got, c.want)
			}
		})
	}
}

func call(name string, start time.Duration) *traces.Request {
	return &traces.Request{
		Identity: traces.Identity{Version: "v1", Resource: "pods", Namespace: "ns", Name: name}, Verb: "get", Process: "op", Start: int64(start),
	}
}

func asked(at time.Duration, goroutine uint64, path string, pcs ...uint64) *probes.Event {
	return &probes.Event{Kind: probes.Request, Time: at, Goroutine: goroutine, GoID: goroutine, Method: "GET", Path: path, Stack: pcs}
}

// Rows of the proxy's find their calls, and what belongs to a pass has its seq, whatever the order in which the
// sources report.
func TestJoin(t *testing.T) {
	d := newDesk(joinOptions{})
	d.addSample(&bpf.Sample{Time: 4 * ms, GoID: 1, User: []uint64{1}})
	d.addSample(&bpf.Sample{Time: 4 * ms, GoID: 2, User: []uint64{1}})
	d.at(5*ms, call("in", 3*ms), call("never seen", 4*ms), &traces.Log{})
	d.at(6*ms, call("out", 5*ms))
	d.addEvent(asked(4*ms, 3, "/secret/api/v1/namespaces/ns/pods/out", 2))
	d.addEvent(asked(2*ms, 1, "/secret/api/v1/namespaces/ns/pods/in", 1))
	d.addEvent(event(probes.Start, 1*ms, 1, "a"))
	d.advance(6 * ms)
	if n := len(of[traces.Request](d)); n != 2 {
		t.Errorf("%d calls are written before the end of the pass", n)
	}
	d.addEvent(event(probes.Done, 8*ms, 1, "a"))
	d.close()
	pass := of[traces.Reconcile](d)[0]
	for _, q := range of[traces.Request](d) {
		switch q.Name {
		case "in":
			if q.ReconcileID != pass.Seq || q.StackID == 0 {
				t.Errorf("%+v", q)
			}
		case "out":
			if q.ReconcileID != 0 || q.StackID == 0 {
				t.Errorf("%+v", q)
			}
		default:
			if q.ReconcileID != 0 || q.StackID != 0 {
				t.Errorf("%+v", q)
			}
		}
	}
	for i, s := range of[traces.Sample](d) {
		if want := []int64{0, pass.Seq}[i]; s.ReconcileID != want {
			t.Errorf("%+v, want %d", s, want)
		}
	}
	if len(of[traces.Stack](d)) != 2 || d.calls.unknown != 1 {
		t.Errorf("%d stacks, %d calls not seen", len(of[traces.Stack](d)), d.calls.unknown)
	}
}

// What comes when there is no source any more does not wait for one.
func TestClosed(t *testing.T) {
	d := newDesk(joinOptions{late: true})
	d.at(ms, &traces.Log{})
	d.close()
	if len(d.rows) != 1 || d.offer(&traces.Log{}) {
		t.Errorf("%d rows written; the joiner takes more", len(d.rows))
	}
	d.close()
}

// A pass without an end does not hold its rows back for ever.
func TestLongPass(t *testing.T) {
	d := newDesk(joinOptions{})
	d.addEvent(event(probes.Start, 0, 1, "a"))
	d.addSample(&bpf.Sample{Time: ms, GoID: 1, User: []uint64{1}})
	d.advance(patience / 2)
	if len(of[traces.Sample](d)) != 0 {
		t.Error("a sample names a seq that is not given")
	}
	d.advance(2 * patience)
	if len(of[traces.Sample](d)) != 1 {
		t.Error("a sample waits for ever")
	}
	d.close()
	r := of[traces.Reconcile](d)
	if len(r) != 1 || r[0].Outcome != "" || of[traces.Sample](d)[0].ReconcileID != r[0].Seq || d.passes.unended != 1 {
		t.Errorf("%+v", r)
	}
}

// Without a proxy calls become rows, of which nothing is recorded that may be another server's secret.
func TestCallsAlone(t *testing.T) {
	served := func(group, version, resource string) bool { return resource == "pods" }
	for _, c := range []struct {
		method, path, body string
		want               string // verb, resource, query, body; "" for no row
	}{
		{"PUT", "/k8s/clusters/c/api/v1/namespaces/ns/pods/p", `{"a":1}`, `update pods key=x {"a":1}`},
		{"PATCH", "/api/v1/namespaces/ns/pods/p", `[]`, `patch pods key=x []`},
		{"POST", "/api/v1/login", `{"password":"x"}`, `create login  `},
		{"GET", "/api/v1", ``, `get   `}, // of no resource
		{"POST", "/v1/auth", `{"password":"x"}`, ""},
	} {
		d := newDesk(joinOptions{alone: true, late: true, served: served})
		e := asked(ms, 1, c.path)
		e.Method, e.Query, e.Body, e.BodyLength = c.method, "key=x", []byte(c.body), int64(len(c.body))
		d.addEvent(e)
		d.addEvent(&probes.Event{Kind: probes.Response, Time: 2 * ms, Goroutine: 1, Status: 201})
		d.close()
		got := ""
		for _, q := range of[traces.Request](d) {
			got += fmt.Sprint(q.Verb, " ", q.Resource, " ", q.Query, " ", q.RequestBody)
			if q.Code != 201 || q.Start != int64(ms) || q.TS != int64(2*ms) {
				t.Errorf("%+v", q)
			}
		}
		if got != c.want {
			t.Errorf("%s %s: %q, want %q", c.method, c.path, got, c.want)
		}
	}
}

func TestAPIPath(t *testing.T) {
	for path, want := range map[string]string{
		"/api/v1/pods": "/api/v1/pods", "/0f3a/apis/apps/v1": "/apis/apps/v1", "/api": "/api", "/x/version": "/version",
		"/api/v2/alerts": "", "/": "", "": "", "/metrics": "", "//": "",
	} {
		if got, ok := apiPath(path); got != want || ok != (want != "") {
			t.Errorf("%q: %q, %t", path, got, ok)
		}
	}
}

// What is lost of one call or pass is not the next one's: a goroutine's descriptor serves another goroutine later, in
// another process the same address is another goroutine, and a call that is never answered ends with the next.
func TestGoroutinesAreToldApart(t *testing.T) {
	d := newDesk(joinOptions{alone: true, late: true, served: func(string, string, string) bool { return true }})
	at := func(e *probes.Event, pid int, goid uint64) *probes.Event {
		e.PID, e.GoID, e.Goroutine = pid, goid, 7
		return e
	}
	pod := "/api/v1/namespaces/ns/pods/"
	d.addEvent(at(event(probes.Start, 1*ms, 0, "one"), 1, 10))
	d.addEvent(at(event(probes.Start, 2*ms, 0, "other"), 2, 10))
	d.addEvent(at(asked(3*ms, 0, pod+"unanswered"), 1, 10))
	d.addEvent(at(asked(4*ms, 0, pod+"answered"), 1, 10))
	d.addEvent(at(&probes.Event{Kind: probes.Response, Time: 5 * ms, Status: 200}, 1, 10))
	d.addEvent(at(asked(6*ms, 0, pod+"left"), 1, 10))
	d.addEvent(at(asked(7*ms, 0, pod+"later"), 1, 11)) // the goroutine of "one" is no more
	d.addEvent(at(&probes.Event{Kind: probes.Response, Time: 8 * ms, Status: 200}, 1, 11))
	d.addEvent(at(event(probes.Done, 9*ms, 0, "other"), 2, 10))
	d.close()
	passes := map[string]*traces.Reconcile{}
	for _, r := range of[traces.Reconcile](d) {
		passes[r.Name] = r
	}
	if one, other := passes["one"], passes["other"]; one == nil || one.Outcome != "" || one.TS != int64(7*ms) || other == nil || other.Outcome != "success" {
		t.Fatalf("passes %+v and %+v", one, other)
	}
	type known struct {
		code int32
		pass string
	}
	want := map[string]known{"unanswered": {0, "one"}, "answered": {200, "one"}, "left": {0, "one"}, "later": {200, ""}}
	for _, q := range of[traces.Request](d) {
		pass := ""
		if q.ReconcileID == passes["one"].Seq {
			pass = "one"
		}
		if got := (known{q.Code, pass}); got != want[q.Name] {
			t.Errorf("%s: %+v, want %+v", q.Name, got, want[q.Name])
		}
		delete(want, q.Name)
	}
	if len(want) > 0 {
		t.Errorf("without a row: %v", want)
	}
}

// What the probes lost may be writes where there is no proxy: then findings are less certain, for the whole time.
func TestLossesOfProbes(t *testing.T) {
	for _, alone := range []bool{false, true} {
		d := newDesk(joinOptions{alone: alone})
		source := d.eventSource()
		if table, _, _ := strings.Cut(source, "/"); (table == "requests") != alone {
			t.Errorf("alone: %t, source %q", alone, source)
		}
		d.clock = time.Hour
		if l := d.loss(source, 3, "lost"); l.To.Sub(l.From) != time.Hour || l.Count != 3 {
			t.Errorf("%+v", l)
		}
		if l := d.dropped(3); l.Source != source || l.Count != -1 || !strings.HasPrefix(l.Reason, "3 events") {
			t.Errorf("calls and passes may lack their rows: %+v", l)
		}
	}
}
