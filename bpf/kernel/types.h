// The kernel types that our programs touch, and of them the fields that they read: the loader finds the
// fields' real places in the running kernel's BTF (preserve_access_index, libbpf's CO-RE).
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char s8;
typedef short s16;
typedef int s32;
typedef long long s64;
typedef u8 __u8;
typedef u16 __u16;
typedef u32 __u32;
typedef u64 __u64;
typedef s8 __s8;
typedef s16 __s16;
typedef s32 __s32;
typedef s64 __s64;
typedef u16 __be16;
typedef u32 __be32;
typedef u32 __wsum;

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_RINGBUF = 27,
};

enum {
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
	BPF_EXIST = 2,
	BPF_F_USER_STACK = 256,
	BPF_RB_NO_WAKEUP = 1,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
};

struct thread_struct {
	unsigned long fsbase;
};

typedef struct {
	int counter;
} atomic_t;

struct signal_struct {
	atomic_t live; // threads that have not ended
};

struct task_struct {
	int pid, tgid;
	struct thread_struct thread;
	struct signal_struct *signal;
};

struct in6_addr {
	u8 s6_addr[16]; // taken as a whole
};

struct sock_common {
	__be32 skc_daddr;
	__be16 skc_dport;
	unsigned short skc_family;
	struct in6_addr skc_v6_daddr;
};

struct sock {
	struct sock_common __sk_common;
	int sk_err;
};

#pragma clang attribute pop

struct bpf_perf_event_data;
