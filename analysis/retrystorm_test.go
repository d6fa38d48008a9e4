package analysis

import (
	"strings"
	"testing"
	"time"
)

func TestRetriesWithoutBackoff(t *testing.T) {
	c := newCluster(t, "op")
	s, other := site(c, "front"), site(c, "back")
	for range 30 {
		c.sleep(500 * time.Millisecond)
		c.failed("op", s, "dial tcp 10.0.0.7:443: connect: connection refused")
		c.failed("op", other, "dial tcp 10.0.0.8:443: connect: connection refused")
	}
	f := c.analyze(NewRetryStorm()).only(t, "retry-storm")
	if f.Severity != Error || f.Total != 2 || f.Objects[0].String() != "sites.web.example.com shop/back" {
		t.Errorf("%+v", f)
	}
	if g := f.statistic(t, "growth of the interval"); g.Value != 1 || g.Low > 1 || g.High > 1.001 || g.N != 29 {
		t.Errorf("growth %+v", g)
	}
	if i := f.statistic(t, "interval"); i.Value != 0.5 {
		t.Errorf("interval %+v", i)
	}
	if !strings.Contains(f.What, "30 failures in 14.5 s, every 500 ms: dial tcp") || !strings.Contains(f.Cause, "fixed delay (500 ms)") {
		t.Errorf("%s\n%s", f.What, f.Cause)
	}
}

func TestRetriesPastTheBackoffByAnOwnStatusWrite(t *testing.T) {
	c := newCluster(t, "op")
	s := site(c, "front")
	for range 30 {
		c.sleep(40 * time.Millisecond)
		c.status("op", s, m{"lastError": c.stamp()})
		c.failed("op", s, "no route")
	}
	f := c.analyze(NewRetryStorm()).only(t, "retry-storm")
	if !strings.Contains(f.Cause, "the event of that write queues the key again") {
		t.Error(f.Cause)
	}
}

func TestIdenticalRefusals(t *testing.T) {
	c := newCluster(t, "op")
	s := site(c, "front")
	wait := 100 * time.Millisecond
	for range 9 {
		k := c.begin("op", "update", "", s)
		k.row.ResponseBody = text(m{"kind": "Status", "message": "Site is invalid: spec.class: field is immutable", "details": m{"causes": []any{m{"field": "spec.class"}}}})
		k.refuse(422, "Invalid")
		c.sleep(wait)
		wait *= 2
	}
	f := c.analyze(NewRetryStorm()).only(t, "retry-storm")
	if f.Field != "spec.class" || f.Severity != Error || f.Objects[0].Name != "front" || !strings.Contains(f.What, "9 times in a row") || !strings.Contains(f.Cause, "field is immutable") {
		t.Errorf("%+v", f)
	}
	if g := f.statistic(t, "growth of the interval"); g.Value < 1.9 || g.Value > 2.1 {
		t.Errorf("growth %+v", g)
	}
}

func TestForbiddenLists(t *testing.T) {
	c := newCluster(t, "op")
	for range 12 {
		k := c.begin("op", "list", "", ref{configs, ""})
		k.refuse(403, "Forbidden")
		c.sleep(3 * time.Second)
	}
	f := c.analyze(NewRetryStorm()).only(t, "retry-storm")
	if !strings.Contains(f.What, "its list of configmaps 12 times") || !strings.Contains(f.Cause, "account may not") {
		t.Errorf("%s\n%s", f.What, f.Cause)
	}
}

func TestPassesWithNothingToDo(t *testing.T) {
	for name, pass := range map[string]func(c *cluster, s ref){
		"recorded": func(c *cluster, s ref) { c.pass("op", "site", s, 0, func() { c.sleep(time.Millisecond) }) },
		"logged":   func(c *cluster, s ref) { c.log("op", "info", "Waiting for the old pages to go", fieldsOf(s, c.seq)) },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, "op")
			s := site(c, "front")
			c.sleep(2 * time.Second)
			for range 300 {
				c.sleep(6 * time.Millisecond)
				pass(c, s)
			}
			f := c.analyze(NewRetryStorm()).only(t, "retry-storm")
			if !strings.Contains(f.What, "300 passes in ") || f.Objects[0].Name != "front" || f.Severity != Error {
				t.Errorf("%+v", f)
			}
		})
	}
}

func TestNoRetryStorm(t *testing.T) {
	for name, scene := range map[string]func(c *cluster){
		"backoff": func(c *cluster) {
			s, wait := site(c, "front"), 5*time.Millisecond
			for range 15 {
				c.failed("op", s, "no route")
				c.sleep(wait)
				wait *= 2
			}
		},
		"a poll twice a minute": func(c *cluster) {
			s := site(c, "front")
			for range 40 {
				c.failed("op", s, "not ready")
				c.sleep(30 * time.Second)
			}
		},
		"failures that others' changes cause": func(c *cluster) {
			s := site(c, "front")
			for i := range 40 {
				c.spec("kubectl", s, m{"n": i})
				c.failed("op", s, "bad spec")
				c.sleep(500 * time.Millisecond)
			}
		},
		"a refusal that ends": func(c *cluster) {
			s := site(c, "front")
			for range 12 {
				c.begin("op", "update", "", s).refuse(422, "Invalid")
				c.sleep(2 * time.Second)
			}
			c.status("op", s, m{"n": 1})
			c.begin("op", "update", "", s).commit(func(o m) { o["spec"] = m{"n": 2} })
		},
		"reads of what is not there yet": func(c *cluster) {
			for range 60 {
				c.begin("op", "get", "", ref{configs, "later"}).refuse(404, "NotFound")
				c.sleep(time.Second)
			}
		},
		"creates of what is there": func(c *cluster) {
			page := ref{configs, "page"}
			c.create("op", page, m{})
			for range 60 {
				c.begin("op", "create", "", page).refuse(409, "AlreadyExists")
				c.sleep(time.Second)
			}
		},
		"passes that write": func(c *cluster) {
			s := site(c, "front")
			for i := range 300 {
				c.pass("op", "site", s, 0, func() { c.status("op", s, m{"n": i}) })
				c.sleep(6 * time.Millisecond)
			}
		},
		"a poll every second": func(c *cluster) {
			s := site(c, "front")
			for range 300 {
				c.pass("op", "site", s, 0, func() { c.sleep(time.Millisecond) })
				c.sleep(time.Second)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, "op")
			scene(c)
			c.analyze(NewRetryStorm()).none(t)
		})
	}
}
