package traces

// column is one leaf of a table's Parquet schema and the place of its value in a row.
//
// The tables are spelled out by hand rather than read from the struct tags: the compiler checks
// them, reading needs no reflection, and a test holds them against the schema.
type column[T any] struct {
	name string // path in the schema, with dots
	// list says that a row has any number of values: the column belongs to a list of structs.
	list bool
	// at is a pointer to the value (*string, *int64, *int32, *bool or *float64). A column of a list
	// gives that of its element i and grows the list to hold it; other columns ignore i.
	at func(row *T, i int) any
}

func flat[T any](name string, at func(*T) any) column[T] {
	return column[T]{name: name, at: func(row *T, _ int) any { return at(row) }}
}

// element is a column of the list that at returns, one struct of type E an element.
func element[T, E any](name string, list func(*T) *[]E, at func(*E) any) column[T] {
	return column[T]{name: name, list: true, at: func(row *T, i int) any {
		l := list(row)
		for len(*l) <= i {
			*l = append(*l, *new(E))
		}
		return at(&(*l)[i])
	}}
}

// The two columns that every read needs, whatever projection was asked for.
const (
	columnSeq = "seq"
	columnTS  = "ts"
)

func withHead[T any](head func(*T) *Head, more ...column[T]) []column[T] {
	return append([]column[T]{
		flat(columnSeq, func(r *T) any { return &head(r).Seq }),
		flat(columnTS, func(r *T) any { return &head(r).TS }),
	}, more...)
}

func withIdentity[T any](id func(*T) *Identity, more ...column[T]) []column[T] {
	return append([]column[T]{
		flat("group", func(r *T) any { return &id(r).Group }),
		flat("version", func(r *T) any { return &id(r).Version }),
		flat("resource", func(r *T) any { return &id(r).Resource }),
		flat("namespace", func(r *T) any { return &id(r).Namespace }),
		flat("name", func(r *T) any { return &id(r).Name }),
		flat("uid", func(r *T) any { return &id(r).UID }),
		flat("resource_version", func(r *T) any { return &id(r).ResourceVersion }),
		flat("generation", func(r *T) any { return &id(r).Generation }),
	}, more...)
}

var watchColumns = withHead(func(r *WatchEvent) *Head { return &r.Head },
	withIdentity(func(r *WatchEvent) *Identity { return &r.Identity },
		flat("stream", func(r *WatchEvent) any { return &r.Stream }),
		flat("process", func(r *WatchEvent) any { return &r.Process }),
		flat("type", func(r *WatchEvent) any { return &r.Type }),
		flat("object", func(r *WatchEvent) any { return &r.Object }),
		flat("object_hash", func(r *WatchEvent) any { return &r.ObjectHash }),
		flat("writer", func(r *WatchEvent) any { return &r.Writer }),
	)...)

var requestColumns = withHead(func(r *Request) *Head { return &r.Head },
	withIdentity(func(r *Request) *Identity { return &r.Identity },
		flat("start_seq", func(r *Request) any { return &r.StartSeq }),
		flat("start", func(r *Request) any { return &r.Start }),
		flat("process", func(r *Request) any { return &r.Process }),
		flat("user", func(r *Request) any { return &r.User }),
		flat("user_agent", func(r *Request) any { return &r.UserAgent }),
		flat("verb", func(r *Request) any { return &r.Verb }),
		flat("subresource", func(r *Request) any { return &r.Subresource }),
		flat("path", func(r *Request) any { return &r.Path }),
		flat("query", func(r *Request) any { return &r.Query }),
		flat("field_manager", func(r *Request) any { return &r.FieldManager }),
		flat("content_type", func(r *Request) any { return &r.ContentType }),
		flat("request_body", func(r *Request) any { return &r.RequestBody }),
		flat("code", func(r *Request) any { return &r.Code }),
		flat("reason", func(r *Request) any { return &r.Reason }),
		flat("response_body", func(r *Request) any { return &r.ResponseBody }),
		flat("response_hash", func(r *Request) any { return &r.ResponseHash }),
		flat("attempt", func(r *Request) any { return &r.Attempt }),
		flat("stack_id", func(r *Request) any { return &r.StackID }),
		flat("reconcile_id", func(r *Request) any { return &r.ReconcileID }),
		flat("audit_id", func(r *Request) any { return &r.AuditID }),
		flat("stream", func(r *Request) any { return &r.Stream }),
	)...)

var reconcileColumns = withHead(func(r *Reconcile) *Head { return &r.Head },
	flat("process", func(r *Reconcile) any { return &r.Process }),
	flat("controller", func(r *Reconcile) any { return &r.Controller }),
	flat("namespace", func(r *Reconcile) any { return &r.Namespace }),
	flat("name", func(r *Reconcile) any { return &r.Name }),
	flat("start", func(r *Reconcile) any { return &r.Start }),
	flat("goid", func(r *Reconcile) any { return &r.GoID }),
	flat("trigger", func(r *Reconcile) any { return &r.Trigger }),
	flat("outcome", func(r *Reconcile) any { return &r.Outcome }),
	flat("error", func(r *Reconcile) any { return &r.Error }),
	flat("requeue_after", func(r *Reconcile) any { return &r.RequeueAfter }),
	flat("known_by", func(r *Reconcile) any { return &r.KnownBy }),
)

var sampleColumns = withHead(func(r *Sample) *Head { return &r.Head },
	flat("pid", func(r *Sample) any { return &r.PID }),
	flat("tid", func(r *Sample) any { return &r.TID }),
	flat("goid", func(r *Sample) any { return &r.GoID }),
	flat("cpu", func(r *Sample) any { return &r.CPU }),
	flat("stack_id", func(r *Sample) any { return &r.StackID }),
	flat("kernel_stack_id", func(r *Sample) any { return &r.KernelStackID }),
	flat("weight", func(r *Sample) any { return &r.Weight }),
	flat("reconcile_id", func(r *Sample) any { return &r.ReconcileID }),
)

func frames(s *Stack) *[]Frame { return &s.Frames }

var stackColumns = withHead(func(r *Stack) *Head { return &r.Head },
	flat("stack_id", func(r *Stack) any { return &r.StackID }),
	flat("kernel", func(r *Stack) any { return &r.Kernel }),
	element("frames.list.element.function", frames, func(f *Frame) any { return &f.Function }),
	element("frames.list.element.file", frames, func(f *Frame) any { return &f.File }),
	element("frames.list.element.line", frames, func(f *Frame) any { return &f.Line }),
	element("frames.list.element.inlined", frames, func(f *Frame) any { return &f.Inlined }),
)

var kernelEventColumns = withHead(func(r *KernelEvent) *Head { return &r.Head },
	flat("kind", func(r *KernelEvent) any { return &r.Kind }),
	flat("pid", func(r *KernelEvent) any { return &r.PID }),
	flat("tid", func(r *KernelEvent) any { return &r.TID }),
	flat("address", func(r *KernelEvent) any { return &r.Address }),
	flat("port", func(r *KernelEvent) any { return &r.Port }),
	flat("fd", func(r *KernelEvent) any { return &r.FD }),
	flat("errno", func(r *KernelEvent) any { return &r.Errno }),
	flat("count", func(r *KernelEvent) any { return &r.Count }),
	flat("stack_id", func(r *KernelEvent) any { return &r.StackID }),
)

var logColumns = withHead(func(r *Log) *Head { return &r.Head },
	flat("process", func(r *Log) any { return &r.Process }),
	flat("stream", func(r *Log) any { return &r.Stream }),
	flat("level", func(r *Log) any { return &r.Level }),
	flat("message", func(r *Log) any { return &r.Message }),
	flat("fields", func(r *Log) any { return &r.Fields }),
)

func labels(m *Metric) *[]Label { return &m.Labels }

var metricColumns = withHead(func(r *Metric) *Head { return &r.Head },
	flat("process", func(r *Metric) any { return &r.Process }),
	flat("name", func(r *Metric) any { return &r.Name }),
	flat("type", func(r *Metric) any { return &r.Type }),
	element("labels.list.element.name", labels, func(l *Label) any { return &l.Name }),
	element("labels.list.element.value", labels, func(l *Label) any { return &l.Value }),
	flat("value", func(r *Metric) any { return &r.Value }),
)

var decisionColumns = withHead(func(r *Decision) *Head { return &r.Head },
	flat("step", func(r *Decision) any { return &r.Step }),
	flat("kind", func(r *Decision) any { return &r.Kind }),
	flat("subject", func(r *Decision) any { return &r.Subject }),
	flat("choice", func(r *Decision) any { return &r.Choice }),
	flat("of", func(r *Decision) any { return &r.Of }),
	flat("rule", func(r *Decision) any { return &r.Rule }),
)
