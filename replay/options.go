package replay

import (
	"io"
	"time"

	utilversion "k8s.io/apimachinery/pkg/util/version"

	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/sim/apiserver"
	"github.com/opreplay/opreplay/sim/fault"
	"github.com/opreplay/opreplay/sim/process/virtual"
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
	// Limit ends the run that long after the operator's first call; 0: when the recording's time is over.
	Limit time.Duration
	// MaxGap bounds the waits between two of the outsiders' changes, and after the last; negative: as
	// recorded; 0: as recorded in virtual time, else DefaultMaxGap.
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
	// Start is the run's time at which the operators start; zero: that of the first call in the recording.
	// A start that would have the run last beyond the wall clock's time is moved back by whole days.
	Start time.Time
	// Threads says which of the operators' threads goes first when several could, in virtual time; "" is
	// ThreadsFIFO.
	Threads Threads
	// BreakAt is where a run in virtual time stands still; Stand then decides how it goes on. The run is the
	// same with and without.
	BreakAt []Break
	Stand   Stander
	// Steps, if set, gets a line for each step of a virtual run.
	Steps io.Writer

	// Live has the cluster do, in virtual time, what no script says: a process that has ended is started again,
	// objects whose owners are all gone are deleted, and deleted namespaces end.
	Live bool
	// Without are the recorded seqs of outsiders' steps that are left out.
	Without []int64
	// Room is how much longer a run may take than its Options say (Variant.More).
	Room time.Duration

	// RBAC has an operator that was recorded as a service account need a permission for each call, by the
	// recorded roles and bindings; else it may do everything. Others and outsiders may in any case.
	RBAC bool

	// InCluster says whether the operators find the API server as a pod does, in virtual time; "" is
	// InClusterAuto.
	InCluster InCluster

	fellBack error // why ClockAuto is not ClockVirtual
}

// server is the API server that the recording asks for: the versions that it serves are those of the recorded
// cluster's age. Its quotas are counted: what a run makes and deletes beyond the recording has nobody else to.
func (o *Options) server() apiserver.Options {
	so := apiserver.Options{RBAC: o.RBAC, Quotas: true, Version: o.Trace.Manifest().Cluster.Version}
	if _, err := utilversion.ParseGeneric(so.Version); err != nil {
		so.Version = "" // not recorded
	}
	return so
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

// InCluster is how an operator finds the API server.
type InCluster string

// The ways to the API server.
const (
	// InClusterAuto: as a pod those whose recorded calls are a service account's and whose command does not
	// take a kubeconfig; all others by KUBECONFIG.
	InClusterAuto InCluster = "auto"
	// InClusterAlways: as a pod, by its service account's files and KUBERNETES_SERVICE_HOST, with TLS.
	InClusterAlways InCluster = "true"
	// InClusterNever: by KUBECONFIG.
	InClusterNever InCluster = "false"
)

// Threads is an order of threads.
type Threads string

// The orders of threads.
const (
	// ThreadsFIFO: in the order in which they could go on.
	ThreadsFIFO Threads = "fifo"
	// ThreadsSeeded: as the seed says. Each seed is another interleaving, as repeatable as any.
	ThreadsSeeded Threads = "seeded"
)

// picker is the order in the supervisor's words.
func (o *Options) picker() virtual.Picker {
	if o.Threads == ThreadsSeeded {
		return virtual.NewSeeded(o.Plan.Seed)
	}
	return virtual.FIFO{}
}

// Defaults of Options.
const (
	DefaultMaxGap   = 10 * time.Second
	DefaultSettle   = time.Second
	DefaultPatience = 5 * time.Second
	DefaultGrace    = 10 * time.Second
)

// complete fills in the defaults, once the clock is chosen.
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
	if o.Clock == ClockVirtual {
		def(&o.MaxGap, -1) // time costs nothing
	}
	def(&o.MaxGap, DefaultMaxGap)
	def(&o.Settle, DefaultSettle)
	def(&o.Grace, DefaultGrace)
	if len(o.Plan.Faults) > 0 {
		// The plan says what comes before what.
		def(&o.Patience, -1)
	}
	def(&o.Patience, DefaultPatience)
	if o.Clock == ClockVirtual && o.Threads == "" {
		o.Threads = ThreadsFIFO
	}
	if o.Progress == nil {
		o.Progress = &cli.Progress{}
	}
}

// span is how long the run of a script goes on after the operator's first call, if nothing is late.
func (o *Options) span(s *Script) time.Duration {
	if o.Limit > 0 {
		return o.Limit
	}
	d, last := time.Duration(0), time.Duration(0)
	for _, step := range s.Steps {
		d += o.gap(step.At - last)
		last = step.At
	}
	return d + o.gap(s.Span-last) + o.Settle
}

// gap is the wait that stands for a recorded one.
func (o *Options) gap(recorded time.Duration) time.Duration {
	recorded = max(recorded, 0)
	if o.MaxGap < 0 {
		return recorded
	}
	return min(recorded, o.MaxGap)
}
