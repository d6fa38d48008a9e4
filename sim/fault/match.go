package fault

// Means says whether the selector means the call, occurrences aside.
func (s Selector) Means(c Call) bool { return s.matchCall(c) }
