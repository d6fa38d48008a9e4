// What all our programs have in common: which processes they look at, a ring buffer, counters, memory to
// build a record in, and the way to a goroutine's number.
#pragma once
#include "types.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

char LICENSE[] SEC("license") = "GPL";

// Where the Go release that built a process keeps what we read of it. Not known: all 0.
struct target {
	u32 known;
	u32 g_m;       // runtime.g.m
	u32 g_id;      // runtime.g.goid
	u32 m_curg;    // runtime.m.curg
	u32 url_query; // net/url.URL.RawQuery
};

// The processes that are followed. All programs are loaded with the one map of processes.bpf.c.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u32); // pid (the kernel's tgid)
	__type(value, struct target);
} targets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096); // the loader sets it
} ring SEC(".maps");

enum { TAKEN, LOST, LOST_BODIES, COUNTERS };

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, COUNTERS);
	__type(key, u32);
	__type(value, u64);
} counters SEC(".maps");

// count is atomic, for a program may be preempted or interrupted by another on its processor.
static __always_inline void count(u32 key)
{
	u64 *n = bpf_map_lookup_elem(&counters, &key);
	if (n)
		__sync_fetch_and_add(n, 1);
}

// output hands over a record, or counts it as lost under KEY. The reader looks at fixed times: waking it for
// each record costs several times the record itself.
static __always_inline long output(void *record, u64 bytes, u32 key)
{
	long err = bpf_ringbuf_output(&ring, record, bytes, BPF_RB_NO_WAKEUP);
	if (err)
		count(key);
	return err;
}

// SCRATCH declares memory to build a T in, which is too large for a program's stack: take_NAME() gives a piece
// of it, or 0, and give() returns it. A processor has several, since a program that builds one may be preempted
// by a task that comes by a probe as well, or interrupted.
#define SLOTS 4
#define SCRATCH(NAME, T)                                                               \
	struct NAME##_slot {                                                           \
		T data; /* first: &slot->data and slot are one address */              \
		u32 busy;                                                              \
	};                                                                             \
	struct {                                                                       \
		__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);                               \
		__uint(max_entries, SLOTS);                                            \
		__type(key, u32);                                                      \
		__type(value, struct NAME##_slot);                                     \
	} NAME SEC(".maps");                                                           \
	static __always_inline struct NAME##_slot *take_##NAME(void)                   \
	{                                                                              \
		for (u32 i = 0; i < SLOTS; i++) {                                      \
			u32 key = i;                                                   \
			struct NAME##_slot *s = bpf_map_lookup_elem(&NAME, &key);      \
			if (s && __sync_val_compare_and_swap(&s->busy, 0, 1) == 0)     \
				return s;                                              \
		}                                                                      \
		return 0;                                                              \
	}
#define give(SLOT)                                 \
	do {                                       \
		asm volatile("" ::: "memory");     \
		*(volatile u32 *)&(SLOT)->busy = 0; \
	} while (0)

// bound keeps the compiler from dropping a mask that it knows to change nothing, since the verifier does not.
#define bound(n) asm volatile("" : "+r"(n))

static __always_inline u64 word(u64 addr)
{
	u64 w = 0;
	bpf_probe_read_user(&w, sizeof(w), (void *)addr);
	return w;
}

// goroutine follows the thread's own storage, whose last word is its g (cmd/link: runtime.tlsg at -8 of FS on
// linux/amd64), to the goroutine's number; from the scheduler's own stack (g0, goroutine 0) to the one it serves.
static __always_inline u64 goroutine(struct task_struct *task, struct target *t)
{
	if (!t->known)
		return 0;
	u64 g = word(BPF_CORE_READ(task, thread.fsbase) - 8);
	if (!g)
		return 0;
	u64 id = word(g + t->g_id);
	if (id)
		return id;
	u64 m = word(g + t->g_m);
	u64 curg = m ? word(m + t->m_curg) : 0;
	return curg ? word(curg + t->g_id) : 0;
}

// top reads the two words at the program's stack pointer.
static __always_inline void top(u64 *words, struct task_struct *task)
{
	struct pt_regs *regs = (void *)bpf_task_pt_regs(task);
	words[0] = words[1] = 0;
	bpf_probe_read_user(words, 2 * sizeof(*words), (void *)BPF_CORE_READ(regs, sp));
}
