package analysis

import (
	"strings"
	"testing"
	"time"
)

var (
	pods        = kind{"", "v1", "pods", "Pod"}
	events      = kind{"", "v1", "events", "Event"}
	deployments = kind{"apps", "v1", "deployments", "Deployment"}
)

// unhealthy is an Event of the kubelet's about a pod, seen so many times by now.
func unhealthy(c *cluster, pod ref, reason, message string, n int) {
	c.begin("kubelet", "update", "", ref{events, pod.name + "." + reason}).commit(func(o m) {
		o["reason"], o["message"], o["count"] = reason, message, n
		o["involvedObject"] = m{"apiVersion": "v1", "kind": "Pod", "namespace": "shop", "name": pod.name, "uid": c.get(pod)["metadata"].(m)["uid"]}
	})
}

func TestLivenessProbeThatOutlastsItsTimeout(t *testing.T) {
	c := newCluster(t)
	pod := ref{pods, "web-0"}
	c.create("sts", pod, m{"spec": m{"containers": []any{m{"name": "web", "livenessProbe": m{"httpGet": m{"path": "/healthz"}, "timeoutSeconds": 2}}}}})
	for n := 1; n <= 6; n++ {
		c.sleep(10 * time.Second)
		unhealthy(c, pod, "Unhealthy", `Liveness probe failed: Get "http://10.0.0.7/healthz": context deadline exceeded`, n)
	}
	r := c.analyze(NewProbe())
	r.noted(t, "took longer than it may (timeoutSeconds 2) 6 times", "was not killed")
	unhealthy(c, pod, "Killing", "Container web failed liveness probe, will be restarted", 2)
	f := c.analyze(NewProbe()).only(t, "probe")
	if f.Objects[0].Name != "web-0" || !strings.Contains(f.What, "container web was killed 2 times") || !strings.Contains(f.Cause, "httpGet") {
		t.Errorf("%+v", f)
	}
}

// deployed is a Site with a Deployment that it owns, of which so many pods are ready.
func deployed(c *cluster) (s, d ref) {
	s, d = site(c, "front"), ref{deployments, "front"}
	c.create("op", d, m{"metadata": m{"ownerReferences": []any{m{"uid": c.get(s)["metadata"].(m)["uid"], "controller": true}}}, "spec": m{"replicas": 2}})
	c.status("deployment-controller", d, m{"readyReplicas": 2})
	c.status("op", s, m{"conditions": []any{condition("Ready", "True", c.stamp())}})
	return s, d
}

func TestStaleReadiness(t *testing.T) {
	c := newCluster(t, "op")
	s, d := deployed(c)
	c.sleep(10 * time.Second)
	c.status("deployment-controller", d, m{"readyReplicas": 0})
	c.sleep(50 * time.Second)
	c.status("op", s, m{"conditions": []any{condition("Ready", "False", c.stamp())}})
	c.quiet(time.Minute)
	f := c.analyze(NewProbe()).only(t, "probe")
	if f.Process != "op" || f.Objects[0].String() != "sites.web.example.com shop/front" || f.Objects[1].Resource != "deployments" || f.Effect.Value < 49 || f.Effect.Value > 51 {
		t.Errorf("%+v", f)
	}
}

// Who had it say Ready is told, whichever other detectors have asked for the writer.
func TestWriterOfStaleReadiness(t *testing.T) {
	c := newCluster(t, "op")
	s, d := deployed(c)
	c.status("op", s, m{"conditions": []any{condition("Ready", "False", c.stamp())}})
	c.begin("stranger", "update", "status", s).commit(func(o m) {
		o["metadata"].(m)["managedFields"] = []any{m{"manager": "stranger", "time": "2026-03-01T12:00:00Z"}}
		o["status"] = m{"conditions": []any{condition("Ready", "True", c.stamp())}}
	})
	c.sleep(10 * time.Second)
	c.status("deployment-controller", d, m{"readyReplicas": 0})
	c.quiet(2 * time.Minute)
	if f := c.analyze(NewProbe()).only(t, "probe"); f.Manager != "stranger" {
		t.Errorf("said by %q", f.Manager)
	}
}

func TestNoStaleReadiness(t *testing.T) {
	for name, scene := range map[string]func(c *cluster, s, d ref){
		"taken back in time": func(c *cluster, s, d ref) {
			c.status("deployment-controller", d, m{"readyReplicas": 0})
			c.sleep(5 * time.Second)
			c.status("op", s, m{"conditions": []any{condition("Ready", "False", c.stamp())}})
		},
		"some are ready": func(c *cluster, _, d ref) { c.status("deployment-controller", d, m{"readyReplicas": 1}) },
		"none is wanted": func(c *cluster, _, d ref) {
			c.spec("kubectl", d, m{"replicas": 0})
			c.status("deployment-controller", d, m{"readyReplicas": 0})
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, "op")
			s, d := deployed(c)
			c.sleep(time.Second)
			scene(c, s, d)
			c.quiet(2 * time.Minute)
			c.analyze(NewProbe()).silent(t)
		})
	}
}
