package events

// Needs clang and libbpf's headers. The flags give the same bytes on every machine.
//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -tags linux -target amd64 -type happening events ../kernel/events.bpf.c -- -O2 -g -mcpu=v3 -Wall -Werror -I../kernel
