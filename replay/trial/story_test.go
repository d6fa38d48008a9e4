package trial

import (
	"testing"

	"github.com/opreplay/opreplay/traces"
)

// Who changes what the operator made answers what it said; when it says so later than in the reference, the answer is early.
// A user's own object is no such thing, however late the operator writes it.
func TestEarlyAnswers(t *testing.T) {
	run := func(calls ...string) *story {
		s := newStory([]string{"op"})
		for i, c := range calls {
			r := &traces.Request{Head: traces.Head{Seq: int64(i), TS: int64(i)}, Code: 200, RequestBody: c}
			r.Resource, r.Namespace, r.Name = "configmaps", "a", "task"
			switch c {
			case "worker", "user":
				r.Verb, r.UserAgent = "patch", c
			case "task":
				r.Process, r.Verb = "op", "create"
			default:
				r.Process, r.Verb = "op", "update"
			}
			if c == "user" || c == "seen" {
				r.Resource, r.Name = "widgets", "w"
			}
			s.see(r)
		}
		return s
	}
	ref := run("user", "seen", "task", "worker", "user", "more", "worker", "worker")
	for want, calls := range map[int][]string{
		0: {"user", "user", "seen", "task", "worker", "more", "more", "worker", "worker"},
		1: {"user", "seen", "task", "task", "worker", "user", "worker", "more", "worker"},
		2: {"user", "seen", "task", "worker", "user", "worker", "worker", "more"},
	} {
		if got := early(ref, run(calls...)); got != want {
			t.Errorf("%q: %d answers are early, want %d", calls, got, want)
		}
	}
	if got := early(ref, ref); got != 0 {
		t.Errorf("the reference itself: %d", got)
	}
}
