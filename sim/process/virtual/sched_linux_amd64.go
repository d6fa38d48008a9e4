package virtual

import (
	"sort"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

type threadState uint8

const (
	stateNew     threadState = iota // made by clone; its first trap has not been seen
	stateRunning                    // has the token
	stateReady                      // in the queue
	stateParked                     // waits, see park
	stateLoose                      // runs, or is blocked in the kernel, without the token
)

// parkKind says what a parked thread waits for.
type parkKind uint8

const (
	parkNone parkKind = iota
	parkFutex
	parkSleep
	parkEpoll
	parkPoll
	parkIO     // read, write, accept, … on a descriptor that would block
	parkChild  // wait4, waitid
	parkSignal // sigtimedwait, pause, sigsuspend
	parkVfork  // until its child has called exec or exit
)

// thread is a thread of a supervised process.
type thread struct {
	idx int // order of creation in the world: its name in hashes and logs
	tid int
	vid int // what gettid says
	p   *proc

	state   threadState
	req     notification // the outstanding trap
	pending bool         // req is still to be handled, once the thread has the token
	// the answer to give with the token, if not pending
	val   int64
	errno syscall.Errno
	cont  bool

	park     parkKind
	deadline int64 // 0: none
	seq      uint64

	key      futexKey
	bits     uint32
	clearTid uint64 // CLONE_CHILD_CLEARTID
	polled   *pollSet
	ioFd     int // our copy of the descriptor that it is blocked on
	ioWant   int16
	written  int // how much of a blocking write is done
	sigWait  uint64
	vforkOf  *thread // the parent that waits for this thread
	lent     bool    // a debugger has it, and it will come back with req
	spins    bool    // loose because it computes without end
}

// newThread makes a thread of p; its tid is known only at its first trap.
func (s *Supervisor) newThread(p *proc) *thread {
	t := &thread{idx: s.nextTh, p: p, ioFd: -1}
	s.nextTh++
	p.root.nextVid++
	t.vid = p.root.nextVid
	p.threads = append(p.threads, t)
	s.order = append(s.order, t)
	return t
}

func (s *Supervisor) bind(t *thread, tid int) {
	t.tid = tid
	s.threads[tid] = t
}

// enqueue makes t ready: it runs when the picker says so.
func (s *Supervisor) enqueue(t *thread) {
	t.state, t.park, t.deadline = stateReady, parkNone, 0
	s.queue = append(s.queue, t)
}

// pick takes the next thread from the queue. Threads of paused processes stay in it.
func (s *Supervisor) pick() *thread {
	n := len(s.queue)
	if n == 0 {
		return nil
	}
	paused := false
	for _, p := range s.roots {
		paused = paused || p.paused
	}
	if !paused {
		i := 0
		if n > 1 {
			i = s.opt.Picker.Pick(n)
		}
		return s.take(i)
	}
	var can []int
	for i, t := range s.queue {
		if !t.p.root.paused {
			can = append(can, i)
		}
	}
	if len(can) == 0 {
		return nil
	}
	return s.take(can[s.opt.Picker.Pick(len(can))])
}

func (s *Supervisor) take(i int) *thread {
	t := s.queue[i]
	copy(s.queue[i:], s.queue[i+1:])
	s.queue[len(s.queue)-1] = nil
	s.queue = s.queue[:len(s.queue)-1]
	return t
}

// dispatch gives t the token.
func (s *Supervisor) dispatch(t *thread) {
	t.state = stateRunning
	s.cur, s.touched = t, true
	if t.lent {
		return // see returned
	}
	if t.pending {
		s.handle(t)
		return
	}
	s.reply(t, t.val, t.errno, t.cont)
}

// parkThread takes the token from t until its wait ends, at the latest at deadline (0: never).
func (s *Supervisor) parkThread(t *thread, kind parkKind, deadline int64) {
	t.state, t.park, t.deadline = stateParked, kind, deadline
	s.vain = 0
	s.seq++
	t.seq = s.seq
	if s.cur == t {
		s.cur = nil
	}
}

// wake ends the wait of a parked thread with a result.
func (s *Supervisor) wake(t *thread, val int64, errno syscall.Errno) {
	s.unpark(t)
	t.val, t.errno, t.cont = val, errno, false
	s.enqueue(t)
}

// retry ends the wait of a parked thread; its call is looked at again when it has the token.
func (s *Supervisor) retry(t *thread) {
	s.unpark(t)
	t.pending = true
	s.enqueue(t)
}

// unpark frees what belongs to the wait.
func (s *Supervisor) unpark(t *thread) {
	if t.park == parkFutex {
		s.futexRemove(t)
	}
	if t.ioFd >= 0 {
		unix.Close(t.ioFd)
		t.ioFd = -1
	}
	t.polled.close()
	t.polled = nil
}

// yield puts the thread with the token at the end of the queue, if there is anyone else.
func (s *Supervisor) yield(t *thread) {
	if s.idling(t) {
		return
	}
	s.expire()
	if len(s.queue) == 0 {
		s.ok(t, 0)
		return
	}
	s.handOver(t)
}

// handOver puts the thread with the token at the end of the queue, with 0 as the result of its call.
func (s *Supervisor) handOver(t *thread) {
	t.val, t.errno, t.cont = 0, 0, false
	s.cur = nil
	s.enqueue(t)
}

// maxIdling is how often threads may ask in vain before one of them sleeps for a millisecond.
const maxIdling = 1000

// idling is called when a thread yields or polls without a time-out and nothing is there. It moves time a little, or
// nothing would ever come; and a thread that does nothing else is put to sleep, as a real one would use up real time.
func (s *Supervisor) idling(t *thread) bool {
	now := s.readClock()
	if s.vain++; s.vain < maxIdling {
		return false
	}
	if len(s.queue) > 0 { // what it waits for may be theirs to do
		s.vain = 0
		s.handOver(t)
		return true
	}
	s.parkThread(t, parkSleep, now+int64(time.Millisecond))
	s.vain = maxIdling // the next one in vain sleeps too, unless a thread waits for something in between
	return true
}

// wakeReady moves parked threads whose wait is over to the queue: descriptors first, then time. It says whether any
// thread can run.
func (s *Supervisor) wakeReady() bool {
	s.pollParked()
	if s.expire() {
		s.pollParked() // a timer has made a descriptor readable
	}
	for _, t := range s.queue {
		if !t.p.root.paused {
			return true
		}
	}
	return false
}

// pollParked looks at the descriptors that threads wait for, if anything can have become ready.
func (s *Supervisor) pollParked() {
	if !s.touched && s.loose == 0 {
		return
	}
	s.touched = false
	for _, t := range s.order {
		if t.state != stateParked || t.p.root.paused {
			continue
		}
		switch t.park {
		case parkEpoll:
			if k := s.epollReady(t); k != 0 {
				s.wake(t, int64(k), 0)
			}
		case parkPoll:
			if k, err := t.polled.ready(t); k != 0 || err != 0 {
				s.wake(t, int64(k), err)
			}
		case parkIO:
			if pollOne(t.ioFd, t.ioWant) {
				s.retry(t)
			}
		default: // it waits for none
		}
	}
}

// expire wakes threads and fires timers that are due, in the order of their deadlines. It says whether a timer fired.
func (s *Supervisor) expire() (fired bool) {
	now := s.now()
	type due struct {
		at  int64
		seq uint64
		t   *thread
		tm  *timer
	}
	var list []due
	for _, t := range s.order {
		if t.deadline != 0 && t.deadline <= now && t.state == stateParked && !t.p.root.paused {
			list = append(list, due{t.deadline, t.seq, t, nil})
		}
	}
	for _, tm := range s.timers {
		if tm.next != 0 && tm.next <= now && !tm.p.root.paused {
			list = append(list, due{tm.next, tm.seq, nil, tm})
		}
	}
	if len(list) > 1 {
		sort.Slice(list, func(i, j int) bool {
			if list[i].at != list[j].at {
				return list[i].at < list[j].at
			}
			return list[i].seq < list[j].seq
		})
	}
	for _, d := range list {
		switch {
		case d.tm != nil:
			if d.tm.next == d.at { // not removed meanwhile
				s.fire(d.tm)
				fired = true
			}
		case d.t.state != stateParked: // a timer's signal woke it meanwhile
		case d.t.park == parkFutex:
			s.wake(d.t, 0, unix.ETIMEDOUT)
		case d.t.park == parkSignal:
			s.wake(d.t, 0, unix.EAGAIN)
		case d.t.park == parkPoll:
			d.t.polled.clear(d.t)
			s.wake(d.t, 0, 0)
		default:
			s.wake(d.t, 0, 0)
		}
	}
	return fired
}
