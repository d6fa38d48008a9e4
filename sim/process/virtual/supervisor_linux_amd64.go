package virtual

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"math"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Supervisor runs processes under one virtual clock, one thread at a time. It is stepped by its caller and not
// safe for use by several goroutines at once.
type Supervisor struct {
	opt  Options
	tick int64
	// start and monoZero are nanoseconds since 1970: the beginning, and when the monotonic clock read zero.
	start, monoZero int64
	cell            *int64 // the clock, shared with all processes
	cellPage        []byte
	cellFd          int

	roots   []*Process
	procs   map[int]*proc   // by pid
	threads map[int]*thread // by tid
	order   []*thread       // by creation
	queue   []*thread       // could run, in the order in which they became ready
	cur     *thread         // has the token
	loose   int             // threads that run without the token
	// expected is a new thread whose first trap is awaited
	expected *thread
	futexes  map[futexKey][]*thread
	timers   []*timer
	seq      uint64 // order of things with one deadline
	touched  bool   // a descriptor that a thread waits for may have become ready: something ran, read or wrote
	vain     int    // yields and empty polls since a thread last parked
	nextTh   int

	unixNames map[string]bool // of Unix sockets that processes have bound
	streams   map[int32]*Stream
	nextConn  int32
	readyFd   int // epoll over the world's ends of all streams, and over output pipes
	readyEvs  [256]unix.EpollEvent
	looks     uint64
	readyFull bool // more than readyEvs holds may be ready
	readyNum  int  // events in readyEvs that Ready has not yet taken; -1: look again
	outputs   map[int32]*outputPipe
	nextPipe  int32
	scratch   []byte
	answerBuf notifyAnswer
	reqBuf    notification
	watch     watchdog
	reaper    *reaper

	table    []trap
	handlers map[int32]*trap
	stats    counters
	cpu      time.Duration // of processes that have ended
	closed   bool
}

type counters struct {
	traps, jumps uint64
	by           map[int32]uint64
	hash         hash.Hash
	buf          []byte
	log          *bufio.Writer
	reasons      []string
	notes        []string
	seen         map[string]bool
}

// defaultStart is the virtual time at which a world begins if nothing is said.
var defaultStart = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// New makes a world without processes.
func New(opt Options) (*Supervisor, error) {
	if opt.Start.IsZero() {
		opt.Start = defaultStart
	}
	if opt.Tick == 0 {
		opt.Tick = 200
	}
	if opt.Picker == nil {
		opt.Picker = FIFO{}
	}
	if opt.CPUs == 0 {
		opt.CPUs = 1
	}
	if opt.SpinLimit == 0 {
		opt.SpinLimit = 5 * time.Second
	}
	if opt.Tick < 0 || opt.Tick > time.Millisecond || opt.CPUs < 0 || opt.CPUs > 64 {
		return nil, fmt.Errorf("virtual: Tick must lie between 1 ns and 1 ms, CPUs between 1 and 64")
	}
	s := &Supervisor{
		opt: opt, tick: int64(opt.Tick), start: opt.Start.UnixNano(), monoZero: opt.Start.UnixNano() - 1000*int64(time.Second),
		procs: map[int]*proc{}, threads: map[int]*thread{}, futexes: map[futexKey][]*thread{},
		streams: map[int32]*Stream{}, unixNames: map[string]bool{}, outputs: map[int32]*outputPipe{}, scratch: make([]byte, 256<<10),
		table: traps(), handlers: map[int32]*trap{},
	}
	for i := range s.table {
		s.handlers[int32(s.table[i].nr)] = &s.table[i]
	}
	s.startStats()
	if err := s.mapCell(); err != nil {
		return nil, err
	}
	var err error
	if s.readyFd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		s.unmapCell()
		return nil, err
	}
	return s, nil
}

// mapCell makes the page that holds the clock.
func (s *Supervisor) mapCell() error {
	fd, err := unix.MemfdCreate("clock", unix.MFD_CLOEXEC)
	if err != nil {
		return &Error{"new world", "no anonymous file for the clock", err}
	}
	if err := unix.Ftruncate(fd, 4096); err != nil {
		unix.Close(fd)
		return err
	}
	page, err := unix.Mmap(fd, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		unix.Close(fd)
		return err
	}
	s.cellFd, s.cellPage, s.cell = fd, page, (*int64)(unsafe.Pointer(&page[0]))
	s.setNow(s.start)
	return nil
}

func (s *Supervisor) unmapCell() {
	_ = unix.Munmap(s.cellPage)
	unix.Close(s.cellFd)
}

func (s *Supervisor) now() int64     { return atomic.LoadInt64(s.cell) }
func (s *Supervisor) setNow(t int64) { atomic.StoreInt64(s.cell, t) }
func (s *Supervisor) readClock() int64 {
	return atomic.AddInt64(s.cell, s.tick)
}

// Now is the virtual time.
func (s *Supervisor) Now() time.Time { return time.Unix(0, s.now()).UTC() }

// AdvanceTo moves the clock on to t; a time that has passed changes nothing. What is due then runs in the next
// RunUntilIdle.
func (s *Supervisor) AdvanceTo(t time.Time) {
	if ns := t.UnixNano(); ns > s.now() {
		s.setNow(ns)
		s.stats.jumps++
	}
}

// NextDeadline is the earliest time at which a sleeping thread or a timer of a process is due.
func (s *Supervisor) NextDeadline() (time.Time, bool) {
	next := int64(math.MaxInt64)
	for _, t := range s.order {
		if t.deadline != 0 && t.deadline < next && !t.p.root.paused {
			next = t.deadline
		}
	}
	for _, t := range s.timers {
		if t.next != 0 && t.next < next && !t.p.root.paused {
			next = t.next
		}
	}
	if next == math.MaxInt64 {
		return time.Time{}, false
	}
	return time.Unix(0, next).UTC(), true
}

// RunUntilIdle runs the processes until none can go on without the world: all threads wait for time, for the
// network, or for each other. It fails when ctx ends first or the supervisor itself is broken.
func (s *Supervisor) RunUntilIdle(ctx context.Context) error {
	if s.closed {
		return errors.New("virtual: the world is closed")
	}
	for n := 1; ; n++ {
		if n%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if s.cur == nil {
			if t := s.pick(); t != nil {
				s.dispatch(t)
				continue
			}
			if s.wakeReady() {
				continue
			}
			if s.loose > 0 && s.awaitLoose() {
				continue
			}
			s.lookOutside()
			return nil
		}
		if s.cur.pending && !s.cur.lent {
			s.handle(s.cur)
			continue
		}
		if err := s.await(ctx); err != nil {
			return err
		}
	}
}

// Close kills what still runs and frees everything. It returns when all processes are gone.
func (s *Supervisor) Close() error {
	if s.closed {
		return nil
	}
	for _, p := range s.roots {
		p.Kill()
	}
	for _, st := range s.streams {
		st.Close()
	}
	s.closed = true
	s.reaper.stop()
	unix.Close(s.readyFd)
	s.unmapCell()
	if s.stats.log != nil {
		return s.stats.log.Flush()
	}
	return nil
}

// Stats returns what was counted so far.
func (s *Supervisor) Stats() Stats {
	st := Stats{
		Traps: s.stats.traps, Jumps: s.stats.jumps, Syscalls: map[string]uint64{},
		Deterministic: len(s.stats.reasons) == 0,
		Reasons:       append([]string(nil), s.stats.reasons...),
		Notes:         append([]string(nil), s.stats.notes...),
	}
	for nr, n := range s.stats.by {
		st.Syscalls[s.syscallName(nr)] = n
	}
	if s.stats.hash != nil {
		s.flushHash()
		st.TrapHash = hex.EncodeToString(s.stats.hash.Sum(nil))
	}
	if s.stats.log != nil {
		s.stats.log.Flush()
	}
	return st
}

// CPU is the user and system time that the processes that have ended have used, with those of their children that they
// waited for. It is real time, and differs from run to run.
func (s *Supervisor) CPU() time.Duration { return s.cpu }

func (s *Supervisor) syscallName(nr int32) string {
	if e := s.handlers[nr]; e != nil {
		return e.name
	}
	return fmt.Sprintf("syscall %d", nr)
}
