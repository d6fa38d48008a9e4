package bpf

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"

	"github.com/opreplay/opreplay/bpf/symbols"
)

// look is how often the ring buffer is looked at. The kernel does not wake us for a sample, which would cost
// more than the sample; the buffer holds several seconds of 99 Hz on many processors.
const look = 100 * time.Millisecond

// Sampler samples the threads of the processes it follows. Follow and Unfollow may be called while another
// goroutine is in Next.
type Sampler struct {
	objects samplerObjects
	// The links must be held: one that is collected as garbage detaches its program.
	links  []link.Link
	events []int
	ring   *ringbuf.Reader
	record ringbuf.Record
	empty  atomic.Int64 // when Next last found nothing left, on CLOCK_MONOTONIC
}

// NewSampler loads the program and begins to sample, for the time being nobody.
func NewSampler(o SamplerOptions) (_ *Sampler, err error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	if err := Check(false); err != nil {
		return nil, err
	}
	s := &Sampler{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	spec, err := loadSampler()
	if err != nil {
		return nil, err
	}
	spec.Maps[samplerMapRing].MaxEntries = o.ringBytes
	if err := spec.LoadAndAssign(&s.objects, nil); err != nil {
		return nil, fmt.Errorf("the kernel does not take the sampler: %w", err)
	}
	if s.ring, err = ringbuf.NewReader(s.objects.Ring); err != nil {
		return nil, err
	}
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return nil, err
	}
	for cpu := range cpus {
		if err := s.attach(cpu, o.Hz); errors.Is(err, unix.ENODEV) {
			continue // not online
		} else if err != nil {
			return nil, fmt.Errorf("sampling on processor %d: %w", cpu, err)
		}
	}
	return s, nil
}

// attach opens a clock of the processor's own, which samples whatever thread runs there. One for each thread
// would miss those born while it is attached.
func (s *Sampler) attach(cpu, hz int) error {
	const excludeIdle = unix.PerfBitExcludeIdle
	fd, err := unix.PerfEventOpen(&unix.PerfEventAttr{
		Type:   unix.PERF_TYPE_SOFTWARE, // hardware counters are rarely to be had in a virtual machine
		Config: unix.PERF_COUNT_SW_CPU_CLOCK,
		Size:   uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Sample: uint64(hz),
		Bits:   unix.PerfBitFreq | excludeIdle,
	}, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return err
	}
	s.events = append(s.events, fd)
	l, err := link.AttachRawLink(link.RawLinkOptions{Target: fd, Program: s.objects.SampleCpu, Attach: ebpf.AttachPerfEvent})
	if err != nil {
		return err
	}
	s.links = append(s.links, l)
	return nil
}

// Follow samples the process PID from now on. Its goroutines are known if KNOWN comes back true, else the
// Go version that built it is not one whose structures we know, or it is no Go program.
func (s *Sampler) Follow(pid int) (known bool, err error) {
	l, known := symbols.LayoutOf(symbols.GoVersion(pid))
	target := samplerLayout{G_m: l.GM, G_id: l.GID, M_curg: l.MCurrent}
	if known {
		target.Known = 1
	}
	return known, s.objects.Targets.Put(uint32(pid), &target)
}

// Unfollow ends what Follow began.
func (s *Sampler) Unfollow(pid int) error {
	err := s.objects.Targets.Delete(uint32(pid))
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil
	}
	return err
}

// Next waits for the next sample. It ends with CTX's error.
func (s *Sampler) Next(ctx context.Context) (*Sample, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		before := Monotonic()
		s.ring.SetDeadline(time.Now().Add(look))
		if err := s.ring.ReadInto(&s.record); errors.Is(err, os.ErrDeadlineExceeded) {
			s.empty.Store(int64(before))
			continue
		} else if err != nil {
			return nil, err
		}
		return parseSample(s.record.RawSample)
	}
}

// Seen is the time on CLOCK_MONOTONIC up to which Next has returned all that there was.
func (s *Sampler) Seen() time.Duration { return time.Duration(s.empty.Load()) }

// Counted is how many samples were taken since the start, and how many of them were lost since the ring
// buffer was full.
func (s *Sampler) Counted() (taken, lost uint64, err error) {
	for key, sum := range map[uint32]*uint64{0: &taken, 1: &lost} {
		var each []uint64
		if err := s.objects.Counters.Lookup(key, &each); err != nil {
			return 0, 0, err
		}
		for _, n := range each {
			*sum += n
		}
	}
	return taken, lost, nil
}

// Close ends the sampling.
func (s *Sampler) Close() error {
	var errs []error
	for _, l := range s.links {
		errs = append(errs, l.Close())
	}
	for _, fd := range s.events {
		errs = append(errs, unix.Close(fd))
	}
	if s.ring != nil {
		errs = append(errs, s.ring.Close())
	}
	return errors.Join(append(errs, s.objects.Close())...)
}
