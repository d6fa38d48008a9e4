package analysis

import (
	"strings"
	"testing"
	"time"
)

// edited is a user's change that the operator answers after a while.
func edited(c *cluster, s ref, n int, answer time.Duration) {
	c.spec("kubectl", s, m{"n": n})
	c.sleep(answer)
	c.status("op", s, m{"n": n})
}

func TestStarvationByPollingInLine(t *testing.T) {
	c := newCluster(t, "op")
	queueing(c, 40, time.Second)
	f := c.analyze(NewStarvation()).only(t, "starvation")
	if f.Objects[0].Name != "slow" || f.Total != 5 || f.Certainty != Likely || !strings.Contains(f.Cause, "polls in line") {
		t.Errorf("%+v", f)
	}
	if w := f.statistic(t, "wait"); w.Value < 36 || w.Value > 38 || w.N != 4 {
		t.Errorf("wait %+v", w)
	}
}

func TestStarvationByPasses(t *testing.T) {
	c := newCluster(t, "op")
	slow, a := site(c, "slow"), site(c, "a")
	c.pass("op", "site", slow, c.told("op", slow), func() {
		c.status("op", slow, m{"n": 1})
		c.spec("kubectl", a, m{"n": 1})
		c.sleep(25 * time.Second)
	})
	c.pass("op", "site", a, c.told("op", a), func() { c.status("op", a, m{"n": 1}) })
	f := c.analyze(NewStarvation()).only(t, "starvation")
	if f.Certainty != Sure || f.Objects[0].Name != "slow" || f.Objects[1].Name != "a" || !strings.Contains(f.What, "site shop/slow held a worker of op for 25.0 s") {
		t.Errorf("%+v", f)
	}
}

func TestStarvationByALateAnswer(t *testing.T) {
	c := newCluster(t, "op")
	slow, a := site(c, "slow"), site(c, "a")
	c.pass("op", "site", slow, c.told("op", slow), func() {
		c.spec("kubectl", a, m{"n": 1})
		k := c.begin("op", "update", "", slow)
		c.sleep(25 * time.Second)
		k.end(504, "Timeout")
	})
	c.pass("op", "site", a, c.told("op", a), func() { c.status("op", a, m{"n": 1}) })
	f := c.analyze(NewStarvation()).only(t, "starvation")
	if !strings.Contains(f.Cause, "waits for the answer to its update of sites.web.example.com, which took 25.0 s") {
		t.Error(f.Cause)
	}
}

func TestNoStarvation(t *testing.T) {
	for name, scene := range map[string]func(c *cluster){
		"everything is answered": func(c *cluster) {
			for i, name := range []string{"a", "b", "c", "d", "e"} {
				s := site(c, name)
				edited(c, s, i, 200*time.Millisecond)
				c.sleep(20 * time.Second)
			}
		},
		"an edit that means nothing to the operator": func(c *cluster) {
			a, b := site(c, "a"), site(c, "b")
			edited(c, a, 1, 30*time.Millisecond)
			edited(c, b, 1, 30*time.Millisecond)
			c.spec("kubectl", a, m{"n": 1, "comment": "x"})
			for i := range 20 {
				c.sleep(5 * time.Second)
				edited(c, b, i+2, 30*time.Millisecond)
			}
		},
		"other work goes on while one object takes long": func(c *cluster) {
			a, b := site(c, "a"), site(c, "b")
			c.spec("kubectl", a, m{"n": 1})
			for i := range 20 {
				edited(c, b, i, 100*time.Millisecond)
				c.sleep(time.Second)
			}
			c.status("op", a, m{"n": 1})
		},
		"an operator that is asleep for all": func(c *cluster) {
			a, b := site(c, "a"), site(c, "b")
			c.spec("kubectl", a, m{"n": 1})
			c.spec("kubectl", b, m{"n": 1})
			c.sleep(time.Minute)
			c.status("op", a, m{"n": 1})
			c.status("op", b, m{"n": 1})
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, "op")
			scene(c)
			c.analyze(NewStarvation()).none(t)
		})
	}
}

func TestNoDeadlineOfACall(t *testing.T) {
	c := newCluster(t, "op")
	s := site(c, "front")
	for range 2 {
		k := c.begin("op", "update", "", s)
		k.row.StackID = 7
		c.sleep(45 * time.Second)
		k.end(500, "InternalError")
	}
	f := c.analyze(NewNoDeadline()).only(t, "no-deadline")
	if f.Stack != 7 || f.Objects[0].Name != "front" || !strings.Contains(f.What, "2 times") || f.Effect.Value != 45 {
		t.Errorf("%+v", f)
	}
}

func TestNoDeadlineOfAPass(t *testing.T) {
	c := newCluster(t, "op")
	s := site(c, "front")
	c.pass("op", "site", s, c.told("op", s), func() {
		c.status("op", s, m{"n": 1})
		c.sleep(90 * time.Second)
		c.status("op", s, m{"n": 2})
	})
	f := c.analyze(NewNoDeadline()).only(t, "no-deadline")
	if f.Objects[0].Resource != "sites" || !strings.Contains(f.What, "stood still, once") || f.Effect.Value < 89.9 || f.Effect.Value > 90.1 {
		t.Errorf("%+v", f)
	}
}

func TestDeadlines(t *testing.T) {
	c := newCluster(t, "op")
	s := site(c, "front")
	given := c.begin("op", "update", "", s) // the client gave up
	c.sleep(30 * time.Second)
	given.end(0, "")
	said := c.begin("op", "update", "", s)
	said.row.Query = "timeout=40s"
	c.sleep(35 * time.Second)
	said.end(504, "Timeout")
	c.pass("op", "site", s, 0, func() { // long, but at work
		for i := range 30 {
			c.sleep(4 * time.Second)
			c.status("op", s, m{"n": i})
		}
	})
	c.analyze(NewNoDeadline()).none(t)
}
