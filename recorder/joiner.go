package recorder

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/opreplay/opreplay/bpf"
	"github.com/opreplay/opreplay/bpf/events"
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
	over atomic.Int64 // when the recording ended; 0 not yet
	// alone has no proxy beside it: events are the recorder's own watches', and calls the probes'.
	alone     bool
	began     time.Time
	processes func(pid int) string // nil: there is but one
	// ahead are the events of the recorder's watches that stand in the queue and were looked at, by stream.
	ahead  map[string][]*traces.WatchEvent
	coming []item // those of them that were not delivered yet

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

// item is one thing that happened: one of row, event, sample and kernel is set.
type item struct {
	at     time.Duration
	row    traces.Record
	event  *probes.Event
	sample *bpf.Sample
	kernel *events.Event
	heard  bool // an event of a watch that was looked at ahead of its turn
}

// maxQueued bounds the text of the rows that wait, in bytes: whoever brings more waits too.
const maxQueued = 64 << 20

func newJoiner(out rowSink, process string, names namer, o joinOptions) *joiner {
	j := &joiner{out: out, process: process, processes: o.processes, now: o.now, wall: o.wall, late: o.late, alone: o.alone, ahead: map[string][]*traces.WatchEvent{}}
	j.room = sync.NewCond(&j.mu)
	j.began = time.Unix(0, j.ts(j.now())).UTC()
	j.stacks = &stacks{names: names, known: map[[32]byte]int64{}, emit: j.emit}
	j.passes = newPasses(j)
	j.events = newDeliveries()
	if o.alone {
		j.events.slack = watchSlack
	}
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
	// watches says whether the recorder watches a resource in a namespace, with ALONE.
	watches func(group, resource, namespace string) bool
	// processes is the name in the trace of a process.
	processes func(pid int) string
}

const (
	// watchSlack is by how much the recorder's own watch may tell of an event later than the operator's: both are
	// served at once.
	watchSlack = tooClose
	// resultTime is how long after a call's answer the event of what it made may take to come by a watch of the
	// recorder's.
	resultTime = time.Second
)

// lag is how far behind what was reported the joiner stays, to look ahead for what a call made.
func (j *joiner) lag() time.Duration {
	if j.alone {
		return resultTime
	}
	return 0
}

// processOf is what the process PID is called in the trace.
func (j *joiner) processOf(pid int) string {
	if j.processes == nil {
		return j.process
	}
	return j.processes(pid)
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

// addKernel takes what befell a process in the second before.
func (j *joiner) addKernel(e *events.Event) { j.add(item{at: e.Time, kernel: e}) }

func (j *joiner) add(i item) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.queue = append(j.queue, i)
}

// advance takes all that happened up to UNTIL, of which every source has reported all.
func (j *joiner) advance(until time.Duration) {
	due, heard := j.take(until)
	for _, i := range heard {
		e := i.row.(*traces.WatchEvent)
		j.calls.results.hear(i.at, e)
		j.ahead[e.Stream] = append(j.ahead[e.Stream], e)
	}
	j.coming = append(j.coming, heard...)
	for _, i := range due {
		j.deliver(i.at + watchSlack)
		switch {
		case i.event != nil:
			j.event(i.event)
		case i.sample != nil:
			j.sample(i.sample)
		case i.kernel != nil:
			j.befell(i.kernel)
		default:
			j.row(i)
		}
	}
	j.passes.settle(until)
	j.calls.expire(until)
}

// deliver takes the events of the recorder's watches up to a time for those of the process's.
func (j *joiner) deliver(until time.Duration) {
	for len(j.coming) > 0 && j.coming[0].at <= until {
		j.events.add(j.coming[0].at, j.coming[0].row.(*traces.WatchEvent))
		j.coming = j.coming[1:]
	}
}

// take takes what is due out of the queue. HEARD are the events of the recorder's watches that came since.
func (j *joiner) take(until time.Duration) (due, heard []item) {
	j.mu.Lock()
	defer j.mu.Unlock()
	slices.SortStableFunc(j.queue, func(a, b item) int { return cmp.Compare(a.at, b.at) })
	n, _ := slices.BinarySearchFunc(j.queue, until, func(i item, t time.Duration) int {
		if i.at <= t {
			return -1
		}
		return 1
	})
	for i := range j.queue {
		e, ok := j.queue[i].row.(*traces.WatchEvent)
		if j.alone && ok && e.Process == Process && !j.queue[i].heard {
			j.queue[i].heard = true
			heard = append(heard, j.queue[i])
		}
	}
	due = slices.Clone(j.queue[:n])
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
	return due, heard
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

// end has what the processes begin from now on left out.
func (j *joiner) end() { j.over.Store(int64(j.now())) }

func (j *joiner) event(e *probes.Event) {
	if over := j.over.Load(); over != 0 && int64(e.Time) > over {
		switch e.Kind {
		case probes.Return, probes.Done, probes.Response: // of what began before
		default:
			return
		}
	}
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
		StackID: j.stacks.user(s.Time, j.wall, s.PID, s.User, s.Top), KernelStackID: j.stacks.kernel(s.Time, j.wall, s.Kernel), Weight: 1,
	}
	j.out.number(&row.Head)
	j.passes.tie(row, j.passes.ofGoroutine(s.PID, s.GoID))
}

func (j *joiner) row(i item) {
	if e, ok := i.row.(*traces.WatchEvent); ok && i.heard {
		j.pull(e)
		return
	}
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

// pull has an event of a watch written, if need be before its turn, and gives its seq: something that is being taken
// shows that it was there. What its watch delivered before it goes first. Of no event it is 0.
func (j *joiner) pull(e *traces.WatchEvent) int64 {
	if e == nil {
		return 0
	}
	list := j.ahead[e.Stream]
	for e.Seq == 0 && len(list) > 0 {
		j.emit(list[0])
		list = list[1:]
	}
	if j.ahead[e.Stream] = list; len(list) == 0 {
		delete(j.ahead, e.Stream)
	}
	return e.Seq
}

// loss is something that is missing of the whole time that was recorded.
func (j *joiner) loss(source string, n int64, reason string) traces.Loss {
	l := newLoss(source, n, reason)
	l.From, l.To = j.began, time.Unix(0, j.ts(j.now())).UTC()
	return l
}

// eventSource names what is missing when events of the probes are: with a proxy beside them no call is.
func (j *joiner) eventSource() string {
	if j.alone {
		return "requests/" + j.process
	}
	return "probes"
}

// ts is a time since the Unix epoch.
func (j *joiner) ts(t time.Duration) int64 { return int64(t) + j.wall }

// emit writes a row that has all it will have. An error ends the recording, which is the sink's to do.
func (j *joiner) emit(r traces.Record) {
	j.out.number(r.Header())
	_ = j.out.write(r)
}
