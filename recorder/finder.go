package recorder

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/opreplay/opreplay/bpf/symbols"
	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/traces"
)

// finder looks for the processes that are chosen, and has each looked at.
type finder struct {
	s     *session
	p     *profiler
	rule  rule
	began time.Time
	known map[int]*candidate
	done  chan struct{} // closed when it looks no more
	// operators are what the manifest says of the processes, by their names in the trace.
	operators map[string]*traces.Operator
	mu        sync.Mutex // guards operators
}

// candidate is a process that is there.
type candidate struct {
	started uint64    // in ticks
	until   time.Time // when its name and cgroup are what they will be: it begins as a copy of its parent
	chosen  bool
	exe     os.FileInfo // that it was last judged by
}

const (
	findEvery = 200 * time.Millisecond
	youth     = 3 * time.Second
)

func newFinder(s *session, p *profiler, r rule) *finder {
	return &finder{s: s, p: p, rule: r, began: time.Now(), known: map[int]*candidate{}, done: make(chan struct{}), operators: map[string]*traces.Operator{}}
}

// find looks at what the rule chooses now, and at what it will.
func (s *session) find(p *profiler, r rule) (*finder, error) {
	f := newFinder(s, p, r)
	s.knows(f.described)
	p.ended = func(i *instance) { s.o.note("process %d (%s) has ended; the cluster is recorded on", i.pid, i.name) }
	if f.look() == 0 {
		if s.o.PID != 0 {
			close(f.done)
			return f, cli.CannotRun(fmt.Errorf("--pid %d: the process could not be looked at", s.o.PID))
		}
		s.o.note("%s: no such process yet; it will be recorded when there is one", s.o.Choice.flag())
	}
	for name := range f.operators {
		p.j.process = name // of one of them, which what is missing is said of
	}
	p.start()
	go f.run()
	return f, nil
}

// wait returns when it looks no more. The session has ended.
func (f *finder) wait() {
	if f != nil {
		<-f.done
	}
}

// run looks again and again until the session ends.
func (f *finder) run() {
	defer close(f.done)
	tick := time.NewTicker(findEvery)
	defer tick.Stop()
	for {
		select {
		case <-f.s.ctx.Done():
			return
		case <-tick.C:
			f.look()
		}
	}
}

// look follows what is chosen and not followed yet, and says how many processes there are that are.
func (f *finder) look() (n int) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	here := map[int]bool{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		here[pid] = true
		if f.p.follows(pid) || f.judge(pid) {
			n++
		}
	}
	for pid := range f.known {
		if !here[pid] {
			delete(f.known, pid)
		}
	}
	return n
}

// judge looks at a process that is not followed; followed says whether it is now.
func (f *finder) judge(pid int) (followed bool) {
	now := time.Now()
	c := f.known[pid]
	if c == nil || now.Before(c.until) && !c.chosen {
		started, ok := startOf(pid)
		if !ok {
			return false
		}
		if c == nil || c.started != started {
			c = &candidate{started: started, until: now.Add(youth)}
			f.known[pid] = c
		}
		c.chosen = f.rule(pid)
	}
	if !c.chosen {
		return false
	}
	exe, err := os.Stat(procOf(pid, "exe"))
	if err != nil || c.exe != nil && os.SameFile(c.exe, exe) {
		return false
	}
	path, err := exeOf(pid)
	if err != nil || isRuntime(pid, path) {
		return false
	}
	if c.chosen = f.rule(pid); !c.chosen { // it may have become another program since
		return false
	}
	c.exe = exe
	return f.follow(pid, filepath.Base(path))
}

// isRuntime: what a container begins as, before it becomes its own program.
func isRuntime(pid int, path string) bool {
	comm, err := os.ReadFile(procOf(pid, "comm"))
	return err == nil && strings.HasPrefix(string(comm), "runc:[") || strings.Contains(path, "runc_cloned")
}

func (f *finder) follow(pid int, program string) bool {
	name := f.p.free(program)
	i, err := f.p.follow(pid, name)
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, os.ErrProcessDone): // it is gone
		return false
	case errors.Is(err, symbols.ErrNotGo):
		if program != "pause" { // which every pod has
			f.s.o.note("process %d (%s) is not looked at: no Go program", pid, program)
		}
		return false
	case err != nil:
		f.s.lose(newLoss("requests/"+name, -1, fmt.Sprintf("process %d could not be looked at: %v", pid, err)))
		f.s.o.note("process %d (%s) is not looked at: %v", pid, program, err)
		return false
	}
	if i.program.why != nil {
		f.s.o.note("process %d (%s): recording samples, but no reconciles and calls: %v", pid, program, i.program.why)
	}
	f.describe(i)
	return true
}

// describe notes an instance for the manifest, and what was not seen of its beginning.
func (f *finder) describe(i *instance) {
	if f.operators[i.name] == nil {
		o := &traces.Operator{Process: i.name, Probed: f.p.j.alone}
		if sum, err := hashFile(procOf(i.pid, "exe")); err == nil {
			o.BinarySHA256 = sum
		}
		f.mu.Lock()
		f.operators[i.name] = o
		f.mu.Unlock()
	}
	f.s.news.Store(true)
	began, ok := beginningOf(i.pid)
	if !ok || began.Before(f.began) {
		return // a recording of what runs already begins in its middle
	}
	f.s.o.note("process %d (%s) is looked at, from %s after its start on", i.pid, i.name, i.life.row.Began.Sub(began).Round(time.Millisecond))
	l := newLoss("requests/"+i.name, -1, fmt.Sprintf("what process %d did before it was found", i.pid))
	l.From, l.To = began.UTC(), i.life.row.Began
	f.s.lose(l)
}

// beginningOf is when a process began, to some 10 ms: startOf counts ticks of a hundredth of a second (USER_HZ) since
// the machine was started.
func beginningOf(pid int) (time.Time, bool) {
	ticks, ok := startOf(pid)
	if !ok {
		return time.Time{}, false
	}
	up, err := uptime()
	if err != nil {
		return time.Time{}, false
	}
	return time.Now().Add(time.Duration(ticks)*10*time.Millisecond - up), true
}

// uptime is how long the machine has run (proc_uptime(5)).
func uptime() (time.Duration, error) {
	text, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(text), " ")
	return time.ParseDuration(first + "s")
}

// described are the manifest's operators, with their instances.
func (f *finder) described() (all []traces.Operator) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, o := range f.operators {
		described := *o
		described.Instances = f.p.rows(o.Process)
		all = append(all, described)
	}
	return all
}
