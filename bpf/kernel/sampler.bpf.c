// Samples the threads of chosen processes: a stack, and the goroutine that ran.
#include "common.h"

#define MAX_DEPTH 127 // kernel.perf_event_max_stack's default
#define STACK_BYTES (MAX_DEPTH * 8)
#define MASK 1023 // the next power of two above STACK_BYTES, less one: bounds that the verifier can follow

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

SCRATCH(samples, struct sample)

SEC("perf_event")
int sample_cpu(struct bpf_perf_event_data *ctx)
{
	u64 id = bpf_get_current_pid_tgid();
	u32 pid = id >> 32;
	struct target *t = bpf_map_lookup_elem(&targets, &pid);
	if (!t)
		return 0;
	count(TAKEN);
	struct samples_slot *slot = take_samples();
	if (!slot) {
		count(LOST);
		return 0;
	}
	struct sample *s = &slot->data;
	struct task_struct *task = (void *)bpf_get_current_task_btf();
	s->ts = bpf_ktime_get_ns();
	s->pid = pid;
	s->tid = (u32)id;
	s->cpu = bpf_get_smp_processor_id();
	s->goid = goroutine(task, t);
	top(s->top, task);

	long n = bpf_get_stack(ctx, s->stacks, STACK_BYTES, BPF_F_USER_STACK);
	u64 user = n > 0 ? (u64)n & MASK : 0;
	n = bpf_get_stack(ctx, s->stacks + user, STACK_BYTES, 0);
	u64 kernel = n > 0 ? (u64)n & MASK : 0;
	s->user_bytes = user;
	s->kernel_bytes = kernel;
	output(s, __builtin_offsetof(struct sample, stacks) + user + kernel, LOST);
	give(slot);
	return 0;
}
