package analysis

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/opreplay/opreplay/traces"
)

// cluster makes the rows that a recording of a cluster would have: a watch of the recorder's and one of each
// operator's deliver every version, each call of an operator's is a row at its end. It knows optimistic locking,
// finalizers, no-op writes and generations; what the objects mean is the test's to say.
type cluster struct {
	t       testing.TB
	rows    []traces.Record
	now     time.Duration // since start
	seq, rv int64
	objects map[string]map[string]any
	hidden  map[string]bool // operators that have no watch
	ops     []string
	flip    bool // whether the watch event or the answer comes first
	lag     time.Duration
}

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newCluster(t testing.TB, operators ...string) *cluster {
	return &cluster{t: t, rv: 1000, objects: map[string]map[string]any{}, ops: operators, lag: 2 * time.Millisecond}
}

func (c *cluster) ts() int64 { return start.Add(c.now).UnixNano() }

// stamp is the time now, as a status would hold it.
func (c *cluster) stamp() string { return start.Add(c.now).Format("2006-01-02T15:04:05.000000Z") }

func (c *cluster) sleep(d time.Duration) { c.now += d }

func (c *cluster) add(r traces.Record) {
	c.seq++
	r.Header().Seq = c.seq
	r.Header().TS = c.ts()
	c.rows = append(c.rows, r)
}

type kind struct{ group, version, resource, kind string }

var (
	sites     = kind{"web.example.com", "v1", "sites", "Site"}
	databases = kind{"data.example.com", "v1", "databases", "Database"}
	records   = kind{"dns.example.com", "v1", "records", "Record"}
	zones     = kind{"dns.example.com", "v1", "zones", "Zone"}
	configs   = kind{"", "v1", "configmaps", "ConfigMap"}
	leases    = kind{"coordination.k8s.io", "v1", "leases", "Lease"}
)

// ref is an object by kind and name, all in one namespace.
type ref struct {
	kind
	name string
}

func (r ref) key() string { return r.group + "/" + r.resource + "/" + r.name }

type m = map[string]any

func (c *cluster) identity(r ref, o m) traces.Identity {
	id := traces.Identity{Group: r.group, Version: r.version, Resource: r.resource, Namespace: "shop", Name: r.name}
	if o != nil {
		meta := o["metadata"].(m)
		id.UID = meta["uid"].(string)
		id.ResourceVersion, _ = strconv.ParseInt(meta["resourceVersion"].(string), 10, 64)
		id.Generation, _ = meta["generation"].(int64)
	}
	return id
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func clone(v any) any {
	switch x := v.(type) {
	case m:
		out := m{}
		for k, v := range x {
			out[k] = clone(v)
		}
		return out
	case []any:
		out := make([]any, len(x))
		for i := range x {
			out[i] = clone(x[i])
		}
		return out
	}
	return v
}

// get is a copy of the object as it is now.
func (c *cluster) get(r ref) m {
	o := c.objects[r.key()]
	if o == nil {
		return nil
	}
	return clone(o).(m)
}

func (c *cluster) rvOf(r ref) int64 { return c.identity(r, c.objects[r.key()]).ResourceVersion }

// call is a request that has begun.
type call struct {
	c      *cluster
	row    traces.Request
	by     string
	target ref
}

// begin starts a write. by is an operator, or a user, whose calls nobody recorded.
func (c *cluster) begin(by, verb, sub string, r ref) *call {
	return &call{c: c, by: by, target: r, row: traces.Request{
		Identity: c.identity(r, nil), StartSeq: c.seq, Start: c.ts(), Process: by, User: "system:serviceaccount:shop:" + by,
		UserAgent: by + "/v1 (linux/amd64)", Verb: verb, Subresource: sub, FieldManager: by, Attempt: 1,
		ContentType: map[string]string{"patch": "application/merge-patch+json", "update": "application/json", "create": "application/json"}[verb],
	}}
}

// base makes it a write that names its base.
func (k *call) base(rv int64) *call {
	k.row.RequestBody = fmt.Sprintf(`{"metadata":{"name":%q,"resourceVersion":"%d"}}`, k.target.name, rv)
	return k
}

func (k *call) body(v any) *call {
	k.row.RequestBody = text(v)
	return k
}

func (k *call) apply(manager string) *call {
	k.row.ContentType, k.row.FieldManager = "application/apply-patch+yaml", manager
	return k
}

func (k *call) end(code int32, reason string) {
	k.row.Code, k.row.Reason = code, reason
	if slices.Contains(k.c.ops, k.by) {
		k.c.add(&k.row)
	}
}

// refuse ends the call with an error.
func (k *call) refuse(code int32, reason string) {
	k.c.sleep(time.Millisecond)
	k.end(code, reason)
}

// commit ends the call with the object changed as told, if that is a change.
func (k *call) commit(change func(o m)) {
	c, r := k.c, k.target
	c.sleep(time.Millisecond)
	old := c.objects[r.key()]
	o := m{"apiVersion": r.group + "/" + r.version, "kind": r.kind.kind, "metadata": m{
		"name": r.name, "namespace": "shop", "uid": fmt.Sprintf("uid-%s-%d", r.name, c.rv), "resourceVersion": "0", "generation": int64(1),
		"creationTimestamp": c.stamp(),
	}}
	if old != nil {
		o = clone(old).(m)
	}
	change(o)
	meta := o["metadata"].(m)
	if old != nil && text(o) == text(old) {
		k.row.Identity = c.identity(r, o)
		k.end(200, "")
		return
	}
	c.rv++
	meta["resourceVersion"] = strconv.FormatInt(c.rv, 10)
	if old != nil && text(o["spec"]) != text(old["spec"]) {
		meta["generation"] = meta["generation"].(int64) + 1
	}
	meta["managedFields"] = []any{m{"manager": k.by, "operation": "Update", "subresource": k.row.Subresource, "time": start.Add(c.now).Format(time.RFC3339)}}
	kind := traces.Modified
	if old == nil {
		kind = traces.Added
	}
	finalizers, _ := meta["finalizers"].([]any)
	if meta["deletionTimestamp"] != nil && len(finalizers) == 0 {
		kind = traces.Deleted
	}
	k.row.Identity = c.identity(r, o)
	c.objects[r.key()] = o
	if kind == traces.Deleted {
		delete(c.objects, r.key())
	}
	if c.flip = !c.flip; c.flip {
		k.end(200, "")
		c.deliver(r, o, kind)
	} else {
		c.deliver(r, o, kind)
		k.end(200, "")
	}
}

func (c *cluster) deliver(r ref, o m, kind traces.EventType) {
	body := text(o)
	for _, who := range append([]string{"oprec"}, c.ops...) {
		if c.hidden[who] {
			continue
		}
		if who != "oprec" {
			c.now += c.lag / time.Duration(len(c.ops))
		}
		c.add(&traces.WatchEvent{Identity: c.identity(r, o), Stream: who + "/" + r.resource, Process: who, Type: string(kind), Object: body, ObjectHash: "h"})
	}
}

// The writes that tests make most.

func (c *cluster) create(by string, r ref, content m) {
	c.begin(by, "create", "", r).commit(func(o m) {
		for k, v := range content {
			if k == "metadata" {
				maps.Copy(o["metadata"].(m), clone(v).(m))
				continue
			}
			o[k] = clone(v)
		}
	})
}

func (c *cluster) spec(by string, r ref, spec any) {
	c.begin(by, "patch", "", r).commit(func(o m) { o["spec"] = clone(spec) })
}

func (c *cluster) status(by string, r ref, status any) {
	c.begin(by, "patch", "status", r).commit(func(o m) { o["status"] = clone(status) })
}

func (c *cluster) delete(by string, r ref) {
	c.begin(by, "delete", "", r).commit(func(o m) { o["metadata"].(m)["deletionTimestamp"] = start.Add(c.now).Format(time.RFC3339) })
}

func (c *cluster) finalizers(by string, r ref, names ...any) {
	c.begin(by, "patch", "", r).commit(func(o m) { o["metadata"].(m)["finalizers"] = names })
}

func (c *cluster) errorLog(by, message, name string) {
	c.add(&traces.Log{Process: by, Stream: "stderr", Level: "error", Message: message, Fields: text(m{"name": name})})
}

// pass is a reconcile of the object in which the operator does the work; trigger is the seq of the event that queued it.
func (c *cluster) pass(by, controller string, r ref, trigger int64, work func()) *traces.Reconcile {
	begun := len(c.rows)
	p := &traces.Reconcile{Process: by, Controller: controller, Namespace: "shop", Name: r.name, Start: c.ts(), Trigger: trigger, Outcome: "success", KnownBy: "probe"}
	work()
	c.add(p)
	for _, r := range c.rows[begun:] {
		switch x := r.(type) {
		case *traces.Request:
			if x.Process == by {
				x.ReconcileID = p.Seq
			}
		case *traces.Sample:
			x.ReconcileID = p.Seq
		}
	}
	return p
}

// told is the seq of the last event that the operator was told of the object.
func (c *cluster) told(by string, r ref) int64 {
	for i := len(c.rows) - 1; i >= 0; i-- {
		if w, ok := c.rows[i].(*traces.WatchEvent); ok && w.Process == by && w.Resource == r.resource && w.Name == r.name {
			return w.Seq
		}
	}
	c.t.Fatalf("%s was never told of %s", by, r.name)
	return 0
}

// quiet lets time pass until something unrelated is seen, as the end of a recording.
func (c *cluster) quiet(d time.Duration) {
	c.sleep(d)
	c.create("someone", ref{configs, fmt.Sprintf("end-%d", c.seq)}, m{"data": m{}})
}

func (c *cluster) records() iter.Seq2[traces.Record, error] { return each(c.rows) }

func each(rows []traces.Record) iter.Seq2[traces.Record, error] {
	return func(yield func(traces.Record, error) bool) {
		for _, r := range rows {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// rename gives an operator another name in all that was recorded.
func (c *cluster) rename(from, to string) {
	for _, r := range c.rows {
		switch x := r.(type) {
		case *traces.Request:
			if x.Process == from {
				x.Process = to
			}
		case *traces.WatchEvent:
			if x.Process == from {
				x.Process, x.Stream = to, to+"/"+x.Resource
			}
		}
	}
}

// analyze runs all detectors, or those given, over what happened.
func (c *cluster) analyze(detectors ...Detector) *Result {
	c.t.Helper()
	r, err := Records(context.Background(), c.records(), &traces.Manifest{Source: "run"}, "t.optrace", Options{Detectors: detectors})
	if err != nil {
		c.t.Fatal(err)
	}
	return r
}

// only is the one finding there must be.
func (r *Result) only(t testing.TB, detector string) *Finding {
	t.Helper()
	if len(r.Findings) != 1 || r.Findings[0].Detector != detector {
		t.Fatalf("want one finding of %s, got %s", detector, r.describe())
	}
	return &r.Findings[0]
}

func (r *Result) none(t testing.TB) {
	t.Helper()
	if len(r.Findings) != 0 {
		t.Fatalf("want no findings, got %s", r.describe())
	}
}

func (r *Result) describe() string {
	s := ""
	for _, f := range r.Findings {
		s += fmt.Sprintf("\n  %s %s: %s. %s.", f.Severity, f.Detector, f.What, f.Cause)
	}
	for _, n := range r.Notes {
		s += fmt.Sprintf("\n  note %s: %s", n.Detector, n.What)
	}
	return s
}

// statistic is the statistic of that name.
func (f *Finding) statistic(t testing.TB, name string) Statistic {
	t.Helper()
	for _, s := range f.Statistics {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("no statistic %q in %+v", name, f.Statistics)
	return Statistic{}
}

// shows is whether a place of the finding is put in these words.
func (f *Finding) shows(t testing.TB, what string) {
	t.Helper()
	if !slices.ContainsFunc(f.Evidence.Items, func(i Item) bool { return i.What == what }) {
		t.Errorf("no place is %q: %+v", what, f.Evidence.Items)
	}
}

func condition(kind, status, at string) m {
	return m{"type": kind, "status": status, "lastTransitionTime": at}
}
