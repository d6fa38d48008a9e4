package virtual

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

const (
	watchInterval = 50 // ms of real time without a trap after which the holder is looked at
	watchLooks    = 5  // equal looks that make it blocked
)

// watchdog looks at a thread that has the token and does not trap: is it computing, or is it blocked in the kernel?
// A single look would mistake a thread that is just entering a trap for a blocked one, so it takes several equal
// ones: the same call and no context switch between them.
type watchdog struct {
	sign  string
	equal int
	cpu   time.Duration
	of    *thread
}

func (w *watchdog) reset() { *w = watchdog{} }

// look is called when the holder has not trapped for a while.
func (s *Supervisor) look(t *thread) {
	if debugged(t.p) { // and so it may stand still for as long as somebody thinks
		s.attend(t.p)
		s.watch.reset()
		return
	}
	w := &s.watch
	if w.of != t {
		*w = watchdog{of: t, cpu: cpuTime(t)}
	}
	if t.p.execBy != nil { // the kernel is replacing the program
		return
	}
	state := taskState(t.p.pid, t.tid)
	if state == 0 || state == 'Z' || state == 'X' {
		if t.p.pidfd >= 0 && pollFor(t.p.pidfd, 1000) { // by a signal
			s.processEnded(t.p)
			return
		}
		s.lose(fmt.Sprintf("a thread of %s disappeared", t.p.name()))
		s.removeThread(t)
		return
	}
	if state == 'R' {
		w.sign, w.equal = "", 0
		if cpuTime(t)-w.cpu > s.opt.SpinLimit {
			s.lose(fmt.Sprintf("%s computes for more than %v without a system call, or spins", t.p.name(), s.opt.SpinLimit))
			// Let others run beside it: what it waits for may be theirs to do.
			s.setNow(s.now() + int64(10*time.Millisecond))
			t.spins = true
			s.letLoose(t)
		}
		return
	}
	sign, nr := blockedIn(t)
	if sign == "" || sign != w.sign {
		w.sign, w.equal = sign, 0
		return
	}
	if w.equal++; w.equal >= watchLooks {
		s.lose(fmt.Sprintf("%s is blocked in %s, which is not supervised", t.p.name(), s.syscallName(nr)))
		s.letLoose(t)
	}
}

// letLoose takes the token from a thread that does not give it back. It returns to the queue at its next trap.
func (s *Supervisor) letLoose(t *thread) {
	t.state = stateLoose
	s.loose++
	s.cur = nil
	s.watch.reset()
}

// awaitLoose gives loose threads a moment of real time before the world is called idle, and more to one that was
// blocked in the kernel and runs again.
func (s *Supervisor) awaitLoose() bool {
	n := len(s.queue)
	for range 200 {
		_, err := s.receiveAny(nil, 2)
		if err != nil || len(s.queue) > n {
			return err == nil
		}
		running := false
		for _, t := range s.order {
			running = running || t.state == stateLoose && !t.spins && taskState(t.p.pid, t.tid) == 'R'
		}
		if !running {
			return false
		}
	}
	return false
}

// taskState is the state letter of /proc/PID/task/TID/stat, or 0 if there is none.
func taskState(pid, tid int) byte {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/stat", pid, tid))
	if err != nil {
		return 0
	}
	i := bytes.LastIndexByte(b, ')')
	if i < 0 || i+2 >= len(b) {
		return 0
	}
	return b[i+2]
}

// blockedIn identifies a wait in the kernel: the call with its arguments, and the counts of context switches.
func blockedIn(t *thread) (sign string, nr int32) {
	call, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/syscall", t.p.pid, t.tid))
	if err != nil || bytes.HasPrefix(call, []byte("running")) {
		return "", 0
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/status", t.p.pid, t.tid))
	i := bytes.Index(status, []byte("voluntary_ctxt"))
	if err != nil || i < 0 {
		return "", 0
	}
	number, _, _ := bytes.Cut(call, []byte(" "))
	n, _ := strconv.Atoi(string(number))
	return string(call) + string(status[i:]), int32(n)
}

// cpuTime is how long the thread has run.
func cpuTime(t *thread) time.Duration {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/schedstat", t.p.pid, t.tid))
	if err != nil {
		return 0
	}
	run, _, _ := bytes.Cut(b, []byte(" "))
	ns, _ := strconv.ParseInt(string(run), 10, 64)
	return time.Duration(ns)
}
