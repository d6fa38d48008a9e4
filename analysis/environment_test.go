package analysis

import (
	"strings"
	"testing"
	"time"
)

// consumer is a running pod with its environment from the ConfigMap settings.
func consumer(c *cluster, name string, optional bool) ref {
	p := ref{pods, name}
	c.create("sts", p, m{
		"spec":   m{"containers": []any{m{"name": "web", "envFrom": []any{m{"configMapRef": m{"name": "settings", "optional": optional}}}}}},
		"status": m{"phase": "Running", "containerStatuses": []any{m{"state": m{"running": m{"startedAt": start.Add(c.now).Format(time.RFC3339)}}}}},
	})
	return p
}

func TestPodOlderThanItsConfiguration(t *testing.T) {
	c := newCluster(t, "op")
	settings := ref{configs, "settings"}
	c.create("op", settings, m{"data": m{"level": "info"}})
	c.sleep(5 * time.Second)
	consumer(c, "web-0", false)
	consumer(c, "web-1", false)
	c.sleep(5 * time.Second)
	c.begin("op", "update", "", settings).commit(func(o m) { o["data"] = m{"level": "debug"} })
	c.quiet(2 * time.Minute)
	f := c.analyze(NewEnvironment()).only(t, "environment")
	if f.Process != "op" || f.Total != 3 || f.Objects[0].Name != "web-0" || f.Objects[2].Name != "settings" || !strings.Contains(f.What, "1 other pod") {
		t.Errorf("%+v", f)
	}
}

func TestPodOlderThanWhatItWasToHave(t *testing.T) {
	c := newCluster(t, "op")
	consumer(c, "web-0", true)
	c.sleep(time.Second)
	c.create("op", ref{configs, "settings"}, m{"data": m{"level": "info"}})
	c.quiet(2 * time.Minute)
	if f := c.analyze(NewEnvironment()).only(t, "environment"); !strings.Contains(f.What, "which was created") {
		t.Error(f.What)
	}
}

func TestNoOldEnvironment(t *testing.T) {
	for name, scene := range map[string]func(c *cluster, settings, pod ref){
		"the pod is rolled": func(c *cluster, _, pod ref) {
			c.sleep(5 * time.Second)
			c.delete("sts", pod)
			consumer(c, "web-0", false)
		},
		"the container is started again": func(c *cluster, _, pod ref) {
			c.sleep(5 * time.Second)
			c.status("kubelet", pod, m{"phase": "Running", "containerStatuses": []any{m{"state": m{"running": m{"startedAt": start.Add(c.now).Format(time.RFC3339)}}}}})
		},
		"labels only": func(*cluster, ref, ref) {},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, "op")
			settings := ref{configs, "settings"}
			c.create("op", settings, m{"data": m{"level": "info"}})
			pod := consumer(c, "web-0", false)
			c.sleep(5 * time.Second)
			c.begin("op", "update", "", settings).commit(func(o m) {
				if name == "labels only" {
					o["metadata"].(m)["labels"] = m{"a": "b"}
					return
				}
				o["data"] = m{"level": "debug"}
			})
			scene(c, settings, pod)
			c.quiet(2 * time.Minute)
			c.analyze(NewEnvironment()).silent(t)
		})
	}
}

func TestWhatAUserChangesIsANote(t *testing.T) {
	c := newCluster(t, "op")
	settings := ref{configs, "settings"}
	c.create("kubectl", settings, m{"data": m{"level": "info"}})
	consumer(c, "web-0", false)
	c.sleep(time.Second) // the grain of startedAt
	c.begin("kubectl", "update", "", settings).commit(func(o m) { o["data"] = m{"level": "debug"} })
	c.quiet(2 * time.Minute)
	c.analyze(NewEnvironment()).noted(t, "pods shop/web-0 runs with an environment that is older than configmaps shop/settings")
}
