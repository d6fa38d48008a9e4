package analysis

import (
	"strings"
	"testing"
	"time"
)

func update(c *cluster, by string, r ref, base int64) *call {
	return c.begin(by, "update", "status", r).base(base)
}

func TestConflictWithOneself(t *testing.T) {
	c := newCluster(t, "op")
	s := site(c, "front")
	for i := range 12 { // one worker writes, the other, from a copy read before, is refused, reads again and succeeds
		old := c.rvOf(s)
		update(c, "op", s, old).commit(func(o m) { o["status"] = m{"n": i} })
		c.sleep(100 * time.Millisecond)
		update(c, "op", s, old).refuse(409, "Conflict")
		update(c, "op", s, c.rvOf(s)).commit(func(o m) { o["status"] = m{"n": i, "m": i} })
		c.sleep(time.Second)
	}
	f := c.analyze(NewConflictStorm()).only(t, "conflict-storm")
	if f.Severity != Warning || f.Process != "op" || f.Objects[0].Name != "front" {
		t.Errorf("%+v", f)
	}
	for _, want := range []string{"it conflicts with itself", "from a copy read early", "update of status"} {
		if !strings.Contains(f.Cause, want) {
			t.Errorf("the cause %q lacks %q", f.Cause, want)
		}
	}
	if p := f.statistic(t, "refused"); p.N != 36 || p.Value != 12.0/36 {
		t.Errorf("%+v", p)
	}
	if p := f.statistic(t, "base behind"); p.Value != 1 {
		t.Errorf("%+v", p)
	}
}

func TestConflictWithAnother(t *testing.T) {
	c := newCluster(t, "op")
	c.lag = 0
	s := site(c, "front")
	for i := range 10 {
		old := c.rvOf(s)
		k := update(c, "op", s, old) // begins before the other's version is known
		c.begin("rival", "patch", "status", s).commit(func(o m) { o["status"] = m{"n": i} })
		k.refuse(409, "Conflict")
		c.sleep(time.Second)
		update(c, "op", s, c.rvOf(s)).commit(func(o m) { o["status"] = m{"m": i} })
	}
	f := c.analyze(NewConflictStorm()).only(t, "conflict-storm")
	if !strings.Contains(f.Cause, "written by rival") || !strings.Contains(f.Cause, "before the event of the newer version has reached it") {
		t.Error(f.Cause)
	}
}

func TestConflictWithoutEnd(t *testing.T) {
	c := newCluster(t, "op")
	s := site(c, "front")
	old := c.rvOf(s)
	c.spec("kubectl", s, m{"host": "x"})
	for range 7 {
		c.sleep(time.Second)
		update(c, "op", s, old).refuse(409, "Conflict")
	}
	f := c.analyze(NewConflictStorm()).only(t, "conflict-storm")
	if f.Severity != Error || !strings.Contains(f.What, "the last 7 tries") {
		t.Errorf("%s %s", f.Severity, f.What)
	}
}

func TestNoConflictStorm(t *testing.T) {
	for name, scene := range map[string]func(c *cluster, s ref){
		"few conflicts that recover at once": func(c *cluster, s ref) {
			for i := range 100 {
				if i%15 == 0 {
					old := c.rvOf(s)
					c.spec("kubectl", s, m{"n": i})
					update(c, "op", s, old).refuse(409, "Conflict")
				}
				update(c, "op", s, c.rvOf(s)).commit(func(o m) { o["status"] = m{"n": i} })
				c.sleep(3 * time.Second)
			}
		},
		"three of four at the start": func(c *cluster, s ref) {
			for range 3 {
				update(c, "op", s, 1).refuse(409, "Conflict")
			}
			update(c, "op", s, c.rvOf(s)).commit(func(o m) { o["status"] = m{"n": 1} })
		},
		"creates of what exists": func(c *cluster, s ref) {
			for range 20 {
				c.begin("op", "create", "", s).refuse(409, "AlreadyExists")
			}
		},
		"an apply that another manager's field stands against": func(c *cluster, s ref) {
			for range 20 {
				c.sleep(3 * time.Second)
				c.begin("op", "patch", "", s).apply("op").refuse(409, "Conflict")
			}
		},
		"two candidates for a lease": func(c *cluster, _ ref) {
			l := ref{leases, "leader"}
			c.create("op", l, m{"spec": m{}})
			for range 20 {
				c.begin("op", "update", "", l).base(1).refuse(409, "Conflict")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, "op")
			scene(c, site(c, "front"))
			c.analyze().none(t)
		})
	}
}
