package analysis

import (
	"strings"
	"testing"
	"time"
)

func TestTombstonePanic(t *testing.T) {
	c := newCluster(t, "op")
	s := site(c, "front")
	c.hidden = map[string]bool{"op": true}
	c.delete("kubectl", s)
	c.sleep(time.Second)
	for _, line := range []string{
		"panic: interface conversion: interface {} is cache.DeletedFinalStateUnknown, not *main.Site", "goroutine 59 [running]:",
		"panic({0x1492680?, 0x20328dacd740?})", "\truntime/panic.go:860 +0x13a",
		"main.(*listener).deleted(...)", "\tgithub.com/example/op/main.go:84",
		"k8s.io/client-go/tools/cache.ResourceEventHandlerFuncs.OnDelete(...)", "\tk8s.io/client-go@v0.37.2/tools/cache/controller.go:437",
	} {
		c.log("op", "", line, nil)
	}
	c.quiet(time.Second)
	f := c.analyze(NewTombstone()).only(t, "tombstone")
	if f.Process != "op" || f.Certainty != Sure || len(f.Objects) != 1 || f.Objects[0].String() != "sites.web.example.com shop/front" {
		t.Errorf("%+v", f)
	}
	if !strings.Contains(f.Cause, "main.(*listener).deleted (main.go:84)") {
		t.Error(f.Cause)
	}
}

// left is an operator that makes something for each Site and takes it away when the Site has gone, which it is told of
// for the first one, and for the second if told.
func left(t *testing.T, told bool) *cluster {
	c := newCluster(t, "op")
	for _, name := range []string{"front", "back"} {
		s := site(c, name)
		c.create("op", ref{configs, name + "-page"}, m{})
		c.sleep(2 * time.Second)
		c.hidden = map[string]bool{"op": name == "back" && !told}
		c.delete("kubectl", s)
		c.sleep(2 * time.Second)
		c.quiet(time.Second)
		if !c.hidden["op"] {
			c.delete("op", ref{configs, name + "-page"})
		}
	}
	c.hidden = nil
	site(c, "third") // it is back
	return c
}

func TestTombstoneLeft(t *testing.T) {
	c := left(t, false)
	c.quiet(10 * time.Second)
	f := c.analyze(NewTombstone()).only(t, "tombstone")
	if f.Objects[0].String() != "configmaps shop/back-page" || !strings.Contains(f.What, "made for sites.web.example.com shop/back") {
		t.Errorf("%s\n%v", f.What, f.Objects)
	}
}

func TestNoTombstone(t *testing.T) {
	t.Run("told of each", func(t *testing.T) {
		c := left(t, true)
		c.quiet(10 * time.Second)
		c.analyze(NewTombstone()).none(t)
	})
	t.Run("it finds out by itself", func(t *testing.T) {
		c := left(t, false)
		c.delete("op", ref{configs, "back-page"})
		c.quiet(10 * time.Second)
		c.analyze(NewTombstone()).none(t)
	})
	t.Run("the word in a debug line", func(t *testing.T) {
		c := newCluster(t, "op")
		c.log("op", "debug", "handling cache.DeletedFinalStateUnknown", nil)
		c.analyze(NewTombstone()).none(t)
	})
	t.Run("it never cleans up: a note", func(t *testing.T) {
		c := newCluster(t, "op")
		s := site(c, "front")
		c.create("op", ref{configs, "front-page"}, m{})
		c.hidden = map[string]bool{"op": true}
		c.delete("kubectl", s)
		c.sleep(2 * time.Second)
		c.quiet(time.Second)
		c.hidden = nil
		site(c, "third")
		c.quiet(10 * time.Second)
		r := c.analyze(NewTombstone())
		r.none(t)
		if len(r.Notes) != 1 || r.Notes[0].Objects[0].Name != "front-page" {
			t.Error(r.describe())
		}
	})
}
