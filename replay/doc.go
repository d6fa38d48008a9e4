// Package replay plays a recording back against the operator's own binary and compares.
//
// A recording holds what the operator did and what everybody else did. Replay takes the operator out: what is left
// is the cluster that it came to and a script of the others' changes (Script). Run puts that cluster into an
// embedded API server, starts the operator, has the outsiders make their changes at the recorded times, lets a
// plan of faults (package sim/fault) alter calls and events, and writes all of it as a trace of the same form.
// The result says which of the operator's recorded writes it made again (Divergence).
//
//	t, err := traces.Open("t.optrace")
//	r, err := replay.Run(ctx, replay.Options{Trace: t, Operator: []string{"./manager"}, Out: "run.optrace"})
//	fmt.Printf("%.0f %% of the recorded writes made again\n", r.Divergence.Percent())
//
// # Who was the operator
//
// Identify takes what the caller says, else the trace's manifest, else the client that wrote most. A version of an
// object is the operator's when one of its calls made it; in a trace without calls, when managedFields name it.
//
// # Time
//
// Options.Clock says what the operator lives by. Under the wall clock the API server stamps recorded time going on
// at the same pace: to an operator in a replay of last month's recording all objects look a month old. Under
// the world's clock, which begins at the recorded time and jumps over waits, they do not.
//
// An outsider's change keeps its recorded distance from the one before, at most Options.MaxGap; it waits,
// up to Options.Patience, for what the operator had written before it in the recording, since the same binary may
// be slower today. With faults in the plan it does not wait: then the plan says what comes first.
//
// # Limits
//
//   - Nobody schedules pods or runs them but as the script says. Nor does anybody collect garbage, end namespaces or
//     start processes again, unless Options.Live is set; but what the garbage collector deleted in the recording is
//     deleted when its owner is gone in the run.
//   - Admission and conversion webhooks are called in virtual time alone, and only those that a process of the run serves.
//   - Leases that the operator does not write are left out: others' heartbeats.
//   - APIServices are left out, and resources that the embedded API server does not serve are left out and noted.
package replay
