package analysis

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/opreplay/opreplay/traces"
)

// withLoss analyzes what there is, the loss known.
func (c *cluster) withLoss(l traces.Loss, detectors ...Detector) *Result {
	c.t.Helper()
	result, err := Records(context.Background(), c.records(), &traces.Manifest{Losses: []traces.Loss{l}, Resources: kinds}, "t", Options{Detectors: detectors})
	if err != nil {
		c.t.Fatal(err)
	}
	return result
}

// A hang rests on nothing having been told since: what was lost of that time and of that resource makes it a note, and
// what was lost otherwise does not.
func TestLossesHideWhatDidNotHappen(t *testing.T) {
	c := newCluster(t, "dns")
	r := record(c, "www")
	c.sleep(time.Minute)
	c.delete("kubectl", r)
	marked := start.Add(c.now)
	c.quiet(30 * time.Second)
	for name, x := range map[string]struct {
		loss traces.Loss
		note bool
	}{
		"of the resource":             {traces.Loss{Source: "capture/dns.example.com/records", From: marked.Add(time.Second), To: marked.Add(2 * time.Second), Count: -1}, true},
		"of the process's watch":      {traces.Loss{Source: "watch/dns/records/3", From: marked.Add(time.Second), To: marked.Add(2 * time.Second), Count: 1}, false},
		"of all that it was told":     {traces.Loss{Source: "watch/dns", From: start, To: marked.Add(time.Hour), Count: -1}, false},
		"of what a list showed after": {traces.Loss{Source: "capture/dns.example.com/records", From: marked.Add(time.Second), To: marked.Add(2 * time.Second), Count: -1, Reason: "relisted after 410 Expired (objects changed: 0, created: 1, deleted: 0)"}, false},
		"of whatever":                 {traces.Loss{Source: "trace", From: marked, To: marked.Add(time.Hour), Count: -1}, true},
		"of requests":                 {traces.Loss{Source: "requests/dns", From: marked, To: marked.Add(time.Hour), Count: 3}, false},
		"of another resource":         {traces.Loss{Source: "capture/core/pods", From: marked, To: marked.Add(time.Hour), Count: -1}, false},
		"before it was marked":        {traces.Loss{Source: "trace", From: start, To: start.Add(time.Second), Count: -1}, false},
	} {
		m := &traces.Manifest{Losses: []traces.Loss{x.loss}, Resources: append(kinds[:len(kinds):len(kinds)], traces.Resource{Version: "v1", Resource: "pods", Kind: "Pod", Namespaced: true})}
		result, err := Records(context.Background(), c.records(), m, "t", Options{Detectors: []Detector{NewFinalizerHang()}})
		if err != nil {
			t.Fatal(err)
		}
		if x.note != (len(result.Findings) == 0) || x.note != (len(result.Notes) == 1) {
			t.Errorf("%s: %s", name, result.describe())
		}
		if x.note && !strings.Contains(result.Notes[0].What, "or so it seems") {
			t.Errorf("%s: %s", name, result.Notes[0].What)
		}
	}
}

// What only the process's own watches show, and what the process itself was told, is not known where those rows are lost.
func TestLossOfAProcessesOwnWatches(t *testing.T) {
	loss := traces.Loss{Source: "watch/op", From: start, To: start.Add(time.Hour), Count: -1}
	unseen := newCluster(t, "op")
	unseen.hidden = map[string]bool{"oprec": true}
	r := record(unseen, "www")
	unseen.sleep(time.Minute)
	unseen.delete("kubectl", r)
	unseen.quiet(30 * time.Second)
	if result := unseen.withLoss(loss, NewFinalizerHang()); len(result.Findings) != 0 || len(result.Notes) != 1 {
		t.Error("a hang that the recorder's own watches did not see:", result.describe())
	}
	told, _, disk := reborn(t)
	told.delete("op", disk)
	told.quiet(2 * time.Second)
	if result := told.withLoss(loss, NewWrongIncarnation(), NewStaleRead()); len(result.Findings) != 0 || len(result.Notes) != 2 {
		t.Error("what it was told decides:", result.describe())
	}
}

// A pass that stands still rests on requests that there were not: those that lack no more than their texts are there.
func TestLossOfRequests(t *testing.T) {
	c := newCluster(t, "op")
	r := site(c, "front")
	c.pass("op", "site", r, c.told("op", r), func() { c.sleep(90 * time.Second) })
	c.quiet(time.Second)
	for count, findings := range map[int64]int{3: 1, -1: 0} {
		loss := traces.Loss{Source: "requests/op", From: start, To: start.Add(time.Hour), Count: count}
		if result := c.withLoss(loss, NewNoDeadline()); len(result.Findings) != findings || len(result.Notes) != 1-findings {
			t.Errorf("a loss of %d: %s", count, result.describe())
		}
	}
}

// Detectors whose findings say that nothing has changed since say so to the engine too.
func TestLossesHideWhatChangedSince(t *testing.T) {
	for name, x := range map[string]struct {
		detector Detector
		play     func(c *cluster)
	}{
		"conditions that contradict each other": {NewObservedGeneration(), func(c *cluster) {
			c.status("op", site(c, "front"), state(1, "Ready=True", "Available=False"))
		}},
		"conditions that flap": {NewObservedGeneration(), func(c *cluster) {
			s := site(c, "front")
			for i := range 12 {
				c.status("op", s, state(1, "Ready="+[]string{"True", "False"}[i%2]))
				c.sleep(2 * time.Second)
			}
		}},
		"a value that was overwritten": {NewLostStatus(), func(c *cluster) {
			d := database(c, "orders")
			k := c.begin("b", "patch", "status", d)
			setConditions(c.begin("op", "patch", "status", d), condition("A", "True", c.stamp()))
			setConditions(k, condition("B", "True", c.stamp()))
		}},
		"an old environment": {NewEnvironment(), func(c *cluster) {
			settings := ref{configs, "settings"}
			c.create("op", settings, m{"data": m{"level": "info"}})
			consumer(c, "web-0", false)
			c.sleep(5 * time.Second)
			c.begin("op", "update", "", settings).commit(func(o m) { o["data"] = m{"level": "debug"} })
		}},
		"readiness that is not taken back": {NewProbe(), func(c *cluster) {
			_, d := deployed(c)
			c.status("deployment-controller", d, m{"readyReplicas": 0})
		}},
		"what a schema does not admit": {NewSchemaDrift(), func(c *cluster) {
			define(c, revision("v1", m{"host": m{"type": "string"}}))
			c.create("kubectl", ref{sites, "front"}, m{"spec": m{"host": "x"}})
			define(c, revision("v1", m{"host": m{"type": "integer"}}))
		}},
	} {
		c := newCluster(t, "op", "b")
		x.play(c)
		c.quiet(2 * time.Minute)
		loss := traces.Loss{Source: "trace", From: start, To: start.Add(time.Hour), Count: -1}
		if result := c.withLoss(loss, x.detector); len(result.Findings) != 0 || !slices.ContainsFunc(result.Notes, func(n Note) bool { return strings.Contains(n.What, "or so it seems") }) {
			t.Errorf("%s: %s", name, result.describe())
		}
	}
}
