// Package events tells what befalls processes in the kernel: connections that are refused, processes that they
// start, a file system that is full, and one and the same read made over and over.
//
//	w, err := events.Watch(processes, events.Options{Refused: true, NoSpace: true})
//	for {
//		e, err := w.Next(ctx)   // where, how often within a second, with the stack
//	}
//
// # What each costs
//
// Refused and Forks look at connections and processes that begin, of which there are few: nothing that can be
// measured. NoSpace and ReadLoops hook into every system call of the machine, those of processes that nobody
// follows too: BenchmarkSystemCall has the numbers. So each is its user's to choose.
//
// # What they do not see
//
// A refusal is one of TCP's (a RST in answer to a SYN); a connection that a firewall drops, or for which there is
// no route, is none. A full file system is seen by the system calls that say ENOSPC, not by writes through a
// mapping or io_uring. Reads are those of any file or socket.
package events
