package virtual

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Process is a started program with all processes that come from it: they share its name, its network and its end.
type Process struct {
	s         *Supervisor
	spec      Spec
	main      *proc
	listener  int    // the filter's
	text      goText // of the first program
	family    []*proc
	files     *fileView
	paused    bool
	gone      bool
	exit      ExitStatus
	nextVid   int
	nextPort  int
	nextWatch int
	procs     int // how many there have been

	listeners []*socket
	pipes     [2]*outputPipe
}

// space stands for an address space: threads share it, and a vforked child until it calls exec.
type space struct{ _ byte } // of a size, so that two are never one

// proc is one process of the operating system.
type proc struct {
	s       *Supervisor
	root    *Process
	parent  *proc
	pid     int
	pidfd   int
	threads []*thread
	space   *space
	files   *fdTable
	rng     *rand.ChaCha8

	needsBoot bool
	execBy    *thread // has called exec; the outcome shows at the process's next trap
	dead      bool
	children  []*proc
	timers    map[int32]*timer
	itimer    *timer
	nextTimer int32
}

func (p *proc) name() string {
	if p == p.root.main {
		return p.root.spec.Name
	}
	return p.root.spec.Name + "'s child"
}

// spawner runs functions on one thread that never ends: a child with PR_SET_PDEATHSIG is killed when the thread
// that made it ends, which Go's threads do when they please.
var spawner = sync.OnceValue(func() chan func() {
	ch := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range ch {
			f()
		}
	}()
	return ch
})

// Start starts a process. When it returns the process stands at its very beginning: it runs from the next
// RunUntilIdle on.
func (s *Supervisor) Start(spec Spec) (*Process, error) {
	if spec.Path == "" || spec.Name == "" {
		return nil, fmt.Errorf("virtual: a process needs a Name and a Path")
	}
	if len(spec.Args) == 0 {
		spec.Args = []string{spec.Path}
	}
	if spec.Hostname == "" {
		spec.Hostname = spec.Name
	}
	p := &Process{s: s, spec: spec, listener: -1}
	p.files = newFileView(s, p)
	if err := p.spawn(); err != nil {
		p.closeOutputs()
		return nil, err
	}
	s.roots = append(s.roots, p)
	if err := s.first(p); err != nil {
		p.Kill()
		return nil, err
	}
	return p, nil
}

// spawn starts the shim and waits until it has become the program.
func (p *Process) spawn() error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(pair[0])
	theirs := os.NewFile(uintptr(pair[1]), "shim")
	null, err := os.Open(os.DevNull)
	if err != nil {
		theirs.Close()
		return err
	}
	defer null.Close()
	out, err := p.openOutputs()
	if err != nil {
		theirs.Close()
		return err
	}
	p.text = textOfGo(p.spec.Path)
	shim, err := shimFor(p.text)
	if err != nil {
		theirs.Close()
		out[0].Close()
		out[1].Close()
		return &Error{"start " + p.spec.Path, "the helper program could not be written", err}
	}
	argv := append([]string{"shim", p.spec.Path}, p.spec.Args...)
	attr := &os.ProcAttr{
		Dir: p.spec.Dir, Env: p.spec.Env, Files: []*os.File{null, out[0], out[1], shimSocket: theirs, shimFile: shim},
		Sys: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setsid: true},
	}
	if attr.Env == nil {
		attr.Env = []string{}
	}
	var child *os.Process
	done := make(chan struct{})
	spawner() <- func() {
		child, err = os.StartProcess("/proc/self/fd/"+strconv.Itoa(shimFile), argv, attr)
		close(done)
	}
	<-done
	theirs.Close()
	out[0].Close()
	out[1].Close()
	if err != nil {
		return &Error{"start " + p.spec.Path, "the helper process could not be started", err}
	}
	pid := child.Pid
	_ = child.Release()
	if p.listener, err = receiveListener(pair[0], p.spec.Path); err != nil {
		_ = unix.Kill(pid, unix.SIGKILL)
		reap(pid)
		return err
	}
	syncWakeUp(p.listener)
	p.main = p.s.newProc(p, nil, pid)
	p.main.files.put(1, &object{kind: objOutput, fd: -1, output: 1})
	p.main.files.put(2, &object{kind: objOutput, fd: -1, output: 2})
	p.s.bind(p.s.newThread(p.main), pid)
	return nil
}

// first waits for the program's first trap and prepares it.
func (s *Supervisor) first(p *Process) error {
	t := p.main.threads[0]
	for range 100 {
		if _, err := s.receiveAny(t, 100); err != nil {
			return err
		}
		if p.gone {
			return &Error{"start " + p.spec.Path, "it ended at once", nil}
		}
		if t.pending {
			t.pending = false
			if err := s.boot(t); err != nil {
				return err
			}
			s.enqueue(t)
			return nil
		}
	}
	return &Error{"start " + p.spec.Path, "it made no system call within 10 s", nil}
}

// newProc makes the record of a process; pid 0 means that it is not known yet.
func (s *Supervisor) newProc(root *Process, parent *proc, pid int) *proc {
	p := &proc{s: s, root: root, parent: parent, pidfd: -1, space: &space{}, timers: map[int32]*timer{}, needsBoot: parent == nil}
	root.procs++
	p.rng = rand.NewChaCha8(seedFor(s.opt.Seed, root.spec.Name, root.spec.Incarnation, root.procs))
	if parent == nil {
		p.files = newFdTable(s)
	} else {
		parent.children = append(parent.children, p)
	}
	root.family = append(root.family, p)
	if pid != 0 {
		s.bindProc(p, pid)
	}
	return p
}

func (s *Supervisor) bindProc(p *proc, pid int) {
	p.pid = pid
	s.procs[pid] = p
	var err error
	if p.pidfd, err = unix.PidfdOpen(pid, 0); err != nil {
		s.lose("pidfd_open: " + err.Error())
	}
}

// seedFor is the seed of one process's randomness.
func seedFor(seed uint64, name string, incarnation, nth int) [32]byte {
	b := binary.LittleEndian.AppendUint64(nil, seed)
	b = binary.LittleEndian.AppendUint64(b, uint64(incarnation))
	b = binary.LittleEndian.AppendUint64(b, uint64(nth))
	return sha256.Sum256(append(b, name...))
}

// Spec is what the process was started with.
func (p *Process) Spec() Spec { return p.spec }

// Pid is the operating system's number of the first process: for a debugger; it differs from run to run.
func (p *Process) Pid() int { return p.main.pid }

// Exited says whether the process has ended, and how.
func (p *Process) Exited() (ExitStatus, bool) { return p.exit, p.gone }

// Pause keeps all threads of the process from running until Resume, whatever becomes ready or due.
func (p *Process) Pause() { p.paused = true }

// Resume ends a Pause. What has become due meanwhile runs now.
func (p *Process) Resume() { p.paused, p.s.touched = false, true }

// Kill ends the process and all that come from it at once, as kill -9 does. It returns when they are gone.
func (p *Process) Kill() {
	if p.gone {
		return
	}
	if p.main == nil {
		p.gone = true
		return
	}
	_ = unix.Kill(p.main.pid, unix.SIGKILL)
	p.s.processEnded(p.main)
}

// Signal sends a signal to the process. It is delivered when the thread that takes it next has the token; a wait
// that a signal interrupts ends.
func (p *Process) Signal(sig syscall.Signal) error {
	if p.gone {
		return os.ErrProcessDone
	}
	return p.s.signal(p.main, 0, int(sig), nil)
}

// reap waits for a child of ours that is ending and returns its status and the CPU time that it and the children that
// it has waited for have used.
func reap(pid int) (unix.WaitStatus, time.Duration) {
	var ws unix.WaitStatus
	var used unix.Rusage
	for {
		_, err := unix.Wait4(pid, &ws, 0, &used)
		if err != unix.EINTR {
			return ws, time.Duration(used.Utime.Nano() + used.Stime.Nano())
		}
	}
}

// processEnded does what follows the end of a process, which is certain by now. The end of the first one of a
// family is the end of all.
func (s *Supervisor) processEnded(p *proc) {
	if p.dead {
		return
	}
	s.awaitEnd(p)
	p.dead, s.touched = true, true
	for _, t := range append([]*thread(nil), p.threads...) {
		s.removeThread(t)
	}
	p.files.release()
	s.dropTimers(p, true)
	if p == p.root.main {
		s.familyEnded(p)
	} else {
		s.reaper.remove(p.pid)
		s.orphan(p)
		s.childEnded(p)
	}
	if p.pidfd >= 0 {
		unix.Close(p.pidfd)
		p.pidfd = -1
	}
	delete(s.procs, p.pid)
}

// awaitEnd waits until the kernel has taken the process apart.
func (s *Supervisor) awaitEnd(p *proc) {
	for range 100 {
		if p.pidfd < 0 || pollFor(p.pidfd, 100) {
			return
		}
		s.drainOutputs() // it may be writing its last words
	}
	s.lose(p.name() + " did not end within 10 s of its end")
}

func pollFor(fd, ms int) bool {
	n, err := pollRaw([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, ms)
	return err != nil || n > 0
}

func (s *Supervisor) familyEnded(p *proc) {
	root := p.root
	ws, cpu := reap(p.pid)
	s.cpu += cpu
	root.gone = true
	root.exit = ExitStatus{Code: ws.ExitStatus(), At: s.Now()}
	if ws.Signaled() {
		root.exit.Code, root.exit.Signal = -1, int(ws.Signal())
	}
	for _, c := range root.family {
		if c != p && !c.dead && c.pid != 0 {
			_ = unix.Kill(c.pid, unix.SIGKILL)
			s.processEnded(c)
		}
	}
	unix.Close(root.listener)
	root.listener = -1
	s.drainOutputs()
	root.closeOutputs()
	root.files.close()
	for i, x := range s.roots {
		if x == root {
			s.roots = append(s.roots[:i], s.roots[i+1:]...)
			break
		}
	}
}

// removeThread forgets a thread that is gone.
func (s *Supervisor) removeThread(t *thread) {
	s.unpark(t)
	if t.state == stateLoose {
		s.loose--
	}
	if s.threads[t.tid] == t {
		delete(s.threads, t.tid)
	}
	s.order = without(s.order, t)
	s.queue = without(s.queue, t)
	t.p.threads = without(t.p.threads, t)
	if s.cur == t {
		s.cur = nil
	}
	t.state, t.park, t.pending, t.deadline = stateParked, parkNone, false, 0
}

func without(list []*thread, t *thread) []*thread {
	for i, x := range list {
		if x == t {
			return append(list[:i], list[i+1:]...)
		}
	}
	return list
}
