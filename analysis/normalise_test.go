package analysis

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// send has the operator send an update of a Deployment-like child, of which the server stores something else.
func send(c *cluster, r ref, sent, stored any) {
	verb := "update"
	if c.get(r) == nil {
		verb = "create"
	}
	c.begin("op", verb, "", r).body(m{"metadata": m{"name": r.name}, "spec": sent}).commit(func(o m) { o["spec"] = clone(stored) })
}

func TestNormalise(t *testing.T) {
	for name, x := range map[string]struct {
		sent, stored m
		field, cause string
	}{
		"pruned":         {m{"cpu": "1", "extra": "x"}, m{"cpu": "1"}, "spec.extra", "it is pruned"},
		"canonical form": {m{"cpu": "1000m"}, m{"cpu": "1"}, "spec.cpu", "canonical form"},
		"rewritten":      {m{"class": "mine"}, m{"class": "standard"}, "spec.class", "a default, a conversion or a webhook puts another value in its place"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, "op")
			child := ref{sites, "child"}
			for range 40 { // each write changes nothing, and is made again half a second later
				send(c, child, x.sent, x.stored)
				c.sleep(500 * time.Millisecond)
			}
			r := c.analyze()
			f := r.Findings[0]
			if f.Detector != "normalise" || f.Process != "op" || f.Manager != "op" || f.Field != x.field || f.Objects[0].Name != "child" || !strings.Contains(f.Cause, x.cause) {
				t.Error(r.describe())
			}
			for _, g := range r.Findings[1:] { // that the writes are empty is said too
				if g.Detector != "churn" || g.Group != f.ID {
					t.Error(r.describe())
				}
			}
		})
	}
}

func TestNormaliseByDeletion(t *testing.T) {
	c := newCluster(t, "op")
	child := ref{sites, "child"}
	for range 4 {
		send(c, child, m{"replicas": 1, "extra": "x"}, m{"replicas": 1})
		c.sleep(20 * time.Second)
		c.delete("op", child)
		c.sleep(2 * time.Second)
		c.quiet(time.Second)
	}
	f := c.analyze(NewNormalise()).only(t, "normalise")
	if f.Severity != Error || f.Field != "spec.extra" || !strings.Contains(f.What, "deletes sites.web.example.com shop/child and creates it anew, 4 times") {
		t.Errorf("%+v", f)
	}
}

// A loop that goes on for longer than the objects that are remembered is still one loop of one object.
func TestNormaliseByDeletionWithoutEnd(t *testing.T) {
	const rounds = maxSent + 88
	c := newCluster(t, "op")
	for range rounds {
		send(c, ref{sites, "child"}, m{"replicas": 1, "extra": "x"}, m{"replicas": 1})
		c.sleep(20 * time.Second)
		c.delete("op", ref{sites, "child"})
		c.sleep(2 * time.Second)
	}
	f := c.analyze(NewNormalise()).only(t, "normalise")
	if want := fmt.Sprintf("creates it anew, %d times", rounds); !strings.Contains(f.What, want) {
		t.Errorf("%q lacks %q", f.What, want)
	}
}

// Of objects that are gone for good the latest are remembered, and no more.
func TestNormaliseForgetsWhatIsGone(t *testing.T) {
	c := newCluster(t, "op")
	for i := range maxSent + 88 {
		child := ref{sites, fmt.Sprintf("child-%d", i)}
		send(c, child, m{"replicas": 1, "extra": "x"}, m{"replicas": 1})
		c.delete("op", child)
	}
	d := NewNormalise()
	c.analyze(d).none(t)
	if len(d.objects) > maxSent || len(d.queued) > maxSent {
		t.Errorf("%d objects and %d in the queue are remembered", len(d.objects), len(d.queued))
	}
}

func TestNoNormalise(t *testing.T) {
	child := ref{sites, "child"}
	for name, x := range map[string]struct {
		notes int
		play  func(c *cluster)
	}{
		"now and then": {1, func(c *cluster) {
			for range 20 {
				send(c, child, m{"cpu": "1000m"}, m{"cpu": "1"})
				c.sleep(10 * time.Second)
			}
		}},
		"defaults that it does not send": {0, func(c *cluster) {
			for range 40 {
				send(c, child, m{"cpu": "1"}, m{"cpu": "1", "class": "standard"})
				c.sleep(500 * time.Millisecond)
			}
		}},
		"the status in an update of the rest": {0, func(c *cluster) {
			for i := range 40 {
				c.begin("op", "update", "", child).body(m{"spec": m{"n": i}, "status": m{"phase": "x"}}).commit(func(o m) { o["spec"] = m{"n": i} })
				c.sleep(500 * time.Millisecond)
			}
		}},
		"empty in another form": {0, func(c *cluster) {
			for range 40 {
				send(c, child, m{"cpu": "1", "list": []any{}}, m{"cpu": "1"})
				c.sleep(500 * time.Millisecond)
			}
		}},
		"what is stored in the end": {0, func(c *cluster) {
			for i := range 40 {
				send(c, child, m{"n": i + 1}, m{"n": i + 1})
				c.sleep(500 * time.Millisecond)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, "op")
			x.play(c)
			r := c.analyze(NewNormalise())
			r.none(t)
			if len(r.Notes) != x.notes {
				t.Error(r.describe())
			}
		})
	}
}
