package replay

import (
	"time"

	"github.com/opreplay/opreplay/sim/fault"
	"github.com/opreplay/opreplay/sim/process"
)

// Result is what came of a run.
type Result struct {
	Trace  string `json:"trace"` // the recording
	RunDir string `json:"run"`   // the run's own trace
	// Operators are the processes that ran, in the order of Options.Operators.
	Operators  []OperatorResult `json:"operators"`
	Divergence *Divergence      `json:"divergence"`
	// Ends are the ends of processes that were started again (Options.Live).
	Ends []Ended `json:"ends,omitempty"`
	// Steps is the number of the outsiders' recorded changes, Applied of those that the run took; Skipped
	// are those that did not fit.
	Steps   int           `json:"steps"`
	Applied int           `json:"applied"`
	Skipped []StepOutcome `json:"skipped,omitempty"`
	// NotReached is the number of steps whose time did not come.
	NotReached int `json:"notReached,omitempty"`
	// Faults are those of the plan, in its order, with what became of them.
	Faults []FaultOutcome `json:"faults,omitempty"`
	// Unmatched are selectors and times of the plan that met nothing: all Unmet of Faults.
	Unmatched []string `json:"unmatched,omitempty"`
	// Notes are things worth knowing, such as resources that the simulated API server does not have.
	Notes []string `json:"notes,omitempty"`

	// Recorded and Took are the recording's span and the run's, from the operator's first call.
	Recorded time.Duration `json:"recordedNanoseconds"`
	Took     time.Duration `json:"tookNanoseconds"`
	// Wall is the whole of Run, CPU what this process used in it, OperatorCPU what the operator did.
	Wall        time.Duration `json:"wallNanoseconds"`
	CPU         time.Duration `json:"cpuNanoseconds"`
	OperatorCPU time.Duration `json:"operatorCPUNanoseconds"`
	// Parts say where Wall went.
	Parts Parts `json:"parts"`
	// Speed is Took by Wall: how many times as fast as the wall clock the run's went.
	Speed  float64 `json:"speed"`
	Calls  int     `json:"calls"`
	Events int     `json:"events"`

	// Clock is what the operator lived by; Deterministic whether another run of the same trace, binary, plan
	// and seed gives the same bytes, and Reasons why not.
	Clock         Clock    `json:"clock"`
	Deterministic bool     `json:"deterministic"`
	Reasons       []string `json:"reasons,omitempty"`
	// WorldSteps are the steps of the world, Traps the operator's system calls that the clock stopped, Jumps
	// the clock's.
	WorldSteps int64  `json:"worldSteps,omitempty"`
	Traps      uint64 `json:"traps,omitempty"`
	Jumps      uint64 `json:"jumps,omitempty"`
	// Hash is the SHA-256 over the run's tables: equal for runs that are equal byte for byte.
	Hash string `json:"hash"`
}

// Parts are parts of a virtual run, by the wall's clock.
type Parts struct {
	Start time.Duration `json:"startNanoseconds"` // until the operator's first call
	Sync  time.Duration `json:"syncNanoseconds"`  // from there to its first write; to the end if it made none
	Run   time.Duration `json:"runNanoseconds"`   // from there to its end
}

// FaultOutcome is what became of a fault of the plan.
type FaultOutcome struct {
	Fault string `json:"fault"` // its one-line form
	Kind  string `json:"kind"`
	// Struck is how often it had its way: calls answered or delayed, events held or delayed, watches cut, processes
	// killed or paused.
	Struck int `json:"struck"`
	// Unmet are its selectors and times that met nothing, or were not over when the run ended.
	Unmet []string `json:"unmet,omitempty"`
}

// outcomes are what has become of a plan's faults so far.
func outcomes(p *fault.Plan, m *fault.Machine) (all []FaultOutcome) {
	unmet := map[string][]string{}
	for _, u := range m.Report() {
		unmet[u.Fault] = append(unmet[u.Fault], u.String())
	}
	struck := m.Struck()
	for i, f := range p.Faults {
		line := f.String()
		all = append(all, FaultOutcome{Fault: line, Kind: f.Kind(), Struck: struck[i], Unmet: unmet[line]})
		delete(unmet, line) // two faults may be the same
	}
	return all
}

// spent notes what the run took.
func (r *Result) spent(wall, cpu time.Duration) {
	r.Wall, r.CPU = wall, cpu
	r.Speed = r.Took.Seconds() / max(wall.Seconds(), 1e-9)
}

// OperatorResult is what became of one of the operators.
type OperatorResult struct {
	Name string `json:"name"` // in the trace's process columns
	// KnownBy says how the recorded calls for which it stands were told from others'.
	KnownBy string `json:"knownBy"`
	Calls   int    `json:"calls"`
	// Exit is how it ended; ExitEarly that it did so by itself.
	Exit      process.Exit `json:"exit"`
	ExitEarly bool         `json:"exitEarly"`
}
