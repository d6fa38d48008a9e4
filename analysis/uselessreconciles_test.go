package analysis

import (
	"testing"
	"time"

	"github.com/opreplay/opreplay/traces"
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

// Passes wait for the class of their trigger only where one comes, and so many of one version.
func TestUselessReconcilesWaitWithinBounds(t *testing.T) {
	for name, x := range map[string]struct {
		state *State
		kind  traces.EventType
		want  int
	}{
		"a version that has not settled": {&State{}, traces.Modified, maxUnsettled},
		"a lease":                        {&State{Heartbeat: true}, traces.Modified, 0},
		"an object that is new":          {&State{}, traces.Added, 0},
		"a version that has settled":     {&State{RV: 5}, traces.Modified, 0},
		"an object that is gone":         {&State{Gone: true}, traces.Modified, 0},
		"a trigger that is not known":    {nil, traces.Modified, 0},
	} {
		t.Run(name, func(t *testing.T) {
			d := NewUselessReconciles()
			d.recent.is(0)
			for range 10 * maxUnsettled {
				d.Pass(nil, &Pass{Row: &traces.Reconcile{Controller: "site", Outcome: "success"}, Process: &Process{Name: "op"}, Trigger: Trigger{Seq: 1, RV: 5, State: x.state, Type: x.kind}})
			}
			n := 0
			if x.state != nil {
				if v := d.recent.of(x.state); v != nil {
					n = len(v.waiting)
				}
			}
			if n != x.want {
				t.Errorf("%d passes wait, want %d", n, x.want)
			}
			if e := d.passes[passKind{"op", "site"}]; e.n != 10*maxUnsettled || e.useless != e.n {
				t.Errorf("%d of %d passes are useless", e.useless, e.n)
			}
		})
	}
}
