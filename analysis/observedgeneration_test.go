package analysis

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// page makes or changes what belongs to a Site.
func page(c *cluster, s ref, size any) {
	r := ref{configs, s.name + "-page"}
	uid := c.get(s)["metadata"].(m)["uid"]
	verb := "update"
	if c.get(r) == nil {
		verb = "create"
	}
	c.begin("op", verb, "", r).commit(func(o m) {
		o["metadata"].(m)["ownerReferences"] = []any{m{"kind": "Site", "name": s.name, "uid": uid, "controller": true}}
		o["data"] = m{"size": size}
	})
}

// done has the operator say that a generation is done.
func done(c *cluster, s ref, generation int, phase string) {
	c.status("op", s, m{"observedGeneration": generation, "phase": phase})
}

// sized is a Site that the user makes and changes once, both handled well.
func sized(t *testing.T) (*cluster, ref) {
	c := newCluster(t, "op")
	s := ref{sites, "front"}
	c.create("kubectl", s, m{"spec": m{"size": 1}})
	page(c, s, 1)
	done(c, s, 1, "Done")
	c.sleep(2 * time.Second)
	c.spec("kubectl", s, m{"size": 2})
	page(c, s, 2)
	done(c, s, 2, "Done")
	c.sleep(2 * time.Second)
	return c, s
}

func TestGenerationNeverHandled(t *testing.T) {
	c, s := sized(t)
	c.spec("kubectl", s, m{"size": 3})
	k := c.begin("op", "update", "", ref{configs, "front-page"})
	k.refuse(409, "Conflict")
	done(c, s, 3, "Failed")
	c.sleep(2 * time.Second)
	c.spec("kubectl", s, m{"size": 4})
	c.quiet(time.Minute)
	f := c.analyze(NewObservedGeneration()).only(t, "observed-generation")
	if f.Process != "op" || f.Severity != Error || f.Objects[0].Name != "front" || f.Objects[1].Name != "front-page" || f.Field != "status.observedGeneration" {
		t.Errorf("%+v", f)
	}
	if !strings.Contains(f.What, "was told of generation 4 of sites.web.example.com shop/front and has done nothing about it for 60.0 s") ||
		!strings.Contains(f.Cause, `status.phase "Failed"`) || !strings.Contains(f.Cause, "update of configmaps shop/front-page was refused with 409 Conflict") {
		t.Errorf("%s\n%s", f.What, f.Cause)
	}
}

// The user changes the size while the page of the size before is being written, and the operator labels its status with
// the generation that it reads for the write.
func TestGenerationLabelledWithoutWork(t *testing.T) {
	c, s := sized(t)
	c.spec("kubectl", s, m{"size": 3})
	k := c.begin("op", "update", "", ref{configs, "front-page"})
	c.spec("kubectl", s, m{"size": 4})
	k.commit(func(o m) { o["data"] = m{"size": 3} })
	done(c, s, 4, "Done")
	c.quiet(time.Minute)
	f := c.analyze(NewObservedGeneration()).only(t, "observed-generation")
	if !strings.Contains(f.What, "says in status.observedGeneration of sites.web.example.com shop/front that generation 4 is done") || !strings.Contains(f.What, "spec.size changed from 3 to 4") {
		t.Errorf("%s\n%s", f.What, f.Cause)
	}
}

// A process may have any name, also one that looks like a format.
func TestGenerationOfAProcessNamedLikeAFormat(t *testing.T) {
	for name, play := range map[string]func(c *cluster, s ref){
		"never handled": func(c *cluster, s ref) {
			c.spec("kubectl", s, m{"size": 3})
			done(c, s, 3, "Failed")
			c.sleep(2 * time.Second)
			c.spec("kubectl", s, m{"size": 4})
		},
		"labelled without work": func(c *cluster, s ref) {
			c.spec("kubectl", s, m{"size": 3})
			k := c.begin("op", "update", "", ref{configs, "front-page"})
			c.spec("kubectl", s, m{"size": 4})
			k.commit(func(o m) { o["data"] = m{"size": 3} })
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, s := sized(t)
			play(c, s)
			told := c.get(s)["metadata"].(m)["resourceVersion"]
			if name == "labelled without work" {
				done(c, s, 4, "Done")
			}
			c.quiet(time.Minute)
			c.rename("op", "op%d")
			c.analyze(NewObservedGeneration()).only(t, "observed-generation").shows(t, fmt.Sprint("the process is told of version ", told))
		})
	}
}

func TestGenerationAhead(t *testing.T) {
	c, s := sized(t)
	done(c, s, 7, "Done")
	f := c.analyze(NewObservedGeneration()).only(t, "observed-generation")
	if f.Severity != Warning || f.Certainty != Sure || !strings.Contains(f.What, "wrote status.observedGeneration 7 to sites.web.example.com shop/front, whose generation is 2") {
		t.Errorf("%+v", f)
	}
}

func TestNoObservedGeneration(t *testing.T) {
	for name, play := range map[string]func(c *cluster, s ref){
		"all is well": func(*cluster, ref) {},
		"not told yet": func(c *cluster, s ref) {
			c.hidden = map[string]bool{"op": true}
			c.spec("kubectl", s, m{"size": 3})
		},
		"the work goes on": func(c *cluster, s ref) {
			c.spec("kubectl", s, m{"size": 3})
			for i := range 30 {
				c.sleep(2 * time.Second)
				page(c, s, i)
			}
		},
		"paused": func(c *cluster, s ref) { c.spec("kubectl", s, m{"size": 3, "paused": true}) },
		"a change that needs no work": func(c *cluster, s ref) {
			c.spec("kubectl", s, m{"size": 2, "contact": "me"})
			done(c, s, 3, "Done")
		},
		"changed in the midst of work, and handled after": func(c *cluster, s ref) {
			c.spec("kubectl", s, m{"size": 3})
			k := c.begin("op", "update", "", ref{configs, "front-page"})
			c.spec("kubectl", s, m{"size": 4})
			k.commit(func(o m) { o["data"] = m{"size": 3} })
			done(c, s, 3, "Done")
			page(c, s, 4)
			done(c, s, 4, "Done")
		},
		"a kind without observedGeneration": func(c *cluster, _ ref) {
			r := database(c, "orders")
			c.spec("kubectl", r, m{"size": 3})
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, s := sized(t)
			play(c, s)
			c.quiet(time.Minute)
			c.analyze(NewObservedGeneration()).none(t)
		})
	}
}
