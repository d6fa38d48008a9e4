package recorder

import (
	"time"

	"github.com/opreplay/opreplay/bpf/probes"
	"github.com/opreplay/opreplay/traces"
)

// pass is one pass of a reconciler under way.
type pass struct {
	row       *traces.Reconcile
	start     time.Duration
	goroutine goroutine
	key       string
	returned  bool // its result was seen
	failed    bool
	requeued  bool            // its key was put back for later
	waiting   []traces.Record // rows that get its seq
}

// patience is how long rows wait for the end of the pass that they belong to, whose seq they name. The seq of
// a pass that lasts longer is given then.
const patience = time.Minute

// goroutine is the address of a goroutine's descriptor in a process, or of another thing there.
type goroutine struct {
	pid     int
	address uint64
}

func goroutineOf(e *probes.Event) goroutine { return goroutine{e.PID, e.Goroutine} }

// passes follows the reconcilers of the processes.
type passes struct {
	j           *joiner
	byGoroutine map[goroutine]*pass
	queues      map[goroutine]*queue // by the queue's address
	unended     int64                // passes whose end was not seen
}

func newPasses(j *joiner) *passes {
	return &passes{j: j, byGoroutine: map[goroutine]*pass{}, queues: map[goroutine]*queue{}}
}

func keyOf(namespace, name string) string { return namespace + "/" + name }

// of is the pass under way on the goroutine of E. A descriptor serves another goroutine when its first is no more:
// the pass that was under way then has ended unseen.
func (p *passes) of(e *probes.Event) *pass {
	a := p.byGoroutine[goroutineOf(e)]
	if a != nil && e.GoID != 0 && a.row.GoID != 0 && uint64(a.row.GoID) != e.GoID {
		p.end(a, e.Time, 0)
		return nil
	}
	return a
}

func (p *passes) start(e *probes.Event) {
	if old := p.of(e); old != nil {
		p.end(old, e.Time, 0) // its end was lost
	}
	p.byGoroutine[goroutineOf(e)] = &pass{
		row: &traces.Reconcile{
			Process: p.j.processOf(e.PID), Controller: e.Controller, Namespace: e.Namespace, Name: e.Name,
			Start: p.j.ts(e.Time), GoID: int64(e.GoID), KnownBy: "probe",
		},
		start: e.Time, goroutine: goroutineOf(e), key: keyOf(e.Namespace, e.Name),
	}
}

// returned notes the reconciler's result.
func (p *passes) returned(e *probes.Event) {
	a := p.of(e)
	if a == nil {
		return
	}
	a.returned, a.failed = true, e.Failed
	if !e.Failed {
		a.row.RequeueAfter = int64(e.After) // with an error it is ignored
	}
}

// queued notes an addition to a queue.
func (p *passes) queued(e *probes.Event) {
	key := keyOf(e.Namespace, e.Name)
	a := p.of(e)
	if a != nil && a.key == key && e.Kind != probes.Add {
		a.requeued = true
	}
	frames := p.j.stacks.names.user(e.PID, e.Stack, e.Top)
	how := describeAddition(frames)
	if e.Kind != probes.Add && !how.priority {
		return // a queue that waits adds it again when it is due
	}
	address := goroutine{e.PID, e.Queue}
	q := p.queues[address]
	if q == nil {
		q = &queue{added: map[string][]addition{}}
		p.queues[address] = q
	}
	n := addition{at: e.Time, due: e.Time + e.After, someTime: e.Kind == probes.AddRateLimited}
	if a == nil && e.Kind == probes.Add && !how.waited {
		n.trigger = p.j.pull(p.j.events.cause(e.Time, listener{goroutineOf(e), e.GoID}, key, how))
	}
	q.add(key, n)
}

// done ends the pass of a goroutine.
func (p *passes) done(e *probes.Event) {
	a := p.of(e)
	if a == nil || a.key != keyOf(e.Namespace, e.Name) {
		return
	}
	if q := p.queues[goroutine{e.PID, e.Queue}]; q != nil {
		a.row.Trigger = q.started(a.key, a.start)
	}
	p.end(a, e.Time, e.Queue)
}

// end writes the pass's row and those that waited for it. QUEUE 0 means that its end was not seen.
func (p *passes) end(a *pass, at time.Duration, queue uint64) {
	delete(p.byGoroutine, a.goroutine)
	a.row.TS = p.j.ts(at)
	switch {
	case queue == 0:
		p.unended++
	case a.failed:
		a.row.Outcome = "error"
	case a.row.RequeueAfter > 0 || a.requeued:
		a.row.Outcome = "requeue"
	default:
		a.row.Outcome = "success"
	}
	p.j.emit(a.row)
	a.release(p.j)
}

// release writes the rows that waited for the pass's seq.
func (a *pass) release(j *joiner) {
	for _, r := range a.waiting {
		setReconcile(r, a.row.Seq)
		j.emit(r)
	}
	a.waiting = nil
}

// tie has a row written that belongs to the pass A, nil for none: at once, or when its seq is known.
func (p *passes) tie(r traces.Record, a *pass) {
	switch {
	case a == nil:
		p.j.emit(r)
	case a.row.Seq != 0:
		setReconcile(r, a.row.Seq)
		p.j.emit(r)
	default:
		a.waiting = append(a.waiting, r)
	}
}

func setReconcile(r traces.Record, id int64) {
	switch r := r.(type) {
	case *traces.Request:
		r.ReconcileID = id
	case *traces.Sample:
		r.ReconcileID = id
	}
}

// ofGoroutine is the pass under way on a goroutine of the process PID by its number.
func (p *passes) ofGoroutine(pid int, goid uint64) *pass {
	if goid == 0 {
		return nil
	}
	for _, a := range p.byGoroutine { // as many as there are workers
		if a.row.GoID == int64(goid) && a.goroutine.pid == pid {
			return a
		}
	}
	return nil
}

// settle numbers the passes for which rows have waited long enough.
func (p *passes) settle(now time.Duration) {
	for _, a := range p.byGoroutine {
		if a.row.Seq == 0 && len(a.waiting) > 0 && now-a.start > patience {
			p.j.out.number(&a.row.Head)
			a.release(p.j)
		}
	}
}

// close ends the passes that are under way when the recording ends.
func (p *passes) close(now time.Duration) {
	for len(p.byGoroutine) > 0 {
		var first *pass // map order is none
		for _, a := range p.byGoroutine {
			if first == nil || a.start < first.start {
				first = a
			}
		}
		p.end(first, now, 0)
	}
}
