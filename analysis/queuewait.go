package analysis

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/opreplay/opreplay/analysis/internal/jsontext"
	"github.com/opreplay/opreplay/analysis/stats"
	"github.com/opreplay/opreplay/traces"
)

// QueueWait finds settings that make a queue wait although nothing is wrong: a client that holds back its own calls
// (rest.Config.QPS and Burst; 5 and 10 in client-go, 20 and 30 in controller-runtime), too few workers
// (MaxConcurrentReconciles is 1), a server that says "later" (429). They are notes with their cost, for only who runs
// the operator knows how long is too long.
//
// That keys wait is known from recorded reconciles or from the scraped metrics of the queue; that it is for a worker, from
// the latter alone.
type QueueWait struct {
	// MinThrottled is the sum of waits, in nanoseconds, from which on throttling is worth a note.
	MinThrottled int64
	// MinWait is the time in a queue, in nanoseconds, that counts as waiting, and MinShare the share of a controller's
	// passes that must have waited that long.
	MinWait  int64
	MinShare float64
	// MinTooMany is how many answers of 429 are worth a note.
	MinTooMany int64

	throttled map[string]*throttle
	queues    map[passKind]*queued
	tooMany   map[*Process]int64
	measured  measured
}

// NewQueueWait is a QueueWait with its thresholds set.
func NewQueueWait() *QueueWait {
	return &QueueWait{
		MinThrottled: 1e9, MinWait: 1e9, MinShare: 0.1, MinTooMany: 5,
		throttled: map[string]*throttle{}, queues: map[passKind]*queued{}, tooMany: map[*Process]int64{},
		measured: newMeasured(),
	}
}

// Name implements Detector.
func (*QueueWait) Name() string { return "queue-wait" }

// throttle is what one process waited for its own rate limiter.
type throttle struct {
	n            int64
	sum, longest time.Duration
}

// queued are the passes of one controller whose trigger is known.
type queued struct {
	process, controller string
	n, late             int64
	wait                course
	work                reservoir
	ends                []int64 // of the passes that were under way, to see how many go on at one time
	most                int
}

// Log implements LogDetector: client-go's line about its rate limiter, in its form of today and of before 1.31.
func (d *QueueWait) Log(_ *Model, l *traces.Log) {
	var wait time.Duration
	switch {
	case l.Message == "Waited before sending request":
		delay, _ := jsontext.Get(l.Fields, "delay")
		if reason, _ := jsontext.Get(l.Fields, "reason"); !strings.Contains(reason, "client-side") {
			return
		}
		wait, _ = time.ParseDuration(jsontext.Text(delay))
		if wait == 0 {
			wait = time.Duration(jsontext.Int(delay)) // JSON forms write nanoseconds
		}
	case strings.HasPrefix(l.Message, "Waited for ") && strings.Contains(l.Message, "client-side throttling"):
		text, _, _ := strings.Cut(strings.TrimPrefix(l.Message, "Waited for "), " ")
		wait, _ = time.ParseDuration(text)
	}
	if wait <= 0 {
		return
	}
	t := d.throttled[l.Process]
	if t == nil {
		t = &throttle{}
		d.throttled[strings.Clone(l.Process)] = t
	}
	t.n++
	t.sum += wait
	t.longest = max(t.longest, wait)
}

// Call implements CallDetector.
func (d *QueueWait) Call(_ *Model, c *Call) {
	if c.Process != nil && c.Code == 429 {
		d.tooMany[c.Process]++
	}
}

// maxQueues bounds the controllers that are told apart, maxBeside the passes of one that are under way.
const (
	maxQueues = 256
	maxBeside = 128
)

// Pass implements PassDetector.
func (d *QueueWait) Pass(_ *Model, x *Pass) {
	if x.Process == nil || x.Trigger.Seq == 0 {
		return
	}
	q := d.queues[passKind{x.Process.Name, x.Row.Controller}]
	if q == nil {
		if len(d.queues) >= maxQueues {
			return
		}
		q = &queued{process: x.Process.Name, controller: strings.Clone(x.Row.Controller)}
		d.queues[passKind{q.process, q.controller}] = q
	}
	wait := x.Row.Start - x.Trigger.TS
	q.n++
	if wait >= d.MinWait {
		q.late++
	}
	q.wait.add(x.Row.Start, float64(wait)/1e9)
	q.work.add(float64(x.Row.TS-x.Row.Start) / 1e9)
	q.ends = slices.DeleteFunc(q.ends, func(end int64) bool { return end <= x.Row.Start })
	if len(q.ends) < maxBeside {
		q.ends = append(q.ends, x.Row.TS)
	}
	q.most = max(q.most, len(q.ends))
}

// Findings implements Detector.
func (d *QueueWait) Findings(m *Model) ([]Finding, []Note) {
	var notes []Note
	for _, process := range sortedKeys(d.throttled) {
		if t := d.throttled[process]; int64(t.sum) >= d.MinThrottled {
			notes = append(notes, Note{Process: process, Count: t.n, What: fmt.Sprintf(
				"%s held back its own calls for %s in all, %s at most: rest.Config.QPS and Burst are lower than what it asks for (client-go writes one such line in ten seconds at most unless it is verbose, so it is more)",
				process, seconds(int64(t.sum)), seconds(int64(t.longest)))})
		}
	}
	seen := map[passKind]bool{}
	for _, k := range slices.SortedFunc(maps.Keys(d.queues), passKind.compare) {
		q := d.queues[k]
		if _, low, _ := stats.Proportion(q.late, q.n); low < d.MinShare {
			continue
		}
		inWaves := q.wait.waves() // before the sample is sorted
		wait, _, _ := stats.Median(q.wait.sample)
		work, _, _ := stats.Median(q.work.sample)
		what := fmt.Sprintf(
			"%d of %d reconciles of %s in %s waited %s and more in the queue (median wait %s, work %s); at most %d went on at one time: %s",
			q.late, q.n, q.controller, q.process, seconds(d.MinWait), seconds(int64(wait*1e9)), seconds(int64(work*1e9)), q.most, d.measured.ofKind(k).cause())
		seen[k] = true
		if inWaves.Period > 0 {
			what += fmt.Sprintf("; the waits come in waves of %s (p %.1g, Lomb–Scargle), as of a resync or of a timer that queues all keys at once", seconds(int64(inWaves.Period*1e9)), inWaves.P)
		}
		notes = append(notes, Note{Process: q.process, Count: q.late, What: what})
	}
	notes = append(notes, d.measured.notes(d, seen)...)
	for _, p := range m.Processes() {
		if n := d.tooMany[p]; n >= d.MinTooMany {
			notes = append(notes, Note{Process: p.Name, Count: n, What: fmt.Sprintf("the API server told %s %s to come back later (429)", p.Name, times(n))})
		}
	}
	return nil, notes
}
