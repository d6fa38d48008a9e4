package events

import (
	"errors"
	"fmt"
	"time"
)

// The defaults of a hot read loop.
const (
	DefaultReads = 1000
	DefaultHold  = 5 * time.Second
)

// Options say what to tell of. Each costs what the package's documentation says.
type Options struct {
	Refused, Forks, NoSpace, ReadLoops bool
	// Reads is how many equal reads in a second make a hot loop; 0 means DefaultReads.
	Reads int
	// Hold is for how long there must be as many in each second before the loop is told of; 0 means DefaultHold.
	// Whole seconds.
	Hold time.Duration
}

// Any says that something is wanted.
func (o Options) Any() bool { return o.Refused || o.Forks || o.NoSpace || o.ReadLoops }

// maxReads is above what a processor can do.
const maxReads = 100_000_000

func (o *Options) complete() error {
	if !o.Any() {
		return errors.New("no event is asked for")
	}
	if o.Reads == 0 {
		o.Reads = DefaultReads
	}
	if o.Hold == 0 {
		o.Hold = DefaultHold
	}
	if o.Reads < 1 || o.Reads > maxReads {
		return fmt.Errorf("%d reads a second: want 1 to %d", o.Reads, maxReads)
	}
	if o.Hold < time.Second {
		return fmt.Errorf("a hot loop of %s: want a second or more", o.Hold)
	}
	return nil
}
