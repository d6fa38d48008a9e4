// Package bpf sees what running programs do, from the kernel: where their threads spend processor time.
// It needs no change to a program, no restart and no debug information.
//
//	s, err := bpf.NewSampler(bpf.SamplerOptions{Hz: 99})
//	err = s.Follow(pid)
//	for {
//		sample, err := s.Next(ctx)   // goroutine, thread, stacks as addresses
//	}
//
// Package symbols, below it, turns the addresses into functions and lines.
//
// Whether the kernel lets us is found out by doing it, never by its version or configuration: [Check]
// says in one sentence what is missing. Programs are compiled once for all kernels (CO-RE, with the few
// kernel types that they touch in kernel/types.h) and committed; go generate makes them anew with clang.
// Kernels from 5.15 on have all that is used here.
//
// Nothing is lost in silence: what the ring buffer had no room for is counted, see [Sampler.Lost].
package bpf
