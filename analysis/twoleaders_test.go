package analysis

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// lease has an operator take or renew the lease of the name.
func lease(c *cluster, by, identity, name string) {
	verb := "update"
	if c.get(ref{leases, name}) == nil {
		verb = "create"
	}
	c.begin(by, verb, "", ref{leases, name}).commit(func(o m) {
		o["spec"] = m{"holderIdentity": identity, "leaseDurationSeconds": 3, "renewTime": c.stamp()}
	})
}

// takeover is a leader, a, whose lease ends and is taken by b 5 s later.
func takeover(t *testing.T) *cluster {
	c := newCluster(t, "a", "b")
	lease(c, "a", "id-a", "invoices")
	c.sleep(time.Second)
	lease(c, "a", "id-a", "invoices")
	c.create("a", ref{configs, "one"}, m{})
	c.sleep(5 * time.Second)
	lease(c, "b", "id-b", "invoices")
	c.sleep(time.Second)
	return c
}

func TestTwoLeaders(t *testing.T) {
	c := takeover(t)
	c.create("b", ref{configs, "two"}, m{})
	c.create("a", ref{configs, "three"}, m{})
	f := c.analyze(NewTwoLeaders()).only(t, "two-leaders")
	if f.Process != "a" || f.Objects[0].String() != "configmaps shop/three" || f.Severity != Error || f.Certainty != Sure {
		t.Errorf("%+v", f)
	}
	for _, want := range []string{"b had taken the lease leases.coordination.k8s.io shop/invoices", "a create of configmaps shop/three"} {
		if !strings.Contains(f.What, want) {
			t.Errorf("%q lacks %q", f.What, want)
		}
	}
	// Renewed at 1 s for 3 s, taken at 6 s.
	if !strings.Contains(f.Cause, "ended 2.0 s before b took it") || !strings.Contains(f.Cause, "both write configmaps") {
		t.Error(f.Cause)
	}
}

// That a leader went on is not undone by its leading again, nor by its losing the lease once more.
func TestTwoLeadersOfWhichTheFirstLeadsAgain(t *testing.T) {
	c := takeover(t)
	c.create("a", ref{configs, "two"}, m{})
	c.sleep(5 * time.Second)
	lease(c, "a", "id-a", "invoices")
	c.create("a", ref{configs, "three"}, m{}) // as leader
	c.sleep(5 * time.Second)
	lease(c, "b", "id-b", "invoices")
	c.sleep(time.Second)
	c.create("a", ref{configs, "four"}, m{})
	c.quiet(5 * time.Second)
	var got []string
	for _, f := range c.analyze(NewTwoLeaders()).Findings {
		got = append(got, f.Process+": "+f.Objects[0].String())
	}
	slices.Sort(got)
	if want := []string{"a: configmaps shop/four", "a: configmaps shop/two"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A lease that goes to and fro without end is remembered within bounds.
func TestTwoLeadersWithoutEnd(t *testing.T) {
	c := newCluster(t, "a", "b")
	for i := range maxProven + 10 {
		lease(c, "a", "id-a", "invoices")
		c.sleep(5 * time.Second)
		lease(c, "b", "id-b", "invoices")
		c.create("a", ref{configs, fmt.Sprintf("page-%d", i)}, m{})
		c.sleep(5 * time.Second)
	}
	d := NewTwoLeaders()
	if got := len(c.analyze(d).Findings); got == 0 || got > maxProven+1 {
		t.Errorf("%d findings", got)
	}
	for _, l := range d.locks {
		if len(l.proven) != maxProven {
			t.Errorf("%d proven times are remembered", len(l.proven))
		}
	}
}

func TestNoTwoLeaders(t *testing.T) {
	for name, play := range map[string]func(c *cluster){
		"the former leader stops": func(c *cluster) { c.create("b", ref{configs, "two"}, m{}) },
		"it leads again": func(c *cluster) {
			c.sleep(5 * time.Second)
			lease(c, "a", "id-a", "invoices")
			c.create("a", ref{configs, "two"}, m{})
		},
		"another identity of the same process": func(c *cluster) {
			lease(c, "b", "id-b-again", "invoices")
			c.create("b", ref{configs, "two"}, m{})
		},
		"a no-op write, and one that is refused": func(c *cluster) {
			c.begin("a", "update", "", ref{configs, "one"}).commit(func(m) {})
			c.begin("a", "update", "", ref{configs, "one"}).refuse(409, "Conflict")
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := takeover(t)
			play(c)
			c.quiet(5 * time.Second)
			c.analyze().none(t)
		})
	}
	t.Run("what it writes as a follower too", func(t *testing.T) {
		c := newCluster(t, "a", "b")
		c.create("a", ref{configs, "certificate-a"}, m{}) // before it leads
		lease(c, "a", "id-a", "invoices")
		c.sleep(5 * time.Second)
		lease(c, "b", "id-b", "invoices")
		c.create("a", ref{configs, "certificate-a-2"}, m{})
		c.analyze().none(t)
	})
	t.Run("a write under way when the lease passes on", func(t *testing.T) {
		c := newCluster(t, "a", "b")
		lease(c, "a", "id-a", "invoices")
		c.sleep(5 * time.Second)
		k := c.begin("a", "create", "", ref{configs, "one"})
		lease(c, "b", "id-b", "invoices")
		k.commit(func(m) {})
		c.analyze().none(t)
	})
	t.Run("a node's heartbeat", func(t *testing.T) {
		c := newCluster(t, "a", "b")
		lease(c, "a", "id-a", "apiserver-1")
		lease(c, "b", "id-b", "apiserver-1")
		c.create("a", ref{configs, "one"}, m{})
		c.analyze().none(t)
	})
}

func TestTwoLeadersByAnnotation(t *testing.T) {
	c := newCluster(t, "a", "b")
	lock := ref{configs, "lock"}
	hold := func(by, identity string) {
		verb := "update"
		if c.get(lock) == nil {
			verb = "create"
		}
		record := text(m{"holderIdentity": identity, "leaseDurationSeconds": 3, "renewTime": start.Add(c.now).Format(time.RFC3339)})
		annotations := m{"control-plane.alpha.kubernetes.io/leader": record}
		c.begin(by, verb, "", lock).body(m{"metadata": m{"annotations": annotations}}).commit(func(o m) { o["metadata"].(m)["annotations"] = annotations })
	}
	hold("a", "id-a")
	c.sleep(5 * time.Second)
	hold("b", "id-b")
	c.create("a", ref{configs, "one"}, m{})
	f := c.analyze(NewTwoLeaders()).only(t, "two-leaders")
	if !strings.Contains(f.What, "configmaps shop/lock") {
		t.Error(f.What)
	}
}
