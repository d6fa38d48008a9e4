package analysis

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// swings is a Site of size 3 that the user makes 5 and then 3 again, while a machine makes what the 5 calls for. Whether
// the operator is told of the 5 is the caller's.
func swings(t *testing.T, sees bool) *cluster {
	c := newCluster(t, "op")
	s := ref{sites, "front"}
	c.create("kubectl", s, m{"spec": m{"size": 3}})
	c.status("op", s, m{"size": 3})
	c.hidden = map[string]bool{"op": !sees}
	c.spec("kubectl", s, m{"size": 5})
	c.create("machine", ref{configs, "front-3"}, m{})
	c.create("machine", ref{configs, "front-4"}, m{})
	c.spec("kubectl", s, m{"size": 3})
	c.hidden = nil
	c.show("op", s, c.get(s))
	return c
}

func TestMissedState(t *testing.T) {
	c := swings(t, false)
	c.quiet(10 * time.Second)
	f := c.analyze(NewMissedState()).only(t, "missed-state")
	if f.Process != "op" || f.Field != "spec.size" || f.Total != 2 || f.Objects[0].String() != "configmaps shop/front-3" {
		t.Errorf("%+v", f)
	}
	if !strings.Contains(f.What, "made by machine while spec.size of sites.web.example.com shop/front was 5") || !strings.Contains(f.Cause, "never saw spec.size at 5") {
		t.Errorf("%s\n%s", f.What, f.Cause)
	}
}

// A process may have any name, also one that looks like a format.
func TestMissedStateOfAProcessNamedLikeAFormat(t *testing.T) {
	c := swings(t, false)
	back := c.rvOf(ref{sites, "front"})
	c.quiet(10 * time.Second)
	c.rename("op", "op%d")
	f := c.analyze(NewMissedState()).only(t, "missed-state")
	f.shows(t, fmt.Sprintf("the process is told of version %d, the last before was %d", back, back-4)) // between are the 5 and the two that were made of it
}

func TestNoMissedState(t *testing.T) {
	for name, play := range map[string]func(t *testing.T) *cluster{
		"it was seen": func(t *testing.T) *cluster { return swings(t, true) },
		"seen by a get": func(t *testing.T) *cluster {
			c := newCluster(t, "op")
			s := ref{sites, "front"}
			c.create("kubectl", s, m{"spec": m{"size": 3}})
			c.hidden = map[string]bool{"op": true}
			c.spec("kubectl", s, m{"size": 5})
			c.create("machine", ref{configs, "front-3"}, m{})
			c.read("op", s)
			c.spec("kubectl", s, m{"size": 3})
			c.show("op", s, c.get(s))
			return c
		},
		"what was made of it is taken away": func(t *testing.T) *cluster {
			c := swings(t, false)
			c.delete("op", ref{configs, "front-3"})
			c.delete("op", ref{configs, "front-4"})
			return c
		},
		"nobody acted on it": func(t *testing.T) *cluster {
			c := newCluster(t, "op")
			s := ref{sites, "front"}
			c.create("kubectl", s, m{"spec": m{"size": 3}})
			c.hidden = map[string]bool{"op": true}
			c.spec("kubectl", s, m{"size": 5})
			c.spec("kubectl", s, m{"size": 3})
			c.show("op", s, c.get(s))
			return c
		},
		"another value in the end": func(t *testing.T) *cluster {
			c := newCluster(t, "op")
			s := ref{sites, "front"}
			c.create("kubectl", s, m{"spec": m{"size": 3}})
			c.hidden = map[string]bool{"op": true}
			c.spec("kubectl", s, m{"size": 5})
			c.create("machine", ref{configs, "front-3"}, m{})
			c.spec("kubectl", s, m{"size": 4})
			c.show("op", s, c.get(s))
			return c
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := play(t)
			c.quiet(10 * time.Second)
			c.analyze(NewMissedState()).none(t)
		})
	}
}
