package replay

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/opreplay/opreplay/sim/actor"
	"github.com/opreplay/opreplay/traces"
)

// wrote is a write of a widget, or of what RESOURCE says, in the namespace a.
func wrote(seq int64, verb, resource, name, sub string, code int32, body string) *traces.Request {
	r := &traces.Request{Verb: verb, Subresource: sub, Code: code, RequestBody: body, ContentType: "application/json"}
	r.Seq, r.Resource, r.Namespace, r.Name = seq, resource, "a", name
	if resource == "leases" {
		r.Group = "coordination.k8s.io"
	}
	return r
}

func TestDivergence(t *testing.T) {
	const (
		uidThen = "00000000-0000-0000-0000-000000000001"
		uidNow  = "11111111-0000-0000-0000-000000000001"
	)
	recorded := []*traces.Request{
		wrote(1, "create", "configmaps", "c", "", 201, `{"metadata":{"name":"c","ownerReferences":[{"uid":"`+uidThen+`"}]},"data":{"a":"1"}}`),
		wrote(2, "update", "widgets", "w", "status", 200, `{"metadata":{"resourceVersion":"7"},"status":{"at":"2026-01-01T00:00:00Z","n":1}}`),
		wrote(3, "update", "widgets", "w", "status", 200, `{"metadata":{"resourceVersion":"9"},"status":{"at":"2026-01-01T00:00:01Z","n":1}}`), // repetition
		wrote(4, "update", "widgets", "w", "status", 200, `{"status":{"n":2}}`),
		wrote(5, "update", "widgets", "w", "status", 409, `{"status":{"n":3}}`),
		wrote(6, "create", "pods", "db-x1", "", 201, `{"metadata":{"generateName":"db-"}}`),
		wrote(7, "create", "pods", "db-x2", "", 201, `{"metadata":{"generateName":"db-"},"spec":{"after":"db-x1"}}`),
		wrote(8, "delete", "configmaps", "old", "", 200, ``),
		wrote(9, "update", "leases", "lock", "", 200, `{}`),
		wrote(10, "create", "events", "e", "", 201, `{}`),
		wrote(11, "update", "configmaps", "lock", "", 200, `{"metadata":{"annotations":{"control-plane.alpha.kubernetes.io/leader":"x"}}}`),
	}
	run := []*traces.Request{
		wrote(21, "create", "configmaps", "c", "", 201, `{"metadata":{"name":"c","ownerReferences":[{"uid":"`+uidNow+`"}]},"data":{"a":"1"}}`),
		wrote(22, "update", "widgets", "w", "status", 200, `{"metadata":{"resourceVersion":"107"},"status":{"n":1,"at":"2026-02-02T00:00:00Z"}}`),
		wrote(23, "update", "widgets", "w", "status", 200, `{"status":{"n":5}}`),
		wrote(24, "update", "widgets", "w", "status", 200, `{"status":{"n":6}}`),
		wrote(25, "create", "pods", "db-q8", "", 201, `{"metadata":{"generateName":"db-"}}`),
		wrote(26, "create", "pods", "db-q9", "", 201, `{"metadata":{"generateName":"db-"},"spec":{"after":"db-q8"}}`),
		wrote(27, "delete", "configmaps", "old", "", 0, ""), // nobody was there for the answer
	}
	owner := actor.Ref{Version: "v1", Resource: "widgets", Namespace: "a", Name: "w"}
	d := compare(recorded, run,
		newMasker(map[string]actor.Ref{uidThen: owner}, recorded), newMasker(map[string]actor.Ref{uidNow: owner}, run))
	target := func(verb, resource, name, sub string) Target {
		return Target{Verb: verb, Resource: resource, Namespace: "a", Name: name, Subresource: sub}
	}
	old, status, cm, pods := target("delete", "configmaps", "old", ""), target("update", "widgets", "w", "status"),
		target("create", "configmaps", "c", ""), target("create", "pods", "db-*", "")
	old.Recorded, old.Missing = 1, []int64{8}
	status.Recorded, status.Run, status.Again, status.Equal, status.Repeated, status.New = 2, 3, 2, 1, Pair{1, 0}, []int64{24}
	cm.Recorded, cm.Run, cm.Again, cm.Equal = 1, 1, 1, 1
	pods.Recorded, pods.Run, pods.Again, pods.Equal = 2, 2, 2, 2
	want := &Divergence{
		Recorded: 6, Run: 6, Again: 5, Equal: 4, Missing: 1, New: 1,
		Repeated: Pair{1, 0}, Election: Pair{2, 0}, Events: Pair{1, 0}, Refused: Pair{1, 0}, Unanswered: Pair{0, 1},
		Targets: []Target{old, status, cm, pods},
	}
	if diff := cmp.Diff(want, d); diff != "" {
		t.Errorf("divergence (-want +got):\n%s", diff)
	}
	if d.Same() || int(d.Percent()) != 83 {
		t.Errorf("same %v, %.1f %%", d.Same(), d.Percent())
	}
	same := compare(recorded, recorded, newMasker(nil, recorded), newMasker(nil, recorded))
	if !same.Same() || same.Equal != 6 {
		t.Errorf("a recording differs from itself: %+v", same)
	}
}

func TestText(t *testing.T) {
	recorded := []*traces.Request{wrote(8, "delete", "configmaps", "old", "", 200, ``)}
	r := &Result{
		Trace: "t", RunDir: "my run.optrace", Operators: []OperatorResult{{Name: "op", KnownBy: "as given"}}, Steps: 2, Applied: 1,
		Divergence: compare(recorded, nil, newMasker(nil, nil), newMasker(nil, nil)),
		Skipped:    []StepOutcome{{Step: "delete a/things/x", Seq: 5, Result: actor.Skipped, Detail: "there is no such object"}},
		Unmatched:  []string{`from "x" matched nothing in hold: {}`},
	}
	var b strings.Builder
	if err := r.Text(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"0 of 1 recorded writes made again (0.0 %)", "delete configmaps/old -n a", "not made: recorded seq 8",
		"delete a/things/x (recorded as seq 5): skipped: there is no such object", "1 of 2 recorded changes",
		`plan: from "x" matched nothing`, "opsim analyze 'my run.optrace'",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in:\n%s", want, b.String())
		}
	}
}
