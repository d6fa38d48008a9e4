package bpf

// Needs clang and libbpf's headers. The flags give the same bytes on every machine.
//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -tags linux -target amd64 -type life -type target processes kernel/processes.bpf.c -- -O2 -g -mcpu=v3 -Wall -Werror -Ikernel
//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -tags linux -target amd64 -type sample sampler kernel/sampler.bpf.c -- -O2 -g -mcpu=v3 -Wall -Werror -Ikernel
