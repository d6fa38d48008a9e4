package recorder

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/procfs"

	"github.com/opreplay/opreplay/bpf"
	"github.com/opreplay/opreplay/bpf/probes"
	"github.com/opreplay/opreplay/bpf/symbols"
	"github.com/opreplay/opreplay/traces"
)

// program is a binary that is watched, in all processes that run it.
type program struct {
	path    string
	file    os.FileInfo
	binary  *symbols.Binary
	watcher *probes.Watcher // nil where it can't be watched
	why     error           // why not
	known   bool            // the Go release, and so goroutines' numbers
	wanted  int             // who is about to look at a process that runs it; guarded by profiler.mu

	stop    context.CancelFunc
	reading sync.WaitGroup
	ended   atomic.Pointer[error] // what ended the reading before its time
}

// openProgram puts probes into the binary at PATH. One that has nowhere to put them, or a kernel that can't, is no
// error: there are samples all the same.
func openProgram(processes *bpf.Processes, path string) (*program, error) {
	g := &program{path: path}
	var err error
	if g.file, err = os.Stat(path); err != nil {
		return nil, err
	}
	if g.binary, err = symbols.Open(path); err != nil {
		return nil, err
	}
	_, g.known = symbols.LayoutOf(g.binary.GoVersion)
	if g.watcher, err = probes.Attach(processes, g.binary, path); err != nil {
		g.watcher, g.why = nil, err
	}
	return g, nil
}

// read hands events on until release.
func (g *program) read(add func(*probes.Event)) {
	if g.watcher == nil || g.stop != nil {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	g.stop = stop
	g.reading.Go(func() { g.ended.Store(read(ctx, g.watcher.Next, add)) })
}

// seen is the time up to which the program's events have been handed on; ok is false where none will be.
func (g *program) seen() (t time.Duration, ok bool) {
	if g.watcher == nil || g.stop == nil || g.ended.Load() != nil {
		return 0, false
	}
	return g.watcher.Seen(), true
}

// quit ends the reading.
func (g *program) quit() {
	if g.stop != nil {
		g.stop()
		g.reading.Wait()
	}
}

// release takes the probes out again.
func (g *program) release() error {
	if g.watcher == nil {
		return nil
	}
	return g.watcher.Close()
}

// instance is one process that is looked at.
type instance struct {
	pid     int
	started uint64 // when, by the kernel's clock: numbers of processes are given again
	name    string // in the trace
	program *program
	code    *symbols.Process
	life    *life
}

// life is what stays of an instance.
type life struct {
	name string
	row  traces.Instance
}

// maxLives bounds how many are told one by one.
const maxLives = 1000

// newInstance is the process PID, which runs the program G.
func newInstance(pid int, name string, g *program) (*instance, error) {
	started, ok := startOf(pid)
	if !ok {
		return nil, fmt.Errorf("process %d has ended: %w", pid, os.ErrNotExist)
	}
	code, err := g.binary.Process(pid)
	if err != nil {
		return nil, err
	}
	return &instance{pid: pid, started: started, name: name, program: g, code: code}, nil
}

// alive says whether the process still runs.
func (i *instance) alive() bool {
	started, ok := startOf(i.pid)
	if !ok || started != i.started {
		return false
	}
	exe, err := os.Stat(procOf(i.pid, "exe")) // which a process may replace
	return err != nil || os.SameFile(exe, i.program.file)
}

// startOf is when a process began, in the kernel's ticks since the machine was started: proc_pid_stat(5), field 22. It
// is not ok when there is no such process, or only its remains that its parent has not looked at.
func startOf(pid int) (ticks uint64, ok bool) {
	process, err := procfs.NewProc(pid)
	if err != nil {
		return 0, false
	}
	stat, err := process.Stat()
	return stat.Starttime, err == nil && stat.State != "Z" && stat.State != "X"
}

// follow looks at the process PID, called NAME in the trace, from now on.
func (p *profiler) follow(pid int, name string) (*instance, error) {
	g, err := p.programOf(procOf(pid, "exe"))
	if err != nil {
		return nil, err
	}
	i, err := newInstance(pid, name, g)
	p.mu.Lock()
	defer p.mu.Unlock()
	g.wanted--
	if err != nil {
		return nil, err
	}
	if _, err := p.processes.Follow(pid); err != nil {
		return nil, err
	}
	g.read(p.j.addEvent)
	i.life = &life{name, traces.Instance{PID: pid, Began: p.wallTime()}}
	p.instances[pid] = i
	if len(p.lives) < maxLives {
		p.lives = append(p.lives, i.life)
	}
	return i, nil
}

// only looks at the one process that is to be looked at. After an error rows pass by the joiner.
func (p *profiler) only(pid int, name string) error {
	if p == nil {
		return nil
	}
	if _, err := p.follow(pid, name); err != nil {
		p.j.close() // else the rows would wait for sources that never report
		return err
	}
	p.start()
	return nil
}

// programOf is the program of the file at PATH, opened once, and kept for who wants it.
func (p *profiler) programOf(path string) (*program, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, g := range p.programs {
		if os.SameFile(g.file, info) {
			g.wanted++
			return g, nil
		}
	}
	g, err := openProgram(p.processes, path)
	if err != nil {
		return nil, err
	}
	g.wanted++
	p.programs = append(p.programs, g)
	return g, nil
}

// watch notices the instances that have ended, and lets go of their programs once nothing of them is left to be
// taken: a container that is started again and again has a binary of its own each time.
func (p *profiler) watch() {
	p.mu.Lock()
	defer p.mu.Unlock()
	used := map[*program]bool{}
	now := p.wallTime()
	for pid, i := range p.instances {
		ended := &i.life.row.Ended
		if ended.IsZero() && !i.alive() {
			*ended = now
			_ = p.processes.Unfollow(pid)
			if p.ended != nil {
				p.ended(i)
			}
		}
		if ended.IsZero() || now.Sub(*ended) < afterlife {
			used[i.program] = true
			continue
		}
		p.gone.add(i)
		delete(p.instances, pid)
	}
	var keep []*program
	for _, g := range p.programs {
		if used[g] || g.wanted > 0 || g == p.first {
			keep = append(keep, g)
			continue
		}
		g.quit()
		p.gone.program(g)
		p.released = errors.Join(p.released, g.release())
	}
	p.programs = keep
}

// afterlife is how long after its end a process's events and samples may still be on their way.
const afterlife = 5 * time.Second

// totals add up what is known to be missing of programs and instances.
type totals struct {
	lost, lostBodies, unresolved int64
	ended, unwatched             error
	unknown                      string // a Go release whose structures are not known
}

func (t *totals) add(i *instance) { t.unresolved += int64(i.code.Unresolved) }

func (t *totals) program(g *program) {
	if g.why != nil {
		t.unwatched = g.why
	}
	if !g.known {
		t.unknown = g.binary.GoVersion
	}
	if g.watcher == nil {
		return
	}
	if _, lost, lostBodies, err := g.watcher.Counted(); err == nil {
		t.lost += int64(lost)
		t.lostBodies += int64(lostBodies)
	}
	if ended := g.ended.Load(); ended != nil {
		t.ended = *ended
	}
}

// rows are the manifest's instances of the process NAME.
func (p *profiler) rows(name string) []traces.Instance {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []traces.Instance
	for _, l := range p.lives {
		if l.name == name {
			out = append(out, l.row)
		}
	}
	return out
}

// name is what the process PID is called in the trace.
func (p *profiler) name(pid int) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := p.instances[pid]; i != nil {
		return i.name
	}
	return p.j.process
}

// follows says whether the process PID is looked at.
func (p *profiler) follows(pid int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := p.instances[pid]
	return i != nil && i.life.row.Ended.IsZero()
}

// free is the first of NAME, NAME/2, NAME/3, … that no living process has.
func (p *profiler) free(name string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := map[string]bool{}
	for _, i := range p.instances {
		if i.life.row.Ended.IsZero() {
			taken[i.name] = true
		}
	}
	free := name
	for n := 2; taken[free]; n++ {
		free = fmt.Sprintf("%s/%d", name, n)
	}
	return free
}
