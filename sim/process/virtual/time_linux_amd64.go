package virtual

import (
	"golang.org/x/sys/unix"
)

// clockBase is what to subtract from virtual time since 1970 to get the reading of a clock.
func (s *Supervisor) clockBase(id uint64) int64 {
	switch int32(id) {
	case unix.CLOCK_REALTIME, unix.CLOCK_REALTIME_COARSE, unix.CLOCK_TAI, unix.CLOCK_REALTIME_ALARM:
		return 0
	}
	// Monotonic, boot time, and the clocks of CPU time, which move as virtual time does.
	return s.monoZero
}

func (s *Supervisor) sysClockGettime(t *thread, a *[6]uint64) {
	s.okOr(t, 0, t.pokeTime(a[1], s.readClock()-s.clockBase(a[0]), 1))
}

func (s *Supervisor) sysGettimeofday(t *thread, a *[6]uint64) {
	var err error
	if a[0] != 0 {
		err = t.pokeTime(a[0], s.readClock(), 1000)
	}
	s.okOr(t, 0, err)
}

func (s *Supervisor) sysTime(t *thread, a *[6]uint64) {
	sec := s.readClock() / 1e9
	var err error
	if a[0] != 0 {
		err = t.poke64(a[0], uint64(sec))
	}
	s.okOr(t, sec, err)
}

func (s *Supervisor) sysYield(t *thread, _ *[6]uint64) { s.yield(t) }

func (s *Supervisor) sysNanosleep(t *thread, a *[6]uint64) {
	ns, err := t.peekTime(a[0])
	if err != nil {
		s.failErr(t, err)
		return
	}
	s.parkThread(t, parkSleep, satAdd(s.now(), max(ns, 1)))
}

func (s *Supervisor) sysClockNanosleep(t *thread, a *[6]uint64) {
	const timerAbstime = 1
	ns, err := t.peekTime(a[2])
	if err != nil {
		// clock_nanosleep takes a kernel's result as it is, like all others: the C library negates it.
		s.failErr(t, err)
		return
	}
	at := satAdd(s.now(), max(ns, 1))
	if a[1]&timerAbstime != 0 {
		if at = satAdd(ns, s.clockBase(a[0])); at <= s.now() {
			s.ok(t, 0)
			return
		}
	}
	s.parkThread(t, parkSleep, at)
}

// pokeRemaining tells an interrupted sleeper how long it would have slept on.
func (s *Supervisor) pokeRemaining(t *thread) {
	a := &t.req.data.args
	addr := a[1]
	if t.req.data.nr == unix.SYS_CLOCK_NANOSLEEP {
		if addr = a[3]; a[1] != 0 { // an absolute time
			return
		}
	}
	if addr != 0 {
		_ = t.pokeTime(addr, max(t.deadline-s.now(), 0), 1)
	}
}
