// Follows the children of the processes that are followed, and tells of their beginnings and ends.
#include "common.h"

enum { FORKED = 1, EXECUTED, ENDED };

struct life {
	u64 ts; // CLOCK_MONOTONIC, nanoseconds
	u32 what;
	u32 pid, parent;
	u32 pad;
};

const struct life *unused_life __attribute__((unused));

static __always_inline void tell(u32 what, u32 pid, u32 parent)
{
	struct life l = {.ts = bpf_ktime_get_ns(), .what = what, .pid = pid, .parent = parent};
	count(TAKEN);
	output(&l, sizeof(l), LOST);
}

// A child shares its parent's program until it executes another. It is followed without goroutines until then:
// in most cases that is at once.
SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	u32 from = parent->tgid, pid = child->tgid;
	if (from == pid || !bpf_map_lookup_elem(&targets, &from))
		return 0;
	struct target unknown = {};
	if (bpf_map_update_elem(&targets, &pid, &unknown, BPF_ANY))
		count(LOST);
	tell(FORKED, pid, from);
	return 0;
}

// Another program may be of another Go release, or of none.
SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task)
{
	u32 pid = task->tgid;
	if (!bpf_map_lookup_elem(&targets, &pid))
		return 0;
	struct target unknown = {};
	bpf_map_update_elem(&targets, &pid, &unknown, BPF_EXIST);
	tell(EXECUTED, pid, 0);
	return 0;
}

// The number of a process that is gone may be given to another.
SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
	u32 pid = task->tgid;
	if (task->signal->live.counter != 0 || !bpf_map_lookup_elem(&targets, &pid))
		return 0;
	bpf_map_delete_elem(&targets, &pid);
	tell(ENDED, pid, 0);
	return 0;
}
