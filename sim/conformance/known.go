package conformance

// Known is a difference that there is a reason for. Each has a test that shows it, so that one that is
// no more is taken off the list.
type Known struct {
	Name   string
	Reason string
	// Match says whether a difference is this one.
	Match func(o *Outcome, d Difference) bool
	// Shows is a sequence that has it, in the form of [Sequence.String].
	Shows string
}

// KnownDifferences is the list.
var KnownDifferences = []Known{}
