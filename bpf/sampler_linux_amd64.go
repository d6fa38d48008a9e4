package bpf

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/opreplay/opreplay/bpf/internal/ring"
)

// Sampler samples the threads of processes.
type Sampler struct {
	objects samplerObjects
	// The links must be held: one that is collected as garbage detaches its program.
	links  []link.Link
	events []int
	ring   *ring.Reader
}

// NewSampler begins to sample those of PROCESSES.
func NewSampler(processes *Processes, o SamplerOptions) (_ *Sampler, err error) {
	if err := o.complete(); err != nil {
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
	if err := spec.LoadAndAssign(&s.objects, &ebpf.CollectionOptions{
		MapReplacements: map[string]*ebpf.Map{samplerMapTargets: processes.Targets()},
	}); err != nil {
		return nil, fmt.Errorf("the kernel does not take the sampler: %w", err)
	}
	if s.ring, err = ring.Open(s.objects.Ring); err != nil {
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

// Next waits for the next sample. It ends with CTX's error.
func (s *Sampler) Next(ctx context.Context) (*Sample, error) {
	record, err := s.ring.Next(ctx)
	if err != nil {
		return nil, err
	}
	return parseSample(record)
}

// Seen is the time on CLOCK_MONOTONIC up to which Next has returned all that there was.
func (s *Sampler) Seen() time.Duration { return s.ring.Seen() }

// Counted is how many samples were taken since the start, and how many of them were lost for want of room.
func (s *Sampler) Counted() (taken, lost uint64, err error) {
	if taken, err = ring.Count(s.objects.Counters, ring.Taken); err != nil {
		return 0, 0, err
	}
	lost, err = ring.Count(s.objects.Counters, ring.Lost)
	return taken, lost, err
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
