package virtual

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// futexKey names a futex: its address in one address space, or its place in a file that several share.
type futexKey struct {
	space *space
	file  string
	addr  uint64
}

// futex(2) operations of include/uapi/linux/futex.h.
const (
	futexWait          = 0
	futexWakeOp        = 1
	futexRequeue       = 3
	futexCmpRequeue    = 4
	futexWakeModify    = 5
	futexWaitBitset    = 9
	futexWakeBitset    = 10
	futexPrivate       = 128
	futexClockRealtime = 256
	futexAnyBit        = 0xffffffff
)

func (s *Supervisor) sysFutex(t *thread, a *[6]uint64) {
	op := a[1] &^ (futexPrivate | futexClockRealtime)
	private := a[1]&futexPrivate != 0
	switch op {
	case futexWait, futexWaitBitset:
		s.futexWait(t, a, op == futexWaitBitset, s.futexKeyOf(t, a[0], private))
	case futexWakeOp:
		s.ok(t, int64(s.futexWake(s.futexKeyOf(t, a[0], private), a[2], futexAnyBit)))
	case futexWakeBitset:
		s.ok(t, int64(s.futexWake(s.futexKeyOf(t, a[0], private), a[2], uint32(a[5]))))
	case futexRequeue, futexCmpRequeue:
		if op == futexCmpRequeue {
			if v, err := t.peek32(a[0]); err != nil || v != uint32(a[5]) {
				s.failErr(t, orErrno(err, unix.EAGAIN))
				return
			}
		}
		s.ok(t, int64(s.futexRequeue(s.futexKeyOf(t, a[0], private), s.futexKeyOf(t, a[4], private), a[2], a[3])))
	case futexWakeModify:
		s.futexWakeModify(t, a, s.futexKeyOf(t, a[0], private), s.futexKeyOf(t, a[4], private))
	default:
		s.lose(fmt.Sprintf("%s uses futex operation %d (priority inheritance), which the kernel decides", t.p.name(), op))
		s.pass(t)
	}
}

func orErrno(err error, e syscall.Errno) error {
	if err != nil {
		return err
	}
	return e
}

// futexWait parks the thread if the word has the expected value. WAIT's time-out is relative, WAIT_BITSET's absolute.
func (s *Supervisor) futexWait(t *thread, a *[6]uint64, bitset bool, key futexKey) {
	v, ns, err := s.futexArgs(t, a)
	if err != nil {
		s.failErr(t, err)
		return
	}
	if v != uint32(a[2]) {
		s.fail(t, unix.EAGAIN)
		return
	}
	var deadline int64
	if a[3] != 0 {
		switch {
		case !bitset:
			deadline = satAdd(s.now(), ns+t.slack(ns))
		case a[1]&futexClockRealtime != 0:
			deadline = ns
		default:
			deadline = satAdd(ns, s.monoZero)
		}
		if deadline <= s.now() {
			s.fail(t, unix.ETIMEDOUT)
			return
		}
	}
	t.key, t.bits = key, futexAnyBit
	if bitset {
		if t.bits = uint32(a[5]); t.bits == 0 {
			s.fail(t, unix.EINVAL)
			return
		}
	}
	s.futexes[key] = append(s.futexes[key], t)
	s.parkThread(t, parkFutex, deadline)
}

// slack is how much later than asked a wait of NS ends. The monitor thread of a Go program (sysmon in runtime/proc.go)
// sleeps until the next timer is due, although another thread waits for that in epoll_pwait, up to 1 ms longer (see
// epollDeadline). If it woke first it would find the timer late and look again every 20 µs; if it wakes after, it has
// nothing to do, for it is woken as soon as something enters a system call. What it does by time alone, to collect
// garbage every two minutes and to give back memory, may wait. Go's other waits of this form, for the world to stop,
// are of 100 µs. Only Go waits so: the C library's waits have absolute times, or come from elsewhere in memory.
func (t *thread) slack(ns int64) int64 {
	const monitor, stop = int64(10 * time.Second), int64(100 * time.Microsecond)
	if text, ip := t.p.root.text, t.req.data.ip; ns <= stop || t.p.parent != nil || ip < uint64(text.lo) || ip >= uint64(text.hi) {
		return 0
	}
	return monitor
}

// futexArgs reads the word and the time-out in one system call.
func (s *Supervisor) futexArgs(t *thread, a *[6]uint64) (word uint32, ns int64, err error) {
	if a[3] == 0 {
		word, err = t.peek32(a[0])
		return word, 0, err
	}
	var ts [2]int64
	local := [2]unix.Iovec{
		{Base: (*byte)(unsafe.Pointer(&word)), Len: 4},
		{Base: (*byte)(unsafe.Pointer(&ts)), Len: 16},
	}
	remote := [2]unix.RemoteIovec{{Base: uintptr(a[0]), Len: 4}, {Base: uintptr(a[3]), Len: 16}}
	n, _, e := syscall.RawSyscall6(unix.SYS_PROCESS_VM_READV, uintptr(t.tid), uintptr(unsafe.Pointer(&local)), 2,
		uintptr(unsafe.Pointer(&remote)), 2, 0)
	if e != 0 || n != 20 {
		return 0, 0, unix.EFAULT
	}
	ns, err = timespecNanos(ts[0], ts[1])
	return word, ns, err
}

func (s *Supervisor) futexRemove(t *thread) {
	q := s.futexes[t.key]
	for i, x := range q {
		if x == t {
			q = append(q[:i], q[i+1:]...)
			break
		}
	}
	if len(q) == 0 {
		delete(s.futexes, t.key)
	} else {
		s.futexes[t.key] = q
	}
}

// futexWake wakes up to n waiters whose bits match, those that came first, and says how many.
func (s *Supervisor) futexWake(key futexKey, n uint64, bits uint32) int {
	woken := 0
	for i := 0; i < len(s.futexes[key]) && woken < int(int32(n)); {
		t := s.futexes[key][i]
		if t.bits&bits == 0 {
			i++
			continue
		}
		s.wake(t, 0, 0) // takes it out of the list
		woken++
	}
	return woken
}

// futexRequeue wakes up to n waiters and moves up to m others to another futex.
func (s *Supervisor) futexRequeue(from, to futexKey, n, m uint64) int {
	count := s.futexWake(from, n, futexAnyBit)
	for moved := 0; len(s.futexes[from]) > 0 && moved < int(int32(m)) && from != to; moved++ {
		t := s.futexes[from][0]
		s.futexRemove(t)
		t.key = to
		s.futexes[to] = append(s.futexes[to], t)
		count++
	}
	return count
}

// futexWakeModify is FUTEX_WAKE_OP: change the second word, wake waiters of the first, and those of the second if
// its old value compares as asked.
func (s *Supervisor) futexWakeModify(t *thread, a *[6]uint64, first, second futexKey) {
	old, err := t.peek32(a[4])
	if err != nil {
		s.failErr(t, err)
		return
	}
	code := uint32(a[5])
	arg := uint32(int32(code<<8) >> 20)
	if code>>31 != 0 {
		arg = 1 << (arg & 31)
	}
	val := old
	switch code >> 28 & 7 {
	case 0:
		val = arg
	case 1:
		val = old + arg
	case 2:
		val = old | arg
	case 3:
		val = old &^ arg
	case 4:
		val = old ^ arg
	}
	if err := t.poke32(a[4], val); err != nil {
		s.failErr(t, err)
		return
	}
	n := s.futexWake(first, a[2], futexAnyBit)
	if compare(int32(old), int32(code<<20)>>20, code>>24&15) {
		n += s.futexWake(second, a[3], futexAnyBit)
	}
	s.ok(t, int64(n))
}

func compare(a, b int32, op uint32) bool {
	switch op {
	case 0:
		return a == b
	case 1:
		return a != b
	case 2:
		return a < b
	case 3:
		return a <= b
	case 4:
		return a > b
	}
	return a >= b
}

// futexKeyOf finds what a futex is known by. Only one that is not declared private and lies in shared memory is
// known by its file; that is looked up only when there is more than one process that could share it.
func (s *Supervisor) futexKeyOf(t *thread, addr uint64, private bool) futexKey {
	if !private && len(s.procs) > 1 {
		if file, off, ok := sharedMapping(t.tid, addr); ok {
			return futexKey{file: file, addr: off}
		}
	}
	return futexKey{space: t.p.space, addr: addr}
}

// sharedMapping finds the shared mapping that holds addr: its file (device and inode) and the offset in it.
func sharedMapping(tid int, addr uint64) (file string, off uint64, ok bool) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", tid))
	if err != nil {
		return "", 0, false
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		var lo, hi, at uint64
		var perms, dev, inode string
		if n, _ := fmt.Sscanf(sc.Text(), "%x-%x %s %x %s %s", &lo, &hi, &perms, &at, &dev, &inode); n != 6 {
			continue
		}
		if lo <= addr && addr < hi {
			return dev + " " + inode, at + addr - lo, strings.HasSuffix(perms, "s")
		}
	}
	return "", 0, false
}
