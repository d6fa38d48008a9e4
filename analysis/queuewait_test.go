package analysis

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// noted is the one note that there must be, and no finding.
func (r *Result) noted(t *testing.T, contains ...string) *Note {
	t.Helper()
	r.none(t)
	if len(r.Notes) != 1 {
		t.Fatalf("want one note, got %s", r.describe())
	}
	for _, want := range contains {
		if !strings.Contains(r.Notes[0].What, want) {
			t.Errorf("%q lacks %q", r.Notes[0].What, want)
		}
	}
	return &r.Notes[0]
}

func (r *Result) silent(t *testing.T) {
	t.Helper()
	if len(r.Findings)+len(r.Notes) > 0 {
		t.Errorf("want nothing, got %s", r.describe())
	}
}

func TestClientSideThrottling(t *testing.T) {
	c := newCluster(t, "op")
	c.log("op", "info", "Waited before sending request", m{"delay": "1.5s", "reason": "client-side throttling, not priority and fairness", "verb": "GET"})
	c.log("op", "info", "Waited before sending request", m{"delay": 2_000_000_000, "reason": "client-side throttling, not priority and fairness"})
	c.log("op", "info", "Waited for 1.2s due to client-side throttling, not priority and fairness, request: GET:https://10.0.0.1/api", nil)
	c.log("op", "info", "Waited before sending request", m{"delay": "90s", "reason": "retries: 1, retry-after: 90s"}) // the server's wish
	if n := c.analyze(NewQueueWait()).noted(t, "held back its own calls for 4.7 s in all, 2.0 s at most"); n.Count != 3 {
		t.Errorf("%+v", n)
	}
}

func TestQueueThatWaits(t *testing.T) {
	for name, work := range map[string]time.Duration{"too few workers": 3 * time.Second, "enough": 10 * time.Millisecond} {
		c := newCluster(t, "op")
		names := []ref{site(c, "a"), site(c, "b"), site(c, "c"), site(c, "d")}
		for i := range 10 {
			var triggers []int64
			for _, s := range names {
				c.spec("kubectl", s, m{"n": i})
				triggers = append(triggers, c.told("op", s))
			}
			for j, s := range names {
				c.pass("op", "site", s, triggers[j], func() { c.sleep(work) })
			}
		}
		r := c.analyze(NewQueueWait())
		if work > time.Second {
			r.noted(t, "30 of 40 reconciles of site in op waited 1.0 s and more", "work 3.0 s", "at most 1 went on at one time")
		} else if len(r.Notes) > 0 {
			t.Errorf("%s: %s", name, r.describe())
		}
	}
}

func TestTooManyRequests(t *testing.T) {
	c := newCluster(t, "op")
	s := site(c, "front")
	for range 6 {
		c.begin("op", "update", "", s).refuse(429, "TooManyRequests")
	}
	c.analyze(NewQueueWait()).noted(t, "6 times to come back later (429)")
}

// A resync that queues all keys at once makes waits that come in waves.
func TestQueueThatWaitsInWaves(t *testing.T) {
	for name, every := range map[string]time.Duration{"a resync": time.Minute, "by chance": 0} {
		r := rand.New(rand.NewPCG(1, 2))
		c := newCluster(t, "op")
		names := []ref{site(c, "a"), site(c, "b"), site(c, "c"), site(c, "d"), site(c, "e"), site(c, "f")}
		for i := range 12 {
			var triggers []int64
			for _, s := range names {
				c.spec("kubectl", s, m{"n": i})
				triggers = append(triggers, c.told("op", s))
			}
			for j, s := range names {
				c.pass("op", "site", s, triggers[j], func() { c.sleep(3 * time.Second) })
			}
			gap := every
			if gap == 0 {
				gap = time.Duration(r.ExpFloat64() * float64(time.Minute))
			}
			for from := c.now; c.now < from+gap-18*time.Second; { // users' changes, which are served at once
				s := names[r.IntN(len(names))]
				c.spec("kubectl", s, m{"n": r.Int()})
				c.pass("op", "site", s, c.told("op", s), func() { c.sleep(10 * time.Millisecond) })
				c.sleep(5 * time.Second)
			}
		}
		n := c.analyze(NewQueueWait()).noted(t)
		if waves := strings.Contains(n.What, "in waves of 1.0 min") || strings.Contains(n.What, "in waves of 6"); waves != (every > 0) {
			t.Errorf("%s: %s", name, n.What)
		}
	}
}
