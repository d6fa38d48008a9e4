// Samples the threads of chosen processes: a stack, and the goroutine that ran.
#include "types.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

char LICENSE[] SEC("license") = "GPL";

#define MAX_DEPTH 127 // kernel.perf_event_max_stack's default
#define STACK_BYTES (MAX_DEPTH * 8)
#define MASK 1023 // the next power of two above STACK_BYTES, less one: bounds that the verifier can follow

// Where the Go runtime of a process keeps what names a goroutine; all 0 when its version is not known.
struct layout {
	u32 g_m;    // runtime.g.m
	u32 g_id;   // runtime.g.goid
	u32 m_curg; // runtime.m.curg
	u32 known;
};

// Stacks follow the fixed part: user_bytes of addresses of the program, then kernel_bytes of the kernel's.
struct sample {
	u64 ts; // CLOCK_MONOTONIC, nanoseconds
	u32 pid, tid, cpu;
	u32 user_bytes, kernel_bytes;
	u32 pad;
	u64 goid;   // 0: none, or not known
	u64 top[2]; // the two words at the stack pointer
	u8 stacks[2 * (MASK + 1)];
};

const struct sample *unused_sample __attribute__((unused));
const struct layout *unused_layout __attribute__((unused));

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u32); // pid (the kernel's tgid)
	__type(value, struct layout);
} targets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096); // the loader sets it
} ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct sample);
} scratch SEC(".maps");

enum { TAKEN, LOST, COUNTERS };

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, COUNTERS);
	__type(key, u32);
	__type(value, u64);
} counters SEC(".maps");

static __always_inline void count(u32 key)
{
	u64 *n = bpf_map_lookup_elem(&counters, &key);
	if (n)
		*n += 1;
}

static __always_inline u64 word(u64 addr)
{
	u64 w = 0;
	bpf_probe_read_user(&w, sizeof(w), (void *)addr);
	return w;
}

// goid follows the thread's own storage, whose last word is its g (cmd/link: runtime.tlsg at -8 of FS on
// linux/amd64), to the goroutine; from the scheduler's own stack (g0, goroutine 0) to the one it serves.
static __always_inline u64 goid(struct task_struct *task, struct layout *l)
{
	if (!l->known)
		return 0;
	u64 g = word(BPF_CORE_READ(task, thread.fsbase) - 8);
	if (!g)
		return 0;
	u64 id = word(g + l->g_id);
	if (id)
		return id;
	u64 m = word(g + l->g_m);
	u64 curg = m ? word(m + l->m_curg) : 0;
	return curg ? word(curg + l->g_id) : 0;
}

SEC("perf_event")
int sample_cpu(struct bpf_perf_event_data *ctx)
{
	u64 id = bpf_get_current_pid_tgid();
	u32 pid = id >> 32, zero = 0;
	struct layout *l = bpf_map_lookup_elem(&targets, &pid);
	if (!l)
		return 0;
	struct sample *s = bpf_map_lookup_elem(&scratch, &zero);
	if (!s)
		return 0;
	count(TAKEN);

	struct task_struct *task = (void *)bpf_get_current_task_btf();
	struct pt_regs *regs = (void *)bpf_task_pt_regs(task);
	s->ts = bpf_ktime_get_ns();
	s->pid = pid;
	s->tid = (u32)id;
	s->cpu = bpf_get_smp_processor_id();
	s->goid = goid(task, l);
	s->top[0] = s->top[1] = 0;
	bpf_probe_read_user(&s->top, sizeof(s->top), (void *)BPF_CORE_READ(regs, sp));

	long n = bpf_get_stack(ctx, s->stacks, STACK_BYTES, BPF_F_USER_STACK);
	u64 user = n > 0 ? (u64)n & MASK : 0;
	n = bpf_get_stack(ctx, s->stacks + user, STACK_BYTES, 0);
	u64 kernel = n > 0 ? (u64)n & MASK : 0;
	s->user_bytes = user;
	s->kernel_bytes = kernel;

	// The reader looks at fixed times: waking it for each sample costs several times the sample itself.
	u64 len = __builtin_offsetof(struct sample, stacks) + user + kernel;
	if (bpf_ringbuf_output(&ring, s, len, BPF_RB_NO_WAKEUP))
		count(LOST);
	return 0;
}
