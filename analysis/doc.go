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
// it makes facts: a [Call] for each request that ended, a [Change] for each version of an object, with its
// writer and the difference from the version before. A [Detector] is a small type that is handed the facts
// and says at the end what it found. It has its thresholds as fields, with their reasons; [NewSelfLoop] and its
// like set them, and a test or a tool with other needs may set its own:
//
//	loops := analysis.NewSelfLoop()
//	loops.MinWrites = 50
//	result, err := analysis.Analyze(ctx, t, analysis.Options{Detectors: []analysis.Detector{loops}})
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
// known to lack something there. Known losses lower the certainty, they never make a finding.
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
