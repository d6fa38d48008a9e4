package analysis

import (
	"strings"
	"testing"
	"time"

	"github.com/opreplay/opreplay/traces"
)

var svcs = kind{"", "v1", "services", "Service"}

// restart ends the operator's watches and begins anew.
func (c *cluster) restart(by string) {
	for _, k := range []kind{sites, configs, svcs} {
		c.add(&traces.Request{Identity: traces.Identity{Group: k.group, Resource: k.resource}, StartSeq: 1, Start: c.ts(), Process: by, Verb: "watch", Code: 200, Stream: by + "/" + k.resource})
	}
	c.sleep(time.Second)
	c.add(&traces.Request{StartSeq: c.seq, Start: c.ts(), Process: by, Verb: "get", Path: "/api/v1", Code: 200})
}

// half is an operator that makes two objects for each Site, all for one Site, and for another the first before it goes
// down.
func half(t *testing.T) *cluster {
	c := newCluster(t, "op")
	site(c, "back")
	c.create("op", ref{configs, "back-settings"}, m{})
	c.create("op", ref{svcs, "back"}, m{})
	site(c, "front")
	c.create("op", ref{configs, "front-settings"}, m{})
	c.restart("op")
	c.show("op", ref{sites, "front"}, c.get(ref{sites, "front"}))
	return c
}

func TestCrashGap(t *testing.T) {
	c := half(t)
	c.status("op", ref{sites, "front"}, m{"done": true})
	c.quiet(10 * time.Second)
	f := c.analyze(NewCrashGap()).only(t, "crash-gap")
	if f.Process != "op" || f.Objects[0].String() != "sites.web.example.com shop/front" || f.Objects[1].String() != "configmaps shop/front-settings" {
		t.Errorf("%+v", f)
	}
	if !strings.Contains(f.What, "but not services front, the like of which op made for sites.web.example.com shop/back") || !strings.Contains(f.Cause, "back 1.0 s later") || !strings.Contains(f.Cause, "it has written sites.web.example.com shop/front since") {
		t.Errorf("%s\n%s", f.What, f.Cause)
	}
}

func TestNoCrashGap(t *testing.T) {
	t.Run("it makes the rest", func(t *testing.T) {
		c := half(t)
		c.create("op", ref{svcs, "front"}, m{})
		c.quiet(10 * time.Second)
		c.analyze(NewCrashGap()).none(t)
	})
	t.Run("no time yet", func(t *testing.T) {
		c := half(t)
		c.quiet(time.Second)
		c.analyze(NewCrashGap()).none(t)
	})
	t.Run("the restart came later", func(t *testing.T) {
		c := newCluster(t, "op")
		site(c, "back")
		c.create("op", ref{configs, "back-settings"}, m{})
		c.create("op", ref{svcs, "back"}, m{})
		site(c, "front")
		c.create("op", ref{configs, "front-settings"}, m{})
		c.status("op", ref{sites, "front"}, m{"headless": true}) // the pass went on: this one is to have no more
		c.restart("op")
		c.show("op", ref{sites, "front"}, c.get(ref{sites, "front"}))
		c.quiet(10 * time.Second)
		c.analyze(NewCrashGap()).none(t)
	})
	t.Run("none of the kind has more", func(t *testing.T) {
		c := newCluster(t, "op")
		site(c, "back")
		c.create("op", ref{configs, "back-settings"}, m{})
		site(c, "front")
		c.create("op", ref{configs, "front-settings"}, m{})
		c.restart("op")
		c.show("op", ref{sites, "front"}, c.get(ref{sites, "front"}))
		c.quiet(10 * time.Second)
		c.analyze(NewCrashGap()).none(t)
	})
	t.Run("watches that end without a restart", func(t *testing.T) {
		c := half(t)
		n := len(c.rows)
		for i := n - 1; i >= 0; i-- { // no discovery
			if r, ok := c.rows[i].(*traces.Request); ok && r.Path != "" {
				c.rows = append(c.rows[:i:i], c.rows[i+1:]...)
			}
		}
		c.quiet(10 * time.Second)
		c.analyze(NewCrashGap()).none(t)
	})
}
