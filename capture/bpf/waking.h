/* Who woke a thread: noted in its absence, which the switch-in then writes. */
#ifndef COLDTRACE_WAKING_H
#define COLDTRACE_WAKING_H

#include "flavour.h"

INLINE void wake(u32 tid, u8 in_interrupt)
{
	struct absence *absence = LOOKUP(absences, &tid);
	u64 id = bpf_get_current_pid_tgid();

	if (!absence || !absence->is_away || absence->wake_ns)
		return;
	absence->wake_ns = bpf_ktime_get_ns();
	absence->record.waker_pid = id >> 32;
	absence->record.waker_tid = (u32)id;
	absence->record.flags2 |= O2_HAS_WAKER | (in_interrupt ? O2_WAKER_IN_INTERRUPT : 0);
}

#ifdef IN_INTERRUPT

/* Hard interrupt, NMI, serving a soft interrupt. */
#define INTERRUPT_BITS 0x00ff0100

SEC("tp_btf/sched_waking")
int on_waking_in_context(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];

	if (settings() && is_target(task->tgid))
		wake(task->pid, !!(IN_INTERRUPT & INTERRUPT_BITS));
	return 0;
}

#endif

#endif
