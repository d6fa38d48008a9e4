//go:build unix

package traces

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// workload makes records like those of a cluster at work: 600 objects of three kinds (pods, deployments
// and a custom resource), each created and then changed about eight times, with managedFields, every
// other change made by a call whose answer is the object. Objects are 3 to 4 kB. It is less varied than
// a real cluster (one template a kind), so bytes an event are on the low side.
type workload struct {
	random *rand.Rand
	seq    int64
	now    int64
	objs   []workObject
}

type workObject struct {
	Identity
	changes int
	node    int
}

func newWorkload() *workload {
	w := &workload{random: rand.New(rand.NewPCG(7, 7)), now: 1_700_000_000_000_000_000, seq: 100_000}
	for i := range 600 {
		w.objs = append(w.objs, w.object(i))
	}
	return w
}

func (w *workload) hex(n int) string {
	var b strings.Builder
	for range n {
		b.WriteByte("0123456789abcdef"[w.random.IntN(16)])
	}
	return b.String()
}

func (w *workload) object(i int) workObject {
	o := workObject{node: w.random.IntN(50)}
	o.UID = fmt.Sprintf("%s-%s-4%s-a%s-%s", w.hex(8), w.hex(4), w.hex(3), w.hex(3), w.hex(12))
	o.Namespace = fmt.Sprint("team-", i%12)
	switch i % 3 {
	case 0:
		o.Version, o.Resource, o.Name = "v1", "pods", fmt.Sprintf("web-%s-%s", w.hex(9), w.hex(5))
	case 1:
		o.Group, o.Version, o.Resource, o.Name = "apps", "v1", "deployments", fmt.Sprint("web-", i)
	case 2:
		o.Group, o.Version, o.Resource, o.Name = "example.com", "v1alpha1", "databases", fmt.Sprint("db-", i)
	}
	return o
}

// next changes a random object: its watch event, and every other time the call that caused it.
func (w *workload) next() (rows []Record) {
	o := &w.objs[w.random.IntN(len(w.objs))]
	typ := Modified
	if o.changes++; o.changes == 1 {
		typ = Added
	}
	if o.changes > 9 {
		*o = w.object(w.random.IntN(600))
		o.changes, typ = 1, Added
	}
	w.seq += 1 + w.random.Int64N(2)
	w.now += w.random.Int64N(2_000_000)
	o.ResourceVersion, o.Generation = w.seq, int64(1+o.changes/3)
	text := w.json(o)
	rows = append(rows, &WatchEvent{Head: Head{TS: w.now}, Identity: o.Identity, Stream: "capture/" + o.Group + "/" + o.Resource, Process: "oprec", Type: string(typ), Object: text})
	if w.seq%2 == 0 {
		status := fmt.Sprintf(`{"status":{"readyReplicas":%d,"conditions":[{"type":"Ready","status":"True","lastTransitionTime":%q}]}}`, o.changes, w.time(0))
		rows = append(rows, &Request{
			Head: Head{TS: w.now}, Identity: o.Identity, Start: w.now - 3_000_000 - w.random.Int64N(1_000_000), Process: "database-operator",
			User: "system:serviceaccount:db:operator", UserAgent: "manager/v0.0.0 (linux/amd64) kubernetes/$Format", Verb: "patch", Subresource: "status",
			Query: "fieldManager=database-operator", FieldManager: "database-operator", ContentType: "application/merge-patch+json",
			RequestBody: status, Code: 200, ResponseBody: text, Attempt: 1, AuditID: w.hex(32),
		})
	}
	return rows
}

func (w *workload) time(ago int64) string {
	return time.Unix(0, w.now-ago*1e9).UTC().Format(time.RFC3339)
}

func (w *workload) json(o *workObject) string {
	var env, fields, conditions strings.Builder
	for i := range 14 {
		fmt.Fprintf(&env, `{"name":"SETTING_%d","value":"%s-value-of-%s-%d"},`, i, o.Name, o.Namespace, i)
		fmt.Fprintf(&fields, `"k:{\"name\":\"SETTING_%d\"}":{".":{},"f:name":{},"f:value":{}},`, i)
	}
	for i, c := range []string{"PodScheduled", "Initialized", "ContainersReady", "Ready", "Progressing"} {
		status := "True"
		if i > o.changes/2 {
			status = "False"
		}
		fmt.Fprintf(&conditions, `{"type":%q,"status":%q,"reason":"MinimumReplicas","message":"observed %d","lastTransitionTime":%q},`, c, status, o.changes, w.time(int64(i)))
	}
	return fmt.Sprintf(`{"kind":"Object","apiVersion":"%s/%s","metadata":{"name":%q,"namespace":%q,"uid":%q,"resourceVersion":"%d","generation":%d,"creationTimestamp":%q,`+
		`"labels":{"app":%q,"pod-template-hash":"%s","team":%q},"managedFields":[{"manager":"kube-controller-manager","operation":"Update","apiVersion":"v1","time":%q,"fieldsType":"FieldsV1",`+
		`"fieldsV1":{"f:metadata":{"f:labels":{".":{},"f:app":{}}},"f:spec":{"f:containers":{%s"f:image":{}}}}},{"manager":"kubelet","operation":"Update","time":%q,"subresource":"status"}]},`+
		`"spec":{"nodeName":"node-%d","containers":[{"name":"main","image":"registry.example.com/web:1.%d","env":[%s{"name":"LAST","value":"x"}],"resources":{"limits":{"cpu":"500m","memory":"256Mi"}}}]},`+
		`"status":{"phase":"Running","podIP":"10.%d.%d.%d","observedGeneration":%d,"conditions":[%s{"type":"Last"}]}}`,
		o.Group, o.Version, o.Name, o.Namespace, o.UID, o.ResourceVersion, o.Generation, w.time(3600), o.Name, o.UID[:8], o.Namespace, w.time(9), fields.String(), w.time(0),
		o.node, o.changes, env.String(), o.node, len(o.Name), o.UID[0], o.Generation, conditions.String())
}

// records are so many rows of the workload, their texts already made, and the bytes of the texts.
func (w *workload) records(n int) (rows []Record, bytes int64) {
	for len(rows) < n {
		for _, r := range w.next() {
			rows = append(rows, r)
			switch r := r.(type) {
			case *WatchEvent:
				bytes += int64(len(r.Object))
			case *Request:
				bytes += int64(len(r.RequestBody) + len(r.ResponseBody))
			}
		}
	}
	return rows, bytes
}

// cpu is the time that the process has spent on all cores so far: a machine that is busy with other
// things changes it little.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// rates reports rows by wall time and by time of the processor.
func rates(b *testing.B, rows int, unit string, since time.Time, cpuSince time.Duration) {
	b.ReportMetric(float64(rows)/time.Since(since).Seconds(), unit+"/s")
	b.ReportMetric(float64(rows)/(cpu(b)-cpuSince).Seconds(), unit+"/cpu-s")
}

// BenchmarkWrite is the Writer with the recommended options on a real disk, fsyncs included.
func BenchmarkWrite(b *testing.B) {
	const n = 60_000
	for b.Loop() {
		b.StopTimer()
		w, dir := mustCreate(b, WriterOptions{})
		rows, bytes := newWorkload().records(n)
		b.StartTimer()
		start, spent := time.Now(), cpu(b)
		appendAll(b, w, rows...)
		mustClose(b, w)
		rates(b, len(rows), "rows", start, spent)
		b.StopTimer()
		tr := mustOpen(b, dir)
		var stored, events int64
		for _, f := range tr.Manifest().Files {
			stored += f.Bytes
			if f.Table == TableWatch {
				events += f.Rows
				b.ReportMetric(float64(f.Bytes)/float64(f.Rows), "B/watch-row")
			} else {
				b.ReportMetric(float64(f.Bytes)/float64(f.Rows), "B/request-row")
			}
		}
		b.ReportMetric(float64(stored)/float64(events), "B/event") // requests included
		b.ReportMetric(float64(bytes)/float64(stored), "×smaller") // than the JSON texts alone
		b.StartTimer()
	}
}

// BenchmarkWriterMemory is the heap in use while rows stream through, beyond what was in use before.
func BenchmarkWriterMemory(b *testing.B) {
	const n = 60_000
	for b.Loop() {
		work := newWorkload()
		w, _ := mustCreate(b, WriterOptions{})
		runtime.GC()
		var before, now runtime.MemStats
		runtime.ReadMemStats(&before)
		var most uint64
		for i := range n {
			appendAll(b, w, work.next()...)
			if i%500 == 0 {
				runtime.ReadMemStats(&now)
				most = max(most, now.HeapInuse)
			}
		}
		mustClose(b, w)
		b.ReportMetric(float64(most-before.HeapInuse)/1e6, "MB-heap")
	}
}

func benchTrace(b *testing.B, n int) *Trace {
	b.Helper()
	dir := filepath.Join(b.TempDir(), "t.optrace")
	w := mustCreateIn(b, dir, WriterOptions{})
	rows, _ := newWorkload().records(n)
	appendAll(b, w, rows...)
	mustClose(b, w)
	return mustOpen(b, dir)
}

func benchRead(b *testing.B, r Range) {
	const n = 60_000
	tr := benchTrace(b, n)
	for b.Loop() {
		rows := 0
		start, spent := time.Now(), cpu(b)
		for rec, err := range tr.Records(context.Background(), r) {
			if err != nil {
				b.Fatal(err)
			}
			rows++
			if r.Reuse != nil {
				r.Reuse.Done(rec.Header().Seq)
			}
		}
		rates(b, rows, "rows", start, spent)
		b.ReportMetric(float64(rows), "rows")
	}
}

func BenchmarkReadAll(b *testing.B) { benchRead(b, Range{}) }

// BenchmarkReadReuse is the same for who keeps nothing.
func BenchmarkReadReuse(b *testing.B) { benchRead(b, Range{Reuse: &Reuse{}}) }

// BenchmarkReadColumns is what a detector that needs no objects reads.
func BenchmarkReadColumns(b *testing.B) {
	benchRead(b, Range{Columns: []string{"group", "resource", "namespace", "name", "uid", "resource_version", "type", "verb", "code", "process"}})
}

// BenchmarkReadRange is a hundred rows out of the middle.
func BenchmarkReadRange(b *testing.B) { benchRead(b, Range{FromSeq: 30_001, ToSeq: 30_100}) }

// BenchmarkResponseBody resolves the answers of all calls in order.
func BenchmarkResponseBody(b *testing.B) {
	tr := benchTrace(b, 60_000)
	for b.Loop() {
		n := 0
		start, spent := time.Now(), cpu(b)
		for r, err := range Rows[Request](context.Background(), tr, Range{Columns: []string{"uid", "resource_version", "response_body", "response_hash"}}) {
			if err != nil {
				b.Fatal(err)
			}
			if _, err := tr.ResponseBody(context.Background(), r); err != nil {
				b.Fatal(err)
			}
			n++
		}
		rates(b, n, "answers", start, spent)
	}
}

func BenchmarkVerify(b *testing.B) {
	tr := benchTrace(b, 60_000)
	for b.Loop() {
		start, spent := time.Now(), cpu(b)
		mustVerify(b, tr)
		rates(b, int(tr.Manifest().Rows()), "rows", start, spent)
	}
}
