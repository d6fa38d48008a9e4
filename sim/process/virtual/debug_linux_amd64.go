package virtual

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// errRestartNoIntr (ERESTARTNOINTR) is what the kernel itself returns from a call that is to be made again whatever
// signal came.
const errRestartNoIntr = syscall.Errno(513)

// Attend lets debuggers have what they ask for. A thread that stands in the supervisor cannot be stopped by one that
// attaches: it is let go, stops before it has done anything, and comes back with the same call. Nothing of the run
// changes by it. Call it now and then while the world stands still; while it runs that is not needed.
func (s *Supervisor) Attend() {
	for _, root := range s.roots {
		for _, p := range root.family {
			s.attend(p)
		}
	}
}

// debugged says whether a debugger has the process.
func debugged(p *proc) bool {
	tracer, _ := traced(p.pid, p.pid)
	return tracer
}

// attend lets go the threads of p that a debugger has told to stop.
func (s *Supervisor) attend(p *proc) {
	if p.dead || p.pid == 0 || !debugged(p) {
		return
	}
	for _, t := range p.threads {
		if t.lent || t.tid == 0 || t.state != stateParked && t.state != stateReady {
			continue
		}
		if tracer, stop := traced(p.pid, t.tid); tracer && stop {
			t.lent = true
			s.send(t, 0, errRestartNoIntr, false)
		}
	}
}

// returned takes in the trap of a thread that was let go: it is the one in which it stood before.
func (s *Supervisor) returned(t *thread, n *notification) {
	t.lent, t.req = false, *n
	if t == s.cur && !t.pending { // it has got the token meanwhile
		s.reply(t, t.val, t.errno, t.cont)
	}
}

// traced says whether a thread has a debugger, and whether SIGSTOP, by which ptrace(2) stops a thread that it attaches
// to, waits for it.
func traced(pid, tid int) (tracer, stop bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/status", pid, tid))
	if err != nil {
		return false, false
	}
	field := func(name string) string {
		_, rest, _ := bytes.Cut(b, []byte("\n"+name+":\t"))
		value, _, _ := bytes.Cut(rest, []byte("\n"))
		return string(value)
	}
	pending, _ := strconv.ParseUint(field("SigPnd"), 16, 64)
	by := field("TracerPid")
	return by != "" && by != "0", pending&(1<<(unix.SIGSTOP-1)) != 0
}
