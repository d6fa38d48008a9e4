// Package shrink makes a failing plan smaller, and says what happened.
//
//	small, err := shrink.Shrink(ctx, pool, try, shrink.Options{Key: alarm.Key()})
//	fmt.Print(small.Try.Plan)
//	story, err := shrink.Explain(ctx, pool.Local(), small)
//
// It is delta debugging (Zeller and Hildebrandt, Simplifying and Isolating Failure-Inducing Input, IEEE TSE 2002) over
// three things, one after the other and again until nothing more can go: the plan's faults and what else alters the
// run (the threads' order, processors, replicas); the faults' parameters; the steps of the outsiders' script, those of
// one object together first. A run still fails when it has an alarm with the same Key.
package shrink
