package ring

// The counters of kernel/common.h, by their number.
const (
	Taken      = 0 // records made
	Lost       = 1 // of them not handed over: the buffer was full, or there was no memory to make one in
	LostBodies = 2 // parts of bodies likewise
)
