package replay

import (
	"io"
	"time"

	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/sim/fault"
	"github.com/opreplay/opreplay/traces"
)

// Options say what to run.
type Options struct {
	// Trace is the recording.
	Trace *traces.Trace
	// Operators are the processes to run, one or more: replicas of one program, or different ones.
	Operators []Operator
	// Env are KEY=VALUE pairs added to every operator's environment.
	Env []string
	// Plan alters the run; nil is the empty plan.
	Plan *fault.Plan
	// Seed replaces the plan's, if it is not 0.
	Seed uint64
	// Out is the folder for the run's trace; it must not exist or be empty.
	Out string
	// Duration ends the run that long after the operator's first call; 0: when the recording's time is over.
	Duration time.Duration
	// MaxGap bounds the waits between two of the outsiders' changes, and after the last; 0: DefaultMaxGap,
	// negative: as recorded.
	MaxGap time.Duration
	// Settle is how long the run goes on after that; 0: DefaultSettle.
	Settle time.Duration
	// Patience is how long an outsider's change waits for what the operator had written before it in the
	// recording; 0: DefaultPatience without faults and not at all with them; negative: not at all.
	Patience time.Duration
	// Grace is how long the operator may take to end after SIGTERM; 0: DefaultGrace.
	Grace time.Duration
	// Tool is the program and version for the manifest.
	Tool string
	// Stderr gets the operator's output too; nil: only the trace gets it.
	Stderr io.Writer
	// Progress shows a line on a terminal; nil shows none.
	Progress *cli.Progress
	// Clock is what the operator lives by; "" is ClockAuto.
	Clock Clock
	// Start is the virtual time at which the operator starts; zero: that of its first call in the recording.
	Start time.Time
}

// Clock is what the operator of a run lives by.
type Clock string

// The clocks.
const (
	// ClockVirtual: the world's clock, which jumps from one thing that happens to the next. The run is a
	// function of trace, binary, plan and seed. linux/amd64 only.
	ClockVirtual Clock = "virtual"
	// ClockWall: the clock on the wall, everywhere; two runs differ.
	ClockWall Clock = "wall"
	// ClockAuto: virtual where that works, else wall, with a note that says why.
	ClockAuto Clock = "auto"
)

// Defaults of Options.
const (
	DefaultMaxGap   = 10 * time.Second
	DefaultSettle   = time.Second
	DefaultPatience = 5 * time.Second
	DefaultGrace    = 10 * time.Second
)

func (o *Options) complete() {
	if o.Plan == nil {
		o.Plan = &fault.Plan{}
	}
	if o.Seed != 0 {
		o.Plan = &fault.Plan{Seed: o.Seed, Faults: o.Plan.Faults}
	}
	def := func(d *time.Duration, to time.Duration) {
		if *d == 0 {
			*d = to
		}
	}
	def(&o.MaxGap, DefaultMaxGap)
	def(&o.Settle, DefaultSettle)
	def(&o.Grace, DefaultGrace)
	if len(o.Plan.Faults) > 0 {
		// The plan says what comes before what.
		def(&o.Patience, -1)
	}
	def(&o.Patience, DefaultPatience)
	if o.Progress == nil {
		o.Progress = &cli.Progress{}
	}
}
