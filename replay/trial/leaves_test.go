package trial

import (
	"reflect"
	"testing"

	"github.com/opreplay/opreplay/traces"
)

const (
	uidA = "11111111-2222-4333-8444-555555555555"
	uidB = "99999999-2222-4333-8444-555555555555"
)

// tell makes a story of objects, one row each.
func tell(objects ...*traces.WatchEvent) *story {
	s := newStory([]string{"op"})
	for i, w := range objects {
		w.Seq, w.TS, w.Process = int64(i+1), int64(i+1), everything
		if w.Type == "" {
			w.Type = string(traces.Added)
		}
		w.ObjectHash = traces.HashObject(w.Object)
		s.see(w)
	}
	return s
}

func widget(name, uid, object string) *traces.WatchEvent {
	return &traces.WatchEvent{
		Identity: traces.Identity{Group: "x.io", Resource: "widgets", Namespace: "a", Name: name, UID: uid}, Object: object,
	}
}

func TestLeaves(t *testing.T) {
	s := tell(
		widget("w", uidA, `{"metadata":{"name":"w","uid":"`+uidA+`","resourceVersion":"7","generation":3,"labels":{"a.b/c":"d"}},
			"spec":{"empty":{},"sizes":[3,1,2],"owner":"`+uidB+`"},
			"status":{"observedGeneration":3,"at":"2026-01-02T03:04:05Z","conditions":[{"type":"Ready","status":"True","observedGeneration":2}]}}`),
		widget("gone", uidB, `{"metadata":{"name":"gone","uid":"`+uidB+`"}}`),
	)
	s.objects[1].gone = true
	want := map[string]string{
		"metadata.labels[a.b/c]":                      "d",
		"spec.sizes":                                  "[1 2 3]",
		"spec.owner":                                  "<uid of a former widgets.x.io a/gone>",
		"status.observedGeneration":                   current,
		"status.at":                                   aTime,
		"status.conditions[Ready].type":               "Ready",
		"status.conditions[Ready].status":             "True",
		"status.conditions[Ready].observedGeneration": older,
	}
	if got := s.leaves(s.objects[0]); !reflect.DeepEqual(got, want) {
		t.Errorf("leaves %v, want %v", got, want)
	}
}

// Two things of a list whose names stand for the same are both there, the same each time.
func TestLeavesWhoseNamesStandForTheSame(t *testing.T) {
	s := tell(widget("w", uidA, `{"metadata":{"name":"w"},"spec":{"members":[
		{"name":"99999999-2222-4333-8444-555555555551","size":2},{"name":"99999999-2222-4333-8444-555555555552","size":1},{"name":"x","size":3}]}}`))
	want := map[string]string{
		"spec.members[<uid>]": "[{name=<uid> size=1} {name=<uid> size=2}]", "spec.members[x].name": "x", "spec.members[x].size": "3",
	}
	for range 20 {
		if got := s.leaves(s.objects[0]); !reflect.DeepEqual(got, want) {
			t.Fatalf("leaves %v, want %v", got, want)
		}
	}
}

func oracles(all []Alarm) (names []string) {
	for _, a := range all {
		names = append(names, a.Oracle+" "+a.Object+" "+a.Field)
	}
	return names
}

func TestCompare(t *testing.T) {
	ref := func() *story {
		return tell(
			widget("a", uidA, `{"metadata":{"name":"a","generation":1},"spec":{"size":1},"status":{"ready":3,"note":"x"}}`),
			widget("b", uidB, `{"metadata":{"name":"b"},"spec":{"size":2}}`),
			widget("job-x1", "1", `{"metadata":{"name":"job-x1","generateName":"job-"}}`),
		)
	}
	for name, c := range map[string]struct {
		run  *story
		mask func(*mask)
		want []string
	}{
		"times, versions, names of the server's making": {
			run: tell(
				widget("a", uidA, `{"metadata":{"name":"a","generation":4,"resourceVersion":"9"},"spec":{"size":1},"status":{"ready":3,"note":"x"}}`),
				widget("b", "2", `{"metadata":{"name":"b"},"spec":{"size":2}}`),
				widget("job-q7", "3", `{"metadata":{"name":"job-q7","generateName":"job-"}}`),
			),
		},
		"a field, one too many, one missing": {
			run: tell(
				widget("a", uidA, `{"metadata":{"name":"a","generation":1},"spec":{"size":1},"status":{"ready":2,"note":"y"}}`),
				widget("c", "2", `{"metadata":{"name":"c"}}`),
				widget("job-x1", "1", `{"metadata":{"name":"job-x1","generateName":"job-"}}`),
				widget("job-x2", "3", `{"metadata":{"name":"job-x2","generateName":"job-"}}`),
			),
			mask: func(m *mask) { m.fields["widgets.x.io status.note"] = true },
			want: []string{"differs widgets.x.io a/a status.ready", "missing widgets.x.io a/b ", "extra widgets.x.io a/c ", "extra widgets.x.io a/job-* "},
		},
	} {
		m := newMask()
		if c.mask != nil {
			c.mask(m)
		}
		if got := oracles(compare(ref(), c.run, m)); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// What differs between two unaltered runs is no alarm, and what else differs of the same object is.
func TestMaskLearns(t *testing.T) {
	one := tell(widget("a", uidA, `{"spec":{"size":1},"status":{"by":"x"}}`))
	two := tell(widget("a", uidA, `{"spec":{"size":1},"status":{"by":"y"}}`))
	m := newMask()
	m.learn(one, two)
	run := tell(widget("a", uidA, `{"spec":{"size":2},"status":{"by":"z"}}`))
	if got, want := oracles(compare(one, run, m)), []string{"differs widgets.x.io a/a spec.size"}; !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func write(process, verb, resource, name, body string, at int64) *traces.Request {
	return &traces.Request{
		Head: traces.Head{Seq: at, TS: at}, Start: at, Process: process, Verb: verb, Code: 200, RequestBody: body,
		Identity: traces.Identity{Resource: resource, Namespace: "a", Name: name},
	}
}

// An object that the operator deleted and that was made again shows only in the counts: the end is the same.
func TestRemadeAndTwice(t *testing.T) {
	ref, run := newStory([]string{"op"}), newStory([]string{"op"})
	object := func(s *story, uid string, typ traces.EventType) {
		w := widget("claim", uid, `{"metadata":{"name":"claim"}}`)
		w.Identity.Group, w.Resource, w.Type, w.Process, w.ObjectHash = "", "claims", string(typ), everything, "h"
		s.see(w)
	}
	object(ref, "1", traces.Added)
	object(run, "1", traces.Added)
	run.see(write("op", "delete", "claims", "claim", "", 5))
	object(run, "1", traces.Deleted)
	object(run, "2", traces.Added)
	body := `{"metadata":{"generateName":"job-"}}`
	for _, s := range []*story{ref, run, run} {
		s.see(write("op", "create", "jobs", "job-1", body, 6))
	}
	if got := compare(ref, run, newMask()); len(got) != 0 {
		t.Errorf("the ends differ: %v", oracles(got))
	}
	want := []string{"remade claims a/claim ", "twice jobs a/job-* "}
	if got := oracles(counts(ref, run, newMask())); !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
