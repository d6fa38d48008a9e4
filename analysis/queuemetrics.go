package analysis

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/opreplay/opreplay/analysis/stats"
	"github.com/opreplay/opreplay/traces"
)

// measured are the queues and workers of controllers as their scraped metrics tell of them: controller-runtime's
// pkg/internal/controller/metrics and pkg/internal/metrics/workqueue.go.
type measured struct {
	workers map[workersOf]*workers
	scrapes map[string]int64 // by endpoint: those that are over
}

func newMeasured() measured {
	return measured{map[workersOf]*workers{}, map[string]int64{}}
}

// workersOf names the workers of a controller in one process.
type workersOf struct {
	passKind
	endpoint string // two replicas of one process have two
}

// workers are those of one controller. What a gauge says holds until it says something else.
type workers struct {
	depth               []depth // of the queue
	active, most        float64 // busy ones, and MaxConcurrentReconciles; 0 where nothing says it
	waiting, busy       int64   // scrapes that saw keys wait, and of these those in which all workers were busy
	taken, soon, waited rises   // keys that left the queue, those of them within QueueWait.MinWait, seconds in all
}

// depth is how many keys of one priority wait.
type depth struct {
	priority string
	keys     float64
}

// rises is how far a counter went from its first value on, over restarts.
type rises struct {
	last, sum float64
	known     bool
}

// add takes the counter's next value. One that was not there at an earlier scrape, which is LATE, began with 0.
func (c *rises) add(value float64, late bool) {
	switch {
	case math.IsNaN(value), math.IsInf(value, 0):
		value = 0 // it is gone, or no count; it begins anew if it comes back
	case !c.known && !late:
	case value < c.last:
		c.sum += value
	default:
		c.sum += value - c.last
	}
	c.last, c.known = value, true
}

const (
	maxPriorities = 64 // of one queue
	maxEndpoints  = 64
)

// Metric implements MetricDetector.
func (d *QueueWait) Metric(_ *Model, r *traces.Metric) {
	endpoint := labelOf(r, "instance")
	if r.Name == "up" {
		d.scraped(r, endpoint)
		return
	}
	if !strings.HasPrefix(r.Name, "workqueue_") && !strings.HasPrefix(r.Name, "controller_runtime_") {
		return
	}
	w := d.workersFor(r, endpoint)
	if w == nil {
		return
	}
	late := d.measured.scrapes[endpoint] > 0
	switch r.Name {
	case "workqueue_depth":
		w.deep(labelOf(r, "priority"), r.Value)
	case "controller_runtime_active_workers":
		w.active = r.Value
	case "controller_runtime_max_concurrent_reconciles":
		w.most = r.Value
	case "workqueue_queue_duration_seconds_bucket":
		within := float64(d.MinWait) / 1e9
		if le, err := strconv.ParseFloat(labelOf(r, "le"), 64); err == nil && math.Abs(le-within) < within/100 {
			w.soon.add(r.Value, late)
		}
	case "workqueue_queue_duration_seconds_count":
		w.taken.add(r.Value, late)
	case "workqueue_queue_duration_seconds_sum":
		w.waited.add(r.Value, late)
	}
}

func labelOf(r *traces.Metric, name string) string {
	for _, l := range r.Labels {
		if l.Name == name {
			return l.Value
		}
	}
	return ""
}

// workersFor are those that a sample is about; nil for none.
func (d *QueueWait) workersFor(r *traces.Metric, endpoint string) *workers {
	controller := cmp.Or(labelOf(r, "controller"), labelOf(r, "name"))
	if controller == "" {
		return nil
	}
	k := workersOf{passKind{r.Process, controller}, endpoint}
	w := d.measured.workers[k]
	if w == nil && len(d.measured.workers) < maxQueues {
		w = &workers{}
		d.measured.workers[workersOf{passKind{strings.Clone(r.Process), strings.Clone(controller)}, strings.Clone(endpoint)}] = w
	}
	return w
}

// scraped looks at the queues of an endpoint at the end of a scrape.
func (d *QueueWait) scraped(up *traces.Metric, endpoint string) {
	if up.Value != 1 || d.measured.scrapes[endpoint] == 0 && len(d.measured.scrapes) >= maxEndpoints {
		return
	}
	d.measured.scrapes[strings.Clone(endpoint)]++
	for k, w := range d.measured.workers {
		if k.process != up.Process || k.endpoint != endpoint || !w.wait() {
			continue
		}
		w.waiting++
		if w.most > 0 && w.active >= w.most {
			w.busy++
		}
	}
}

// deep is how many keys of a priority wait.
func (w *workers) deep(priority string, keys float64) {
	for i := range w.depth {
		if w.depth[i].priority == priority {
			w.depth[i].keys = keys
			return
		}
	}
	if len(w.depth) < maxPriorities {
		w.depth = append(w.depth, depth{strings.Clone(priority), keys})
	}
}

// wait is whether keys do.
func (w *workers) wait() bool {
	return slices.ContainsFunc(w.depth, func(d depth) bool { return d.keys > 0 })
}

// late is how many keys waited for longer than MinWait, of how many.
func (w *workers) late() (late, of int64) {
	const most = 1 << 50 // more is no number of keys
	if !w.soon.known || w.taken.sum > most {
		return 0, 0
	}
	return int64(min(max(0, w.taken.sum-w.soon.sum), w.taken.sum)), int64(w.taken.sum)
}

// ofKind are the workers of a controller; of replicas those that saw the most keys wait. It is nil where no metrics tell.
func (d *measured) ofKind(k passKind) (best *workers) {
	for _, at := range d.sorted() {
		if w := d.workers[at]; at.passKind == k && (best == nil || w.waiting > best.waiting) {
			best = w
		}
	}
	return best
}

func (d *measured) sorted() []workersOf {
	return slices.SortedFunc(maps.Keys(d.workers), func(a, b workersOf) int {
		return cmp.Or(a.passKind.compare(b.passKind), cmp.Compare(a.endpoint, b.endpoint))
	})
}

// cause is what keys wait for.
func (w *workers) cause() string {
	const setting = "MaxConcurrentReconciles"
	switch {
	case w == nil || w.waiting == 0 || w.most == 0:
		return setting + " may be too low"
	case w.busy == w.waiting && w.most == 1:
		return fmt.Sprintf("%s is 1, which is too low: the one worker was busy at each of the %d scrapes that saw keys wait", setting, w.waiting)
	case w.busy == w.waiting:
		return fmt.Sprintf("%s is %.0f, which is too low: all were busy at each of the %d scrapes that saw keys wait", setting, w.most, w.waiting)
	case 2*w.busy >= w.waiting:
		return fmt.Sprintf("%s is %.0f, and may be too low: all were busy at %d of the %d scrapes that saw keys wait", setting, w.most, w.busy, w.waiting)
	}
	return fmt.Sprintf("it is not for %s, which is %.0f: a worker was free at %d of the %d scrapes that saw keys wait", setting, w.most, w.waiting-w.busy, w.waiting)
}

// notes are about the queues of which no recorded reconciles told: those that were SEEN.
func (d *measured) notes(q *QueueWait, seen map[passKind]bool) (notes []Note) {
	for _, k := range d.sorted() {
		w := d.workers[k]
		late, of := w.late()
		if _, low, _ := stats.Proportion(late, of); seen[k.passKind] || low < q.MinShare {
			continue
		}
		notes = append(notes, Note{Process: k.process, Count: late, What: fmt.Sprintf(
			"%d of %d keys of %s in %s waited more than %s in the queue, %s on average: %s",
			late, of, k.controller, k.process, seconds(q.MinWait), seconds(int64(w.waited.sum/float64(of)*1e9)), w.cause())})
	}
	return notes
}
