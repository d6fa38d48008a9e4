package virtual

import (
	"encoding/binary"
	"sort"

	"golang.org/x/sys/unix"
)

// timer is a timerfd, a POSIX timer or an interval timer of a process.
type timer struct {
	p        *proc
	next     int64 // when it fires; 0: disarmed
	interval int64
	seq      uint64
	base     int64 // of its clock, see clockBase

	fd int // timerfd: an eventfd of ours, which the process has under another number; else -1
	// POSIX and interval timers:
	id      int32 // POSIX
	signal  int   // 0: none
	tid     int   // 0: the process
	value   uint64
	posix   bool
	overrun int32
}

func (s *Supervisor) addTimer(tm *timer) { s.timers = append(s.timers, tm) }

func (s *Supervisor) removeTimer(tm *timer) {
	tm.next, tm.fd = 0, -1
	for i, x := range s.timers {
		if x == tm {
			s.timers = append(s.timers[:i], s.timers[i+1:]...)
			return
		}
	}
}

// fire lets a due timer act and sets its next time.
func (s *Supervisor) fire(tm *timer) {
	count := uint64(1)
	if tm.interval > 0 {
		count = 1 + uint64((s.now()-tm.next)/tm.interval)
		tm.next += int64(count) * tm.interval
		s.seq++
		tm.seq = s.seq
	} else {
		tm.next = 0
	}
	if tm.fd >= 0 {
		s.touched = true
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], count)
		_, _ = unix.Write(tm.fd, b[:])
		return
	}
	tm.overrun = int32(count - 1)
	if tm.signal != 0 {
		s.timerSignal(tm)
	}
}

// arm sets a timer by a struct itimerspec (or itimerval, unit 1000) in the thread's memory.
func (s *Supervisor) arm(t *thread, tm *timer, addr uint64, absolute bool, unit int64) error {
	var b [32]byte
	if err := t.peek(addr, b[:]); err != nil {
		return err
	}
	le := binary.LittleEndian
	interval, err := timespecNanos(int64(le.Uint64(b[:])), int64(le.Uint64(b[8:]))*unit)
	if err != nil {
		return err
	}
	value, err := timespecNanos(int64(le.Uint64(b[16:])), int64(le.Uint64(b[24:]))*unit)
	if err != nil {
		return err
	}
	s.set(tm, value, interval, absolute)
	return nil
}

func (s *Supervisor) set(tm *timer, value, interval int64, absolute bool) {
	s.seq++
	tm.seq, tm.interval, tm.next, tm.overrun = s.seq, interval, 0, 0
	if value == 0 {
		return
	}
	if absolute {
		tm.next = max(satAdd(value, tm.base), 1)
	} else {
		tm.next = satAdd(s.now(), value)
	}
}

// show writes what remains as a struct itimerspec or itimerval.
func (s *Supervisor) show(t *thread, tm *timer, addr uint64, unit int64) error {
	if addr == 0 {
		return nil
	}
	var remain, interval int64
	if tm != nil && tm.next != 0 {
		remain, interval = max(tm.next-s.now(), 1*unit), tm.interval
	}
	if err := t.pokeTime(addr, interval, unit); err != nil {
		return err
	}
	return t.pokeTime(addr+16, remain, unit)
}

// A timerfd is an eventfd to which we add the expirations: reading, blocking and polling are the same.
func (s *Supervisor) sysTimerfdCreate(t *thread, a *[6]uint64) {
	flags := unix.EFD_CLOEXEC
	if a[1]&unix.TFD_NONBLOCK != 0 {
		flags |= unix.EFD_NONBLOCK
	}
	fd, err := unix.Eventfd(0, flags)
	if err != nil {
		s.failErr(t, err)
		return
	}
	n, e := s.install(t, fd, a[1]&unix.TFD_CLOEXEC != 0)
	if e != 0 {
		unix.Close(fd)
		s.fail(t, e)
		return
	}
	tm := &timer{p: t.p, base: s.clockBase(a[0]), fd: fd}
	s.addTimer(tm)
	t.p.files.put(n, &object{kind: objTimer, fd: fd, timer: tm})
}

func (s *Supervisor) sysTimerfdSettime(t *thread, a *[6]uint64) {
	o := t.p.files.get(a[0])
	if o == nil || o.kind != objTimer {
		s.fail(t, unix.EINVAL)
		return
	}
	if err := s.show(t, o.timer, a[3], 1); err != nil {
		s.failErr(t, err)
		return
	}
	if pollOne(o.fd, unix.POLLIN) { // forget what it has counted
		var b [8]byte
		_, _ = unix.Read(o.fd, b[:])
	}
	s.okOr(t, 0, s.arm(t, o.timer, a[2], a[1]&unix.TFD_TIMER_ABSTIME != 0, 1))
}

func (s *Supervisor) sysTimerfdGettime(t *thread, a *[6]uint64) {
	o := t.p.files.get(a[0])
	if o == nil || o.kind != objTimer {
		s.fail(t, unix.EINVAL)
		return
	}
	s.okOr(t, 0, s.show(t, o.timer, a[1], 1))
}

// sysTimerCreate reads a struct sigevent: value, signal, how to notify, thread.
func (s *Supervisor) sysTimerCreate(t *thread, a *[6]uint64) {
	const sigevSignal, sigevNone, sigevThreadID = 0, 1, 4
	tm := &timer{p: t.p, base: s.clockBase(a[0]), fd: -1, posix: true, id: t.p.nextTimer, signal: int(unix.SIGALRM), value: uint64(t.p.nextTimer)}
	if a[1] != 0 {
		var b [64]byte
		if err := t.peek(a[1], b[:]); err != nil {
			s.failErr(t, err)
			return
		}
		le := binary.LittleEndian
		tm.value, tm.signal = le.Uint64(b[:]), int(le.Uint32(b[8:]))
		switch le.Uint32(b[12:]) {
		case sigevNone:
			tm.signal = 0
		case sigevThreadID:
			tm.tid = int(le.Uint32(b[16:]))
		}
	}
	if err := t.poke32(a[2], uint32(tm.id)); err != nil {
		s.failErr(t, err)
		return
	}
	t.p.nextTimer++
	t.p.timers[tm.id] = tm
	s.addTimer(tm)
	s.ok(t, 0)
}

func (s *Supervisor) posixTimer(t *thread, id uint64) *timer {
	tm := t.p.timers[int32(id)]
	if tm == nil {
		s.fail(t, unix.EINVAL)
	}
	return tm
}

func (s *Supervisor) sysTimerSettime(t *thread, a *[6]uint64) {
	const timerAbstime = 1
	if tm := s.posixTimer(t, a[0]); tm != nil {
		if err := s.show(t, tm, a[3], 1); err != nil {
			s.failErr(t, err)
			return
		}
		s.okOr(t, 0, s.arm(t, tm, a[2], a[1]&timerAbstime != 0, 1))
	}
}

func (s *Supervisor) sysTimerGettime(t *thread, a *[6]uint64) {
	if tm := s.posixTimer(t, a[0]); tm != nil {
		s.okOr(t, 0, s.show(t, tm, a[1], 1))
	}
}

func (s *Supervisor) sysTimerGetoverrun(t *thread, a *[6]uint64) {
	if tm := s.posixTimer(t, a[0]); tm != nil {
		s.ok(t, int64(tm.overrun))
	}
}

func (s *Supervisor) sysTimerDelete(t *thread, a *[6]uint64) {
	if tm := s.posixTimer(t, a[0]); tm != nil {
		s.removeTimer(tm)
		delete(t.p.timers, tm.id)
		s.ok(t, 0)
	}
}

// realTimer is the process's ITIMER_REAL, which alarm uses too.
func (s *Supervisor) realTimer(p *proc) *timer {
	if p.itimer == nil {
		p.itimer = &timer{p: p, fd: -1, signal: int(unix.SIGALRM)}
		s.addTimer(p.itimer)
	}
	return p.itimer
}

func (s *Supervisor) sysSetitimer(t *thread, a *[6]uint64) {
	if a[0] != 0 { // timers of CPU time: profilers
		s.note(t.p.name() + " sets a timer of CPU time, which never fires here")
		s.ok(t, 0)
		return
	}
	tm := s.realTimer(t.p)
	err := s.show(t, tm, a[2], 1000)
	switch {
	case err != nil:
	case a[1] == 0:
		s.set(tm, 0, 0, false)
	default:
		err = s.arm(t, tm, a[1], false, 1000)
	}
	s.okOr(t, 0, err)
}

func (s *Supervisor) sysGetitimer(t *thread, a *[6]uint64) {
	var tm *timer
	if a[0] == 0 {
		tm = t.p.itimer
	}
	s.okOr(t, 0, s.show(t, tm, a[1], 1000))
}

func (s *Supervisor) sysAlarm(t *thread, a *[6]uint64) {
	tm := s.realTimer(t.p)
	var remain int64
	if tm.next != 0 {
		remain = (tm.next - s.now() + 1e9 - 1) / 1e9
	}
	s.set(tm, int64(uint32(a[0]))*1e9, 0, false)
	s.ok(t, remain)
}

// dropTimers removes a process's timers when it ends or calls exec (which keeps timerfds and the interval timer).
func (s *Supervisor) dropTimers(p *proc, all bool) {
	ids := make([]int32, 0, len(p.timers))
	for id := range p.timers {
		ids = append(ids, id)
	}
	sort.Slice(ids, func(i, j int) bool { return ids[i] < ids[j] })
	for _, id := range ids {
		s.removeTimer(p.timers[id])
	}
	p.timers = map[int32]*timer{}
	if all && p.itimer != nil {
		s.removeTimer(p.itimer)
		p.itimer = nil
	}
}
