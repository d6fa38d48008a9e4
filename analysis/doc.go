// Package analysis says what went wrong in a trace, why, and how sure that is.
//
//	t, err := traces.Open("run.optrace")
//	…
//	result, err := analysis.Analyze(ctx, t, analysis.Options{})
//	for _, f := range result.Findings {
//		fmt.Println(f.Detector, f.Objects[0], f.What, f.Cause)
//	}
//
// # How it looks
//
// The records are read once, in the order of seq. A [Model] keeps, for each object that exists, its last
// version and who wrote the last few, and for each process what it was last told of the object. From the rows
// it makes facts, and a [Detector] is a small type that is handed those it asks for and says at the end what it
// found. It has its thresholds as fields, with their reasons; [NewSelfLoop] and its like set them, and a test or a
// tool with other needs may set its own:
//
//	loops := analysis.NewSelfLoop()
//	loops.MinWrites = 50
//	result, err := analysis.Analyze(ctx, t, analysis.Options{Detectors: []analysis.Detector{loops}})
//
// # A detector
//
// A detector has a Name, its Findings, and the methods of those facts that it wants:
//
//	Start(*Model)                               the manifest is there: losses, operators, resources with their kinds
//	Event(*Model, *Event)                       a watch row as it reached a client, with what that client knew before
//	Call(*Model, *Call)                         a request about one object, with its base version, answer and pass
//	Request(*Model, *Process, *traces.Request)  any other request: lists, watches, paths that are no resource
//	Change(*Model, *Change)                     a version: text before and after, difference, writer, the call that made it
//	Gone(*Model, *State)                        an object was deleted
//	Pass(*Model, *Pass)                         a reconcile, with its trigger, its calls and its samples
//	Log, Sample, Kernel, Metric, Decision       a row of these tables
//
// It stands in a file of its own, with its line in registered (detectors.go), whose order is the order in which
// findings explain each other, and a page docs/findings/NAME.md:
//
//	// Twice finds objects that one process created twice.
//	type Twice struct {
//		// MinTimes is …, because ….
//		MinTimes int64
//		created  map[Key]*tries // forgotten in Gone
//	}
//
//	func (*Twice) Name() string { return "twice" }
//
//	func (d *Twice) Call(m *Model, c *Call) {
//		if c.Verb != "create" || c.Process == nil || c.Row.Resource == "events" {
//			return
//		}
//		…
//	}
//
//	func (d *Twice) Findings(m *Model) (faults []Finding, notes []Note) { … }
//
// The rules: what it keeps of an object goes in Gone or has a bound (rings, reservoir, places and tally are such). What it
// asks for with each fact is kept in a memory: the object has it at hand, while a map is searched.
// A row, a Change or an Event, and every text in them, is valid during the call only: keep numbers, or
// [strings.Clone]. Texts are read by [Change.Get] and the functions of internal/jsontext, after the cheap questions:
// [Change.Touches] says whether the version changed what the detector is interested in, from a comparison that is made
// once for all. Objects are found by [Model.Object], [Model.ByUID] and [Model.Named]; to go through all of them with each
// fact makes an hour of a minute.
// No output hangs on the order of a map. Findings set Severity, Certainty, Process, Objects (by worst), Total, What,
// Cause, Field, Manager, Stack, Row, Statistics (by proportion, rate, median), Evidence, First, Last and Effect, whose
// Weight is the multiple of the detector's threshold; the engine sets ID, Group and Reproduce, and lowers the
// certainty where the manifest knows of losses in a table that the detector reads.
//
// # Who wrote a version
//
// A version's writer is the recorded request whose answer carries its resourceVersion ([ByRequest]); else the
// manager of the newest entry in managedFields ([ManagedFields]), which is a guess, since a write that takes no
// field leaves no entry; else unknown. A watch event may come before or after the end of the request that
// caused it, so a version waits up to a second of the trace's time for its request before the detectors see it.
// The same version comes in many rows, one for each watch: it is one version, and many deliveries.
//
// # How sure
//
// Each finding has statistics with 95 % intervals, whose methods name their sources, and a [Certainty]: sure
// when every link of the explanation was recorded, likely when one was inferred, possible when the trace is
// known to lack something there. Known losses lower the certainty, they never make a finding: one that rests on
// something not having happened says so (absent), and is a note where the rows of that time and resource are lost. What one
// process's own watches lack, the recorder's show, unless what that process was told is the point.
//
// # Bounds
//
// Memory grows with the objects that exist at one time, not with the length of the trace: histories are
// rings, samples are reservoirs with a fixed seed, evidence is the first and last few places with their total
// number, texts of last versions have a common limit. No output depends on the order of a map: the same trace
// gives the same bytes.
//
// # What is no fault
//
// Heartbeats (Leases and their older forms, nodes, Events) are left out by every detector. What costs something
// but is common and harmless, such as rewriting unchanged children on each pass, becomes a [Note].
package analysis
