package analysis

import (
	"github.com/opreplay/opreplay/traces"
)

// Detector looks for one kind of fault. It is handed the facts that it asks for in the order of the trace, keeps what
// it needs of open objects within a bound, and says at the end what it found.
//
// It asks for facts by having their methods: those of StartDetector, EventDetector, CallDetector, RequestDetector,
// ChangeDetector, GoneDetector, PassDetector, LogDetector, SampleDetector, KernelDetector, MetricDetector,
// DecisionDetector. Tables that nobody asks for aren't read.
type Detector interface {
	// Name is the detector's name in findings, on the command line and in docs/findings.
	Name() string
	// Findings says what was found, in any order. It is called once, at the end.
	Findings(*Model) ([]Finding, []Note)
}

// StartDetector is told when an analysis begins: the Model has the manifest, and nothing else yet.
type StartDetector interface{ Start(*Model) }

// EventDetector sees each watch row at its place in the trace: an event or an item of a list as it reached one client,
// with what that client had been told before. The Event is valid during the call only.
type EventDetector interface{ Event(*Model, *Event) }

// CallDetector sees each request about one object when it ends, refused and unanswered ones included. The Call is
// the detector's to keep, its Row and its Body are not.
type CallDetector interface{ Call(*Model, *Call) }

// RequestDetector sees, when they end, the requests that are about no single object: lists, watches, deletions of
// collections, connections, paths that are no resource, dry runs. Process is nil for outsiders and the recorder. The
// row is valid during the call only.
type RequestDetector interface {
	Request(*Model, *Process, *traces.Request)
}

// ChangeDetector sees each new version of an object once, with its writer and what it changed, in the order of resource
// versions for one object. A version waits up to a second of the trace's time for the request that made it, so a
// Change comes after the Events and the Call of its version. The Change and all texts in it are valid during the
// call only.
type ChangeDetector interface{ Change(*Model, *Change) }

// GoneDetector is told of each object that was deleted: what it keeps of that State it should give up.
type GoneDetector interface{ Gone(*Model, *State) }

// PassDetector sees each reconcile when it ends, with the calls that it made. The Pass is valid during the call only,
// each of its Calls is the detector's to keep.
type PassDetector interface{ Pass(*Model, *Pass) }

// LogDetector sees each line that a process logged. The row is valid during the call only.
type LogDetector interface{ Log(*Model, *traces.Log) }

// SampleDetector sees each stack sample; Model.Stack has its frames. The row is valid during the call only.
type SampleDetector interface {
	Sample(*Model, *traces.Sample)
}

// KernelDetector sees each kernel event: refused connections, forks, full disks, hot reads. The row is valid during
// the call only.
type KernelDetector interface {
	Kernel(*Model, *traces.KernelEvent)
}

// MetricDetector sees each scraped sample. The row is valid during the call only.
type MetricDetector interface {
	Metric(*Model, *traces.Metric)
}

// DecisionDetector sees each step of a simulated world; recorded traces have none. The row is valid during the call
// only. What only a simulated trace shows must not decide whether a fault is found.
type DecisionDetector interface {
	Decision(*Model, *traces.Decision)
}

// listeners are the detectors by what they ask for, in their order.
type listeners struct {
	starts    []StartDetector
	events    []EventDetector
	calls     []CallDetector
	requests  []RequestDetector
	changes   []ChangeDetector
	gone      []GoneDetector
	passes    []PassDetector
	logs      []LogDetector
	samples   []SampleDetector
	kernel    []KernelDetector
	metrics   []MetricDetector
	decisions []DecisionDetector
}

func listen(detectors []Detector) *listeners {
	l := &listeners{}
	for _, d := range detectors {
		ask(&l.starts, d)
		ask(&l.events, d)
		ask(&l.calls, d)
		ask(&l.requests, d)
		ask(&l.changes, d)
		ask(&l.gone, d)
		ask(&l.passes, d)
		ask(&l.logs, d)
		ask(&l.samples, d)
		ask(&l.kernel, d)
		ask(&l.metrics, d)
		ask(&l.decisions, d)
	}
	return l
}

func ask[T any](list *[]T, d Detector) {
	if x, ok := d.(T); ok {
		*list = append(*list, x)
	}
}

// unread are columns that no detector asks for: hashes are as long as what they stand for is short, and take a third of
// a trace's bytes.
var unread = []string{"object_hash", "response_hash", "audit_id", "attempt", "kernel_stack_id", "cpu", "known_by"}

// tables are those that must be read for these detectors.
func (l *listeners) tables() []traces.Table {
	all := []traces.Table{traces.TableWatch, traces.TableRequests, traces.TableStacks}
	for _, t := range []struct {
		table  traces.Table
		wanted int
	}{
		{traces.TableReconciles, len(l.passes)},
		{traces.TableLogs, len(l.logs)},
		{traces.TableSamples, len(l.samples)},
		{traces.TableKernelEvents, len(l.kernel)},
		{traces.TableMetrics, len(l.metrics)},
		{traces.TableDecisions, len(l.decisions)},
	} {
		if t.wanted > 0 {
			all = append(all, t.table)
		}
	}
	return all
}
