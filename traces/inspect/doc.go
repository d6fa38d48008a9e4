// Package inspect sums up a trace for a person who wants to know what is in it.
//
//	t, err := traces.Open("t.optrace")
//	…
//	s, err := inspect.Summarize(ctx, t)
//	…
//	err = inspect.Text(os.Stdout, s)   // or json.NewEncoder(os.Stdout).Encode(s)
//
// A summary needs only a few columns and reads no object, so it takes a fraction of the time that
// reading the trace does; its memory grows with the number of distinct objects and callers.
//
// It counts and does not judge: what is wrong with an operator is the analysis' to say, and whether the
// files are sound is [traces.Trace.Verify]'s.
package inspect
