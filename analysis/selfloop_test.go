package analysis

import (
	"math"
	"strings"
	"testing"
	"time"
)

// site is a Site that a user made, settled.
func site(c *cluster, name string) ref {
	s := ref{sites, name}
	c.create("kubectl", s, m{"spec": m{"host": name}})
	return s
}

func TestSelfLoopOfStatusWrites(t *testing.T) {
	c := newCluster(t, "loop")
	s := site(c, "front")
	for range 40 { // each pass: 50 ms of work, then a status with a fresh time, whose event is the next pass
		c.sleep(50 * time.Millisecond)
		c.status("loop", s, m{"conditions": []any{condition("Served", "True", c.stamp())}})
	}
	r := c.analyze()
	if len(r.Findings) != 2 {
		t.Fatalf("want the loop and its churn, got %s", r.describe())
	}
	f := r.Findings[0]
	if f.Detector != "self-loop" || f.Severity != Error || f.Certainty != Sure || f.Process != "loop" {
		t.Errorf("got %+v", f)
	}
	if f.Objects[0].String() != "sites.web.example.com shop/front" || f.Field != "status.conditions[*].lastTransitionTime" {
		t.Errorf("object %s, field %s", f.Objects[0], f.Field)
	}
	for _, want := range []string{"fresh time to status.conditions[*].lastTransitionTime", "observedGeneration is never set"} {
		if !strings.Contains(f.Cause, want) {
			t.Errorf("the cause %q lacks %q", f.Cause, want)
		}
	}
	// 50 ms of work and 1 ms for the call; the 2 ms for the event come before or after the answer in turn.
	if p := f.statistic(t, "period"); math.Abs(p.Low-0.051) > 1e-9 || math.Abs(p.High-0.055) > 1e-9 || p.Value < p.Low || p.Value > p.High || p.N != 39 {
		t.Errorf("period %+v", p)
	}
	if w := f.statistic(t, "wake-up"); w.Value < 0.049 || w.Value > 0.053 {
		t.Errorf("wake-up %+v", w)
	}
	if f.Evidence.Total != 39 || len(f.Evidence.Items) != firstPlaces+lastPlaces {
		t.Errorf("evidence %+v", f.Evidence)
	}
	if g := r.Findings[1]; g.Detector != "churn" || g.Group != f.ID {
		t.Errorf("the churn is not grouped with the loop: %s", r.describe())
	}
}

func TestSelfLoopByWayOfTheChild(t *testing.T) {
	c := newCluster(t, "loop")
	s := site(c, "front")
	owner := c.get(s)["metadata"].(m)["uid"]
	page := ref{configs, "front-page"}
	c.create("loop", page, m{"metadata": m{"ownerReferences": []any{m{"uid": owner, "controller": true}}}, "data": m{"n": "0"}})
	for range 15 {
		c.sleep(20 * time.Millisecond)
		c.status("loop", s, m{"checked": c.stamp()})
		c.sleep(20 * time.Millisecond)
		c.begin("loop", "update", "", page).commit(func(o m) { o["data"] = m{"seen": c.stamp()} })
	}
	f := c.analyze(NewSelfLoop()).only(t, "self-loop")
	if !strings.Contains(f.What, "configmaps shop/front-page") || !strings.Contains(f.What, "sites.web.example.com shop/front") {
		t.Errorf("the finding names not both objects: %s", f.What)
	}
}

func TestManyObjectsLoopForOneReason(t *testing.T) {
	c := newCluster(t, "loop")
	names := []ref{site(c, "a"), site(c, "b"), site(c, "c")}
	for range 30 {
		for _, s := range names {
			c.sleep(5 * time.Millisecond)
			c.status("loop", s, m{"at": c.stamp()})
		}
	}
	if f := c.analyze(NewSelfLoop()).only(t, "self-loop"); f.Total != 3 || len(f.Objects) != 3 {
		t.Errorf("objects %v of %d", f.Objects, f.Total)
	}
}

// What looks like a loop and is none.
func TestNoSelfLoop(t *testing.T) {
	for name, scene := range map[string]func(c *cluster){
		"the mended twin: status only when it changes": func(c *cluster) {
			s := site(c, "front")
			for i := range 20 {
				c.spec("kubectl", s, m{"host": "front", "n": i})
				c.status("loop", s, m{"observedGeneration": i})
				c.sleep(time.Second)
			}
		},
		"a level-triggered retry that ends": func(c *cluster) {
			s := site(c, "front")
			for range 9 {
				c.sleep(30 * time.Millisecond)
				c.status("loop", s, m{"tries": c.stamp()})
			}
			c.quiet(20 * time.Second)
		},
		"a handful at the end of the recording": func(c *cluster) {
			s := site(c, "front")
			for range 8 {
				c.sleep(50 * time.Millisecond)
				c.status("loop", s, m{"at": c.stamp()})
			}
		},
		"many phases, then done": func(c *cluster) {
			s := site(c, "front")
			for i := range 14 {
				c.sleep(50 * time.Millisecond)
				c.status("loop", s, m{"phase": i})
			}
			c.quiet(20 * time.Second)
		},
		"a timer": func(c *cluster) {
			s := site(c, "front")
			for range 30 {
				c.sleep(10 * time.Second)
				c.status("loop", s, m{"lastCheckTime": c.stamp()})
			}
		},
		"a status that mirrors what another controller does": func(c *cluster) {
			s := site(c, "front")
			owner := c.get(s)["metadata"].(m)["uid"]
			child := ref{configs, "child"}
			c.create("loop", child, m{"metadata": m{"ownerReferences": []any{m{"uid": owner, "controller": true}}}})
			for i := range 60 {
				c.begin("kube-controller-manager", "update", "", child).commit(func(o m) { o["data"] = m{"ready": i} })
				c.sleep(30 * time.Millisecond)
				c.status("loop", s, m{"ready": i})
				c.sleep(200 * time.Millisecond)
			}
		},
		"leader election": func(c *cluster) {
			l := ref{leases, "leader"}
			c.create("loop", l, m{"spec": m{}})
			for range 60 {
				c.sleep(2 * time.Second)
				c.begin("loop", "update", "", l).commit(func(o m) { o["spec"] = m{"renewTime": c.stamp()} })
			}
		},
		"leader election by a ConfigMap, every second": func(c *cluster) {
			l := ref{configs, "leader"}
			c.create("loop", l, m{"metadata": m{"annotations": m{"control-plane.alpha.kubernetes.io/leader": "{}"}}})
			for range 60 {
				c.sleep(time.Second)
				c.begin("loop", "update", "", l).commit(func(o m) {
					o["metadata"].(m)["annotations"] = m{"control-plane.alpha.kubernetes.io/leader": c.stamp()}
				})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, "loop")
			scene(c)
			c.analyze().none(t)
		})
	}
}

func TestLoopThatEndedIsStillToldIfItWasLong(t *testing.T) {
	c := newCluster(t, "loop")
	s := site(c, "front")
	for range 300 {
		c.sleep(50 * time.Millisecond)
		c.status("loop", s, m{"at": c.stamp()})
	}
	c.delete("kubectl", s)
	c.quiet(time.Minute)
	f := c.analyze(NewSelfLoop()).only(t, "self-loop")
	if !strings.Contains(f.What, "300 writes") {
		t.Error(f.What)
	}
}
