package events

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/opreplay/opreplay/bpf"
	"github.com/opreplay/opreplay/bpf/internal/ring"
)

const ringBytes = 1 << 20

// Watcher tells what befalls processes that are followed. Next is for one goroutine, the rest for any.
type Watcher struct {
	o       Options
	loaded  *ebpf.Collection
	links   []link.Link // held: one that is collected as garbage detaches its program
	ring    *ring.Reader
	windows windows

	mu    sync.Mutex
	loops map[place]Loop // that were hot lately
}

// Watch begins to tell of those of PROCESSES.
func Watch(processes *bpf.Processes, o Options) (_ *Watcher, err error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	w := &Watcher{o: o, loops: map[place]Loop{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Close())
		}
	}()
	spec, err := loadEvents()
	if err != nil {
		return nil, err
	}
	wanted := map[string]bool{
		eventsProgOnState: o.Refused, eventsProgOnStart: o.Forks, eventsProgOnReturn: o.NoSpace, eventsProgOnCall: o.ReadLoops,
	}
	maps.DeleteFunc(spec.Programs, func(name string, _ *ebpf.ProgramSpec) bool { return !wanted[name] })
	spec.Maps[eventsMapRing].MaxEntries = ringBytes
	if err := spec.Variables[eventsVarHot].Set(uint32(o.Reads)); err != nil {
		return nil, err
	}
	if w.loaded, err = ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{
		MapReplacements: map[string]*ebpf.Map{eventsMapTargets: processes.Targets()},
	}); err != nil {
		return nil, fmt.Errorf("the kernel does not take the programs for its events: %w", err)
	}
	if w.ring, err = ring.Open(w.loaded.Maps[eventsMapRing]); err != nil {
		return nil, err
	}
	for name, program := range w.loaded.Programs {
		l, err := link.AttachTracing(link.TracingOptions{Program: program})
		if err != nil {
			return nil, fmt.Errorf("attaching %s: %w", name, err)
		}
		w.links = append(w.links, l)
	}
	return w, nil
}

// Next waits for the next event. It ends with CTX's error. An event comes when the second is over that its first
// equal began; a loop in each second once it has held for long enough.
func (w *Watcher) Next(ctx context.Context) (*Event, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if e := w.windows.due(bpf.Monotonic()); e != nil {
			return e, nil
		}
		record, err := w.ring.Look()
		if err != nil {
			return nil, err
		}
		if record == nil {
			continue
		}
		e, err := parse(record)
		if err != nil {
			return nil, err
		}
		if e = w.take(e); e != nil {
			return e, nil
		}
	}
}

// take gives the event if it is to be told at once.
func (w *Watcher) take(e *Event) *Event {
	if e.Kind != ReadLoop {
		return w.windows.add(e)
	}
	w.note(e)
	if e.Persist < w.o.Hold {
		return nil
	}
	return e
}

// Seen is the time on CLOCK_MONOTONIC up to which all is taken that happened: Next has told of it, or will when its
// second is over.
func (w *Watcher) Seen() time.Duration { return w.ring.Seen() }

// Rest is what Next has not told of, for its second is not over. No Next comes after it.
func (w *Watcher) Rest() (all []*Event) {
	for {
		e := w.windows.due(math.MaxInt64)
		if e == nil {
			return all
		}
		all = append(all, e)
	}
}

// fresh is how long after its last hot second a loop is one.
const fresh = 2 * time.Second

func (w *Watcher) note(e *Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for p, l := range w.loops {
		if e.Time-l.Time > fresh {
			delete(w.loops, p)
		}
	}
	w.loops[placeOf(e)] = Loop{Time: e.Time, PID: e.PID, Rate: float64(e.Count), Persist: e.Persist}
}

// Loops are the loops of reads that are hot now, those too that have not held for long enough.
func (w *Watcher) Loops() (all []Loop) {
	now := bpf.Monotonic()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.loops {
		if now-l.Time <= fresh {
			all = append(all, l)
		}
	}
	return all
}

// Lost is how many happenings were lost since the start, for want of room.
func (w *Watcher) Lost() (uint64, error) {
	return ring.Count(w.loaded.Maps[eventsMapCounters], ring.Lost)
}

// Close ends the watching.
func (w *Watcher) Close() error {
	var errs []error
	for _, l := range w.links {
		errs = append(errs, l.Close())
	}
	if w.ring != nil {
		errs = append(errs, w.ring.Close())
	}
	if w.loaded != nil {
		w.loaded.Close()
	}
	return errors.Join(errs...)
}
