package analysis

import (
	"context"
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
		"of the resource":         {traces.Loss{Source: "capture/dns.example.com/records", From: marked.Add(time.Second), To: marked.Add(2 * time.Second), Count: -1}, true},
		"of the process's watch":  {traces.Loss{Source: "watch/dns/records/3", From: marked.Add(time.Second), To: marked.Add(2 * time.Second), Count: 1}, false},
		"of all that it was told": {traces.Loss{Source: "watch/dns", From: start, To: marked.Add(time.Hour), Count: -1}, false},
		"of whatever":             {traces.Loss{Source: "trace", From: marked, To: marked.Add(time.Hour), Count: -1}, true},
		"of requests":             {traces.Loss{Source: "requests/dns", From: marked, To: marked.Add(time.Hour), Count: 3}, false},
		"of another resource":     {traces.Loss{Source: "capture/core/pods", From: marked, To: marked.Add(time.Hour), Count: -1}, false},
		"before it was marked":    {traces.Loss{Source: "trace", From: start, To: start.Add(time.Second), Count: -1}, false},
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
