package analysis

import (
	"strings"
	"testing"
	"time"
)

var jobs = kind{"batch", "v1", "jobs", "Job"}

// generate creates a Job for a Site whose name the API server chooses.
func generate(c *cluster, by string, site ref, name string) {
	uid := c.get(site)["metadata"].(m)["uid"]
	meta := m{"generateName": site.name + "-", "labels": m{"site": site.name}, "ownerReferences": []any{m{"kind": "Site", "name": site.name, "uid": uid}}}
	c.begin(by, "create", "", ref{jobs, name}).body(m{"metadata": meta}).commit(func(o m) {
		for k, v := range meta {
			o["metadata"].(m)[k] = v
		}
	})
}

// names has an operator write the Job's name into the Site's status.
func names(c *cluster, by string, site ref, job string) {
	c.begin(by, "patch", "status", site).body(m{"status": m{"job": job}}).commit(func(o m) { o["status"] = m{"job": job} })
}

func TestDuplicateCreate(t *testing.T) {
	c := newCluster(t, "ci")
	s := site(c, "front")
	c.create("kubectl", ref{jobs, "another"}, m{}) // by which it is seen that the operator watches jobs
	c.hidden = map[string]bool{"ci": true}         // its watch is behind
	generate(c, "ci", s, "front-aaaa")
	names(c, "ci", s, "front-aaaa")
	generate(c, "ci", s, "front-bbbb")
	f := c.analyze(NewDuplicateCreate()).only(t, "duplicate-create")
	if f.Process != "ci" || f.Certainty != Sure || f.Objects[0].String() != "jobs.batch shop/front-bbbb" || f.Total != 1 {
		t.Errorf("%+v", f)
	}
	for _, want := range []string{"generateName", "written front-aaaa into sites.web.example.com shop/front"} {
		if !strings.Contains(f.Cause, want) {
			t.Errorf("%q lacks %q", f.Cause, want)
		}
	}
}

func TestDuplicateCreateInAnotherPass(t *testing.T) {
	c := newCluster(t, "ci")
	s := site(c, "front")
	c.create("kubectl", ref{jobs, "another"}, m{})
	c.hidden = map[string]bool{"ci": true}
	c.pass("ci", "build", s, 0, func() { generate(c, "ci", s, "front-aaaa") })
	c.pass("ci", "build", s, 0, func() { generate(c, "ci", s, "front-bbbb") })
	f := c.analyze(NewDuplicateCreate()).only(t, "duplicate-create")
	if f.Certainty != Likely {
		t.Errorf("%+v", f)
	}
}

func TestNoDuplicateCreate(t *testing.T) {
	for name, play := range map[string]func(c *cluster, s ref){
		"several in one pass": func(c *cluster, s ref) {
			c.hidden = map[string]bool{"ci": true}
			c.pass("ci", "build", s, 0, func() {
				generate(c, "ci", s, "front-aaaa")
				generate(c, "ci", s, "front-bbbb")
			})
		},
		"another one, the first being known": func(c *cluster, s ref) {
			generate(c, "ci", s, "front-aaaa")
			names(c, "ci", s, "front-aaaa")
			generate(c, "ci", s, "front-bbbb")
		},
		"a new one, the first being gone": func(c *cluster, s ref) {
			generate(c, "ci", s, "front-aaaa")
			names(c, "ci", s, "front-aaaa")
			c.delete("ci", ref{jobs, "front-aaaa"})
			c.sleep(2 * time.Second)
			c.quiet(2 * time.Second)
			generate(c, "ci", s, "front-bbbb")
		},
		"for another object": func(c *cluster, s ref) {
			c.hidden = map[string]bool{"ci": true}
			other := site(c, "back")
			generate(c, "ci", s, "front-aaaa")
			names(c, "ci", s, "front-aaaa")
			generate(c, "ci", other, "back-aaaa")
		},
		"long after": func(c *cluster, s ref) {
			c.hidden = map[string]bool{"ci": true}
			generate(c, "ci", s, "front-aaaa")
			names(c, "ci", s, "front-aaaa")
			c.sleep(time.Hour)
			generate(c, "ci", s, "front-bbbb")
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, "ci")
			s := site(c, "front")
			c.create("kubectl", ref{jobs, "another"}, m{})
			play(c, s)
			c.quiet(5 * time.Second)
			c.analyze(NewDuplicateCreate()).none(t)
		})
	}
	t.Run("without a watch there is no cache that lags", func(t *testing.T) {
		c := newCluster(t, "ci")
		s := site(c, "front")
		c.hidden = map[string]bool{"ci": true}
		generate(c, "ci", s, "front-aaaa")
		names(c, "ci", s, "front-aaaa")
		generate(c, "ci", s, "front-bbbb")
		c.analyze(NewDuplicateCreate()).none(t)
	})
}
