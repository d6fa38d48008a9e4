package analysis

import (
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/opreplay/opreplay/traces"
)

// queueScrape is what one scrape says of the queue of the controller site.
type queueScrape struct {
	depth, active, most, taken, soon, wait float64
}

func (c *cluster) scraped(endpoint string, s queueScrape) {
	with := func(labels ...traces.Label) []traces.Label {
		return append(labels, traces.Label{Name: "controller", Value: "site"}, traces.Label{Name: "instance", Value: endpoint})
	}
	for i := range 2 { // of the depth, a half at each of two priorities
		c.metric("workqueue_depth", s.depth/2, with(traces.Label{Name: "priority", Value: strconv.Itoa(i)})...)
	}
	c.metric("controller_runtime_active_workers", s.active, with()...)
	c.metric("controller_runtime_max_concurrent_reconciles", s.most, with()...)
	c.metric("workqueue_queue_duration_seconds_bucket", s.soon/2, with(traces.Label{Name: "le", Value: "0.1"})...)
	c.metric("workqueue_queue_duration_seconds_bucket", s.soon, with(traces.Label{Name: "le", Value: "1"})...)
	c.metric("workqueue_queue_duration_seconds_bucket", s.taken, with(traces.Label{Name: "le", Value: "+Inf"})...)
	c.metric("workqueue_queue_duration_seconds_count", s.taken, with()...)
	c.metric("workqueue_queue_duration_seconds_sum", s.wait, with()...)
	c.metric("up", 1, traces.Label{Name: "instance", Value: endpoint})
	c.sleep(15 * time.Second)
}

// The metrics of a queue say that its keys wait, and whether for a worker; no reconcile is recorded.
func TestQueueThatWaitsAsItsMetricsTell(t *testing.T) {
	for name, x := range map[string]struct {
		scrapes []queueScrape
		want    string
	}{
		"one worker": {
			[]queueScrape{{most: 1}, {20, 1, 1, 10, 2, 60}, {20, 1, 1, 20, 2, 180}, {0, 0, 1, 40, 4, 360}},
			"36 of 40 keys of site in op waited more than 1.0 s in the queue, 9.0 s on average: MaxConcurrentReconciles is 1, which is too low: the one worker was busy at each of the 2 scrapes that saw keys wait",
		},
		"four workers": {
			[]queueScrape{{most: 4}, {20, 4, 4, 20, 4, 60}, {8, 4, 4, 40, 4, 180}},
			"MaxConcurrentReconciles is 4, which is too low: all were busy at each of the 2 scrapes",
		},
		"most of the time": {
			[]queueScrape{{most: 4}, {20, 4, 4, 20, 4, 60}, {8, 3, 4, 40, 4, 180}},
			"MaxConcurrentReconciles is 4, and may be too low: all were busy at 1 of the 2 scrapes",
		},
		"a worker was free": {
			[]queueScrape{{most: 4}, {20, 1, 4, 20, 4, 60}, {8, 1, 4, 40, 4, 180}},
			"it is not for MaxConcurrentReconciles, which is 4: a worker was free at 2 of the 2 scrapes",
		},
		"between scrapes": {
			[]queueScrape{{most: 1}, {0, 0, 1, 40, 4, 180}},
			"36 of 40 keys of site in op waited more than 1.0 s in the queue, 4.5 s on average: MaxConcurrentReconciles may be too low",
		},
		"over a restart": {
			[]queueScrape{{most: 1, taken: 1000, soon: 1000}, {20, 1, 1, 1010, 1001, 60}, {20, 1, 1, 30, 3, 180}},
			"36 of 40 keys of site in op",
		},
		"long before": {[]queueScrape{{0, 0, 1, 1000, 10, 9000}, {0, 0, 1, 1040, 50, 9001}}, ""},
		"soon served": {[]queueScrape{{most: 1}, {20, 1, 1, 40, 39, 3}}, ""},
		"never asked": {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, "op")
			site(c, "front")
			for _, s := range x.scrapes {
				c.scraped("10.0.0.1:8080", s)
			}
			r := c.analyze(NewQueueWait())
			if x.want == "" {
				r.silent(t)
				return
			}
			r.noted(t, x.want)
		})
	}
}

// Where reconciles are recorded too, there is one note, with what the metrics add to it.
func TestQueueThatWaitsForItsWorker(t *testing.T) {
	c := newCluster(t, "op")
	names := []ref{site(c, "a"), site(c, "b"), site(c, "c"), site(c, "d")}
	for i := range 10 {
		var triggers []int64
		for _, s := range names {
			c.spec("kubectl", s, m{"n": i})
			triggers = append(triggers, c.told("op", s))
		}
		for j, s := range names {
			c.pass("op", "site", s, triggers[j], func() { c.sleep(3 * time.Second) })
		}
		c.scraped("10.0.0.2:8080", queueScrape{most: 1}) // a replica that stands by
		c.scraped("10.0.0.1:8080", queueScrape{4, 1, 1, float64(4 * i), float64(i), float64(20 * i)})
	}
	c.analyze(NewQueueWait()).noted(t, "30 of 40 reconciles of site in op waited 1.0 s and more", "the one worker was busy at each of the 10 scrapes that saw keys wait")
}

// Values that no queue has are no queue that waits, and end no analysis.
func TestOddQueueMetrics(t *testing.T) {
	odd := []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 1e300, 0}
	beside := newCluster(t, "op") // sound values of one, odd ones of the other
	for i := range 12 {
		beside.scraped("", queueScrape{20, 1, 1, float64(10 * i), []float64{math.Inf(1), math.Inf(-1)}[i%2], float64(60 * i)})
	}
	beside.analyze(NewQueueWait())
	for i := range odd {
		c := newCluster(t, "op")
		at := func(n int) float64 { return odd[(i+n)%len(odd)] }
		for n := range 12 {
			c.scraped("", queueScrape{at(n), at(2 * n), at(3 * n), at(n + 1), at(n + 2), at(n + 3)})
		}
		for n := range 10 * maxPriorities {
			c.metric("workqueue_depth", 1, traces.Label{Name: "name", Value: "site"}, traces.Label{Name: "priority", Value: strconv.Itoa(n)})
			c.metric("controller_runtime_active_workers", 1, traces.Label{Name: "controller", Value: strconv.Itoa(n)})
			c.metric("up", 1, traces.Label{Name: "instance", Value: strconv.Itoa(n)})
		}
		c.analyze(NewQueueWait()).silent(t)
	}
}
