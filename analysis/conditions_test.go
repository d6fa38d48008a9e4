package analysis

import (
	"strings"
	"testing"
	"time"
)

// state is a status of conditions, TYPE=STATUS, all of one generation (0 for none).
func state(generation int, conditions ...string) m {
	var list []any
	for _, c := range conditions {
		kind, status, _ := strings.Cut(c, "=")
		x := m{"type": kind, "status": status}
		if generation > 0 {
			x["observedGeneration"] = generation
		}
		list = append(list, x)
	}
	return m{"conditions": list}
}

func TestConditionsThatCannotBeTrusted(t *testing.T) {
	flap := func(c *cluster, s ref, between func(i int)) {
		for i := range 12 {
			c.status("op", s, state(1, "Ready="+[]string{"True", "False"}[i%2]))
			c.sleep(2 * time.Second)
			between(i)
		}
	}
	for name, x := range map[string]struct {
		play func(c *cluster, s ref)
		what string // "" for nothing
	}{
		"ready and not available": {func(c *cluster, s ref) {
			c.status("op", s, state(1, "Ready=True", "Available=False"))
			c.quiet(20 * time.Second)
		}, "op wrote conditions into sites.web.example.com shop/front that contradict each other, for 20.0 s: Ready is True and Available is False"},
		"ready and failed, and mended": {func(c *cluster, s ref) {
			c.status("op", s, state(0, "Ready=True", "Failed=True"))
			c.sleep(10 * time.Second)
			c.status("op", s, state(0, "Ready=False", "Failed=True"))
		}, "Ready is True and Failed is True"},
		"one after the other": {func(c *cluster, s ref) {
			c.status("op", s, state(1, "Ready=True", "Available=False"))
			c.sleep(100 * time.Millisecond)
			c.status("op", s, state(1, "Ready=False", "Available=False"))
			c.quiet(20 * time.Second)
		}, ""},
		"of different generations": {func(c *cluster, s ref) {
			both := state(1, "Ready=True", "Available=False")
			both["conditions"].([]any)[1].(m)["observedGeneration"] = 2
			c.status("op", s, both)
			c.quiet(20 * time.Second)
		}, ""},
		"back to an older generation": {func(c *cluster, s ref) {
			c.spec("kubectl", s, m{"n": 2})
			c.status("op", s, state(2, "Ready=True"))
			c.sleep(time.Second)
			c.status("op", s, state(1, "Ready=True"))
		}, "op wrote condition Ready of sites.web.example.com shop/front of generation 1 after it had been of generation 2"},
		"to and fro": {
			func(c *cluster, s ref) { flap(c, s, func(int) {}) },
			"op turned condition Ready of sites.web.example.com shop/front 11 times in 20.0 s, and nobody else had changed it or what it owns",
		},
		"as the workload does": {func(c *cluster, s ref) {
			child := ref{configs, "page"}
			c.begin("kubelet", "create", "", child).commit(func(o m) {
				o["metadata"].(m)["ownerReferences"] = []any{m{"kind": "Site", "name": "front", "uid": c.get(s)["metadata"].(m)["uid"], "controller": true}}
			})
			flap(c, s, func(i int) { c.begin("kubelet", "update", "", child).commit(func(o m) { o["data"] = m{"n": i} }) })
		}, ""},
		"as the spec does": {func(c *cluster, s ref) { flap(c, s, func(i int) { c.spec("kubectl", s, m{"n": i + 10}) }) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, "op")
			s := site(c, "front")
			c.sleep(time.Second)
			x.play(c, s)
			r := c.analyze(NewObservedGeneration())
			if x.what == "" {
				r.none(t)
				return
			}
			f := r.only(t, "observed-generation")
			if !strings.Contains(f.What, x.what) || f.Field != "status.conditions[*]" || f.Process != "op" || (f.Certainty == Sure) == strings.Contains(f.What, "turned") {
				t.Errorf("%s; %s %s %s", f.What, f.Process, f.Field, f.Certainty)
			}
		})
	}
}

// Of two that flap, what is told is the count of the one that turned most, with its places.
func TestTwoThatFlap(t *testing.T) {
	c := newCluster(t, "op")
	front, back := site(c, "front"), site(c, "back")
	c.sleep(time.Second)
	turn := func(s ref, i int) {
		c.status("op", s, state(1, "Ready="+[]string{"True", "False"}[i%2]))
		c.sleep(2 * time.Second)
	}
	for i := range 12 {
		turn(front, i)
		turn(back, i)
	}
	for i := range 4 {
		turn(back, i)
	}
	f := c.analyze(NewObservedGeneration()).only(t, "observed-generation")
	if n := f.statistic(t, "times"); n.Value != 15 || f.Total != 2 || f.Evidence.Total != 15 || !strings.Contains(f.What, "shop/back 15 times") {
		t.Errorf("%v times, %d places: %s", n.Value, f.Evidence.Total, f.What)
	}
}
