// Package bpf sees what running programs do, from the kernel: where their threads spend processor time.
// It needs no change to a program, no restart and no debug information.
//
//	p, err := bpf.NewProcesses()
//	known, err := p.Follow(pid)   // and its children, until they end
//	s, err := bpf.NewSampler(p, bpf.SamplerOptions{Hz: 99})
//	for {
//		sample, err := s.Next(ctx)   // goroutine, thread, stacks as addresses
//	}
//
// Packages below it look at the same [Processes] in other ways: probes at what an operator does, events at what
// befalls it in the kernel. Package symbols turns addresses into functions and lines.
//
// # What it needs
//
// Linux on amd64; whether the kernel lets us is found out by doing it, never by its version or configuration: [Check]
// says in one sentence what is missing. Programs are compiled once for all kernels (CO-RE, with the few
// kernel types that they touch in kernel/types.h) and committed; go generate makes them anew with clang.
//
// All of it is there from 5.15 on, by which release brought what (it was tried on 6.18): links of perf events and
// bpf_get_attach_cookie came with 5.15, bpf_for_each_map_elem with 5.13, atomics with 5.12. Two newer things are done
// without: bpf_loop (5.17), and many uprobes by one link (6.6), in whose place package probes attaches them one by
// one. Trampolines (fentry) and kprobes, which not all kernels have, are not used.
//
// # What is lost
//
// Nothing is lost in silence: what there was no room for is counted, see [Sampler.Counted] and [Processes.Lost].
package bpf
