package analysis

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

var mutators = kind{"admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration"}

// hook registers a webhook that sees creates of ConfigMaps.
func hook(c *cluster, policy string) {
	c.create("kubectl", ref{mutators, "sidecars"}, m{"webhooks": []any{m{
		"name": "inject.example.com", "failurePolicy": policy,
		"rules": []any{m{"operations": []any{"CREATE"}, "apiGroups": []any{""}, "apiVersions": []any{"v1"}, "resources": []any{"configmaps"}}},
	}}})
}

// through creates a ConfigMap, to which the API server adds a default and the webhook, if it answers, an annotation.
func through(c *cluster, name string, answers bool, data m) {
	k := c.begin("op", "create", "", ref{configs, name}).body(m{"metadata": m{"name": name}, "data": data})
	if !answers {
		c.sleep(10 * time.Second)
	}
	k.commit(func(o m) {
		o["data"] = clone(data)
		o["immutable"] = false
		if answers {
			o["metadata"].(m)["annotations"] = m{"example.com/injected": "yes"}
		}
	})
}

func TestWebhookBypass(t *testing.T) {
	for policy, cause := range map[string]string{"Ignore": "its failurePolicy is Ignore", "Fail": "its selectors leave the object out"} {
		c := newCluster(t, "op")
		hook(c, policy)
		for i := range 4 {
			through(c, fmt.Sprintf("page-%d", i), true, m{"a": "1"})
		}
		through(c, "late", false, m{"a": "2"})
		c.quiet(2 * time.Second)
		f := c.analyze(NewWebhookBypass()).only(t, "webhook-bypass")
		if f.Process != "op" || f.Manager != "op" || f.Field != "metadata.annotations['example.com/injected']" || f.Objects[0].Name != "late" || f.Total != 1 {
			t.Errorf("%+v", f)
		}
		for _, want := range []string{"webhook inject.example.com of sidecars", cause, "the create took 10.0 s"} {
			if !strings.Contains(f.Cause, want) {
				t.Errorf("%q lacks %q", f.Cause, want)
			}
		}
	}
}

func TestNoWebhookBypass(t *testing.T) {
	for name, play := range map[string]func(c *cluster){
		"all went through": func(c *cluster) {
			hook(c, "Ignore")
			for i := range 6 {
				through(c, fmt.Sprintf("page-%d", i), true, m{"a": "1"})
			}
		},
		"no webhook": func(c *cluster) {
			for i := range 6 {
				through(c, fmt.Sprintf("page-%d", i), i > 0, m{"a": "1"})
			}
		},
		"another shape": func(c *cluster) {
			hook(c, "Ignore")
			for i := range 6 {
				through(c, fmt.Sprintf("page-%d", i), true, m{"a": "1"})
			}
			through(c, "other", false, m{"b": "1"})
		},
		"every second one, by its content": func(c *cluster) {
			hook(c, "Ignore")
			for i := range 8 {
				through(c, fmt.Sprintf("page-%d", i), i%2 == 0, m{"a": fmt.Sprint(i)})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, "op")
			play(c)
			c.quiet(2 * time.Second)
			c.analyze(NewWebhookBypass()).none(t)
		})
	}
}
