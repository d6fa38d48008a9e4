package trial

import (
	"fmt"
	"slices"
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

// pod is an incarnation of what the operator makes, by what becomes of it in order: "made", "running" (the kubelet says so),
// "checked" (the kubelet writes what is there already), "grown" (the operator changes its size), "gone".
func pod(s *story, uid string, fates ...string) {
	phase, size, version, seq := "Pending", 1, int64(0), s.last
	tell := func(typ traces.EventType) {
		seq++
		w := widget("p", uid, fmt.Sprintf(`{"metadata":{"name":"p"},"spec":{"size":%d},"status":{"phase":%q}}`, size, phase))
		w.Seq, w.TS, w.Process, w.Type, w.ResourceVersion = seq, seq, everything, string(typ), version
		w.ObjectHash = traces.HashObject(w.Object)
		s.see(w)
	}
	call := func(process, verb string) {
		r := &traces.Request{Process: process, Verb: verb, Code: 200, StartSeq: seq - 1}
		r.Seq, r.TS, r.Identity = seq, seq, widget("p", uid, "").Identity
		r.ResourceVersion = version
		s.see(r)
	}
	for _, fate := range fates {
		if version++; fate == "checked" {
			version--
		}
		switch fate {
		case "made":
			tell(traces.Added)
			call("op", "create")
		case "running":
			phase = "Running"
			tell(traces.Modified)
			call("", "patch")
		case "checked":
			seq += 2
			call("", "patch")
		case "grown":
			size++
			tell(traces.Modified)
			call("op", "update")
		case "gone":
			call("op", "delete")
			tell(traces.Deleted)
		}
	}
}

// A kubelet that said Running of the first of two pods, and says so of the second where the operator is late, makes no
// difference; what the operator wrote does, and so does whatever the kubelet wrote when it met the same pod.
func TestStrayedAnswers(t *testing.T) {
	type fates = []string
	remade := []fates{{"made", "running", "gone"}, {"made"}}
	for name, c := range map[string]struct {
		ref, run []fates
		want     []string
		strays   int
	}{
		"the second is the one that runs":        {remade, []fates{{"made", "gone"}, {"made", "running"}}, nil, 1},
		"there is one, and it runs":              {remade, []fates{{"made", "running"}}, nil, 1},
		"there was one, which ran":               {[]fates{{"made", "running"}}, remade, nil, 1},
		"it has grown as well":                   {remade, []fates{{"made", "running", "grown"}}, []string{"differs widgets.x.io a/p spec.size"}, 1},
		"what the kubelet finds as it is":        {remade, []fates{{"made", "grown", "checked"}}, []string{"differs widgets.x.io a/p spec.size"}, 0},
		"the same pods, of which one is not run": {remade, []fates{{"made", "gone"}, {"made"}}, nil, 0},
		"one pod, which nobody says to run":      {[]fates{{"made", "running"}}, []fates{{"made", "checked"}}, []string{"differs widgets.x.io a/p status.phase"}, 0},
		"both ran, and one grew":                 {[]fates{{"made", "running"}}, []fates{{"made", "grown", "running"}}, []string{"differs widgets.x.io a/p spec.size"}, 0},
		"gone":                                   {remade, []fates{{"made", "running", "gone"}}, []string{"missing widgets.x.io a/p "}, 0},
	} {
		var both [2]*story
		for i, pods := range [][]fates{c.ref, c.run} {
			both[i] = newStory([]string{"op"})
			for n, f := range pods {
				pod(both[i], fmt.Sprint(n), f...)
			}
		}
		all, strays := ends(both[0], both[1], newMask())
		if got := oracles(all); !slices.Equal(got, c.want) || strays != c.strays {
			t.Errorf("%s: %q and %d that stray, want %q and %d", name, got, strays, c.want, c.strays)
		}
	}
}
