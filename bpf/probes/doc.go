// Package probes watches an operator at work, by probes on chosen instructions of its unmodified, stripped
// binary: what is put into its work queues and from where, when each reconcile begins and ends and how, and
// each call that it makes to the API server, with the line of code that made it.
//
//	known, err := processes.Follow(4711)                           // package bpf
//	w, err := probes.Attach(processes, binary, "/proc/4711/exe")   // for all of them that run this file
//	for {
//		e, err := w.Next(ctx)
//	}
//
// # Where the probes sit
//
// Go's functions are entered with their arguments in registers (ABIInternal) and grow their stack by
// beginning anew, so a probe on the first instruction counts some calls twice. The PUSH of the frame pointer
// comes after that check, with all arguments still in place, and the kernel emulates it instead of
// single-stepping. Probes on returns cost five times as much and are used only where calls are rare: the
// kernel's own return probes would crash a Go program, whose stacks move.
//
// # What is known of the programs
//
// Functions are found by name in the function table, which no stripping removes; registers follow from their
// signatures, which are stated per version in targets.go. A binary without them (no controller-runtime, a
// version from before generics) is watched at those that it has; Watcher.Sites says which.
package probes
