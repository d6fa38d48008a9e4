package analysis

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/opreplay/opreplay/traces"
)

// show has a new watch tell the operator of a state of an object that is not the newest.
func (c *cluster) show(by string, r ref, old m) {
	c.add(&traces.WatchEvent{Identity: c.identity(r, old), Stream: by + "/again", Process: by, Type: string(traces.Added), Object: text(old), ObjectHash: "h"})
}

// read has an operator get the object from the API server.
func (c *cluster) read(by string, r ref) {
	k := c.begin(by, "get", "", r)
	k.row.Identity = c.identity(r, c.objects[r.key()])
	k.end(200, "")
}

// reborn is an object of which there was another before, each with a dependent that only the name tells of, and the
// operator is shown the first one again, in deletion.
func reborn(t *testing.T) (c *cluster, r, disk ref) {
	c = newCluster(t, "op")
	r, disk = site(c, "front"), ref{configs, "disk-front"}
	c.create("op", disk, m{})
	c.finalizers("op", r, "op/disk")
	c.delete("kubectl", r)
	old := c.get(r)
	c.delete("op", disk)
	c.finalizers("op", r)
	c.sleep(2 * time.Second)
	site(c, "front")
	c.create("op", disk, m{})
	c.sleep(2 * time.Second)
	c.show("op", r, old)
	return c, r, disk
}

func TestWrongIncarnation(t *testing.T) {
	c, r, disk := reborn(t)
	c.delete("op", disk)
	c.quiet(2 * time.Second)
	result := c.analyze(NewWrongIncarnation(), NewStaleRead())
	if len(result.Findings) != 2 {
		t.Fatal(result.describe())
	}
	for _, f := range result.Findings {
		if f.Process != "op" || f.Severity != Error || f.Group != result.Findings[0].Group && f.Group != result.Findings[1].ID {
			t.Errorf("%+v", f)
		}
		uid := c.get(r)["metadata"].(m)["uid"].(string)
		switch f.Detector {
		case "wrong-incarnation":
			if f.Objects[0].String() != "configmaps shop/disk-front" || !strings.Contains(f.What, uid) || !strings.Contains(f.Cause, "without the uid as a precondition") {
				t.Errorf("%s\n%s\n%v", f.What, f.Cause, f.Objects)
			}
		case "stale-read":
			if f.Objects[0].String() != "sites.web.example.com shop/front" || !strings.Contains(f.What, "delete of configmaps shop/disk-front") {
				t.Errorf("%s\n%s\n%v", f.What, f.Cause, f.Objects)
			}
		}
	}
}

func TestNoWrongIncarnation(t *testing.T) {
	for name, play := range map[string]func(c *cluster, r, disk ref){
		"it reads first": func(c *cluster, r, disk ref) {
			c.read("op", r)
			c.delete("op", disk)
		},
		"the deletion names the uid": func(c *cluster, _, disk ref) {
			uid := c.get(disk)["metadata"].(m)["uid"]
			c.begin("op", "delete", "", disk).body(m{"preconditions": m{"uid": uid}}).commit(func(o m) { o["metadata"].(m)["deletionTimestamp"] = c.stamp() })
		},
		"refused": func(c *cluster, r, _ ref) {
			c.begin("op", "patch", "", r).base(1).refuse(409, "Conflict")
		},
		"its watch catches up first": func(c *cluster, r, disk ref) {
			c.show("op", r, c.get(r))
			c.delete("op", disk)
		},
		"something that is not the object's": func(c *cluster, _, _ ref) {
			c.create("op", ref{configs, "other"}, m{})
			c.sleep(2 * time.Second)
			c.delete("op", ref{configs, "other"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, r, disk := reborn(t)
			play(c, r, disk)
			c.quiet(2 * time.Second)
			result := c.analyze(NewWrongIncarnation(), NewStaleRead())
			for _, f := range result.Findings {
				if name != "the deletion names the uid" || f.Detector == "wrong-incarnation" {
					t.Fatal(result.describe())
				}
			}
		})
	}
}

// A patch without a version, made on a state that is older than one that the process has known, is taken.
func TestStaleReadOfTheObjectItself(t *testing.T) {
	c := newCluster(t, "op")
	s := site(c, "front")
	old := c.get(s)
	c.spec("kubectl", s, m{"host": "new"})
	c.sleep(2 * time.Second)
	c.show("op", s, old)
	c.status("op", s, m{"host": "front"})
	f := c.analyze(NewStaleRead()).only(t, "stale-read")
	if f.Certainty != Sure || !strings.Contains(f.What, "merge patch of status of itself") || !strings.Contains(f.Cause, "had known resourceVersion 1002") {
		t.Errorf("%s\n%s", f.What, f.Cause)
	}
}

// What is written to may have been made so shortly before that what it belongs to is not known yet: its creation was
// cut off, so that its first version waits for a request that never comes.
func TestStaleReadOfWhatWasJustMade(t *testing.T) {
	for _, gap := range []time.Duration{10 * time.Millisecond, 500 * time.Millisecond, 2 * time.Second} {
		c := newCluster(t, "op")
		s, disk := site(c, "front"), ref{configs, "disk-front"}
		old := c.get(s)
		c.spec("kubectl", s, m{"host": "new"})
		k := c.begin("op", "create", "", disk)
		k.by = "" // the operator's, but its answer never came
		k.commit(func(m) {})
		c.sleep(gap)
		c.show("op", s, old)
		c.delete("op", disk)
		c.quiet(2 * time.Second)
		f := c.analyze(NewStaleRead()).only(t, "stale-read")
		if !strings.Contains(f.What, "delete of configmaps shop/disk-front") {
			t.Errorf("after %v: %s", gap, f.What)
		}
	}
}

// Writes to what no watch shows don't keep others from being judged for good.
func TestWritesToWhatIsNeverSeen(t *testing.T) {
	c, _, _ := reborn(t)
	for i := range maxBeliefs {
		id := c.identity(ref{configs, fmt.Sprintf("unseen-%d", i)}, nil)
		id.UID = fmt.Sprintf("uid-%d", i)
		c.add(&traces.Request{Identity: id, StartSeq: c.seq, Start: c.ts(), Process: "op", Verb: "patch", Code: 200})
	}
	c.sleep(10 * time.Second)
	page := ref{configs, "page-front"}
	c.create("kubectl", page, m{}) // whose call nobody recorded, so that the version waits for it
	c.begin("op", "patch", "", page).commit(func(o m) { o["data"] = m{"n": 1} })
	c.quiet(10 * time.Second)
	if f := c.analyze(NewStaleRead()).only(t, "stale-read"); !strings.Contains(f.What, "page-front") {
		t.Error(f.What)
	}
}
