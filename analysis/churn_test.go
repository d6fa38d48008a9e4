package analysis

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

func TestChurn(t *testing.T) {
	for name, c := range map[string]struct {
		pass        func(c *cluster, s ref, i int)
		every       time.Duration
		n           int
		field, what string
	}{
		"a transition time without a transition, however seldom": {
			pass: func(c *cluster, s ref, _ int) {
				c.status("churner", s, m{"conditions": []any{condition("Ready", "True", c.stamp())}})
			},
			every: time.Minute, n: 12,
			field: "status.conditions[*].lastTransitionTime", what: "only a transition time",
		},
		"a list in another order, however seldom": {
			pass: func(c *cluster, s ref, i int) {
				list := []any{"a", "b", "c"}
				list[0], list[1+i%2] = list[1+i%2], list[0]
				c.status("churner", s, m{"members": list})
			},
			every: time.Minute, n: 12,
			field: "status.members", what: "only the order of a list",
		},
		"empty in two ways": {
			pass: func(c *cluster, s ref, i int) {
				c.status("churner", s, []any{m{"nodes": []any{}}, m{}}[i%2])
			},
			every: time.Minute, n: 12,
			field: "status.nodes", what: "only the form",
		},
		"times faster than anybody reads them": {
			pass:  func(c *cluster, s ref, _ int) { c.status("churner", s, m{"lastCheckTime": c.stamp()}) },
			every: 4 * time.Second, n: 30,
			field: "status.lastCheckTime", what: "only times",
		},
		"no-op writes, three a second": {
			pass: func(c *cluster, s ref, _ int) {
				c.begin("churner", "update", "", s).commit(func(m) {})
			},
			every: 300 * time.Millisecond, n: 60,
			what: "changed nothing",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCluster(t, "churner")
			s := site(w, "front")
			for i := range c.n {
				w.sleep(c.every)
				c.pass(w, s, i)
			}
			f := w.analyze(NewChurn()).only(t, "churn")
			if f.Field != c.field || !strings.Contains(f.What, c.what) || f.Severity != Warning {
				t.Errorf("field %q, %s", f.Field, f.What)
			}
			// The first write may mean something, the others don't.
			p := f.statistic(t, "empty writes")
			if k := math.Round(p.Value * float64(p.N)); p.N != int64(c.n) || k < float64(c.n-2) {
				t.Errorf("%+v", p)
			}
		})
	}
}

func TestNoChurn(t *testing.T) {
	for name, c := range map[string]struct {
		scene func(c *cluster, s ref)
		notes int
	}{
		"two no-op writes": {func(c *cluster, s ref) {
			for range 2 {
				c.begin("op", "update", "", s).commit(func(m) {})
			}
		}, 0},
		"children rewritten unchanged on each pass is a note": {func(c *cluster, s ref) {
			for range 30 {
				c.sleep(20 * time.Second)
				c.begin("op", "update", "", s).body(m{"spec": m{"host": "front"}}).commit(func(m) {})
			}
		}, 1},
		"a heartbeat in the status is a note": {func(c *cluster, s ref) {
			for range 30 {
				c.sleep(10 * time.Second)
				c.status("op", s, m{"lastHeartbeatTime": c.stamp()})
			}
		}, 1},
		"a burst of no-op writes at the start is a note": {func(c *cluster, s ref) {
			for range 30 {
				c.sleep(50 * time.Millisecond)
				c.begin("op", "update", "", s).commit(func(m) {})
			}
		}, 1},
		"mostly useful writes": {func(c *cluster, s ref) {
			for i := range 60 {
				c.sleep(time.Second)
				n := m{"n": i, "conditions": []any{condition("Ready", "True", c.stamp())}}
				if i%10 == 0 {
					n["n"] = i - 1
				}
				c.status("op", s, n)
			}
		}, 1},
		"a condition that really changes": {func(c *cluster, s ref) {
			for i := range 20 {
				c.sleep(3 * time.Second)
				c.status("op", s, m{"conditions": []any{condition("Ready", []string{"True", "False"}[i%2], c.stamp())}})
			}
		}, 0},
		"what others write": {func(c *cluster, s ref) {
			for range 30 {
				c.status("kubelet", s, m{"conditions": []any{condition("Ready", "True", c.stamp())}})
			}
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCluster(t, "op")
			c.scene(w, site(w, "front"))
			r := w.analyze(NewChurn())
			r.none(t)
			if len(r.Notes) != c.notes {
				t.Errorf("want %d notes: %s", c.notes, r.describe())
			}
		})
	}
}

func TestChurnOfManyObjectsIsOneFinding(t *testing.T) {
	c := newCluster(t, "op")
	var all []ref
	for i := range 25 {
		all = append(all, site(c, fmt.Sprintf("site-%02d", i)))
	}
	for range 8 {
		for _, s := range all {
			c.sleep(3 * time.Second)
			c.status("op", s, m{"conditions": []any{condition("Ready", "True", c.stamp())}})
		}
	}
	if f := c.analyze(NewChurn()).only(t, "churn"); f.Total != 25 || len(f.Objects) != maxObjects {
		t.Errorf("%d of %d objects", len(f.Objects), f.Total)
	}
}

// Whether a write was a no-op shows in when its version was first seen.
func TestNoOpOrNot(t *testing.T) {
	c := newCluster(t, "op")
	s := site(c, "front")
	for range 6 { // the version is known since just now, not yet settled
		c.spec("kubectl", s, m{"n": c.rv})
		c.begin("op", "update", "", s).commit(func(m) {})
		c.sleep(3 * time.Second)
	}
	r := c.analyze(NewChurn())
	if len(r.Notes) != 1 || r.Notes[0].Count != 6 {
		t.Fatalf("want a note of 6 no-op writes: %s", r.describe())
	}
	if want := "6 of 6 writes by op to sites.web.example.com shop/front changed nothing: 0.4 a second for the API server to decode, admit and drop"; !strings.HasPrefix(r.Notes[0].What, want) {
		t.Errorf("%q, want %q", r.Notes[0].What, want)
	}

	c = newCluster(t, "op")
	s = site(c, "front")
	for i := range 6 { // the event comes at once, the answer seconds later
		k := c.begin("op", "patch", "status", s)
		c.status("nobody", s, m{"n": i})
		k.row.Identity = c.identity(s, c.objects[s.key()])
		c.quiet(3 * time.Second)
		k.end(200, "")
	}
	if r := c.analyze(NewChurn()); len(r.Findings)+len(r.Notes) != 0 {
		t.Errorf("slow answers taken for no-op writes: %s", r.describe())
	}
}
