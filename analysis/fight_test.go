package analysis

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// turns has two take turns at spec.replicas, each with the value that the function says.
func turns(c *cluster, s ref, a, b string, n int, va, vb func(i int) any) {
	for i := range n {
		c.sleep(200 * time.Millisecond)
		c.spec(a, s, m{"replicas": va(i)})
		c.sleep(200 * time.Millisecond)
		c.spec(b, s, m{"replicas": vb(i)})
	}
}

func always(v any) func(int) any { return func(int) any { return v } }

func TestFight(t *testing.T) {
	for name, x := range map[string]struct {
		b         string
		vb        func(int) any
		n         int
		certainty Certainty
		kind      string
	}{
		"of two operators":                   {"b", always(5), 4, Sure, "merge patch"},
		"with somebody who was not recorded": {"scaler", always(5), 4, Likely, "a write"},
		"with one whose value moves":         {"b", func(i int) any { return 5 + i }, 6, Sure, "merge patch"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, "a", "b")
			s := site(c, "front")
			turns(c, s, "a", x.b, x.n, always(3), x.vb)
			c.quiet(5 * time.Second)
			f := c.analyze(NewFight()).only(t, "fight")
			if f.Process != "a" || f.Manager != "a" || f.Field != "spec.replicas" || f.Severity != Error || f.Certainty != x.certainty || f.Objects[0].Name != "front" {
				t.Errorf("%+v", f)
			}
			want := fmt.Sprintf("a writes 3 (merge patch), and %s writes %v (%s)", x.b, x.vb(x.n-1), x.kind)
			if !strings.Contains(f.Cause, want) {
				t.Errorf("%q lacks %q", f.Cause, want)
			}
		})
	}
}

// One side drops a field with each update that the other sets.
func TestFightOverAFieldThatOneDoesNotKnow(t *testing.T) {
	c := newCluster(t, "a", "b")
	s := site(c, "front")
	for range 4 {
		c.sleep(time.Second)
		c.begin("a", "patch", "", s).commit(func(o m) { o["metadata"].(m)["annotations"] = m{"seen": "yes"} })
		c.sleep(time.Second)
		c.begin("b", "update", "", s).commit(func(o m) { delete(o["metadata"].(m), "annotations") })
	}
	f := c.analyze(NewFight()).only(t, "fight")
	if f.Field != "metadata.annotations.seen" || !strings.Contains(f.Cause, "writes nothing (update)") {
		t.Errorf("%s %s", f.Field, f.Cause)
	}
}

func TestNoFight(t *testing.T) {
	for name, play := range map[string]func(c *cluster, s ref){
		"one round":          func(c *cluster, s ref) { turns(c, s, "a", "b", 2, always(3), always(5)) },
		"one writer":         func(c *cluster, s ref) { turns(c, s, "a", "a", 6, always(3), always(5)) },
		"both want the same": func(c *cluster, s ref) { turns(c, s, "a", "b", 6, always(3), always(3)) },
		"each a new value": func(c *cluster, s ref) {
			turns(c, s, "a", "b", 6, func(i int) any { return i }, func(i int) any { return 100 + i })
		},
		"a user who is put right": func(c *cluster, s ref) {
			turns(c, s, "kubectl-edit", "a", 3, func(i int) any { return 10 + i }, always(3))
		},
		"a request that is taken away when it is done": func(c *cluster, s ref) {
			for range 6 {
				c.sleep(time.Second)
				c.begin("kubectl-annotate", "patch", "", s).commit(func(o m) { o["metadata"].(m)["annotations"] = m{"backup": "now"} })
				c.begin("a", "patch", "", s).commit(func(o m) { delete(o["metadata"].(m), "annotations") })
			}
		},
		"a status handed on as the spec changes": func(c *cluster, s ref) {
			for i := range 6 {
				c.spec("kubectl", s, m{"host": fmt.Sprint(i)})
				c.status("a", s, m{"phase": "Pending"})
				c.status("b", s, m{"phase": "Done"})
			}
		},
		"times": func(c *cluster, s ref) {
			for range 6 {
				c.sleep(time.Second)
				c.status("a", s, m{"at": c.stamp()})
				c.status("b", s, m{"at": c.stamp()})
			}
		},
		"leader election": func(c *cluster, _ ref) {
			for range 6 {
				c.sleep(5 * time.Second)
				lease(c, "a", "id-a", "lock")
				c.sleep(5 * time.Second)
				lease(c, "b", "id-b", "lock")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, "a", "b")
			play(c, site(c, "front"))
			c.quiet(5 * time.Second)
			c.analyze(NewFight()).none(t)
		})
	}
}

// A capture without a recorded process has versions and their field managers, which is enough.
func TestFightOfTwoThatWereNotRecorded(t *testing.T) {
	c := newCluster(t)
	s := site(c, "front")
	for range 5 { // managedFields have whole seconds
		c.sleep(2 * time.Second)
		c.spec("web", s, m{"replicas": 3})
		c.sleep(2 * time.Second)
		c.spec("guard", s, m{"replicas": 5})
	}
	f := c.analyze(NewFight()).only(t, "fight")
	if f.Process != "" || f.Manager != "guard" || f.Certainty != Likely || !strings.Contains(f.Cause, "guard writes 5 (a write), and web writes 3 (a write)") {
		t.Errorf("%+v", f)
	}
}
