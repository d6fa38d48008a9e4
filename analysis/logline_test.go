package analysis

import (
	"fmt"
	"maps"
	"testing"

	"github.com/opreplay/opreplay/traces"
)

// log is a line with fields as controller-runtime writes them.
func (c *cluster) log(by, level, message string, fields m) {
	row := &traces.Log{Process: by, Stream: "stderr", Level: level, Message: message}
	if fields != nil {
		row.Fields = text(fields)
	}
	c.add(row)
}

// failed is the line of a reconcile that returned an error.
func (c *cluster) failed(by string, r ref, err string, more ...m) {
	c.log(by, "error", "Reconciler error", fieldsOf(r, c.seq, append(more, m{"error": err})...))
}

func fieldsOf(r ref, pass int64, more ...m) m {
	f := m{
		"controller": r.resource[:len(r.resource)-1], "controllerGroup": r.group, "controllerKind": r.kind.kind, "namespace": "shop", "name": r.name,
		"reconcileID": fmt.Sprintf("00000000-0000-0000-0000-%012d", pass),
	}
	for _, x := range more {
		maps.Copy(f, x)
	}
	return f
}

func TestReadLog(t *testing.T) {
	s := readLog(&traces.Log{Fields: `{"controller":"site","controllerGroup":"web.example.com","controllerKind":"Site","Site":{"name":"no"},"namespace":"shop","name":"front","reconcileID":"r1","error":"no \"x\"\nat all"}`})
	want := said{controller: "site", group: "web.example.com", kind: "Site", namespace: "shop", name: "front", pass: "r1", err: "no \"x\"\nat all"}
	if s != want {
		t.Errorf("got %+v", s)
	}
	if s.key() != "site shop/front" {
		t.Error(s.key())
	}
	c := newCluster(t)
	site(c, "front")
	var o Object
	model := newModel(&traces.Manifest{}, listen(nil))
	for _, row := range c.rows {
		if w, ok := row.(*traces.WatchEvent); ok {
			model.watch(w)
		}
	}
	model.finish()
	if o, _ = s.object(model); o.String() != "sites.web.example.com shop/front" || o.UID == "" {
		t.Errorf("the key is not found among the objects: %+v", o)
	}
}

func TestSteadyMessages(t *testing.T) {
	a := steady("pod 7c9e6679-7425-40de-944b-e07fc1f90ae7 at 0xc000123 failed 3 times")
	if b := steady("pod 0c9e6679-7425-40de-944b-e07fc1f90ae8 at 0xc0002f failed 14 times"); a != b {
		t.Error(a, b)
	}
}
