// Package sim is the world: a simulated cluster in which time and order are inputs.
//
// A [World] owns an agenda of pending steps: a request that has arrived, an answer that is due, a watch
// event that may be delivered, an outsider's change, a fault. It is stepped by its caller and never
// runs by itself:
//
//	w := sim.New(sim.Options{Seed: 7, Processes: procs})
//	w.After(time.Second, sim.Item{Lane: "script", Kind: "outsider", Subject: "create demo/a", Apply: create})
//	for {
//		step, err := w.Step(ctx)
//		if errors.Is(err, sim.ErrQuiet) || errors.Is(err, sim.ErrLimit) { break }
//		…
//	}
//
// # One step
//
//  1. The processes run until none can go on without the world.
//  2. The sources are asked for what has arrived (a whole request on a connection).
//  3. The next item is chosen: earliest virtual time first; among items of the same time the seed
//     decides, and the number of the one chosen among how many is part of the step.
//  4. If it lies in the future the clock moves to it, or to a process's own timer if that comes first.
//     That is how hours pass in seconds.
//  5. The item is applied.
//
// # What makes it deterministic
//
// There is one thread of decision and it is the caller's. Items of one lane keep their order whatever
// their times (the events of one watch, the answers on one connection). Randomness comes from named
// streams ([World.Rand]), so that a draw for one purpose does not shift those for another. No map is
// iterated, nothing asks the machine for the time.
package sim
