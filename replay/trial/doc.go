// Package trial plays a recording under an altered timing and judges what came of it.
//
//	r, err := trial.Open(ctx, trial.Options{Replay: replay.Options{Trace: t, Operators: ops}})
//	defer r.Close()
//	out, err := r.Run(ctx, trial.Try{Plan: plan})
//	for _, a := range out.Alarms {
//		fmt.Println(a.Oracle, a.Object, a.Field, a.What)
//	}
//
// # What is an alarm
//
// Nobody says what the operator ought to do. What it does unaltered says it: the reference run. Its outsiders make
// the same changes in an altered run, faults end, and an operator that goes by the state of the cluster, as
// all should, comes to the same end, if a little later. So a run is given time (Options.Settle, and as long as its
// end is not that of the reference up to Options.Bound more), and then these are alarms:
//
//   - an object at the end that is missing, is there beyond those of the reference, or differs in a field
//   - an object that the operator deleted and that was made again, where the reference did neither
//   - an object with a generated name that it created once more than in the reference
//   - a process that panicked, or ended by itself
//   - writes of a process that had lost its lease
//   - writes without end
//   - what a detector of package analysis finds, and did not find in the reference
//   - an Invariant of the user's that does not hold
//
// # What is none
//
// What differs between unaltered runs of two seeds, or when the reference is given more time, is masked; so are
// versions, times, uids and the order of lists; generated names and uids are compared by what they stand for. When a
// change of an outsider's did not fit the cluster as it was, and did in the reference, or was one of an object that the
// operator made and came before the operator had written what it is an answer to, the end is legally another, and is not
// compared. Where one met another incarnation of what the operator makes than in the reference, the fields that outsiders
// wrote are not. An operator may end itself when it has lost its lease. Under a fault that has no end it need not get
// anywhere: then neither the end is looked at nor are detectors asked.
//
// Runs take place in a cluster that lives (replay.Options.Live): what ends is started again, and objects whose
// owners are gone are collected.
package trial
