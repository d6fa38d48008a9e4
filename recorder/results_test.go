package recorder

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/opreplay/opreplay/traces"
)

// told is an event that the recorder's watch tells of: a version with fields of its object.
func told(kind traces.EventType, version int64, metadata, fields string) *traces.WatchEvent {
	if metadata != "" {
		metadata = "," + metadata
	}
	if fields != "" {
		fields = "," + fields
	}
	return &traces.WatchEvent{
		Identity: traces.Identity{Version: "v1", Resource: "pods", Namespace: "ns", Name: "a", UID: "u", ResourceVersion: version},
		Type:     string(kind), Stream: "capture/core/pods", Process: Process,
		Object: fmt.Sprintf(`{"metadata":{"name":"a","resourceVersion":"%d"%s}%s}`, version, metadata, fields),
	}
}

func managed(names ...string) string {
	var all []string
	for i, n := range names {
		all = append(all, fmt.Sprintf(`{"manager":%q,"time":"2026-11-30T10:00:%02dZ"}`, n, i))
	}
	return `"managedFields":[` + strings.Join(all, ",") + `]`
}

// What a write made is told where it is certain, and only there. The object is at version 10 when it begins.
func TestResults(t *testing.T) {
	const began, ended = 100 * ms, 110 * ms
	first := told(traces.Added, 10, `"finalizers":["f"],`+managed("op"), `"spec":{"a":1}`)
	type event struct {
		at time.Duration
		e  *traces.WatchEvent
	}
	for _, c := range []struct {
		name, verb, body string
		code             int32
		events           []event
		version          int64 // 0: unclear
		made             bool
	}{
		{
			"a patch", "patch", `{"spec":{"a":2}}`, 200,
			[]event{{105 * ms, told(traces.Modified, 11, "", `"spec":{"a":2}`)}},
			11, true,
		},
		{
			"a patch after an outsider's", "patch", `{"spec":{"a":2}}`, 200,
			[]event{{104 * ms, told(traces.Modified, 11, "", `"spec":{"a":1,"b":1}`)}, {105 * ms, told(traces.Modified, 12, "", `"spec":{"a":2,"b":1}`)}},
			12, true,
		},
		{
			"a patch before an outsider's", "patch", `{"spec":{"a":2}}`, 200,
			[]event{{104 * ms, told(traces.Modified, 11, "", `"spec":{"a":2}`)}, {105 * ms, told(traces.Modified, 12, "", `"spec":{"a":2,"b":1}`)}},
			11, true,
		},
		{"a patch that changes nothing", "patch", `{"spec":{"a":1}}`, 200, nil, 10, false},
		{
			"a patch that changes nothing, unless the version is its own", "patch", `{"spec":{"a":1}}`, 200,
			[]event{{105 * ms, told(traces.Modified, 11, "", `"spec":{"a":1,"b":1}`)}},
			0, false,
		},
		{
			"a patch whose event comes late", "patch", `{"spec":{"a":2}}`, 200,
			[]event{{ended + resultTime - ms, told(traces.Modified, 11, "", `"spec":{"a":2}`)}},
			11, true,
		},
		{"a patch whose event does not come", "patch", `{"spec":{"a":2}}`, 200, nil, 0, false},
		{
			"a patch that takes away", "patch", `{"spec":{"a":null}}`, 200,
			[]event{{105 * ms, told(traces.Modified, 11, "", `"spec":{}`)}},
			11, true,
		},
		{
			"a JSON patch", "patch", `[{"op":"test","path":"/spec/a","value":1},{"op":"replace","path":"/spec/a","value":2}]`, 200,
			[]event{{105 * ms, told(traces.Modified, 11, "", `"spec":{"a":2}`)}},
			11, true,
		},
		{
			"an update", "update", `{"metadata":{"name":"a","resourceVersion":"10"},"spec":{"a":2}}`, 200,
			[]event{{105 * ms, told(traces.Modified, 11, "", `"spec":{"a":2}`)}, {106 * ms, told(traces.Modified, 12, "", `"spec":{"a":2,"b":1}`)}},
			11, true,
		},
		{
			"an update that changes nothing, and an outsider", "update", `{"metadata":{"name":"a","finalizers":["f"],"resourceVersion":"10"},"spec":{"a":1}}`, 200,
			[]event{{105 * ms, told(traces.Modified, 11, `"finalizers":["f"]`, `"spec":{"a":1,"b":1}`)}},
			10, false,
		},
		{
			"an update that takes the finalizer away", "update", `{"metadata":{"name":"a","resourceVersion":"10"},"spec":{"a":1}}`, 200,
			[]event{{105 * ms, told(traces.Modified, 11, "", `"spec":{"a":1}`)}},
			11, true,
		},
		{
			"a refused one", "update", `{"metadata":{"resourceVersion":"10"},"spec":{"a":2}}`, 409,
			[]event{{105 * ms, told(traces.Modified, 11, "", `"spec":{"a":2}`)}},
			0, false,
		},
		{
			"a deletion that waits", "delete", "", 200,
			[]event{{105 * ms, told(traces.Modified, 11, `"deletionTimestamp":"2026-11-30T10:00:00Z"`, "")}, {106 * ms, told(traces.Deleted, 12, `"deletionTimestamp":"2026-11-30T10:00:00Z"`, "")}},
			11, true,
		},
		{
			"a creation after a deletion", "create", `{"metadata":{"name":"a"}}`, 201,
			[]event{{20 * ms, told(traces.Deleted, 11, "", "")}, {105 * ms, told(traces.Added, 12, "", "")}},
			12, true,
		},
		{
			"a creation with a name of the server's", "create", `{"metadata":{"generateName":"a-"},"spec":{"z":1}}`, 201,
			[]event{{105 * ms, renamed("a-x", told(traces.Added, 12, `"generateName":"a-"`, `"spec":{"z":2}`))}, {106 * ms, renamed("a-y", told(traces.Added, 13, `"generateName":"a-"`, `"spec":{"z":1}`))}},
			13, true,
		},
	} {
		r := newResults(func(string, string, string) bool { return true })
		r.hear(ms, first)
		for _, e := range c.events {
			r.hear(e.at, e.e)
		}
		row := &traces.Request{Identity: traces.Identity{Version: "v1", Resource: "pods", Namespace: "ns", Name: "a"}, Verb: c.verb, Code: c.code, RequestBody: c.body}
		if strings.Contains(c.body, "generateName") {
			row.Name = ""
		}
		made := r.of(row, began, ended)
		if row.ResourceVersion != c.version || (made != nil) != c.made || c.version != 0 && row.UID != "u" || made != nil && row.Name != made.Name {
			t.Errorf("%s: version %d of %q, uid %q, made %+v; want %d, %t", c.name, row.ResourceVersion, row.Name, row.UID, made, c.version, c.made)
		}
		if unclear := c.version == 0 && c.code < 300; unclear != (r.unclear == 1) {
			t.Errorf("%s: %d are counted as unclear", c.name, r.unclear)
		}
	}
}

func renamed(name string, e *traces.WatchEvent) *traces.WatchEvent {
	e.Name = name
	return e
}

// A deletion at once is answered with a Status, which has no version. One call makes a version, not two.
func TestResultsAreClaimedOnce(t *testing.T) {
	r := newResults(func(_, resource, _ string) bool { return resource == "pods" })
	r.hear(ms, told(traces.Added, 10, "", ""))
	r.hear(105*ms, told(traces.Deleted, 11, "", ""))
	call := func(resource string) *traces.Request {
		return &traces.Request{Identity: traces.Identity{Version: "v1", Resource: resource, Namespace: "ns", Name: "a"}, Verb: "delete", Code: http.StatusOK}
	}
	one, two, other := call("pods"), call("pods"), call("nodes")
	if made := r.of(one, 100*ms, 110*ms); made == nil || one.UID != "u" || one.ResourceVersion != 0 {
		t.Errorf("%+v made %+v", one, made)
	}
	if made := r.of(two, 101*ms, 111*ms); made != nil || two.UID != "" || r.unclear != 1 {
		t.Errorf("%+v made %+v", two, made)
	}
	if made := r.of(other, 101*ms, 111*ms); made != nil || r.unwatched != 1 {
		t.Errorf("%+v made %+v", other, made)
	}
}

// A process's field manager is learnt from what it is seen to write, unless it has several.
func TestFieldManagersAreLearnt(t *testing.T) {
	r := newResults(func(string, string, string) bool { return true })
	write := func(at time.Duration, query, body string) string {
		row := &traces.Request{
			Identity: traces.Identity{Version: "v1", Resource: "pods", Namespace: "ns", Name: "a"}, Process: "p", Verb: "patch", Code: http.StatusOK,
			RequestBody: body, FieldManager: query,
		}
		r.of(row, at, at+ms)
		return row.FieldManager
	}
	r.hear(ms, told(traces.Added, 10, managed("user"), ""))
	if got := write(10*ms, "", `{"spec":{"a":9}}`); got != "" {
		t.Errorf("nothing is known, and it is %q", got)
	}
	r.hear(21*ms, told(traces.Modified, 11, managed("user", "op"), `"spec":{"a":1}`))
	if got := write(20*ms, "", `{"spec":{"a":1}}`); got != "op" {
		t.Errorf("%q", got)
	}
	if got := write(5000*ms, "", `{"spec":{"a":1}}`); got != "op" {
		t.Errorf("a call that changes nothing: %q", got)
	}
	if got := write(5000*ms, "named", `{"spec":{"a":1}}`); got != "named" {
		t.Errorf("a call that names one: %q", got)
	}
	r.hear(9001*ms, told(traces.Modified, 12, managed("user", "op", "elector"), `"spec":{"a":2}`))
	if got := write(9000*ms, "", `{"spec":{"a":2}}`); got != "elector" {
		t.Errorf("%q", got)
	}
	if got := write(20000*ms, "", `{"spec":{"a":2}}`); got != "" {
		t.Errorf("one of two: %q", got)
	}
}
