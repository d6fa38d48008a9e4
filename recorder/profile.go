package recorder

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/opreplay/opreplay/bpf"
	"github.com/opreplay/opreplay/bpf/events"
	"github.com/opreplay/opreplay/bpf/symbols"
	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/traces"
)

// EBPF says whether to look at the operator from the kernel.
type EBPF string

// The values of EBPF.
const (
	EBPFOff  EBPF = "off"  // no; what "" means too
	EBPFAuto EBPF = "auto" // where that is possible, else say in a line why not
	EBPFOn   EBPF = "on"   // an error where it is not possible
)

func (e EBPF) check() error {
	switch e {
	case "", EBPFOff, EBPFAuto, EBPFOn:
		return nil
	}
	return cli.Usagef("--ebpf %s: want auto, on or off", string(e))
}

// profiler shows processes from the kernel: their samples, and what they do at the probes.
type profiler struct {
	processes *bpf.Processes
	sampler   *bpf.Sampler
	kernel    *symbols.Kernel // nil where its names are hidden: why
	why       error
	first     *program // that was opened before any process
	j         *joiner

	mu        sync.Mutex
	programs  []*program
	instances map[int]*instance // by their numbers; those that ended stay for a while
	lives     []*life
	gone      totals // of what was let go of
	released  error

	ended        func(*instance) // told once when a process is gone; may be nil
	stop         context.CancelFunc
	reading      sync.WaitGroup
	samplesEnded atomic.Pointer[error] // what ended the reading of samples before its time

	events      *events.Watcher // nil where none are wanted, or can be had: eventless
	eventless   error
	eventsEnded atomic.Pointer[error] // what ended their reading before its time
	children    children
}

// openProfiler makes ready to look at processes. PATH is the binary that the first will run, "" where that is not
// known yet.
func openProfiler(path string, o *Options) (_ *profiler, err error) {
	if err := bpf.Check(false); err != nil {
		return nil, err
	}
	p := &profiler{instances: map[int]*instance{}}
	if p.processes, err = bpf.NewProcesses(); err != nil {
		return nil, err
	}
	if path != "" {
		if p.first, err = p.programOf(path); err != nil {
			return nil, errors.Join(err, p.release())
		}
	}
	if p.kernel, err = symbols.OpenKernel(); err != nil {
		p.why = err
	}
	if p.sampler, err = bpf.NewSampler(p.processes, bpf.SamplerOptions{Hz: o.Hz}); err != nil {
		return nil, errors.Join(err, p.release())
	}
	p.watchKernel(o)
	return p, nil
}

// unwatched says why the first program has no probes, nil if it has.
func (p *profiler) unwatched() error {
	if p.first == nil {
		return nil
	}
	return p.first.why
}

// wallTime is a time of the trace's clock.
func (p *profiler) wallTime() time.Time { return time.Unix(0, p.j.ts(p.j.now())).UTC() }

// start begins to hand on what is seen.
func (p *profiler) start() {
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	p.reading.Go(func() { p.samplesEnded.Store(read(ctx, p.sampler.Next, p.j.addSample)) })
	if p.events != nil {
		p.reading.Go(func() { p.eventsEnded.Store(read(ctx, p.events.Next, p.j.addKernel)) })
	}
	p.reading.Go(func() { p.readChildren(ctx) })
	p.reading.Go(func() { p.join(ctx) })
}

// read hands on what NEXT gives until CTX ends; an error is what ended it otherwise.
func read[T any](ctx context.Context, next func(context.Context) (T, error), add func(T)) *error {
	for {
		v, err := next(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return &err
		}
		add(v)
	}
}

const joinEvery = 100 * time.Millisecond

func (p *profiler) join(ctx context.Context) {
	tick := time.NewTicker(joinEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			p.j.advance(p.seen() - p.j.lag())
			p.watch()
		}
	}
}

// seen is the time up to which all has been reported.
func (p *profiler) seen() time.Duration {
	seen := p.j.now()
	if p.samplesEnded.Load() == nil {
		seen = min(seen, p.sampler.Seen())
	}
	if p.events != nil && p.eventsEnded.Load() == nil {
		seen = min(seen, p.events.Seen())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, g := range p.programs {
		if t, ok := g.seen(); ok {
			seen = min(seen, t)
		}
	}
	return seen
}

// lastLook is how long the end of a recording may take to learn what happened before it.
const lastLook = 5 * time.Second

// finish ends the watching, takes what is left, and says what is missing.
func (p *profiler) finish(s *session) error {
	if p == nil {
		return nil
	}
	if p.stop != nil {
		end, tick := p.j.now(), time.NewTicker(joinEvery)
		for p.seen() < end && p.j.now()-end < lastLook {
			<-tick.C
		}
		tick.Stop()
		p.stop()
		p.reading.Wait()
	}
	for _, g := range p.programs {
		g.quit()
	}
	p.watch() // whoever has ended by now has its end
	p.restOfKernel(p.j.addKernel)
	p.j.close()
	err := s.server.Close() // it asks the profiler, and would count what is lost twice
	for _, l := range p.losses() {
		s.lose(l)
	}
	return errors.Join(err, p.release())
}

// release takes the probes out again.
func (p *profiler) release() error {
	if p == nil {
		return nil
	}
	err := p.released
	for _, g := range p.programs {
		err = errors.Join(err, g.release())
	}
	if p.sampler != nil {
		err = errors.Join(err, p.sampler.Close())
	}
	if p.events != nil {
		err = errors.Join(err, p.events.Close())
	}
	if p.processes != nil {
		err = errors.Join(err, p.processes.Close())
	}
	return err
}

func (p *profiler) losses() []traces.Loss {
	var all []traces.Loss
	add := func(source string, n int64, reason string) {
		if n != 0 {
			all = append(all, p.j.loss(source, n, reason))
		}
	}
	t := p.gone
	for _, g := range p.programs {
		t.program(g)
	}
	for _, i := range p.instances {
		t.add(i)
	}
	if _, lost, err := p.sampler.Counted(); err == nil {
		add("samples", int64(lost), "samples that the ring buffer had no room for")
	}
	events := p.j.eventSource()
	if t.lost > 0 {
		all = append(all, p.j.dropped(t.lost))
	}
	add(events, t.lostBodies, "parts of request bodies that the ring buffer had no room for")
	if t.ended != nil {
		add(events, -1, "reading ended: "+t.ended.Error())
	}
	if ended := p.samplesEnded.Load(); ended != nil {
		add("samples", -1, "reading ended: "+(*ended).Error())
	}
	p.lossesOfKernel(add)
	p.children.losses(add)
	if t.unwatched != nil {
		add(events, -1, "no reconciles and calls were seen: "+t.unwatched.Error())
	}
	add("stacks", t.unresolved, "frames that are no Go code of the program")
	if p.why != nil {
		add("stacks", -1, "kernel stacks: "+p.why.Error())
	}
	if t.unknown != "" {
		add("samples", -1, fmt.Sprintf("the structures of %s are not known: no goroutine numbers, and so no reconciles of samples", t.unknown))
	}
	return append(all, p.j.losses()...)
}

// dropped is the loss of n events of the probes. How many rows that makes is not known: a call or a pass has several, or
// has no row for one that is missing.
func (j *joiner) dropped(n int64) traces.Loss {
	return j.loss(j.eventSource(), -1, count(n, "event", "events")+" of the operator's that the ring buffer had no room for")
}

// losses are what the joiner could not join.
func (j *joiner) losses() []traces.Loss {
	var all []traces.Loss
	if j.alone {
		all = append(all, j.loss("watch/"+j.process, -1, "what its watches delivered to the operator, and when: the recorder's own stand for them"))
	}
	for _, l := range []struct {
		source string
		n      int64
		reason string
	}{
		{"stacks/" + j.process, j.calls.unknown, "calls that the probes did not see: stack_id and reconcile_id are not known"},
		{"requests/" + j.process, j.calls.truncated, "calls with a path or query that is too long for the probes"},
		{"requests/" + j.process, j.calls.bodies, "request bodies that the probes could not read"},
		{"requests/" + j.process, j.calls.unserved, "calls without their query and body, as of no resource that the cluster served when the recording began"},
		{"requests/" + j.process, j.calls.unended, "calls without an answer when the recording ended"},
		{"requests/" + j.process, j.calls.answers, "answers to reads, of which the probes see only the code"},
		{"requests/" + j.process, j.calls.results.unclear, "writes of which the watches do not show for certain what they made: resource_version is 0"},
		{"requests/" + j.process, j.calls.results.unwatched, "writes to what the recording does not watch: resource_version is 0"},
		{"reconciles", j.passes.unended, "reconciles whose end was not seen: outcome is ''"},
	} {
		if l.n != 0 {
			all = append(all, j.loss(l.source, l.n, l.reason))
		}
	}
	return append(all, j.calls.tap.Losses()...)
}

// user implements namer.
func (p *profiler) user(pid int, pcs []uint64, top [2]uint64) []traces.Frame {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := p.instances[pid]; i != nil {
		return i.code.Stack(pcs, top)
	}
	return p.children.stack(pid, pcs, top)
}

// kernelFrames implements namer.
func (p *profiler) kernelFrames(pcs []uint64) []traces.Frame {
	if p.kernel == nil {
		return nil
	}
	frames := make([]traces.Frame, len(pcs))
	for i, pc := range pcs {
		frames[i] = p.kernel.Frame(pc)
	}
	return frames
}

// profile has the session's rows joined with what P shows of PROCESS.
func (s *session) profile(p *profiler, process string, o joinOptions) {
	o.now = bpf.Monotonic
	o.wall = time.Now().UnixNano() - int64(bpf.Monotonic())
	o.queries, o.redact = p.first != nil && p.first.known, s.redact
	o.processes = p.name
	p.j = newJoiner(s, process, p, o)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.join, s.profiler = p.j, p
}

func checkHz(hz int) error {
	if hz < 0 || hz > 10000 {
		return cli.Usagef("--hz %d: want samples a second from 1 to 10000", hz)
	}
	return nil
}
