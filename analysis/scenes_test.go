package analysis

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/opreplay/opreplay/traces"
)

// scene is a story for a detector that has no operator of the zoo: told with the fault, and well.
type scene struct {
	name string
	// subject is the detector that it is about; want what must be found, notes whether the subject has notes of it.
	subject string
	want    []label
	notes   bool
	// operators are those that are recorded; nil is one, op.
	operators []string
	faulty    func(c *cluster)
	healthy   []func(c *cluster)
}

const front = "sites.web.example.com shop/front"

// scenes are made afresh for each test, for a cluster remembers.
func scenes() []scene {
	return []scene{
		{
			name: "an owner in another namespace", subject: "owner-reference", want: []label{{Detector: "owner-reference", Object: "configmaps other/child"}},
			faulty:  func(c *cluster) { owning(c, "other") },
			healthy: []func(*cluster){func(c *cluster) { owning(c, "shop") }},
		},
		{
			name: "stored objects that the schema does not admit", subject: "schema", want: []label{{Detector: "schema", Object: front, Field: "spec.class"}},
			faulty:  func(c *cluster) { defining(c, false) },
			healthy: []func(*cluster){func(c *cluster) { defining(c, true) }},
		},
		{
			name: "an object that the webhook did not see", subject: "webhook-bypass", want: []label{{Detector: "webhook-bypass", Object: "configmaps shop/page-5"}},
			faulty:  func(c *cluster) { injecting(c, 5) },
			healthy: []func(*cluster){func(c *cluster) { injecting(c, 6) }},
		},
		{
			name: "a field that is pruned", subject: "normalise",
			want:   []label{{Detector: "normalise", Object: "sites.web.example.com shop/child", Field: "spec.extra"}, {Detector: "churn", Object: "sites.web.example.com shop/child"}},
			faulty: func(c *cluster) { sending(c, 40, 500*time.Millisecond, m{"extra": "x"}) },
			healthy: []func(*cluster){
				func(c *cluster) { sending(c, 10, 5*time.Second, nil) },
				func(c *cluster) { sending(c, 20, 10*time.Second, m{"extra": "x"}) }, // a note
			},
		},
		{
			name: "two operators and one field", subject: "fight", want: []label{{Detector: "fight", Object: front, Field: "spec.replicas"}}, operators: []string{"op", "b"},
			faulty:  func(c *cluster) { fighting(c, 5) },
			healthy: []func(*cluster){func(c *cluster) { fighting(c, 3) }},
		},
		{
			name: "retries at a fixed delay", subject: "retry-storm", want: []label{{Detector: "retry-storm", Object: front}},
			faulty: func(c *cluster) { fails(c, 30, 500*time.Millisecond, 1) },
			healthy: []func(*cluster){
				func(c *cluster) { fails(c, 14, 5*time.Millisecond, 2) },
				func(c *cluster) { fails(c, 20, 20*time.Second, 1) },
			},
		},
		{
			name: "refused as invalid for ever", subject: "retry-storm", want: []label{{Detector: "retry-storm", Object: front}},
			faulty: func(c *cluster) { refusing(c, site(c, "front"), 12) },
			healthy: []func(*cluster){func(c *cluster) {
				s := site(c, "front")
				refusing(c, s, 8)
				c.begin("op", "update", "", s).commit(func(o m) { o["spec"] = m{"class": "old"} })
			}},
		},
		{
			name: "passes for nothing", subject: "retry-storm", want: []label{{Detector: "retry-storm", Object: front}},
			faulty:  func(c *cluster) { polling(c, 400, 8*time.Millisecond) },
			healthy: []func(*cluster){func(c *cluster) { polling(c, 60, time.Second) }},
		},
		{
			name: "a panic on each retry", subject: "panic-loop", want: []label{{Detector: "panic-loop", Object: front}},
			faulty: func(c *cluster) { panicking(c, 9) },
			healthy: []func(*cluster){func(c *cluster) {
				panicking(c, 1)
				c.status("op", ref{sites, "front"}, m{"n": 1})
			}},
		},
		{
			name: "a kind that is not in the scheme", subject: "missing-kind", want: []label{{Detector: "missing-kind", Object: front}},
			faulty: func(c *cluster) {
				s, wait := site(c, "front"), 5*time.Millisecond
				for range 12 {
					c.failed("op", s, `no kind is registered for the type main.Page in scheme "pkg/runtime/scheme.go:110"`)
					c.sleep(wait)
					wait *= 2
				}
			},
			healthy: []func(*cluster){func(c *cluster) {
				c.log("op", "error", "if kind is a CRD, it should be installed before calling Start", m{"error": `no matches for kind "Page" in version "web.example.com/v2"`})
				working(c, 20)
			}},
		},
		{
			name: "a kind that the cluster does not serve", subject: "missing-kind", want: []label{{Detector: "missing-kind"}},
			faulty: func(c *cluster) {
				site(c, "front")
				for range 6 {
					c.log("op", "error", "if kind is a CRD, it should be installed before calling Start", m{"error": `no matches for kind "Page" in version "web.example.com/v2"`})
					c.sleep(10 * time.Second)
				}
			},
		},
		{
			name: "a breaker that stays open", subject: "circuit-breaker", want: []label{{Detector: "circuit-breaker", Object: front}},
			faulty:  func(c *cluster) { breaking(c, 20, false) },
			healthy: []func(*cluster){func(c *cluster) { breaking(c, 20, true) }},
		},
		{
			name: "polls in line", subject: "starvation", want: []label{{Detector: "starvation", Object: "sites.web.example.com shop/slow"}},
			faulty:  func(c *cluster) { queueing(c, 40, time.Second) },
			healthy: []func(*cluster){func(c *cluster) { queueing(c, 4, 100*time.Millisecond) }},
		},
		{
			name: "a long pass before short ones", subject: "starvation", want: []label{{Detector: "starvation", Object: front}},
			faulty:  func(c *cluster) { behind(c, 25*time.Second) },
			healthy: []func(*cluster){func(c *cluster) { behind(c, 3*time.Second) }},
		},
		{
			name: "calls without a deadline", subject: "no-deadline", want: []label{{Detector: "no-deadline", Object: front}},
			faulty:  func(c *cluster) { waitingLong(c, 45*time.Second, 500) },
			healthy: []func(*cluster){func(c *cluster) { waitingLong(c, 45*time.Second, 0) }, func(c *cluster) { waitingLong(c, 9*time.Second, 500) }},
		},
		{
			name: "writes without end", subject: "amplification", want: []label{{Detector: "amplification", Object: front}, {Detector: "self-loop", Object: front}},
			faulty:  func(c *cluster) { children(c, 900, 1) },
			healthy: []func(*cluster){func(c *cluster) { children(c, 600, 150) }},
		},
		{
			name: "an Event for each failure", subject: "amplification", want: []label{{Detector: "amplification", Object: front}},
			faulty:  func(c *cluster) { telling(c, 80, time.Second) },
			healthy: []func(*cluster){func(c *cluster) { telling(c, 20, 10*time.Second) }},
		},
		{
			name: "a function that never rests", subject: "hot-stack", want: []label{{Detector: "hot-stack"}},
			faulty:  func(c *cluster) { burning(c, 25*time.Second) },
			healthy: []func(*cluster){func(c *cluster) { burning(c, 4*time.Second) }},
		},
		{
			name: "reads without a pause", subject: "hot-stack", want: []label{{Detector: "hot-stack"}},
			faulty:  func(c *cluster) { reading(c, 20) },
			healthy: []func(*cluster){func(c *cluster) { reading(c, 3) }},
		},
		{
			name: "nobody listens", subject: "resource-exhaustion", want: []label{{Detector: "resource-exhaustion"}},
			faulty:  func(c *cluster) { dialing(c, 40) },
			healthy: []func(*cluster){func(c *cluster) { dialing(c, 6) }},
		},
		{
			name: "starts processes", subject: "resource-exhaustion", want: []label{{Detector: "resource-exhaustion"}},
			faulty:  func(c *cluster) { forking(c, 12) },
			healthy: []func(*cluster){func(c *cluster) { forking(c, 1) }},
		},
		{
			name: "a full disk", subject: "resource-exhaustion", want: []label{{Detector: "resource-exhaustion"}},
			faulty: func(c *cluster) {
				working(c, 5)
				c.add(&traces.KernelEvent{Kind: "enospc", PID: 7, FD: 4, Errno: 28})
				working(c, 5)
			},
		},
		{
			name: "liveness that takes too long", subject: "probe", want: []label{{Detector: "probe", Object: "pods shop/web-0"}},
			faulty:  func(c *cluster) { probing(c, 8) },
			healthy: []func(*cluster){func(c *cluster) { probing(c, 1) }},
		},
		{
			name: "ready though nothing is", subject: "probe", want: []label{{Detector: "probe", Object: front}},
			faulty:  func(c *cluster) { lagging(c, 60*time.Second) },
			healthy: []func(*cluster){func(c *cluster) { lagging(c, 3*time.Second) }},
		},
		{
			name: "a pod older than its configuration", subject: "environment", want: []label{{Detector: "environment", Object: "pods shop/web-0"}},
			faulty:  func(c *cluster) { configuring(c, false) },
			healthy: []func(*cluster){func(c *cluster) { configuring(c, true) }},
		},
		{
			name: "passes that change nothing", subject: "useless-reconciles", notes: true,
			faulty:  func(c *cluster) { passing(c, 20, true) },
			healthy: []func(*cluster){func(c *cluster) { passing(c, 40, false) }},
		},
		{
			name: "throttled by itself", subject: "queue-wait", notes: true,
			faulty:  func(c *cluster) { throttling(c, 10) },
			healthy: []func(*cluster){func(c *cluster) { working(c, 20) }},
		},
		{
			name: "permissions that nobody uses", subject: "rbac", notes: true,
			faulty:  func(c *cluster) { permitted(c, "sites/status", "secrets") },
			healthy: []func(*cluster){func(c *cluster) { permitted(c, "sites/status") }},
		},
		{
			name: "metrics in milliseconds", subject: "metrics", notes: true,
			faulty:  func(c *cluster) { measuring(c, "site_sync_ms") },
			healthy: []func(*cluster){func(c *cluster) { measuring(c, "site_sync_seconds") }},
		},
	}
}

// working is an operator that answers what a user asks.
func working(c *cluster, times int) {
	s := ref{sites, "front"}
	if c.get(s) == nil {
		site(c, "front")
	}
	for range times {
		c.spec("kubectl", s, m{"at": c.stamp()})
		c.sleep(40 * time.Millisecond)
		c.status("op", s, m{"observedGeneration": c.get(s)["metadata"].(m)["generation"]})
		c.sleep(2 * time.Second)
	}
}

func fails(c *cluster, times int, wait time.Duration, factor int) {
	s := site(c, "front")
	for range times {
		c.failed("op", s, "dial: no route to host")
		c.sleep(wait)
		wait *= time.Duration(factor)
	}
}

func refusing(c *cluster, s ref, times int) {
	wait := 100 * time.Millisecond
	for range times {
		c.begin("op", "update", "", s).refuse(422, "Invalid")
		c.sleep(wait)
		wait = min(2*wait, 20*time.Second)
	}
}

func polling(c *cluster, times int, wait time.Duration) {
	s := site(c, "front")
	c.sleep(2 * time.Second)
	for range times {
		c.pass("op", "site", s, 0, func() { c.sleep(time.Millisecond) })
		c.sleep(wait)
	}
}

func panicking(c *cluster, times int) {
	s, wait := site(c, "front"), 5*time.Millisecond
	for range times {
		panicked(c, "op", s)
		c.sleep(wait)
		wait *= 2
	}
}

func breaking(c *cluster, times int, tries bool) {
	s := site(c, "front")
	for i := range times {
		if tries && i%3 == 2 {
			c.log("op", "info", "Circuit half-open, trying once", fieldsOf(s, c.seq))
		}
		c.log("op", "info", "Skipping, circuit breaker is open", fieldsOf(s, c.seq))
		c.sleep(10 * time.Second)
	}
}

func queueing(c *cluster, polls int, wait time.Duration) {
	slow := site(c, "slow")
	var others []ref
	for _, name := range []string{"a", "b", "c", "d"} {
		s := site(c, name)
		c.status("op", s, m{"n": 0})
		edited(c, s, 1, 30*time.Millisecond)
		others = append(others, s)
	}
	c.spec("kubectl", slow, m{"n": 1})
	c.status("op", slow, m{"phase": "waiting"})
	for i := range polls {
		c.sleep(wait)
		k := c.begin("op", "get", "", slow)
		k.row.Identity = c.identity(slow, c.get(slow))
		k.end(200, "")
		if i == 2 {
			for _, s := range others {
				c.spec("kubectl", s, m{"n": 2})
			}
		}
	}
	for _, s := range others {
		c.status("op", s, m{"n": 2})
	}
}

func behind(c *cluster, work time.Duration) {
	slow, a := site(c, "front"), site(c, "a")
	for i := range 3 {
		c.spec("kubectl", slow, m{"n": i})
		c.pass("op", "site", slow, c.told("op", slow), func() {
			c.status("op", slow, m{"n": i})
			c.spec("kubectl", a, m{"n": i})
			c.sleep(work)
		})
		c.pass("op", "site", a, c.told("op", a), func() { c.status("op", a, m{"n": i}) })
	}
}

func waitingLong(c *cluster, d time.Duration, code int32) {
	s := site(c, "front")
	for range 3 {
		k := c.begin("op", "update", "", s)
		c.sleep(d)
		k.end(code, "")
	}
}

func children(c *cluster, writes, changes int) {
	s := site(c, "front")
	for i := range writes {
		if i%(writes/changes) == 0 {
			c.spec("kubectl", s, m{"n": i})
		}
		c.sleep(50 * time.Millisecond)
		c.status("op", s, m{"n": i})
	}
}

func telling(c *cluster, times int, wait time.Duration) {
	s := site(c, "front")
	for i := range times {
		c.sleep(wait)
		k := c.begin("op", "create", "", ref{events, fmt.Sprintf("front.%d", i)})
		k.body(m{"reason": "Failed", "involvedObject": m{"apiVersion": "web.example.com/v1", "kind": "Site", "namespace": "shop", "name": s.name}}).commit(func(o m) { o["reason"] = "Failed" })
	}
}

func burning(c *cluster, d time.Duration) {
	site(c, "front")
	c.stack(1, sprintf, render, handler)
	c.stack(2, marshal, render, handler)
	c.burn(d, 99, 1, 2)
	c.sleep(10 * time.Second)
	working(c, 3)
}

func reading(c *cluster, seconds int) {
	c.stack(1, render)
	for range seconds {
		c.sleep(time.Second)
		c.add(&traces.KernelEvent{Kind: "read_loop", PID: 7, FD: 11, Count: 4000, StackID: 1})
	}
	working(c, 3)
}

func dialing(c *cluster, times int) {
	site(c, "front")
	for range times {
		c.sleep(time.Second)
		c.add(&traces.KernelEvent{Kind: "refused", PID: 7, Address: "10.0.0.7", Port: 8443, Errno: 111})
	}
}

func forking(c *cluster, perSecond int64) {
	site(c, "front")
	for range 40 {
		c.sleep(time.Second)
		c.add(&traces.KernelEvent{Kind: "fork", PID: 7, Count: perSecond})
	}
}

func probing(c *cluster, failures int) {
	pod := ref{pods, "web-0"}
	c.create("sts", pod, m{"spec": m{"containers": []any{m{"name": "web", "livenessProbe": m{"httpGet": m{"path": "/healthz"}, "timeoutSeconds": 2}}}}})
	for n := 1; n <= failures; n++ {
		c.sleep(10 * time.Second)
		unhealthy(c, pod, "Unhealthy", `Liveness probe failed: Get "http://10.0.0.7/healthz": context deadline exceeded`, n)
		if n%3 == 0 {
			unhealthy(c, pod, "Killing", "Container web failed liveness probe, will be restarted", n/3)
		}
	}
}

func lagging(c *cluster, lag time.Duration) {
	s, d := deployed(c)
	c.sleep(10 * time.Second)
	c.status("deployment-controller", d, m{"readyReplicas": 0})
	c.sleep(lag)
	c.status("op", s, m{"conditions": []any{condition("Ready", "False", c.stamp())}})
	c.quiet(time.Minute)
}

func configuring(c *cluster, rolls bool) {
	settings := ref{configs, "settings"}
	c.create("op", settings, m{"data": m{"level": "info"}})
	c.sleep(5 * time.Second)
	pod := consumer(c, "web-0", false)
	c.sleep(5 * time.Second)
	c.begin("op", "update", "", settings).commit(func(o m) { o["data"] = m{"level": "debug"} })
	if rolls {
		c.sleep(5 * time.Second)
		c.delete("sts", pod)
		c.sleep(2 * time.Second)
		consumer(c, "web-0", false)
	}
	c.quiet(2 * time.Minute)
}

func passing(c *cluster, times int, useless bool) {
	s := site(c, "front")
	for i := range times {
		c.sleep(time.Second)
		c.spec("kubectl", s, m{"n": i})
		c.pass("op", "site", s, c.told("op", s), func() { c.status("op", s, m{"n": i}) })
		if useless {
			c.pass("op", "site", s, c.told("op", s), func() { c.sleep(time.Millisecond) })
		}
	}
	c.quiet(2 * time.Second)
}

func throttling(c *cluster, times int) {
	site(c, "front")
	for range times {
		c.sleep(2 * time.Second)
		c.log("op", "info", "Waited before sending request", m{"delay": "1.5s", "reason": "client-side throttling, not priority and fairness"})
	}
}

func permitted(c *cluster, resources ...any) {
	granted(c, m{"apiGroups": []any{"web.example.com"}, "resources": resources, "verbs": []any{"patch"}})
	for i, name := range []string{"a", "b"} { // in two namespaces, so that a ClusterRole is right
		s := site(c, name)
		for n := range 15 {
			c.sleep(time.Second)
			c.spec("kubectl", s, m{"n": n})
			k := c.begin("op", "patch", "status", s)
			k.commit(func(o m) { o["status"] = m{"n": n} })
			if i == 1 {
				k.row.Namespace = "blog"
			}
		}
	}
}

func measuring(c *cluster, name string) {
	site(c, "front")
	for i := range 20 {
		c.sleep(5 * time.Second)
		c.metric(name, float64(i%7))
		c.metric("site_syncs_total", float64(i))
	}
}

func owning(c *cluster, namespace string) {
	s := site(c, "front")
	owned(c, "op", "child", ownerTo(c, s))
	c.elsewhere(configMap("child"), namespace)
	c.quiet(2 * time.Second)
}

func defining(c *cluster, mended bool) {
	define(c, revision("v1", m{"host": m{"type": "string"}}))
	s := site(c, "front")
	c.sleep(time.Second)
	define(c, revision("v1", m{"host": m{"type": "string"}, "class": m{"type": "string"}}, "class"))
	c.sleep(time.Second)
	if mended {
		c.spec("kubectl", s, m{"host": "front", "class": "x"})
	}
	c.quiet(2 * time.Second)
}

func injecting(c *cluster, answers int) {
	hook(c, "Ignore")
	for i := range 6 {
		c.sleep(time.Second)
		through(c, fmt.Sprintf("page-%d", i), i < answers, m{"a": "1"})
	}
	c.quiet(2 * time.Second)
}

func sending(c *cluster, times int, wait time.Duration, more m) {
	for i := range times {
		stored := m{"cpu": "1"}
		if more == nil {
			stored["cpu"] = fmt.Sprint(i)
		}
		sent := clone(stored).(m)
		maps.Copy(sent, more)
		send(c, ref{sites, "child"}, sent, stored)
		c.sleep(wait)
	}
}

func fighting(c *cluster, other int) {
	turns(c, site(c, "front"), "op", "b", 6, always(3), always(other))
	c.quiet(5 * time.Second)
}

// rowsOf plays a story.
func rowsOf(t testing.TB, s *scene, play func(*cluster)) []traces.Record {
	operators := s.operators
	if operators == nil {
		operators = []string{"op"}
	}
	c := newCluster(t, operators...)
	play(c)
	return c.rows
}
