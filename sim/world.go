package sim

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// The ends of a run.
var (
	// ErrQuiet says that nothing will ever happen again: no item is due, no process has a timer.
	ErrQuiet = errors.New("the world is quiet")
	// ErrLimit says that what would happen next lies beyond the limit of virtual time.
	ErrLimit = errors.New("the limit of virtual time is reached")
)

// Processes is what runs in the world, under its clock.
type Processes interface {
	// Run lets the processes run until none can go on without the world.
	Run(ctx context.Context) error
	// Now is the virtual clock, in nanoseconds since the Unix epoch. It is the processes' own, since
	// each reading of it by a process moves it on a little.
	Now() int64
	// NextTimer is the earliest time at which a process would go on by itself.
	NextTimer() (at int64, ok bool)
	// AdvanceTo moves the clock forward to a time that is not before Now.
	AdvanceTo(at int64)
}

// Source is asked, whenever the processes stand still, for what they have sent. It schedules it.
type Source interface {
	// Collect schedules what has arrived and reports whether anything moved (bytes were read or
	// written), so that the processes must run once more before time may pass.
	Collect() (moved bool, err error)
}

// Options of a World.
type Options struct {
	Seed      uint64
	Processes Processes
	// Limit ends the run at this virtual time, in nanoseconds since the Unix epoch; 0 for none.
	Limit int64
	// MaxItems bounds the agenda; 0 means 1,000,000. A run that schedules more ends with an error.
	MaxItems int
	// Before is called with each step when it has been chosen and before it is applied, the clock
	// standing at its time; an error ends the run. After is called when it has been applied.
	Before, After func(Step) error
}

// Step is one step of the world, as chosen.
type Step struct {
	N       int64 // from 1
	At      int64 // virtual time, nanoseconds since the Unix epoch
	Kind    string
	Subject string
	// Choice is the index of the item chosen among Of items that were due at the same time.
	Choice, Of int
	Rule       string // the plan's fault that timed it
	About      any    // the Item's
}

// World is a simulated cluster. It is not safe for concurrent use: it has one thread of decision.
type World struct {
	o       Options
	agenda  agenda
	sources []Source
	ties    *rand.Rand
	steps   int64
}

// New makes a world with an empty agenda.
func New(o Options) *World {
	if o.MaxItems == 0 {
		o.MaxItems = 1_000_000
	}
	w := &World{o: o}
	w.ties = w.Rand("ties")
	return w
}

// AddSource adds a source; they are asked in the order in which they were added.
func (w *World) AddSource(s Source) { w.sources = append(w.sources, s) }

// Now is the virtual time.
func (w *World) Now() time.Time { return time.Unix(0, w.o.Processes.Now()).UTC() }

// Nanos is the virtual time in nanoseconds since the Unix epoch.
func (w *World) Nanos() int64 { return w.o.Processes.Now() }

// Rand is the stream of random numbers for one purpose. The same seed and name give the same numbers,
// whatever else was drawn.
func (w *World) Rand(name string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return rand.New(rand.NewPCG(w.o.Seed, h.Sum64()))
}

// At schedules an item for a virtual time, in nanoseconds since the Unix epoch, or for Never. A time
// that has passed means as soon as possible.
func (w *World) At(at int64, it Item) *Item {
	w.agenda.add(at, &it)
	return &it
}

// After schedules an item for a time after now.
func (w *World) After(d time.Duration, it Item) *Item { return w.At(w.Nanos()+int64(d), it) }

// Retime moves an item that has not been applied to another time; it keeps its place in its lane.
func (w *World) Retime(it *Item, at int64) { it.at = at }

// Cancel takes an item off the agenda.
func (w *World) Cancel(it *Item) { w.agenda.remove(it) }

// CancelLane takes all items of a lane off the agenda: the events of a watch that has ended.
func (w *World) CancelLane(name string) { w.agenda.drop(name) }

// Skip moves the clock on at once, within a step: what was due in between is late.
func (w *World) Skip(d time.Duration) { w.o.Processes.AdvanceTo(w.Nanos() + int64(d)) }

// SetLimit moves the end of the run.
func (w *World) SetLimit(at int64) { w.o.Limit = at }

// Pending is the number of items on the agenda.
func (w *World) Pending() int { return w.agenda.size }

// Next is the earliest time on the agenda; ok is false when nothing is due at any time. It knows nothing
// of what the processes have sent and the sources have not collected yet.
func (w *World) Next() (at int64, ok bool) {
	at, _ = w.agenda.next()
	return at, at != Never
}

// Steps is the number of steps taken.
func (w *World) Steps() int64 { return w.steps }

// Step takes one step: it lets the processes run, moves the clock and applies one item. It returns
// ErrQuiet or ErrLimit (possibly wrapped) at the end of a run.
func (w *World) Step(ctx context.Context) (Step, error) {
	for {
		if err := w.settle(ctx); err != nil {
			return Step{}, err
		}
		if w.agenda.size > w.o.MaxItems {
			return Step{}, fmt.Errorf("the agenda holds %d items, more than %d: something schedules without end", w.agenda.size, w.o.MaxItems)
		}
		at, heads := w.agenda.next()
		now := w.o.Processes.Now()
		if timer, ok := w.o.Processes.NextTimer(); ok && timer < at && at > now {
			if err := w.advance(timer); err != nil {
				return Step{}, err
			}
			continue // a process goes on by itself: that is no decision of the world
		}
		if at == Never {
			return Step{}, w.quiet()
		}
		if err := w.advance(at); err != nil {
			return Step{}, err
		}
		return w.apply(heads)
	}
}

// settle lets the processes and the sources go on in turn until neither moves.
func (w *World) settle(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := w.o.Processes.Run(ctx); err != nil {
			return err
		}
		moved := false
		for _, s := range w.sources {
			m, err := s.Collect()
			if err != nil {
				return err
			}
			moved = moved || m
		}
		if !moved {
			return nil
		}
	}
}

// advance moves the clock to AT, unless that lies beyond the limit.
func (w *World) advance(at int64) error {
	if w.o.Limit != 0 && at > w.o.Limit {
		if now := w.o.Processes.Now(); now < w.o.Limit {
			w.o.Processes.AdvanceTo(w.o.Limit)
		}
		return ErrLimit
	}
	if at > w.o.Processes.Now() {
		w.o.Processes.AdvanceTo(at)
	}
	return nil
}

// quiet is the end of a run in which nothing more is due; items that are held for ever are worth a word.
func (w *World) quiet() error {
	if w.agenda.size > 0 {
		return fmt.Errorf("%w, with %d items held for ever", ErrQuiet, w.agenda.size)
	}
	return ErrQuiet
}

func (w *World) apply(heads []*Item) (Step, error) {
	choice := 0
	if len(heads) > 1 {
		choice = w.ties.IntN(len(heads))
	}
	it := heads[choice]
	w.steps++
	step := Step{
		N: w.steps, At: w.o.Processes.Now(), Kind: it.Kind, Subject: it.Subject,
		Choice: choice, Of: len(heads), Rule: it.Rule, About: it.About,
	}
	w.agenda.remove(it)
	if w.o.Before != nil {
		if err := w.o.Before(step); err != nil {
			return step, err
		}
	}
	if err := it.Apply(); err != nil {
		return step, fmt.Errorf("step %d (%s %s): %w", step.N, step.Kind, step.Subject, err)
	}
	if w.o.After != nil {
		return step, w.o.After(step)
	}
	return step, nil
}
