// Package synth makes traces of any length, as a recording of a busy operator has them, for tests of speed and memory.
//
//	for r := range synth.Records(synth.Options{Rows: 10_000_000, Alive: 5000}) {
//		…
//	}
//
// It is a stream: what it holds follows the objects that exist at a time. An operator with three reconcilers looks after
// objects that users create, change and delete; each of its passes writes a status. So five rows of six are a version as
// the recorder's watch and as the operator's watch saw it, the write, the reconcile, and a stack sample in it; the rest
// are log lines, metrics and users' changes. Bodies are about 1,200 bytes, of which a pass changes a few.
package synth

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"strconv"

	"github.com/opreplay/opreplay/traces"
)

// Options say what to make.
type Options struct {
	// Rows is how many records, about.
	Rows int
	// Alive is how many objects exist at a time.
	Alive int
	// Passes is how many times an object is reconciled before it is deleted and another takes its place; 0 means 20.
	Passes int
	// Seed chooses the order of things.
	Seed uint64
}

const (
	start   = int64(1_780_000_000_000_000_000)
	process = "siteop"
)

type object struct {
	traces.Identity
	number, passes int
	state          int
	told           int64
}

type maker struct {
	o       Options
	r       *rand.Rand
	seq, ts int64
	rv      int64
	made    int
	objects []*object
	buf     []byte
	yield   func(traces.Record) bool
	full    bool
}

// Records are the rows in the order of seq. Each is the consumer's to keep.
func Records(o Options) iter.Seq[traces.Record] {
	if o.Passes == 0 {
		o.Passes = 20
	}
	return func(yield func(traces.Record) bool) {
		m := &maker{o: o, r: rand.New(rand.NewPCG(o.Seed, 1)), ts: start, rv: 1000, yield: yield}
		m.stacks()
		m.objects = make([]*object, o.Alive)
		for int(m.seq) < o.Rows && !m.full {
			m.turn(m.r.IntN(o.Alive))
		}
	}
}

func (m *maker) head(after int64) traces.Head {
	m.seq++
	m.ts += after
	return traces.Head{Seq: m.seq, TS: m.ts}
}

func (m *maker) emit(r traces.Record) {
	if !m.full && !m.yield(r) {
		m.full = true
	}
}

// stacks are as many places as there are samples of a busy second at one of them otherwise: a pass has a sample each, four
// hundred a second, and if all were at one place, three processors would be busy there, which is a fault (hot-stack).
func (m *maker) stacks() {
	for i := range 50 {
		frames := []traces.Frame{
			{Function: "runtime.mallocgc", File: "runtime/malloc.go", Line: int32(900 + i)},
			{Function: "k8s.io/client-go/rest.(*Request).Do", File: "k8s.io/client-go/rest/request.go", Line: 1000},
			{Function: "main.(*SiteReconciler).step" + strconv.Itoa(i+1), File: "siteop/main.go", Line: int32(400 + i)},
			{Function: "main.(*SiteReconciler).Reconcile", File: "siteop/main.go", Line: int32(40 + i)},
			{Function: "sigs.k8s.io/controller-runtime/pkg/internal/controller.(*Controller).reconcileHandler", File: "sigs.k8s.io/controller-runtime/pkg/internal/controller/controller.go", Line: 300},
		}
		m.emit(&traces.Stack{Head: m.head(1), StackID: int64(i + 1), Frames: frames})
	}
}

// turn is what happens to one object next.
func (m *maker) turn(i int) {
	x := m.objects[i]
	switch {
	case x == nil || x.passes > m.o.Passes:
		if x != nil {
			m.version(x, traces.Deleted, 0)
		}
		m.made++
		x = &object{number: m.made}
		x.Group, x.Version, x.Resource, x.Generation = "web.example.com", "v1", "sites", 1
		x.Namespace, x.Name, x.UID = "team-"+strconv.Itoa(m.made%40), "site-"+strconv.Itoa(m.made), fmt.Sprintf("5f0c9e2a-77b1-4c7e-9d3e-%012x", m.made)
		m.objects[i] = x
		m.version(x, traces.Added, 0)
	case m.r.IntN(10) == 0: // a user's change of the spec
		x.Generation++
		m.version(x, traces.Modified, 0)
	default:
		m.version(x, traces.Modified, 0) // what the operator answers: a label by somebody
	}
	m.pass(x)
}

// pass is a reconcile: it reads, computes, writes the status, and sees its own write come by.
func (m *maker) pass(x *object) {
	x.passes++
	x.state = m.r.IntN(9)
	reconcile, queued := m.seq+5, x.told
	m.emit(&traces.Sample{Head: m.head(400_000), PID: 7, TID: int32(8 + x.number%4), GoID: int64(100 + x.number%3), StackID: int64(1 + x.number%50), Weight: 1, ReconcileID: reconcile})
	begun, known := m.ts, m.seq
	m.version(x, traces.Modified, 900_000)
	m.emit(&traces.Request{
		Head: m.head(100_000), Identity: x.Identity, StartSeq: known, Start: begun, Process: process, User: "system:serviceaccount:sites:siteop",
		UserAgent: "siteop/v1.4.0 (linux/amd64) kubernetes/$Format", Verb: "patch", Subresource: "status", Query: "fieldManager=siteop", FieldManager: "siteop",
		ContentType: "application/merge-patch+json", RequestBody: `{"status":{"ready":` + strconv.Itoa(x.state) + `}}`, Code: 200, ResponseHash: "", Attempt: 1,
		StackID: int64(1 + x.number%50), ReconcileID: reconcile,
	})
	m.emit(&traces.Reconcile{
		Head: m.head(50_000), Process: process, Controller: "site", Namespace: x.Namespace, Name: x.Name, Start: begun - 300_000, GoID: int64(100 + x.number%3),
		Trigger: queued, Outcome: "success", KnownBy: "probe",
	})
	switch m.r.IntN(6) {
	case 0:
		m.emit(&traces.Log{Head: m.head(1000), Process: process, Stream: "stderr", Level: "info", Message: "site is ready", Fields: `{"controller":"site","namespace":"` + x.Namespace + `","name":"` + x.Name + `"}`})
	case 1:
		m.emit(&traces.Metric{Head: m.head(1000), Process: process, Name: "workqueue_depth", Labels: []traces.Label{{Name: "name", Value: "site"}}, Value: float64(m.r.IntN(4))})
	}
}

// version is a new version of an object, told to the recorder and to the operator.
func (m *maker) version(x *object, kind traces.EventType, after int64) {
	m.rv++
	x.ResourceVersion = m.rv
	body := m.body(x)
	for _, who := range [...]string{"oprec", process} {
		w := &traces.WatchEvent{Head: m.head(after + 200_000), Identity: x.Identity, Stream: who + "/sites", Process: who, Type: string(kind), Object: body}
		after = 0
		m.emit(w)
		x.told = w.Seq
	}
}

const before = `{"apiVersion":"web.example.com/v1","kind":"Site","metadata":{"annotations":{"example.com/owner":"shop@example.com"},"creationTimestamp":"2026-05-28T20:26:40Z",` +
	`"finalizers":["web.example.com/cleanup"],"generation":`

const spec = `,"spec":{"replicas":3,"template":{"containers":[{"env":[{"name":"LOG_LEVEL","value":"info"},{"name":"REGION","value":"eu-central-1"}],"image":"registry.example.com/site:1.24.3","name":"web",` +
	`"ports":[{"containerPort":8080,"name":"http","protocol":"TCP"}],"resources":{"limits":{"cpu":"500m","memory":"256Mi"},"requests":{"cpu":"100m","memory":"128Mi"}}}]},"title":"Shop"}`

func (m *maker) body(x *object) string {
	second := m.ts / 1e9
	b := append(m.buf[:0], before...)
	b = strconv.AppendInt(b, x.Generation, 10)
	b = append(b, `,"labels":{"app":"site","turn":"`...)
	b = strconv.AppendInt(b, m.rv%1000, 10)
	b = append(b, `"},"managedFields":[{"apiVersion":"web.example.com/v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{".":{},"f:replicas":{},"f:title":{}}},"manager":"kubectl","operation":"Update","time":"2026-05-28T20:26:40Z"},`+
		`{"apiVersion":"web.example.com/v1","fieldsType":"FieldsV1","fieldsV1":{"f:status":{".":{},"f:conditions":{},"f:ready":{}}},"manager":"siteop","operation":"Update","subresource":"status","time":"`...)
	b = stamp(b, second)
	b = append(b, `"}],"name":"`...)
	b = append(b, x.Name...)
	b = append(b, `","namespace":"`...)
	b = append(b, x.Namespace...)
	b = append(b, `","resourceVersion":"`...)
	b = strconv.AppendInt(b, x.ResourceVersion, 10)
	b = append(b, `","uid":"`...)
	b = append(b, x.UID...)
	b = append(b, `"}`...)
	b = append(b, spec...)
	b = append(b, `,"status":{"conditions":[{"lastTransitionTime":"2026-05-28T20:26:40Z","message":"all replicas are ready","reason":"Ready","status":"True","type":"Ready"}],"observedGeneration":`...)
	b = strconv.AppendInt(b, x.Generation, 10)
	b = append(b, `,"ready":`...)
	b = strconv.AppendInt(b, int64(x.state), 10)
	b = append(b, `}}`...)
	m.buf = b
	return string(b)
}

// stamp writes a second since the Unix epoch as a time of one day, which is enough to differ.
func stamp(b []byte, second int64) []byte {
	two := func(v int64) { b = append(b, byte('0'+v/10), byte('0'+v%10)) }
	b = append(b, "2026-05-29T"...)
	two(second / 3600 % 24)
	b = append(b, ':')
	two(second / 60 % 60)
	b = append(b, ':')
	two(second % 60)
	return append(b, 'Z')
}
