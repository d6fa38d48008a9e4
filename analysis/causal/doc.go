// Package causal says why something in a trace happened, one step back at a time: a version of an object was made by a
// write, a write by a reconcile, a reconcile was queued by an event, an event tells of a version.
//
//	chain, err := causal.Why(ctx, t, causal.Target{Group: "web.example.com", Resource: "sites", Namespace: "shop", Name: "front"})
//	for _, step := range chain.Steps {
//		fmt.Println(step.What, step.Known, step.Code)
//	}
//
// Each step says how it is known. Recorded links come first: the answer of the write carries the version, the write's
// row has the reconcile that made it, the reconcile's row has the event that queued it (reconcile_id and trigger, which
// recordings by eBPF have). Where there is none the step is inferred, from versions, times and names, with a confidence:
// how often such a step is right, as the package's tests measure it on traces whose links are known. Where nothing can be
// inferred the chain ends and says so.
//
// A Graph holds a part of a trace, the rows in which an explanation is looked for; Why and Explain read the parts that
// they need.
package causal
