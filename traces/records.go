package traces

// Table names one Parquet table of a trace. Its files are TABLE-0001.parquet, TABLE-0002.parquet, …
type Table string

// The tables of format version 1.
const (
	TableWatch        Table = "watch"
	TableRequests     Table = "requests"
	TableReconciles   Table = "reconciles"
	TableSamples      Table = "samples"
	TableStacks       Table = "stacks"
	TableKernelEvents Table = "kernel_events"
	TableLogs         Table = "logs"
	TableMetrics      Table = "metrics"
	TableDecisions    Table = "decisions"
)

// Record is one row of any table.
type Record interface {
	// Header is the row's place in the trace, shared by all tables.
	Header() *Head
	// Table is the table that the row belongs to.
	Table() Table
}

// Head places a row in the trace.
type Head struct {
	// Seq is the trace's total order, from 1. A Writer assigns it when it is 0.
	Seq int64 `parquet:"seq,delta"`
	// TS is when the row became true, in nanoseconds since the Unix epoch, UTC.
	TS int64 `parquet:"ts,timestamp(nanosecond:utc),delta"`
}

// Header implements Record for every row that embeds Head.
func (h *Head) Header() *Head { return h }

// Identity names a Kubernetes object and the version of it that a row is about. The columns are the
// same in every table that speaks of an object.
type Identity struct {
	Group     string `parquet:"group,dict"`
	Version   string `parquet:"version,dict"`
	Resource  string `parquet:"resource,dict"` // plural, lower case, as in the URL
	Namespace string `parquet:"namespace,dict"`
	Name      string `parquet:"name,dict"`
	UID       string `parquet:"uid,dict"`
	// ResourceVersion is 0 where there is none or where it is not a decimal number (KEP-5504 has
	// resource versions of the core API be comparable decimals).
	ResourceVersion int64 `parquet:"resource_version,delta"`
	Generation      int64 `parquet:"generation,delta"`
}

// EventType is the type of a watch row: a watch's own event types (k8s.io/apimachinery/pkg/watch), or
// Sync for an item that came with a list.
type EventType string

// The event types.
const (
	Added    EventType = "ADDED"
	Modified EventType = "MODIFIED"
	Deleted  EventType = "DELETED"
	Bookmark EventType = "BOOKMARK"
	Error    EventType = "ERROR"
	Sync     EventType = "SYNC"
)

// WatchEvent is one event as a watch delivered it to one client, or one item of a list (type SYNC).
type WatchEvent struct {
	Head
	Identity
	// Stream is the watch that delivered it, unique within the trace: one connection of one client.
	// Rows of one list share a stream too.
	Stream string `parquet:"stream,dict"`
	// Process is who received it: the operator's process, or "oprec" for the recorder's own watches.
	Process string `parquet:"process,dict"`
	Type    string `parquet:"type,dict"` // an EventType
	// Object is the whole object as JSON text without trailing newline; "" for none.
	Object string `parquet:"object"`
	// ObjectHash is HashObject(Object); "" for none.
	ObjectHash string `parquet:"object_hash"`
	// Writer is the field manager or the request ("seq:N") that caused the event, where known.
	Writer string `parquet:"writer,dict"`
}

// Request is one API call. Its Seq and TS are those of its end: a call has taken effect, and its client
// knows the answer, by then.
type Request struct {
	Head
	Identity // of the target; UID, ResourceVersion and Generation are those of the answered object
	// StartSeq is the highest Seq already given when the call arrived: all that the client had
	// been told by then has a lower or equal Seq.
	StartSeq int64 `parquet:"start_seq,delta"`
	// Start is when the call arrived, nanoseconds since the Unix epoch, UTC. Latency is TS − Start.
	Start int64 `parquet:"start,timestamp(nanosecond:utc),delta"`
	// Process is the recorded process that called, "" for an outsider.
	Process string `parquet:"process,dict"`
	User    string `parquet:"user,dict"`
	// UserAgent is the whole User-Agent header.
	UserAgent string `parquet:"user_agent,dict"`
	// Verb is the API verb: get, list, watch, create, update, patch, delete, deletecollection,
	// connect; for paths that are no resource, the HTTP method in lower case.
	Verb        string `parquet:"verb,dict"`
	Subresource string `parquet:"subresource,dict"`
	// Path is the URL path, only for calls that are no resource request.
	Path         string `parquet:"path,dict"`
	Query        string `parquet:"query,dict"` // raw query string
	FieldManager string `parquet:"field_manager,dict"`
	// ContentType is the request body's media type as sent (which patch type, protobuf or JSON).
	ContentType string `parquet:"content_type,dict"`
	// RequestBody is the body as JSON (protobuf and YAML decoded), "" for none.
	RequestBody string `parquet:"request_body"`
	Code        int32  `parquet:"code,dict"` // HTTP status; 0 when the client went away before an answer
	// Reason is metav1.Status.reason of a failed call.
	Reason string `parquet:"reason,dict"`
	// ResponseBody is the answer as JSON where it is not a stored object that the watch table holds.
	ResponseBody string `parquet:"response_body"`
	// ResponseHash is HashObject of the answer; where ResponseBody is "", a watch row of this trace
	// with the same uid, resource_version and object_hash holds it.
	ResponseHash string `parquet:"response_hash"`
	// Attempt counts from 1; a repetition of a call that its client was told to retry is 2, 3, …
	Attempt     int32  `parquet:"attempt,dict"`
	StackID     int64  `parquet:"stack_id,delta"`     // row of stacks; 0 unknown
	ReconcileID int64  `parquet:"reconcile_id,delta"` // seq of the reconcile; 0 unknown
	AuditID     string `parquet:"audit_id"`
	// Stream is that of the watch rows that the call yielded, for verbs list and watch. Since format 1.1.
	Stream string `parquet:"stream,dict"`
}

// Reconcile is one pass of a reconciler. Seq and TS are those of its end.
type Reconcile struct {
	Head
	Process    string `parquet:"process,dict"`
	Controller string `parquet:"controller,dict"`
	Namespace  string `parquet:"namespace,dict"`
	Name       string `parquet:"name,dict"`
	Start      int64  `parquet:"start,timestamp(nanosecond:utc),delta"`
	GoID       int64  `parquet:"goid,delta"`
	Trigger    int64  `parquet:"trigger,delta"` // seq of the event that queued it; 0 unknown
	Outcome    string `parquet:"outcome,dict"`  // success, error, requeue, panic
	Error      string `parquet:"error"`
	// RequeueAfter is in nanoseconds, 0 for none.
	RequeueAfter int64  `parquet:"requeue_after,delta"`
	KnownBy      string `parquet:"known_by,dict"` // probe, log, inferred
}

// Sample is one stack sample of one thread.
type Sample struct {
	Head
	PID           int32 `parquet:"pid,delta"`
	TID           int32 `parquet:"tid,delta"`
	GoID          int64 `parquet:"goid,delta"`
	CPU           int32 `parquet:"cpu,delta"`
	StackID       int64 `parquet:"stack_id,delta"`
	KernelStackID int64 `parquet:"kernel_stack_id,delta"`
	Weight        int64 `parquet:"weight,delta"` // sampling periods that the row stands for
	ReconcileID   int64 `parquet:"reconcile_id,delta"`
}

// Frame is one function of a stack, leaf first.
type Frame struct {
	Function string `parquet:"function,dict"`
	File     string `parquet:"file,dict"`
	Line     int32  `parquet:"line"`
	Inlined  bool   `parquet:"inlined"`
}

// Stack is one distinct stack.
type Stack struct {
	Head
	StackID int64   `parquet:"stack_id,delta"`
	Kernel  bool    `parquet:"kernel"`
	Frames  []Frame `parquet:"frames,list"`
}

// KernelEvent is a refused connection, a fork, an ENOSPC or a hot read loop.
type KernelEvent struct {
	Head
	Kind    string `parquet:"kind,dict"` // refused, fork, enospc, read_loop
	PID     int32  `parquet:"pid,delta"`
	TID     int32  `parquet:"tid,delta"`
	Address string `parquet:"address,dict"`
	Port    int32  `parquet:"port,delta"`
	FD      int32  `parquet:"fd,delta"`
	Errno   int32  `parquet:"errno,delta"`
	Count   int64  `parquet:"count,delta"`
	StackID int64  `parquet:"stack_id,delta"`
}

// Log is one line that a process wrote.
type Log struct {
	Head
	Process string `parquet:"process,dict"`
	Stream  string `parquet:"stream,dict"` // stdout or stderr
	Level   string `parquet:"level,dict"`  // debug, info, warn, error, fatal; "" unknown
	// Message is the line's message where its form was understood, else the whole line.
	Message string `parquet:"message"`
	Fields  string `parquet:"fields"` // JSON object of the structured fields; "" for none
}

// Label is one label of a metric.
type Label struct {
	Name  string `parquet:"name,dict"`
	Value string `parquet:"value,dict"`
}

// Metric is one scraped sample, as Prometheus stores it: a histogram is its buckets, sum and count. A value holds until the
// next row of its name and labels, or until the last scrape where there is none; NaN ends a series that is there no more, if it is not what the endpoint said.
type Metric struct {
	Head
	Process string `parquet:"process,dict"`
	Name    string `parquet:"name,dict"`
	// Type is that of the metric family: counter, gauge, histogram, summary; "" where the endpoint doesn't say. Since
	// format 1.3.
	Type   string  `parquet:"type,dict"`
	Labels []Label `parquet:"labels,list"` // sorted by name
	Value  float64 `parquet:"value"`
}

// Decision is one step of a simulated world. Recorded traces have none.
type Decision struct {
	Head
	Step    int64  `parquet:"step,delta"`
	Kind    string `parquet:"kind,dict"`    // request, answer, deliver, outsider, fault, …
	Subject string `parquet:"subject,dict"` // what the step was about, in words
	// Choice is the index chosen among Of alternatives, from 0; Of is 1 where there was no choice.
	Choice int32  `parquet:"choice,delta"`
	Of     int32  `parquet:"of,delta"`
	Rule   string `parquet:"rule,dict"` // the plan's fault in its one-line form; "" when the seed chose
}

// Table implements Record.
func (*WatchEvent) Table() Table { return TableWatch }

// Table implements Record.
func (*Request) Table() Table { return TableRequests }

// Table implements Record.
func (*Reconcile) Table() Table { return TableReconciles }

// Table implements Record.
func (*Sample) Table() Table { return TableSamples }

// Table implements Record.
func (*Stack) Table() Table { return TableStacks }

// Table implements Record.
func (*KernelEvent) Table() Table { return TableKernelEvents }

// Table implements Record.
func (*Log) Table() Table { return TableLogs }

// Table implements Record.
func (*Metric) Table() Table { return TableMetrics }

// Table implements Record.
func (*Decision) Table() Table { return TableDecisions }
