package analysis

import (
	"strings"
	"testing"
	"time"
)

// rented is an operator that rents two machines for a Site behind a finalizer, and lets the Site go. Before that it
// does what the caller says.
func rented(t *testing.T, hidden bool, before func(c *cluster)) *cluster {
	c := newCluster(t, "op")
	c.create("kubectl", ref{configs, "another"}, m{})
	s := site(c, "front")
	c.finalizers("op", s, "op/machines")
	c.hidden = map[string]bool{"op": hidden}
	c.create("op", ref{configs, "machine-front-0"}, m{})
	c.create("op", ref{configs, "machine-front-1"}, m{})
	c.hidden = nil
	c.delete("kubectl", s)
	if before != nil {
		before(c)
	}
	letGo(c, s)
	c.quiet(10 * time.Second)
	return c
}

// letGo has the operator take away its finalizer.
func letGo(c *cluster, r ref) {
	c.begin("op", "patch", "", r).body(m{"metadata": m{"finalizers": nil}}).commit(func(o m) { o["metadata"].(m)["finalizers"] = []any{} })
}

func TestFinalizerEarlyByAStaleCache(t *testing.T) {
	c := rented(t, true, nil)
	f := c.analyze(NewFinalizerEarly()).only(t, "finalizer-early")
	if f.Process != "op" || f.Severity != Error || f.Certainty != Sure || f.Total != 3 || f.Objects[0].String() != "sites.web.example.com shop/front" || f.Objects[1].Name != "machine-front-0" {
		t.Errorf("%+v", f)
	}
	if !strings.Contains(f.Cause, "configmaps shop/machine-front-0 was not in it yet (it has never been told of it)") {
		t.Error(f.Cause)
	}
}

func TestFinalizerEarlyThoughToldOfIt(t *testing.T) {
	c := rented(t, false, func(c *cluster) { c.delete("op", ref{configs, "machine-front-0"}) })
	f := c.analyze(NewFinalizerEarly()).only(t, "finalizer-early")
	if f.Certainty != Likely || f.Total != 2 || f.Objects[1].Name != "machine-front-1" {
		t.Errorf("%+v", f)
	}
}

func TestFinalizerAfterTheWork(t *testing.T) {
	c := newCluster(t, "op")
	s := site(c, "front")
	c.create("op", ref{configs, "machine-front-0"}, m{})
	c.sleep(time.Second)
	c.finalizers("op", s, "op/machines")
	f := c.analyze(NewFinalizerEarly()).only(t, "finalizer-early")
	if f.Severity != Warning || f.Objects[0].Name != "front" || !strings.Contains(f.What, "made configmaps shop/machine-front-0 for sites.web.example.com shop/front 1.0 s before it set its finalizer op/machines") {
		t.Errorf("%s", f.What)
	}
}

func TestNoFinalizerEarly(t *testing.T) {
	for name, c := range map[string]*cluster{
		"all is taken away first": rented(t, false, func(c *cluster) {
			c.delete("op", ref{configs, "machine-front-0"})
			c.delete("op", ref{configs, "machine-front-1"})
		}),
		"it keeps them on purpose, as it seems": rented(t, false, nil),
		"there is another of the name, whose they may be": func() *cluster {
			c := rented(t, true, nil)
			site(c, "front")
			c.quiet(10 * time.Second)
			return c
		}(),
		"the garbage collector's": func() *cluster {
			c := newCluster(t, "op")
			s := site(c, "front")
			uid := c.get(s)["metadata"].(m)["uid"]
			c.create("op", ref{configs, "front-page"}, m{"metadata": m{"ownerReferences": []any{m{"uid": uid}}}})
			c.finalizers("op", s, "op/machines")
			c.delete("kubectl", s)
			letGo(c, s)
			c.quiet(10 * time.Second)
			return c
		}(),
		"another's things": func() *cluster {
			c := newCluster(t, "op")
			s := site(c, "front")
			c.create("someone", ref{configs, "front-notes"}, m{})
			c.finalizers("op", s, "op/machines")
			c.delete("kubectl", s)
			letGo(c, s)
			c.quiet(10 * time.Second)
			return c
		}(),
	} {
		t.Run(name, func(t *testing.T) { c.analyze(NewFinalizerEarly()).none(t) })
	}
}
