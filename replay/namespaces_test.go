package replay

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/opreplay/opreplay/sim/actor"
	"github.com/opreplay/opreplay/traces"
)

// TestDeletedNamespaceEnds: in a run that is Live a namespace that is deleted ends, with what is in it, five virtual
// seconds later, and each time in the same way.
func TestDeletedNamespaceEnds(t *testing.T) {
	needVirtual(t)
	o, err := caseTask(t, "statusloop", "--fixed").options()
	if err != nil {
		t.Fatal(err)
	}
	o.Live = true
	s, err := Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	doomed := actor.Ref{Version: "v1", Resource: "namespaces", Name: "doomed"}
	for i, step := range []actor.Step{
		{Ref: doomed, Kind: actor.Create, After: `{"metadata":{"name":"doomed"}}`},
		{Ref: actor.Ref{Version: "v1", Resource: "configmaps", Namespace: "doomed", Name: "c"}, Kind: actor.Create, After: `{"metadata":{"name":"c","namespace":"doomed"}}`},
		{Ref: doomed, Kind: actor.Delete, Before: `{"metadata":{"name":"doomed"}}`, After: `{"metadata":{"name":"doomed","deletionTimestamp":"2026-01-01T00:00:00Z"}}`},
	} {
		step.At = s.script.Span + time.Duration(i)*time.Second
		s.script.Steps = append(s.script.Steps, step)
	}
	s.script.Span += 20 * time.Second
	play := func() (lines []string) {
		rows := &Rows{}
		if _, err := s.Play(context.Background(), Variant{Rows: rows}); err != nil {
			t.Fatal(err)
		}
		var deleted int64
		for _, r := range rows.All {
			w, ok := r.(*traces.WatchEvent)
			if !ok || w.Process != captureProcess || w.Name != "doomed" && w.Namespace != "doomed" || w.Resource == "events" {
				continue
			}
			if w.Name == "doomed" && w.Type == string(traces.Modified) && deleted == 0 {
				deleted = w.TS
			}
			lines = append(lines, fmt.Sprintf("%s %s %s", w.Type, w.Resource, w.Name))
			if w.Name == "doomed" && w.Type == string(traces.Deleted) {
				if after := time.Duration(w.TS - deleted); after < actor.NamespaceGrace || after > actor.NamespaceGrace+time.Second {
					t.Errorf("it was gone %s after its deletion", after)
				}
			}
		}
		return lines
	}
	want := []string{
		"ADDED namespaces doomed", "ADDED configmaps c", "MODIFIED namespaces doomed", // a deletion
		"DELETED configmaps c", "MODIFIED namespaces doomed", // its conditions
		"DELETED namespaces doomed",
	}
	for range 2 {
		if got := play(); !slices.Equal(got, want) {
			t.Errorf("the cluster saw %q, want %q", got, want)
		}
	}
}

// TestUndertaker: what the script or kube-controller-manager does is left to them.
func TestUndertaker(t *testing.T) {
	end := actor.Step{Ref: actor.Ref{Version: "v1", Resource: "namespaces", Name: "scripted"}, Kind: actor.Delete}
	s := &Script{Steps: []actor.Step{end}}
	if u := newUndertaker(s, []*Operator{{Command: []string{"/bin/kube-controller-manager"}}}); u != nil {
		t.Error("kube-controller-manager is there, and there is another one")
	}
	u := newUndertaker(s, []*Operator{{Command: []string{"/bin/manager"}}})
	for _, name := range []string{"scripted", "other", "other", "alive"} {
		object := `{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"}}`
		if name == "alive" {
			object = `{"metadata":{}}`
		}
		w := &traces.WatchEvent{Type: string(traces.Modified), Object: object}
		w.Resource, w.Name, w.UID = "namespaces", name, name
		u.see(w)
	}
	if !slices.Equal(u.due, []string{"other"}) {
		t.Errorf("it ends %q", u.due)
	}
}
