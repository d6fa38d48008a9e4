// Package verify asks whether a fix holds: not only under the plan of a regression case, which it may have been
// written for, but under its neighbours too.
//
//	r, err := verify.Run(ctx, verify.Options{Case: c, Command: []string{"./manager-fixed"}})
//	fmt.Println(r.Verdict)
//
// The neighbours of a plan are, in this order and up to Options.Budget:
//
//   - the plan with other seeds, and with them other orders of the operator's threads
//   - the plan with one thing about one fault altered: another occurrence of the call or event that it names, half
//     or twice as long, the answer that was committed and the one that was not
//   - what an exploration of the new operator would try of the same kinds of faults: its own writes may be others
//     than those that the plan speaks of
//
// A fix holds if no run has an alarm, the unaltered one included. An alarm that the case does not speak of counts
// too: what a fix breaks elsewhere is no better.
package verify
