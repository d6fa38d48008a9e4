package analysis

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/opreplay/opreplay/analysis/causal"
	"github.com/opreplay/opreplay/traces"
)

// everything is a scene in which every detector has something to say.
func everything(c *cluster) {
	s := site(c, "front")
	d := database(c, "orders")
	r := record(c, "www")
	c.delete("kubectl", r)
	for range 12 {
		race(c, d)
		for range 12 {
			c.sleep(20 * time.Millisecond)
			c.status("loop", s, m{"conditions": []any{condition("Served", "True", c.stamp())}})
		}
	}
	c.quiet(15 * time.Second)
}

func TestSameTraceSameBytes(t *testing.T) {
	c := newCluster(t, "loop", "race", "dns")
	everything(c)
	var first []byte
	for range 5 {
		r := c.analyze()
		for _, name := range []string{"churn", "conflict-storm", "finalizer-hang", "lost-status"} {
			if !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Detector == name }) {
				t.Fatalf("no %s: %s", name, r.describe())
			}
		}
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = b
		}
		if !bytes.Equal(b, first) {
			t.Fatalf("%s\n%s", first, b)
		}
	}
}

// No detector's output hangs on the order of a map.
func TestSameLabelledTraceSameBytes(t *testing.T) {
	for _, l := range corpus(t) {
		var first []byte
		for range 3 {
			r, err := Records(context.Background(), each(l.rows), l.manifest, "t", Options{})
			if err != nil {
				t.Fatal(l.name, err)
			}
			b, err := json.Marshal(r)
			if err != nil {
				t.Fatal(l.name, err)
			}
			if first == nil {
				first = b
			}
			if !bytes.Equal(b, first) {
				t.Fatalf("%s: %s\n%s", l.name, first, b)
			}
		}
	}
}

func TestLossesLowerCertainty(t *testing.T) {
	c := newCluster(t, "loop")
	s := site(c, "front")
	for range 40 {
		c.sleep(50 * time.Millisecond)
		c.status("loop", s, m{"at": c.stamp()})
	}
	for source, want := range map[string]struct {
		certainty Certainty
		caveats   int
	}{
		"": {Likely, 1}, "requests/loop/pods": {Likely, 1},
		"stacks": {Sure, 0}, "stacks/loop": {Sure, 0}, "samples": {Sure, 0}, "probes": {Sure, 0}, // no detector reads them
	} {
		manifest := &traces.Manifest{Losses: []traces.Loss{{Source: source, From: start, To: start.Add(time.Second), Count: -1}}}
		r, err := Records(context.Background(), c.records(), manifest, "t", Options{Detectors: []Detector{NewSelfLoop()}})
		if err != nil {
			t.Fatal(err)
		}
		if f := r.only(t, "self-loop"); f.Certainty != want.certainty || len(r.Caveats) != want.caveats {
			t.Errorf("%s: certainty %s, caveats %q", source, f.Certainty, r.Caveats)
		}
	}
}

// Whatever the detector, what is known to be missing makes its findings less certain, and makes none: those that rest on
// what is not there become notes.
func TestLossesLowerTheCertaintyOfAllDetectors(t *testing.T) {
	for _, l := range corpus(t) {
		whole, lossy := *l.manifest, *l.manifest
		whole.Losses = nil
		lossy.Losses = []traces.Loss{{Source: "watch/x", From: time.Unix(0, 0), To: time.Unix(1<<33, 0), Count: -1}}
		var results [2]*Result
		for i, m := range []*traces.Manifest{&whole, &lossy} {
			r, err := Records(context.Background(), each(l.rows), m, "t", Options{})
			if err != nil {
				t.Fatal(l.name, err)
			}
			results[i] = r
		}
		sure, less := results[0].Findings, results[1].Findings
		if len(less) > len(sure) {
			t.Errorf("%s: %d findings, %d with losses", l.name, len(sure), len(less))
		}
		for i := range sure {
			f := &sure[i]
			j := slices.IndexFunc(less, func(g Finding) bool { return g.Detector == f.Detector && g.What == f.What })
			if f.absent.table == traces.TableWatch {
				noted := slices.ContainsFunc(results[1].Notes, func(n Note) bool { return n.Detector == f.Detector && strings.HasPrefix(n.What, f.What) })
				if j >= 0 || !noted {
					t.Errorf("%s: %s of %s rests on what was not told: with losses it must be a note, and is none", l.name, f.ID, f.Detector)
				}
				continue
			}
			if j < 0 || less[j].Certainty != f.Certainty.less() {
				t.Errorf("%s: %s of %s is %s, and no less with losses", l.name, f.ID, f.Detector, f.Certainty)
			}
		}
	}
}

func TestReproduceCommand(t *testing.T) {
	for want, m := range map[string]*traces.Manifest{
		`opsim replay run.optrace --operator './my op --fixed'`: {Operators: []traces.Operator{{Command: []string{"./my op", "--fixed"}}}},
		`opsim replay a.optrace --operator CMD --seed 7`:        {Run: &traces.Run{Trace: "a.optrace", Seed: 7, Plan: "seed: 7\nfaults: []\n"}},
		`opsim replay a.optrace --operator CMD --plan run.optrace/plan.yaml`: {
			Run: &traces.Run{Trace: "a.optrace", Plan: "seed: 0\nfaults:\n- cut: {watch: pods, at: 1s}\n"},
		},
		``: {},
	} {
		if len(m.Operators) > 0 {
			want = `opsim replay run.optrace --operator ''\''./my op'\'' --fixed'`
		}
		if got := command(m, "run.optrace"); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestAnUnreadableRecordEndsTheAnalysis(t *testing.T) {
	bad := errors.New("file torn")
	records := func(yield func(traces.Record, error) bool) { yield(nil, bad) }
	if _, err := Records(context.Background(), records, nil, "", Options{}); !errors.Is(err, bad) {
		t.Error("got", err)
	}
}

// What is read ahead comes in its order, with its error at its place, and a consumer that has enough ends the reader.
func TestReadAhead(t *testing.T) {
	torn := errors.New("file torn")
	closed := 0
	records := func(n int, end error) iter.Seq2[traces.Record, error] {
		return func(yield func(traces.Record, error) bool) {
			defer func() { closed++ }()
			for i := range n {
				if !yield(&traces.Log{Head: traces.Head{Seq: int64(i + 1)}}, nil) {
					return
				}
			}
			if end != nil {
				yield(nil, end)
			}
		}
	}
	for _, n := range []int{0, 1, aheadBatch, 10*aheadBatch + 3} {
		for _, end := range []error{nil, torn} {
			seen, last := int64(0), error(nil)
			for r, err := range ahead(context.Background(), records(n, end)) {
				if last = err; err == nil {
					if seen++; r.Header().Seq != seen {
						t.Fatalf("row %d at place %d", r.Header().Seq, seen)
					}
				}
			}
			if int(seen) != n || !errors.Is(last, end) {
				t.Errorf("%d rows of %d, then %v of %v", seen, n, last, end)
			}
		}
	}
	for range ahead(context.Background(), records(100*aheadBatch, nil)) {
		break
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var last error
	for _, err := range ahead(ctx, records(100*aheadBatch, nil)) {
		cancel()
		last = err
	}
	if !errors.Is(last, context.Canceled) {
		t.Error("cancelled, and it ended well:", last)
	}
	if closed != 10 {
		t.Errorf("%d readers of 10 have ended", closed)
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	c := newCluster(t)
	site(c, "front")
	if _, err := Records(ctx, c.records(), nil, "", Options{}); !errors.Is(err, context.Canceled) {
		t.Error("got", err)
	}
}

func TestSelectorsAndSlowWatchesDontDeleteObjects(t *testing.T) {
	c := newCluster(t, "op")
	s := site(c, "front")
	// The operator's watch selects by label: for it the object is deleted when the label goes.
	c.sleep(time.Second)
	c.status("op", s, m{"n": 1})
	last := c.rows[len(c.rows)-2]
	for _, r := range c.rows {
		if w, ok := r.(*traces.WatchEvent); ok && w.Process == "op" && w.ResourceVersion == c.rvOf(s) {
			w.Type = string(traces.Deleted)
			last = w
		}
	}
	if last == nil {
		t.Fatal("no such event")
	}
	for range 30 {
		c.sleep(50 * time.Millisecond)
		c.status("op", s, m{"n": c.stamp()})
	}
	r := c.analyze(NewSelfLoop())
	r.only(t, "self-loop")
	if r.Looked.Objects != 1 {
		t.Errorf("%d incarnations of one object", r.Looked.Objects)
	}
}

// A name may be taken again, and a slow watch still speaks of the one before.
func TestIncarnations(t *testing.T) {
	c := newCluster(t, "dns")
	old := record(c, "www")
	c.delete("kubectl", old)
	late := *c.rows[len(c.rows)-1].(*traces.WatchEvent)
	c.finalizers("dns", old)
	fresh := record(c, "www")
	c.add(&late)
	c.sleep(time.Minute)
	c.status("kubectl", fresh, m{"n": 1})
	r := c.analyze()
	r.none(t)
	if r.Looked.Objects != 2 {
		t.Errorf("%d incarnations, want 2", r.Looked.Objects)
	}
}

// stream yields n records of objects that live for a while each: alive of them at a time, with bodies of about
// size bytes; each write is a watch row of the recorder's, one of the operator's, and a request.
func stream(n, alive, size int, churning bool) iter.Seq2[traces.Record, error] {
	spec := ""
	for len(spec) < size {
		spec += fmt.Sprintf(`{"image":"registry.example/app:1.2.%d","name":"c%d","resources":{"limits":{"cpu":"500m"}}},`, len(spec), len(spec))
	}
	body := func(i int) string {
		return fmt.Sprintf(`{"apiVersion":"web.example.com/v1","kind":"Site","metadata":{"creationTimestamp":"2026-03-01T12:00:00Z","generation":1,"managedFields":[{"manager":"op","operation":"Update","time":"2026-03-01T12:00:%02dZ"}],"name":"x","namespace":"shop","resourceVersion":"%d","uid":"u"},"spec":{"containers":[%s{}]},"status":{"conditions":[{"lastTransitionTime":"2026-03-01T12:00:%02dZ","status":"True","type":"Ready"}],"replicas":%d}}`, i, i, spec, i, i)
	}
	var bodies [16]string
	for i := range bodies {
		bodies[i] = body(i)
	}
	return func(yield func(traces.Record, error) bool) {
		var w traces.WatchEvent
		var q traces.Request
		names, uids := make([]string, alive), make([]string, alive)
		seq, rv := int64(0), int64(1000)
		head := func() traces.Head { seq++; return traces.Head{Seq: seq, TS: 1e18 + seq*1e5} }
		for i := 0; seq < int64(n); i++ {
			o := i % alive
			first := names[o] == "" || (churning && i/alive%20 == 0)
			kind := traces.Modified
			if first {
				names[o], uids[o], kind = fmt.Sprintf("site-%d", i), fmt.Sprintf("uid-%d", i), traces.Added
			}
			last := churning && i/alive%20 == 19
			if last {
				kind = traces.Deleted
			}
			rv++
			id := traces.Identity{Group: "web.example.com", Version: "v1", Resource: "sites", Namespace: "shop", Name: names[o], UID: uids[o], ResourceVersion: rv, Generation: 1}
			for _, process := range [2]string{"oprec", "op"} {
				w = traces.WatchEvent{Head: head(), Identity: id, Stream: "s", Process: process, Type: string(kind), Object: bodies[i/alive%16]}
				if !yield(&w, nil) {
					return
				}
			}
			q = traces.Request{Head: head(), Identity: id, StartSeq: seq - 4, Start: 1e18 + (seq-4)*1e5, Process: "op", UserAgent: "op/v1", Verb: "patch", Subresource: "status", FieldManager: "op", ContentType: "application/merge-patch+json", RequestBody: `{"status":{"replicas":1}}`, Code: 200}
			if !yield(&q, nil) {
				return
			}
		}
	}
}

// Memory follows the objects that are open, not the records that have passed.
func TestMemoryIsBoundedByOpenObjects(t *testing.T) {
	heap := func(n int) uint64 {
		var held uint64
		last := 0
		o := Options{Progress: func(records int64) {
			if int(records) > n*9/10 && last == 0 {
				last = 1
				runtime.GC()
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				held = m.HeapAlloc
			}
		}}
		if _, err := Records(context.Background(), stream(n, 200, 500, true), nil, "", o); err != nil {
			t.Fatal(err)
		}
		return held
	}
	// After 300,000 records 5,000 objects have come and gone, more than there are tombstones.
	short, long := heap(300_000), heap(600_000)
	t.Logf("%d kB after 300,000 records, %d kB after 600,000", short>>10, long>>10)
	if long > short+short/4 {
		t.Error("memory grows with the trace")
	}
}

func TestTextsStayWithinTheirLimit(t *testing.T) {
	o := Options{BodyBytes: 64 << 10}
	r, err := Records(context.Background(), stream(6000, 500, 1000, false), nil, "", o)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(r.Caveats, func(c string) bool { return strings.Contains(c, "to stay within memory") }) {
		t.Errorf("nothing was given up, or it wasn't said: %q", r.Caveats)
	}
}

// cpuTime is the processor time that this process has taken, in seconds: what others run beside it doesn't count.
func cpuTime(b *testing.B) float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

func BenchmarkAnalyze(b *testing.B) {
	for _, size := range []int{500, 3000} {
		b.Run(fmt.Sprintf("body=%d", size), func(b *testing.B) {
			const n = 300_000
			b.ReportAllocs()
			begun := cpuTime(b)
			for b.Loop() {
				if _, err := Records(context.Background(), stream(n, 5000, size, true), nil, "", Options{}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(n*float64(b.N)/b.Elapsed().Seconds(), "records/s")
			b.ReportMetric(n*float64(b.N)/(cpuTime(b)-begun), "records/cpu-s")
		})
	}
}

// FuzzRecords takes the bytes as a program that makes records of few objects with odd contents.
func FuzzRecords(f *testing.F) {
	f.Add([]byte("\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f"))
	f.Add(bytes.Repeat([]byte{1, 1, 200, 1, 1, 1, 0, 3, 2, 1}, 40))
	f.Fuzz(func(t *testing.T, program []byte) {
		begun := time.Now()
		defer func() {
			if d := time.Since(begun); d > 5*time.Second {
				t.Errorf("%d bytes took %v", len(program), d)
			}
		}()
		survive(t, oddRecords(program))
	})
}

// survive analyzes the records and follows the causes of some.
func survive(t *testing.T, rows []traces.Record) {
	t.Helper()
	r, err := Records(context.Background(), each(rows), &traces.Manifest{Losses: []traces.Loss{{}}}, "x", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := json.Marshal(r); err != nil {
		t.Fatal(err)
	}
	g := causal.NewGraph()
	for _, row := range rows {
		g.Add(row)
	}
	for i := 0; i < len(rows); i += 1 + len(rows)/50 {
		if _, err := json.Marshal(g.Chain(rows[i].Header().Seq)); err != nil {
			t.Fatal(err)
		}
	}
}

// Long programs at random, which a fuzzer takes long to come to.
func TestOddRecords(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 60 {
		program := make([]byte, 20_000)
		for i := range program {
			program[i] = byte(r.IntN(256))
		}
		survive(t, oddRecords(program))
	}
}

var oddBodies = []string{
	"", "{", "null", `{"metadata":null}`, `{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z","finalizers":["a"]}}`,
	`{"metadata":{"deletionTimestamp":null,"finalizers":"a","ownerReferences":[{},{"uid":"u1","controller":true}],"managedFields":[{"time":"x"},{}]}}`,
	`{"metadata":{"name":"n","resourceVersion":"3"},"status":{"conditions":[{"type":"A","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`,
	`{"metadata":{"name":"n","resourceVersion":"4"},"status":{"conditions":[{"type":"A","status":"False","lastTransitionTime":"2025-01-01T00:00:00Z"},{"type":"B"}]}}`,
	`{"status":{"conditions":[{"type":"B"},{"type":"B"}],"x":[[[]]]}}`, `{"status":"x"}`, `{"status":{}}`, `["a"]`, `"\`,
}

func oddRecords(program []byte) []traces.Record {
	var out []traces.Record
	o := &odd{program: program}
	for seq := int64(1); len(o.program) > 0 && seq < 5000; seq++ {
		out = append(out, o.record(seq))
	}
	return out
}

// odd makes records of a program's bytes.
type odd struct{ program []byte }

func (o *odd) next(n int) int {
	if len(o.program) == 0 {
		return 0
	}
	x := int(o.program[0]) % n
	o.program = o.program[1:]
	return x
}

func (o *odd) pick(from ...string) string { return from[o.next(len(from))] }

func (o *odd) body() string { return oddBodies[o.next(len(oddBodies))] }

func (o *odd) record(seq int64) traces.Record {
	head := traces.Head{Seq: seq, TS: seq*int64(o.next(7))*1e8 + int64(o.next(3))}
	before := seq - int64(o.next(5))
	switch o.next(12) {
	case 0, 1, 2:
		return &traces.WatchEvent{
			Head: head, Identity: o.identity(), Process: o.pick("op", "oprec", "", "op2"), Stream: o.pick("s", "t"), Type: o.pick("ADDED", "MODIFIED", "DELETED", "SYNC", "BOOKMARK", "?", "ERROR"),
			Object: o.body(), Writer: o.pick("", "seq:x", "w"),
		}
	case 3, 4, 5:
		return &traces.Request{
			Head: head, Identity: o.identity(), StartSeq: before, Start: head.TS - int64(o.next(9)-1)*1e7, Process: o.pick("op", "op2", ""), Stream: o.pick("", "s"), User: o.pick("", "system:serviceaccount:n:op"),
			Verb: o.pick("update", "patch", "delete", "get", "create", "list", "watch", "deletecollection", "connect", "post"), Subresource: o.pick("", "status", "scale"),
			Code: int32([]int{200, 409, 422, 0, 201, 404, 403, 429, 500}[o.next(9)]), Reason: o.pick("Conflict", "", "AlreadyExists", "Invalid", "?"), RequestBody: o.body(), ResponseBody: o.body(),
			ContentType: o.pick("application/merge-patch+json", "application/apply-patch+yaml", "", "application/json-patch+json"), FieldManager: o.pick("", "m"), UserAgent: o.pick("", "/", "op/v1"),
			Query: o.pick("", "dryRun=All", "%", "fieldManager=m&resourceVersion=0"), Path: o.pick("", "/healthz"), StackID: int64(o.next(3)), ReconcileID: seq + int64(o.next(4)),
		}
	case 6:
		return &traces.Reconcile{
			Head: head, Process: o.pick("op", ""), Controller: o.pick("c", ""), Namespace: o.pick("", "n"), Name: o.pick("a", "b", ""), Start: head.TS - int64(o.next(9)-1)*1e7, Trigger: before,
			Outcome: o.pick("success", "error", "requeue", "panic", "", "?"), Error: o.pick("", "boom"), RequeueAfter: int64(o.next(3)-1) * 1e9, KnownBy: o.pick("probe", "log"),
		}
	case 7:
		return &traces.Sample{Head: head, TID: int32(o.next(3)), GoID: int64(o.next(3)), StackID: int64(o.next(3)), KernelStackID: int64(o.next(3)), Weight: int64(o.next(3)) - 1, ReconcileID: seq + int64(o.next(4))}
	case 8:
		frames := []traces.Frame{{Function: o.pick("", "main.f", "runtime.x", ".", "/"), File: o.pick("", "/", "a/b.go"), Line: int32(o.next(3))}}
		return &traces.Stack{Head: head, StackID: int64(o.next(3)), Frames: frames[:o.next(2)]}
	case 9:
		return &traces.KernelEvent{Head: head, Kind: o.pick("refused", "fork", "enospc", "read_loop", "?"), Address: o.pick("", "127.0.0.1"), Port: int32(o.next(3)), Count: int64(o.next(3)) - 1, StackID: int64(o.next(3))}
	case 10:
		labels := []traces.Label{{Name: o.pick("", "le", "a"), Value: o.pick("", "x")}}
		return &traces.Metric{Head: head, Process: o.pick("op", ""), Name: o.pick("", "workqueue_depth", "x_total"), Labels: labels[:o.next(2)], Value: []float64{0, -1, math.NaN(), math.Inf(1), 1e300}[o.next(5)]}
	}
	return &traces.Log{Head: head, Process: o.pick("op", ""), Level: o.pick("error", "info", ""), Message: o.pick("a", "", "panic: x", "Reconciler error", "fatal error: y"), Fields: o.body()}
}

func (o *odd) identity() traces.Identity {
	return traces.Identity{
		Group: o.pick("", "g", "coordination.k8s.io", "apiextensions.k8s.io"), Version: "v1", Resource: o.pick("configmaps", "leases", "", "pods", "customresourcedefinitions", "clusterroles"), Namespace: o.pick("", "n"),
		Name: o.pick("a", "b", ""), UID: o.pick("u1", "u2", ""), ResourceVersion: int64(o.next(12)) - 1, Generation: int64(o.next(3)),
	}
}

// What is lost from a trace may cost certainty, and never makes a detector panic: labelled traces are cut short at either
// end, and lose rows here and there.
func TestCutAndTornTraces(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, l := range corpus(t) {
		rows, manifest := l.rows, l.manifest
		for round := range 3 {
			var list []traces.Record
			switch round {
			case 0:
				list = rows[:r.IntN(len(rows))]
			case 1:
				list = rows[r.IntN(len(rows)):]
			default:
				list = slices.DeleteFunc(slices.Clone(rows), func(traces.Record) bool { return r.IntN(4) == 0 })
			}
			result, err := Records(context.Background(), each(list), manifest, "t", Options{})
			if err != nil {
				t.Fatal(l.name, err)
			}
			if _, err := json.Marshal(result); err != nil {
				t.Error(l.name, err)
			}
		}
	}
}
