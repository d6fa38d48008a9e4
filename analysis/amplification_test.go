package analysis

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestAmplificationByWrites(t *testing.T) {
	c := newCluster(t, "op")
	s := site(c, "front")
	for i := range 4 {
		c.spec("kubectl", s, m{"n": i})
		for range 200 {
			c.sleep(20 * time.Millisecond)
			c.status("op", s, m{"at": c.stamp()})
		}
	}
	f := c.analyze(NewAmplification()).only(t, "amplification")
	if f.Objects[0].Name != "front" || !strings.Contains(f.What, "wrote 800 versions") || !strings.Contains(f.What, "for 5 changes by others: 160 for each") {
		t.Errorf("%+v", f)
	}
	if v := f.statistic(t, "versions for each change"); v.Low < 145 || v.High > 175 {
		t.Errorf("%+v", v)
	}
}

func TestAmplificationByObjects(t *testing.T) {
	c := newCluster(t, "op")
	site(c, "front")
	for i := range 600 {
		c.sleep(20 * time.Millisecond)
		c.create("op", ref{configs, fmt.Sprintf("request-%d", i)}, m{})
	}
	if f := c.analyze(NewAmplification()).only(t, "amplification"); !strings.Contains(f.Cause, "creates objects, mostly configmaps") {
		t.Error(f.Cause)
	}
}

func TestAmplificationByEvents(t *testing.T) {
	events := kind{"", "v1", "events", "Event"}
	c := newCluster(t, "op")
	s := site(c, "front")
	for i := range 60 {
		c.sleep(time.Second)
		k := c.begin("op", "create", "", ref{events, fmt.Sprintf("front.%d", i)})
		k.body(m{"reason": "Failed", "involvedObject": m{"apiVersion": "web.example.com/v1", "kind": "Site", "namespace": "shop", "name": s.name}}).commit(func(o m) { o["reason"] = "Failed" })
	}
	f := c.analyze(NewAmplification()).only(t, "amplification")
	if f.Objects[0].String() != "sites.web.example.com shop/front" || !strings.Contains(f.What, `60 Events "Failed"`) {
		t.Errorf("%+v", f)
	}
}

func TestNoAmplification(t *testing.T) {
	c := newCluster(t, "op")
	for i := range 120 { // a busy day: each change is answered by five writes
		s := site(c, fmt.Sprintf("s-%d", i))
		for j := range 5 {
			c.sleep(20 * time.Millisecond)
			c.status("op", s, m{"phase": j})
		}
	}
	c.analyze(NewAmplification()).silent(t)
}
