package replay

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/opreplay/opreplay/internal/apicall"
	"github.com/opreplay/opreplay/traces"
)

// scene writes a trace by hand. Each row comes 100 ms after the one before.
type scene struct {
	t   *testing.T
	w   *traces.Writer
	dir string
	at  time.Time
}

var sceneStart = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

func newScene(t *testing.T, m traces.Manifest) *scene {
	t.Helper()
	s := &scene{t: t, dir: filepath.Join(t.TempDir(), "t.optrace"), at: sceneStart}
	m.Created = sceneStart
	var err error
	if s.w, err = traces.Create(s.dir, m, traces.WriterOptions{RotateAge: -1}); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *scene) tick() int64 {
	s.at = s.at.Add(100 * time.Millisecond)
	return s.at.UnixNano()
}

func (s *scene) append(r traces.Record) int64 {
	s.t.Helper()
	if err := s.w.Append(r); err != nil {
		s.t.Fatal(err)
	}
	return r.Header().Seq
}

// watch adds an event of an object. RESOURCE is PLURAL or PLURAL.GROUP, in version v1.
func (s *scene) watch(process string, typ traces.EventType, resource string, o thing) int64 {
	s.t.Helper()
	gr := schema.ParseGroupResource(resource)
	e, err := apicall.Event(gr.WithVersion("v1"), typ, []byte(o.json()))
	if err != nil {
		s.t.Fatal(err)
	}
	e.TS, e.Process, e.Stream = s.tick(), process, process+"/"+resource
	return s.append(e)
}

// call adds a call of a process that answered with an object, or none.
func (s *scene) call(process, verb, resource string, code int32, body string, answer *thing) int64 {
	s.t.Helper()
	gr := schema.ParseGroupResource(resource)
	r := &traces.Request{
		Process: process, Verb: verb, Code: code, RequestBody: body, StartSeq: s.w.Seq(), Start: s.tick(), UserAgent: process + "/v1",
	}
	r.Group, r.Version, r.Resource = gr.Group, "v1", gr.Resource
	if answer != nil {
		r.Namespace, r.Name, r.UID, r.ResourceVersion = answer.ns(), answer.name, answer.uid, answer.rv
		if verb != "delete" {
			r.ResponseBody = answer.json()
		}
	}
	r.TS = s.tick()
	return s.append(r)
}

// script ends the trace and makes a script of it.
func (s *scene) script(given Identity) *Script {
	s.t.Helper()
	t := s.open()
	id, err := Identify(context.Background(), t, given, "op")
	if err != nil {
		s.t.Fatal(err)
	}
	h, err := readHistory(context.Background(), t, &id)
	if err != nil {
		s.t.Fatal(err)
	}
	return makeScript(h)
}

func (s *scene) open() *traces.Trace {
	s.t.Helper()
	if err := s.w.Close(); err != nil {
		s.t.Fatal(err)
	}
	t, err := traces.Open(s.dir)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = t.Close() })
	return t
}

// thing is an object in the namespace "a".
type thing struct {
	name, uid  string
	rv         int64
	size       int
	finalizers []string
	deleting   bool
	owner      string // uid
	manager    string
	created    time.Time // default: long ago
	cluster    bool      // no namespace
}

func (o thing) ns() string {
	if o.cluster {
		return ""
	}
	return "a"
}

func (o thing) json() string {
	created := o.created
	if created.IsZero() {
		created = sceneStart.Add(-time.Hour)
	}
	m := map[string]any{
		"name": o.name, "uid": o.uid, "resourceVersion": fmt.Sprint(o.rv), "creationTimestamp": created.Format(time.RFC3339),
	}
	if !o.cluster {
		m["namespace"] = "a"
	}
	if o.finalizers != nil {
		m["finalizers"] = o.finalizers
	}
	if o.deleting {
		m["deletionTimestamp"] = sceneStart.Format(time.RFC3339)
	}
	if o.owner != "" {
		m["ownerReferences"] = []any{map[string]any{"apiVersion": "v1", "kind": "Thing", "name": "x", "uid": o.owner}}
	}
	if o.manager != "" {
		m["managedFields"] = []any{map[string]any{"manager": o.manager, "operation": "Update", "time": sceneStart.Add(time.Duration(o.rv) * time.Second).Format(time.RFC3339)}}
	}
	text, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Thing", "metadata": m, "spec": map[string]any{"size": o.size}})
	if err != nil {
		panic(err)
	}
	return string(text)
}
