package recorder

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/opreplay/opreplay/bpf"
	"github.com/opreplay/opreplay/bpf/probes"
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

// profiler shows a process from the kernel: its samples, and what it does at the probes.
type profiler struct {
	path      string
	binary    *symbols.Binary
	processes *bpf.Processes
	sampler   *bpf.Sampler
	watcher   *probes.Watcher
	names     *processNames
	known     bool // the Go release, and so goroutines' numbers
	j         *joiner

	pid     int
	ended   func() // told once when the process is gone; may be nil
	stop    context.CancelFunc
	reading sync.WaitGroup
	// What ended the readers before their time.
	samplesEnded, eventsEnded atomic.Pointer[error]
}

// openProfiler makes ready to watch processes that run the binary at PATH.
func openProfiler(path string, hz int) (_ *profiler, err error) {
	if err := bpf.Check(false); err != nil {
		return nil, err
	}
	p := &profiler{path: path, names: &processNames{}}
	if p.binary, err = symbols.Open(path); err != nil {
		return nil, err
	}
	_, p.known = symbols.LayoutOf(p.binary.GoVersion)
	if p.processes, err = bpf.NewProcesses(); err != nil {
		return nil, err
	}
	if p.watcher, err = probes.Attach(p.processes, p.binary, path); err != nil {
		return nil, errors.Join(err, p.processes.Close())
	}
	if p.names.kernelNames, err = symbols.OpenKernel(); err != nil {
		p.names.hidden = err
	}
	if p.sampler, err = bpf.NewSampler(p.processes, bpf.SamplerOptions{Hz: hz}); err != nil {
		return nil, errors.Join(err, p.watcher.Close(), p.processes.Close())
	}
	return p, nil
}

// follow begins to watch the process PID. After an error rows pass by the joiner.
func (p *profiler) follow(pid int) (err error) {
	if p == nil {
		return nil
	}
	defer func() {
		if err != nil {
			p.j.close() // else the rows would wait for sources that never report
		}
	}()
	if _, err := p.processes.Follow(pid); err != nil {
		return err
	}
	if p.names.process, err = p.binary.Process(pid); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	p.stop, p.pid = stop, pid
	p.reading.Go(func() { p.samplesEnded.Store(read(ctx, p.sampler.Next, p.j.addSample)) })
	p.reading.Go(func() { p.eventsEnded.Store(read(ctx, p.watcher.Next, p.j.addEvent)) })
	p.reading.Go(func() { p.join(ctx) })
	return nil
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

const (
	joinEvery = 100 * time.Millisecond
	// straggling is how long after it was stamped an event may take to reach the ring buffer: the rest of its
	// program's run.
	straggling = 5 * time.Millisecond
)

func (p *profiler) join(ctx context.Context) {
	tick := time.NewTicker(joinEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			p.j.advance(p.seen())
			if _, err := os.Stat(filepath.Join("/proc", strconv.Itoa(p.pid))); err != nil && p.ended != nil {
				p.ended()
				p.ended = nil
			}
		}
	}
}

// seen is the time up to which all has been reported.
func (p *profiler) seen() time.Duration {
	seen := p.j.now()
	if p.samplesEnded.Load() == nil {
		seen = min(seen, p.sampler.Seen())
	}
	if p.eventsEnded.Load() == nil {
		seen = min(seen, p.watcher.Seen())
	}
	return seen - straggling
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
	p.j.close()
	for _, l := range p.losses() {
		s.lose(l)
	}
	return p.release()
}

// release takes the probes out again.
func (p *profiler) release() error {
	if p == nil {
		return nil
	}
	return errors.Join(p.watcher.Close(), p.sampler.Close(), p.processes.Close())
}

func (p *profiler) losses() []traces.Loss {
	var all []traces.Loss
	add := func(source string, n int64, reason string) {
		if n != 0 {
			all = append(all, newLoss(source, n, reason))
		}
	}
	if _, lost, err := p.sampler.Counted(); err == nil {
		add("samples", int64(lost), "samples that the ring buffer had no room for")
	}
	if _, lost, lostBodies, err := p.watcher.Counted(); err == nil {
		add("probes", int64(lost), "events of the operator's that the ring buffer had no room for")
		add("probes", int64(lostBodies), "parts of request bodies that the ring buffer had no room for")
	}
	for source, ended := range map[string]*error{"samples": p.samplesEnded.Load(), "probes": p.eventsEnded.Load()} {
		if ended != nil {
			add(source, -1, "reading ended: "+(*ended).Error())
		}
	}
	if p.names.process != nil {
		add("stacks", int64(p.names.process.Unresolved), "frames that are no Go code of the program")
	}
	if p.names.hidden != nil {
		add("stacks", -1, "kernel stacks: "+p.names.hidden.Error())
	}
	if !p.known {
		add("samples", -1, fmt.Sprintf("the structures of %s are not known: no goroutine numbers, and so no reconciles of samples", p.binary.GoVersion))
	}
	return append(all, p.j.losses()...)
}

// losses are what the joiner could not join.
func (j *joiner) losses() []traces.Loss {
	var all []traces.Loss
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
		{"requests/" + j.process, j.calls.answers, "answers of which the probes see only the code"},
		{"reconciles", j.passes.unended, "reconciles whose end was not seen: outcome is ''"},
	} {
		if l.n != 0 {
			all = append(all, newLoss(l.source, l.n, l.reason))
		}
	}
	return append(all, j.calls.tap.Losses()...)
}

// processNames names the code of a process and of the kernel.
type processNames struct {
	process     *symbols.Process
	kernelNames *symbols.Kernel
	hidden      error
}

func (n *processNames) user(pcs []uint64, top [2]uint64) []traces.Frame {
	return n.process.Stack(pcs, top)
}

func (n *processNames) kernel(pcs []uint64) []traces.Frame {
	if n.kernelNames == nil {
		return nil
	}
	frames := make([]traces.Frame, len(pcs))
	for i, pc := range pcs {
		frames[i] = n.kernelNames.Frame(pc)
	}
	return frames
}

// profile has the session's rows joined with what P shows of PROCESS.
func (s *session) profile(p *profiler, process string, o joinOptions) {
	o.now = bpf.Monotonic
	o.wall = time.Now().UnixNano() - int64(bpf.Monotonic())
	o.queries, o.redact = p.known, s.redact
	p.j = newJoiner(s, process, p.names, o)
	s.join = p.j
}

// program is the binary and the name of the process PID.
func program(pid int) (path, name string, err error) {
	path = filepath.Join("/proc", strconv.Itoa(pid), "exe")
	target, err := os.Readlink(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "", "", cli.Usagef("--pid %d: no such process", pid)
	case errors.Is(err, os.ErrPermission):
		if missing := bpf.Check(true); missing != nil {
			err = missing
		}
		return "", "", cli.CannotRun(fmt.Errorf("--pid %d: %w", pid, err))
	case err != nil:
		return "", "", cli.Usagef("--pid %d: %w", pid, err)
	}
	return path, filepath.Base(strings.TrimSuffix(target, " (deleted)")), nil
}

// attach looks at the process that is to be recorded with the cluster, nil for none.
func (o *Options) attach() (*profiler, *traces.Operator, error) {
	if o.PID == 0 {
		return nil, nil, nil
	}
	if err := checkHz(o.Hz); err != nil {
		return nil, nil, err
	}
	path, name, err := program(o.PID)
	if err != nil {
		return nil, nil, err
	}
	sum, err := hashFile(path)
	if err != nil {
		return nil, nil, cli.CannotRun(fmt.Errorf("--pid %d: %w", o.PID, err))
	}
	p, err := openProfiler(path, o.Hz)
	if err != nil {
		return nil, nil, cli.CannotRun(fmt.Errorf("--pid %d: %w", o.PID, err))
	}
	return p, &traces.Operator{Process: name, BinarySHA256: sum}, nil
}

func checkHz(hz int) error {
	if hz < 0 || hz > 10000 {
		return cli.Usagef("--hz %d: want samples a second from 1 to 10000", hz)
	}
	return nil
}
