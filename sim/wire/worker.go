package wire

// idleWorkers are goroutines that have run a handler and wait for the next one. Their stacks have grown to what the
// API server's handlers need; growing that of a new goroutine is a twentieth of a short call's work.
var idleWorkers = make(chan chan func(), 4)

// onWorker runs F on a goroutine of its own.
func onWorker(f func()) {
	select {
	case w := <-idleWorkers:
		w <- f
	default:
		w := make(chan func(), 1)
		w <- f
		go work(w)
	}
}

// work runs what it is given until enough others are idle.
func work(jobs chan func()) {
	for f := range jobs {
		f()
		select {
		case idleWorkers <- jobs:
		default:
			return
		}
	}
}
