package analysis

import (
	"testing"
	"time"
)

func TestUselessReconciles(t *testing.T) {
	c := newCluster(t, "op")
	s := site(c, "front")
	for i := range 10 {
		c.sleep(time.Second)
		c.spec("kubectl", s, m{"n": i})
		c.pass("op", "site", s, c.told("op", s), func() { c.status("op", s, m{"n": i}) })
		c.pass("op", "site", s, c.told("op", s), func() { c.sleep(time.Millisecond) }) // woken by its own status
		c.begin("kubectl", "patch", "", s).commit(func(o m) { o["metadata"].(m)["labels"] = m{"n": c.stamp()} })
		c.pass("op", "site", s, c.told("op", s), func() { c.sleep(time.Millisecond) })
	}
	c.sleep(2 * time.Second)
	c.quiet(time.Second)
	n := c.analyze(NewUselessReconciles()).noted(t, "67 % of 30 reconciles of site in op changed nothing", "GenerationChangedPredicate would have saved 67 % of all", "let through 33 %")
	if n.Count != 20 {
		t.Errorf("%+v", n)
	}
}

func TestUselessEventsWherePassesAreNotRecorded(t *testing.T) {
	c := newCluster(t, "op")
	s := site(c, "front")
	for i := range 40 {
		c.sleep(time.Second)
		c.spec("kubectl", s, m{"n": i})
		c.status("op", s, m{"n": i})
	}
	c.quiet(2 * time.Second)
	c.analyze(NewUselessReconciles()).noted(t, "50 % of 80 changes of sites.web.example.com that op was told of left the spec alone", "50 % were its own writes")
}

func TestUsefulReconciles(t *testing.T) {
	c := newCluster(t, "op")
	s := site(c, "front")
	for i := range 40 {
		c.sleep(time.Second)
		c.spec("kubectl", s, m{"n": i})
		c.pass("op", "site", s, c.told("op", s), func() { c.status("op", s, m{"n": i}) })
	}
	c.quiet(2 * time.Second)
	c.analyze(NewUselessReconciles()).silent(t)
}
