package traces

import (
	"strings"
	"time"
)

// The format version that this package writes. A reader takes any minor of its own major.
const (
	FormatMajor = 1
	FormatMinor = 3
)

// Manifest is manifest.json: what the trace is, how it was made, which files it has, what it lacks.
type Manifest struct {
	Format  Format    `json:"format"`
	Created time.Time `json:"created"`
	// Tool is the program and its version that wrote the trace.
	Tool string `json:"tool"`
	// Source is how it was made: capture, proxy, run, sim, merge.
	Source  string  `json:"source"`
	Cluster Cluster `json:"cluster"`
	// Operators are the recorded processes, and how their calls can be told from everybody else's.
	Operators []Operator `json:"operators,omitempty"`
	// Resources are the resources that were watched, with what a replay must know of them.
	Resources []Resource `json:"resources,omitempty"`
	// Namespaces that were recorded; empty means all.
	Namespaces []string `json:"namespaces,omitempty"`
	// Run is set for simulated runs.
	Run       *Run      `json:"run,omitempty"`
	Redaction Redaction `json:"redaction"`
	// Losses are all that is known to be missing.
	Losses []Loss `json:"losses,omitempty"`
	Files  []File `json:"files"`
	// Complete is false until the writer was closed in order.
	Complete bool `json:"complete"`
}

// Format is the version of the trace's form.
type Format struct {
	Major int `json:"major"`
	Minor int `json:"minor"`
}

// Cluster is the recorded cluster.
type Cluster struct {
	Version string `json:"version,omitempty"` // git version of the API server, e.g. v1.37.2
	Server  string `json:"server,omitempty"`  // URL, without credentials
}

// Operator identifies a recorded process: any field that is set may match a call.
type Operator struct {
	Process        string   `json:"process"` // as in the process columns
	UserAgents     []string `json:"userAgents,omitempty"`
	Users          []string `json:"users,omitempty"` // e.g. system:serviceaccount:ns:name
	FieldManagers  []string `json:"fieldManagers,omitempty"`
	Command        []string `json:"command,omitempty"`
	BinarySHA256   string   `json:"binarySHA256,omitempty"`
	ExitCode       *int     `json:"exitCode,omitempty"`
	ExitedByRecord bool     `json:"exitedByRecorder,omitempty"`
	// Probed says that its calls were seen by probes, with no proxy between: not what its watches delivered to it, nor
	// its answers but for their codes. Since format 1.2.
	Probed bool `json:"probed,omitempty"`
	// Instances are its processes that were looked at from the kernel, in the order in which they were found. Since
	// format 1.2.
	Instances []Instance `json:"instances,omitempty"`
}

// Instance is one process of an operator.
type Instance struct {
	PID int `json:"pid"`
	// Began is when it was first looked at, Ended when it was seen to be gone: zero if it outlived the recording.
	Began time.Time `json:"began"`
	Ended time.Time `json:"ended,omitzero"`
}

// Resource is one API resource as discovery showed it.
type Resource struct {
	Group        string   `json:"group"`
	Version      string   `json:"version"`
	Resource     string   `json:"resource"`
	Kind         string   `json:"kind"`
	Namespaced   bool     `json:"namespaced"`
	Subresources []string `json:"subresources,omitempty"`
}

// Run says what a simulated run was made of: the same four give the same bytes.
type Run struct {
	Trace string `json:"trace"` // path as given
	// TraceSHA256 is the SHA-256, in hex, of the source trace's manifest.json: see Trace.SHA256.
	TraceSHA256 string `json:"traceSHA256"`
	Plan        string `json:"plan"` // the plan's textual form
	Seed        uint64 `json:"seed"`
	Mode        string `json:"mode"` // virtual or wall
	// Start is the run's first moment by its own clock.
	Start time.Time `json:"start,omitzero"`
	// Threads is the order of the operators' threads, fifo or seeded; "" in wall mode.
	Threads       string `json:"threads,omitempty"`
	Deterministic bool   `json:"deterministic"`
	// Reason says why the run is not deterministic.
	Reason string `json:"reason,omitempty"`
	// Failed says why the run did not take place to its end. Since format 1.1.
	Failed string `json:"failed,omitempty"`
}

// Redaction says what was replaced before it reached the disk.
type Redaction struct {
	// Secrets is "hmac-sha256" (values replaced by a keyed hash whose key was not kept) or "none".
	Secrets string `json:"secrets"`
}

// Loss is something that is known to be missing from the trace.
type Loss struct {
	Source string    `json:"source"` // which stream or table
	From   time.Time `json:"from"`
	To     time.Time `json:"to"`
	Count  int64     `json:"count"` // -1 when it is not known how much
	Reason string    `json:"reason"`
}

// Relisted begins the Reason of a loss that a new list of the resource has ended.
const Relisted = "relisted after "

// Relisted is whether a new list has ended the loss: what there was at To is in the trace, what there was only before
// it is not. Finalizers and deletions, which go one way, are known then.
func (l *Loss) Relisted() bool {
	return strings.HasPrefix(l.Source, "capture/") && strings.HasPrefix(l.Reason, Relisted)
}

// File is one Parquet file of the trace. A reader trusts a file only when size and hash agree.
type File struct {
	Name     string `json:"name"`
	Table    Table  `json:"table"`
	Rows     int64  `json:"rows"`
	FirstSeq int64  `json:"firstSeq"`
	LastSeq  int64  `json:"lastSeq"`
	FirstTS  int64  `json:"firstTS"` // nanoseconds since the Unix epoch
	LastTS   int64  `json:"lastTS"`
	Bytes    int64  `json:"bytes"`
	SHA256   string `json:"sha256"`
}

// Rows is how many rows the files hold.
func (m *Manifest) Rows() (n int64) {
	for _, f := range m.Files {
		n += f.Rows
	}
	return n
}
