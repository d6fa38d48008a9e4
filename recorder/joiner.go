package recorder

import (
	"slices"
	"sync"
	"time"

	"github.com/opreplay/opreplay/bpf"
	"github.com/opreplay/opreplay/bpf/probes"
	"github.com/opreplay/opreplay/internal/apicall"
	"github.com/opreplay/opreplay/traces"
)

// joiner puts side by side what the kernel shows of an operator and what the proxy and the watches do: which
// pass of which reconciler a call or a sample belongs to, which line made it, which event a pass goes back to.
//
// The sources report with delays of their own, so all that comes waits until every source has reported what
// happened up to then, and is taken in the order of time. Times are those of CLOCK_MONOTONIC.
type joiner struct {
	out     rowSink
	process string
	wall    int64 // what to add to a time to get nanoseconds since the Unix epoch
	now     func() time.Duration
	stacks  *stacks
	passes  *passes
	calls   *calls
	events  *deliveries
	// late has rows numbered when they are taken, in the order of time; else they were when they came.
	late bool

	mu     sync.Mutex
	room   *sync.Cond // of the queue
	queue  []item
	bytes  int // of the rows in the queue
	closed bool
}

// rowSink is the trace as the joiner sees it.
type rowSink interface {
	number(*traces.Head)
	write(traces.Record) error
	Seq() int64
}

// item is one thing that happened: one of the four is set.
type item struct {
	at     time.Duration
	row    traces.Record
	event  *probes.Event
	sample *bpf.Sample
}

// maxQueued bounds the text of the rows that wait, in bytes: whoever brings more waits too.
const maxQueued = 64 << 20

func newJoiner(out rowSink, process string, names namer, o joinOptions) *joiner {
	j := &joiner{out: out, process: process, now: o.now, wall: o.wall, late: o.late}
	j.room = sync.NewCond(&j.mu)
	j.stacks = &stacks{names: names, known: map[[32]byte]int64{}, emit: j.emit}
	j.passes = newPasses(j)
	j.events = newDeliveries()
	j.calls = newCalls(j, o)
	return j
}

// joinOptions are what a joiner must know of the recording.
type joinOptions struct {
	now  func() time.Duration
	wall int64
	late bool
	// queries says that the probes see URLs' queries.
	queries bool
	// alone has calls recorded from the probes, for there is no proxy.
	alone  bool
	redact apicall.Redactor
	served func(group, version, resource string) bool
}

// offer takes a row of the proxy's or a watch's, if it has to do with the process, or if all rows are to be
// numbered in the order of time.
func (j *joiner) offer(r traces.Record) bool {
	size, mine := 0, j.late
	switch r := r.(type) {
	case *traces.Request:
		size = len(r.RequestBody) + len(r.ResponseBody)
		mine = mine || r.Process == j.process
	case *traces.WatchEvent:
		size = len(r.Object)
		mine = mine || r.Process == j.process
	}
	if !mine {
		return false
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for j.bytes > maxQueued && !j.closed {
		j.room.Wait()
	}
	if j.closed {
		return false
	}
	if !j.late {
		j.out.number(r.Header())
	}
	j.bytes += size
	j.queue = append(j.queue, item{at: j.now(), row: r})
	return true
}

func (j *joiner) addEvent(e *probes.Event) { j.add(item{at: e.Time, event: e}) }
func (j *joiner) addSample(s *bpf.Sample)  { j.add(item{at: s.Time, sample: s}) }

func (j *joiner) add(i item) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.queue = append(j.queue, i)
}

// advance takes all that happened up to UNTIL, of which every source has reported all.
func (j *joiner) advance(until time.Duration) {
	for _, i := range j.take(until) {
		switch {
		case i.event != nil:
			j.event(i.event)
		case i.sample != nil:
			j.sample(i.sample)
		default:
			j.row(i)
		}
	}
	j.passes.settle(until)
	j.calls.expire(until)
}

func (j *joiner) take(until time.Duration) []item {
	j.mu.Lock()
	defer j.mu.Unlock()
	slices.SortStableFunc(j.queue, func(a, b item) int { return int(min(max(a.at-b.at, -1), 1)) })
	n, _ := slices.BinarySearchFunc(j.queue, until, func(i item, t time.Duration) int {
		if i.at <= t {
			return -1
		}
		return 1
	})
	due := slices.Clone(j.queue[:n])
	j.queue = slices.Delete(j.queue, 0, n)
	j.bytes = 0
	for _, i := range j.queue {
		switch r := i.row.(type) {
		case *traces.Request:
			j.bytes += len(r.RequestBody) + len(r.ResponseBody)
		case *traces.WatchEvent:
			j.bytes += len(r.Object)
		}
	}
	j.room.Broadcast()
	return due
}

// close takes what is left. Rows that come later are not the joiner's.
func (j *joiner) close() {
	j.mu.Lock()
	j.closed = true
	j.mu.Unlock()
	j.advance(1<<63 - 1)
	j.calls.close()
	j.passes.close(j.now())
}

func (j *joiner) event(e *probes.Event) {
	switch e.Kind {
	case probes.Add, probes.AddAfter, probes.AddRateLimited:
		j.passes.queued(e)
	case probes.Start:
		j.passes.start(e)
	case probes.Return:
		j.passes.returned(e)
	case probes.Done:
		j.passes.done(e)
	case probes.Request:
		j.calls.begin(e)
	case probes.Response:
		j.calls.answered(e)
	}
}

func (j *joiner) sample(s *bpf.Sample) {
	row := &traces.Sample{
		Head: traces.Head{TS: j.ts(s.Time)}, PID: int32(s.PID), TID: int32(s.TID), GoID: int64(s.GoID), CPU: int32(s.CPU),
		StackID: j.stacks.user(s.Time, j.wall, s.User, s.Top), KernelStackID: j.stacks.kernel(s.Time, j.wall, s.Kernel), Weight: 1,
	}
	j.out.number(&row.Head)
	j.passes.tie(row, j.passes.ofGoroutine(s.GoID))
}

func (j *joiner) row(i item) {
	if j.late {
		j.out.number(i.row.Header())
	}
	switch r := i.row.(type) {
	case *traces.WatchEvent:
		if r.Process == j.process {
			j.events.add(i.at, r)
		}
	case *traces.Request:
		if r.Process == j.process && !j.late {
			j.calls.tie(i.at, r)
			return
		}
	}
	j.emit(i.row)
}

// ts is a time since the Unix epoch.
func (j *joiner) ts(t time.Duration) int64 { return int64(t) + j.wall }

// emit writes a row that has all it will have. An error ends the recording, which is the sink's to do.
func (j *joiner) emit(r traces.Record) {
	j.out.number(r.Header())
	_ = j.out.write(r)
}
