/* Processes and threads of targets: births, new programs, deaths. */
#include "flavour.h"

#define CLONE_THREAD 0x10000

INLINE void tell_task(u32 kind, u32 pid, u32 tid, u32 parent)
{
	struct fact *fact = begin_fact(kind, pid);

	if (!fact)
		return;
	fact->tid = tid;
	fact->parent = parent;
	SUBMIT(fact);
}

INLINE void born(u32 child, u64 clone_flags)
{
	struct control *control = settings();
	u32 parent = bpf_get_current_pid_tgid() >> 32, reason = 3;

	if (!control || !is_target(parent))
		return;
	if (clone_flags & CLONE_THREAD) {
		tell_task(FACT_THREAD, parent, child, 0);
		return;
	}
	if (!control->follow_fork)
		return;
	if (UPDATE(targets, &child, &reason, ANY))
		count_lost(COUNT_FACTS, bpf_ktime_get_ns(), 1);
	else
		tell_task(FACT_FORK, child, child, parent);
}

INLINE void executed(void)
{
	struct control *control = settings();
	u64 id = bpf_get_current_pid_tgid();
	u32 pid = id >> 32, tid = id;

	if (!control)
		return;
	if (is_target(pid)) {
		/* The stack that open calls stood on is gone. */
		DELETE(threads, &tid);
		DELETE(processes, &pid);
		DELETE(worlds, &pid);
	} else if (!control->adopt) {
		return;
	}
	tell_task(FACT_EXEC, pid, tid, 0);
}

INLINE void ended(int is_last)
{
	u64 id = bpf_get_current_pid_tgid();
	u32 pid = id >> 32, tid = id;

	if (!settings() || !is_target(pid))
		return;
	DELETE(threads, &tid);
	if (!is_last)
		return;
	DELETE(processes, &pid);
	DELETE(worlds, &pid);
	DELETE(targets, &pid);
	tell_task(FACT_EXIT, pid, tid, 0);
}

#ifdef CORE

SEC("tp_btf/task_newtask")
int on_newtask(u64 *ctx)
{
	born(((struct task_struct *)ctx[0])->pid, ctx[1]);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int on_exec(u64 *ctx)
{
	executed();
	return 0;
}

SEC("tp_btf/sched_process_exit")
int on_exit(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];

	ended(task->signal->live.counter == 0);
	return 0;
}

#else

TRACEPOINT_PROBE(task, task_newtask)
{
	born(args->pid, args->clone_flags);
	return 0;
}

TRACEPOINT_PROBE(sched, sched_process_exec)
{
	executed();
	return 0;
}

TRACEPOINT_PROBE(sched, sched_process_exit)
{
	u64 id = bpf_get_current_pid_tgid();

	/* Without the kernel's types: a process ends with its first thread. */
	ended((u32)id == id >> 32);
	return 0;
}

#endif
