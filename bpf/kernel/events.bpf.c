// Sees what befalls processes in the kernel: connections that are refused, processes they start, a full disk, and
// one and the same read over and over. Each of its programs is loaded only where it is wanted.
#include "common.h"

#define MAX_DEPTH 64
#define STACK_BYTES (MAX_DEPTH * 8)
#define MASK 511 // bounds that the verifier can follow: the deepest address is cut

enum { REFUSED = 1, FORK, NO_SPACE, READ_LOOP };

struct happening {
	u64 ts; // CLOCK_MONOTONIC, nanoseconds
	u32 kind;
	u32 pid, tid;
	s32 fd; // -1 none
	u8 address[16]; // IPv6, or IPv4 in the first four bytes
	u16 port;
	u16 family;
	u32 count;   // of READ_LOOP: reads in the second that is over
	u32 persist; // of READ_LOOP: seconds in a row with as many
	u32 stack_bytes; // addresses that follow
	u64 top[2]; // the two words at the stack pointer
	u64 hash;   // of the stack
	u8 stack[MASK + 1];
};

const struct happening *unused_happening __attribute__((unused));

SCRATCH(happenings, struct happening)

// begin makes ready a record of the thread that runs, with its stack.
static __always_inline struct happenings_slot *begin(void *ctx, u32 kind)
{
	struct happenings_slot *slot = take_happenings();
	if (!slot) {
		count(LOST);
		return 0;
	}
	struct happening *h = &slot->data;
	u64 id = bpf_get_current_pid_tgid();
	h->ts = bpf_ktime_get_ns();
	h->kind = kind;
	h->pid = id >> 32;
	h->tid = (u32)id;
	h->fd = -1;
	__builtin_memset(h->address, 0, sizeof(h->address));
	h->port = h->family = 0;
	h->count = h->persist = 0;
	h->hash = 0;
	top(h->top, (void *)bpf_get_current_task_btf());
	long n = bpf_get_stack(ctx, h->stack, STACK_BYTES - 8, BPF_F_USER_STACK);
	h->stack_bytes = n > 0 ? (u64)n & MASK : 0;
	return slot;
}

static __always_inline void send(struct happening *h)
{
	u64 depth = h->stack_bytes & MASK;
	bound(depth);
	count(TAKEN);
	output(h, __builtin_offsetof(struct happening, stack) + (depth & MASK), LOST);
}

static __always_inline struct target *followed(void)
{
	u32 pid = bpf_get_current_pid_tgid() >> 32;
	return bpf_map_lookup_elem(&targets, &pid);
}

// The sockets that are about to be connected, by their address, with who connects them.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, u64);
	__type(value, struct happening);
} connecting SEC(".maps");

enum { TCP_SYN_SENT = 2, TCP_CLOSE = 7, AF_INET = 2, AF_INET6 = 10, ECONNREFUSED = 111, ENOSPC = 28 };

// Go connects without waiting, and is never told of a refusal by connect itself: the socket's state tells. It
// begins to connect in the caller's own call, the answer comes in an interrupt of anybody's.
SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(on_state, struct sock *sk, int from, int to)
{
	u64 key = (u64)sk;
	if (to == TCP_SYN_SENT) {
		if (!followed())
			return 0;
		struct happenings_slot *slot = begin(ctx, REFUSED);
		if (!slot)
			return 0;
		if (bpf_map_update_elem(&connecting, &key, &slot->data, BPF_ANY))
			count(LOST);
		give(slot);
		return 0;
	}
	if (from != TCP_SYN_SENT)
		return 0;
	struct happening *h = bpf_map_lookup_elem(&connecting, &key);
	if (!h)
		return 0;
	if (to == TCP_CLOSE && sk->sk_err == ECONNREFUSED) {
		h->ts = bpf_ktime_get_ns();
		h->port = __builtin_bswap16(sk->__sk_common.skc_dport);
		h->family = sk->__sk_common.skc_family;
		if (h->family == AF_INET6)
			BPF_CORE_READ_INTO(&h->address, sk, __sk_common.skc_v6_daddr);
		else
			BPF_CORE_READ_INTO((u32 *)h->address, sk, __sk_common.skc_daddr);
		send(h);
	}
	bpf_map_delete_elem(&connecting, &key);
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_start, struct task_struct *parent, struct task_struct *child)
{
	if (parent->tgid == child->tgid || !followed())
		return 0;
	struct happenings_slot *slot = begin(ctx, FORK);
	if (slot) {
		send(&slot->data);
		give(slot);
	}
	return 0;
}

// about_files says whether a system call's ENOSPC means a file system (others mean a limit of their own:
// inotify_add_watch, epoll_ctl, bpf), and whether its first argument is the descriptor of a file that is written.
enum { NOT_FILES, FILES, WRITES };
static __always_inline int about_files(long nr)
{
	switch (nr) { // asm/unistd_64.h
	case 1: case 3: case 18: case 20: // write, close, pwrite64, writev
	case 40: case 74: case 75: case 77: // sendfile, fsync, fdatasync, ftruncate
	case 277: case 285: case 296: case 328: // sync_file_range, fallocate, pwritev, pwritev2
		return WRITES;
	case 2: case 26: case 76: case 82: case 83: case 85: case 86: case 88: // open, msync, truncate, rename, mkdir, creat, link, symlink
	case 133: case 188: case 189: case 190: // mknod, setxattr, lsetxattr, fsetxattr
	case 257: case 258: case 259: case 264: case 265: case 266: // openat, mkdirat, mknodat, renameat, linkat, symlinkat
	case 275: case 316: case 326: case 437: // splice, renameat2, copy_file_range, openat2
		return FILES;
	}
	return NOT_FILES;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(on_return, struct pt_regs *regs, long ret)
{
	if (ret != -ENOSPC || !followed())
		return 0;
	int about = about_files(regs->orig_ax);
	if (about == NOT_FILES)
		return 0;
	struct happenings_slot *slot = begin(ctx, NO_SPACE);
	if (!slot)
		return 0;
	if (about == WRITES)
		slot->data.fd = (s32)regs->di;
	send(&slot->data);
	give(slot);
	return 0;
}

// How many reads a second a stack must make to count as hot; the loader sets it.
const volatile u32 hot = 1000;

// The reads of a process in this second: a stack costs more than a read, and is looked at only where there are
// enough reads for one to be hot.
struct reads {
	u64 second;
	u32 n;
	u32 many; // in the second before
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, u32); // pid
	__type(value, struct reads);
} reading SEC(".maps");

struct loop {
	u64 second; // the last one with a read
	u64 since;  // the first of those in a row in which it was hot
	u64 n;      // in this second
};

struct loop_key {
	u64 hash;
	u64 pid;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct loop_key);
	__type(value, struct loop);
} loops SEC(".maps");

static __always_inline int is_read(long nr)
{
	switch (nr) { // asm/unistd_64.h
	case 0: case 17: case 19: case 45: case 47: case 217: case 295: case 299: case 327: // read, pread64, readv, recvfrom, recvmsg, getdents64, preadv, recvmmsg, preadv2
		return 1;
	}
	return 0;
}

#define SECOND 1000000000ull
#define EACH 16 // above as many times the threshold only every 16th read is looked at, and counts for 16

// weigh says how many reads this one stands for: 0 where it need not be looked at.
static __always_inline u32 weigh(u64 second)
{
	u32 pid = bpf_get_current_pid_tgid() >> 32;
	struct reads *r = bpf_map_lookup_elem(&reading, &pid);
	if (!r) {
		struct reads first = {.second = second, .n = 1};
		bpf_map_update_elem(&reading, &pid, &first, BPF_ANY);
		return 0;
	}
	if (r->second != second) {
		r->many = r->second + 1 == second && r->n >= hot;
		r->second = second;
		r->n = 0;
	}
	u32 n = __sync_fetch_and_add(&r->n, 1) + 1;
	if (!r->many && n < hot)
		return 0;
	if (n <= EACH * hot)
		return 1;
	return n % EACH == 0 ? EACH : 0;
}

static __always_inline u64 hash_of(struct happening *h)
{
	u64 sum = 14695981039346656037ull ^ h->pid; // FNV-1a, by words
	for (u32 i = 0; i < MAX_DEPTH - 1; i++) {
		if (8 * i >= h->stack_bytes)
			break;
		sum = (sum ^ *(u64 *)&h->stack[8 * i]) * 1099511628211ull;
	}
	return sum;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(on_call, struct pt_regs *regs, long nr)
{
	if (!is_read(nr) || !followed())
		return 0;
	u64 second = bpf_ktime_get_ns() / SECOND;
	u32 weight = weigh(second);
	if (!weight)
		return 0;
	struct happenings_slot *slot = begin(ctx, READ_LOOP);
	if (!slot)
		return 0;
	struct happening *h = &slot->data;
	h->hash = hash_of(h);
	h->fd = (s32)regs->di;
	struct loop_key key = {.hash = h->hash, .pid = h->pid};
	struct loop *l = bpf_map_lookup_elem(&loops, &key);
	if (!l) {
		struct loop first = {.second = second, .since = second, .n = weight};
		bpf_map_update_elem(&loops, &key, &first, BPF_ANY);
	} else if (l->second == second) {
		__sync_fetch_and_add(&l->n, weight);
	} else {
		if (l->second + 1 == second && l->n >= hot) {
			h->count = l->n;
			h->persist = second - l->since;
			send(h);
		} else {
			l->since = second;
		}
		l->second = second;
		l->n = weight;
	}
	give(slot);
	return 0;
}
