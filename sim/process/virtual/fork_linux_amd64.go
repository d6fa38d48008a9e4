package virtual

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	cloneVM          = 0x100
	cloneFiles       = 0x400
	cloneVfork       = 0x4000
	cloneThread      = 0x10000
	cloneChildClrTid = 0x200000
)

func (s *Supervisor) sysClone(t *thread, a *[6]uint64) {
	flags, childTid := a[0], a[3]
	if t.req.data.nr == unix.SYS_CLONE3 { // struct clone_args
		var err error
		if flags, err = t.peek64(a[0]); err == nil {
			childTid, err = t.peek64(a[0] + 16)
		}
		if err != nil {
			s.failErr(t, err)
			return
		}
	}
	if flags&cloneThread != 0 {
		child := s.newThread(t.p)
		if flags&cloneChildClrTid != 0 {
			child.clearTid = childTid
		}
		s.pass(t)
		s.awaitFirst(child)
		return
	}
	s.fork(t, flags)
}

func (s *Supervisor) sysFork(t *thread, _ *[6]uint64) {
	if t.req.data.nr == unix.SYS_VFORK {
		s.fork(t, cloneVM|cloneVfork)
		return
	}
	s.fork(t, 0)
}

// fork lets a process be made. A vforked child borrows its parent's memory, and the kernel holds the parent's
// thread until the child has called exec or exit.
func (s *Supervisor) fork(t *thread, flags uint64) {
	t.p.forgetReaped()
	p := s.newProc(t.p.root, t.p, 0)
	if flags&cloneVM != 0 {
		p.space = t.p.space
	}
	if flags&cloneFiles != 0 {
		p.files = t.p.files
		p.files.refs++
	} else {
		p.files = t.p.files.clone()
	}
	child := s.newThread(p)
	s.note("process numbers of children are the operating system's: a program that shows them differs from run to run")
	s.pass(t)
	if flags&cloneVfork != 0 {
		child.vforkOf = t
		s.parkThread(t, parkVfork, 0)
	}
	s.awaitFirst(child)
}

// forgetReaped drops what is known of children that have ended and been waited for.
func (p *proc) forgetReaped() {
	gone := func(c *proc) bool { return c.dead && c.parent == p && !isZombie(c.pid) }
	p.children = slices.DeleteFunc(p.children, gone)
	p.root.family = slices.DeleteFunc(p.root.family, gone)
}

// awaitFirst waits for the first trap of a new thread, within microseconds of its making, and queues it. Two new
// threads must not be out at once, or it could not be told which is which.
func (s *Supervisor) awaitFirst(child *thread) {
	s.expected = child
	defer func() { s.expected = nil }()
	for range 100 {
		if _, err := s.receiveAny(nil, 100); err != nil {
			break
		}
		if child.pending {
			s.enqueue(child)
			return
		}
	}
	s.lose(child.p.name() + " made a thread that was never seen")
	if len(child.p.threads) == 1 && child.p.pid == 0 {
		child.p.dead = true
		if t := child.vforkOf; t != nil && t.park == parkVfork {
			t.state, t.park = stateRunning, parkNone
			s.cur = t
		}
		child.p.files.release()
	}
	s.removeThread(child)
}

// unexpected binds the trap of an unknown thread to the one that is awaited. Any other is let go and reported.
func (s *Supervisor) unexpected(n *notification, root *Process) *thread {
	t := s.expected
	if t == nil || t.tid != 0 || t.p.root != root {
		s.lose(root.spec.Name + " has a thread of unknown origin")
		a := notifyAnswer{id: n.id, flags: flagContinue}
		_ = s.sendRaw(root, &a)
		return nil
	}
	s.bind(t, int(n.tid))
	if t.p.pid == 0 {
		s.bindProc(t.p, int(n.tid))
		s.reaperAdd(t.p.pid)
	}
	return t
}

// sysExec lets a program be replaced. Whether it was shows at the process's next trap: the new program does not have
// the clock's page.
func (s *Supervisor) sysExec(t *thread, a *[6]uint64) {
	s.execsExe(t, a)
	t.p.execBy = t
	parent := t.vforkOf
	s.pass(t)
	if parent == nil {
		return
	}
	for range 100 {
		if _, err := s.receiveAny(nil, 100); err != nil || t.p.dead {
			return
		}
		if t.pending {
			break
		}
	}
	if !s.execDone(t) {
		return // t goes on with an error, the parent still waits
	}
	// The parent's thread is out of the kernel since, and has the token; the child comes after those in the queue.
	t.vforkOf = nil
	s.cur = nil
	s.release(parent)
	s.enqueue(t)
}

// release gives the token to a thread that vfork held.
func (s *Supervisor) release(parent *thread) {
	if parent.p.dead {
		return
	}
	s.queue = without(s.queue, parent) // it may have been faster than we
	parent.state, parent.park = stateRunning, parkNone
	s.cur = parent
}

// execDone looks, at the first trap after exec, whether it succeeded, and if so forgets the old program.
func (s *Supervisor) execDone(t *thread) bool {
	p := t.p
	p.execBy = nil
	if _, err := t.peek64(cellAddr); err == nil {
		return false
	}
	p.needsBoot = true
	if p == p.root.main {
		p.root.text = goText{} // another program's
	}
	p.space = &space{}
	p.files = s.unshared(p.files)
	p.files.afterExec(p.pid)
	s.dropTimers(p, false)
	t.clearTid = 0
	for _, x := range append([]*thread(nil), p.threads...) {
		if x != t {
			s.removeThread(x)
		}
	}
	return true
}

func (s *Supervisor) unshared(f *fdTable) *fdTable {
	if f.refs == 1 {
		return f
	}
	c := f.clone()
	f.release()
	return c
}

// execByOther is when a thread that is not the first one of its process has called exec: it takes the first one's
// number, and all others are gone.
func (s *Supervisor) execByOther(first *thread) *thread {
	t := first.p.execBy
	if t == nil || t == first {
		return first
	}
	tid := first.tid
	s.removeThread(first)
	delete(s.threads, t.tid)
	s.bind(t, tid)
	return t
}

func (s *Supervisor) sysSetTidAddress(t *thread, a *[6]uint64) {
	t.clearTid = a[0]
	s.pass(t)
}

func (s *Supervisor) sysExit(t *thread, a *[6]uint64) {
	if len(t.p.threads) == 1 {
		s.sysExitGroup(t, a)
		return
	}
	clearTid, p, tid := t.clearTid, t.p, t.tid
	s.pass(t)
	s.awaitThreadEnd(p, tid)
	s.removeThread(t)
	if clearTid != 0 {
		// The kernel has cleared the word and woken nobody, as all waiters are ours.
		s.futexWake(futexKey{space: p.space, addr: clearTid}, math31, futexAnyBit)
	}
}

// awaitThreadEnd waits until the kernel has no such thread any more; a process's first one remains as a zombie.
func (s *Supervisor) awaitThreadEnd(p *proc, tid int) {
	for i := range 20000 {
		if unix.Tgkill(p.pid, tid, 0) == unix.ESRCH || tid == p.pid && i%10 == 9 && taskState(p.pid, tid) == 'Z' {
			return
		}
		if i < 1000 {
			runtime.Gosched()
		} else {
			time.Sleep(100 * time.Microsecond)
		}
	}
	s.lose("a thread of " + p.name() + " did not end")
}

func (s *Supervisor) sysExitGroup(t *thread, _ *[6]uint64) {
	p := t.p
	s.pass(t)
	s.processEnded(p)
}

// childEnded tells the parent of a process that ended: its vfork, its waits, its signal.
func (s *Supervisor) childEnded(p *proc) {
	parent := p.parent
	if parent == nil || parent.dead {
		return
	}
	// The signal is sent under a lock that this call takes too: afterwards it is there.
	_ = unix.Waitid(unix.P_PID, p.pid, nil, unix.WNOHANG|unix.WEXITED|unix.WNOWAIT, nil)
	for _, x := range parent.threads {
		if x.state == stateParked && x.park == parkVfork && s.vforkDone(x, p) {
			if s.cur == nil {
				s.release(x)
			} else { // the child was killed by another: the parent runs until its next trap
				x.state, x.park = stateRunning, parkNone
			}
			break
		}
	}
	for _, x := range append([]*thread(nil), parent.threads...) {
		if x.state == stateParked && x.park == parkChild {
			s.retry(x)
		}
	}
	s.interrupt(parent, 0, int(unix.SIGCHLD))
}

// orphan gives the children of a process that ended to the first process of its family, as the kernel has done.
func (s *Supervisor) orphan(p *proc) {
	heir := p.root.main
	for _, c := range p.children {
		c.parent = heir
		heir.children = append(heir.children, c)
	}
	p.children = nil
}

// vforkDone says whether x was held by the vfork that made p: no other child of its process holds it.
func (s *Supervisor) vforkDone(x *thread, p *proc) bool {
	for _, t := range s.order {
		if t.vforkOf == x && t.p != p {
			return false
		}
	}
	return true
}

// sysWait is wait4 and waitid: the kernel does it once there is something to report.
func (s *Supervisor) sysWait(t *thread, a *[6]uint64) {
	options := a[2]
	if t.req.data.nr == unix.SYS_WAITID {
		options = a[3]
	}
	if options&unix.WNOHANG != 0 {
		s.pass(t)
		return
	}
	alive := false
	for _, c := range t.p.children {
		if !s.waitsFor(t, a, c) {
			continue
		}
		if c.dead && isZombie(c.pid) {
			s.pass(t)
			return
		}
		alive = alive || !c.dead
	}
	if !alive {
		s.pass(t) // ECHILD
		return
	}
	s.parkThread(t, parkChild, 0)
}

// waitsFor says whether a wait includes child c.
func (s *Supervisor) waitsFor(t *thread, a *[6]uint64, c *proc) bool {
	if t.req.data.nr == unix.SYS_WAIT4 {
		pid := int(int32(a[0]))
		return pid <= 0 || pid == c.pid
	}
	switch a[0] {
	case unix.P_PID:
		return int(a[1]) == c.pid
	case unix.P_PIDFD:
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%d", t.p.pid, int32(a[1])))
		return err != nil || strings.Contains(string(b), fmt.Sprintf("\nPid:\t%d\n", c.pid))
	}
	return true
}

func isZombie(pid int) bool { return taskState(pid, pid) == 'Z' }
