/* Absences from the CPU: one record when a thread gets the CPU back.
 *
 * Absences below the threshold are only added up, into the thread's next record: eight
 * ranks that spin and yield switch 280,000 times a second, and nearly all of these are
 * too short to matter one by one, but not in sum.
 */
#include "waking.h"

#if defined(__TARGET_ARCH_x86)
#define SCHED_YIELD 24
#else
#define SCHED_YIELD 124
#endif

INLINE s8 state_of(u64 state)
{
	if (state & 0xb0) /* TASK_DEAD, EXIT_ZOMBIE, EXIT_DEAD */
		return OFF_DEAD;
	if (state & 0x800c) /* frozen, traced, stopped */
		return OFF_STOPPED;
	if ((state & 0x402) == 0x402) /* TASK_IDLE: waits without being load */
		return OFF_SLEEP;
	if (state & 0x1002) /* uninterruptible, or a sleeping lock of PREEMPT_RT */
		return OFF_DISK;
	return state & 1 ? OFF_SLEEP : OFF_RUNNING;
}

INLINE int write_out(struct absence *absence, u64 now)
{
	struct off_cpu_record *to = RESERVE(ring_off_cpu, sizeof(struct off_cpu_record));

	if (!to)
		return 0;
	__builtin_memcpy(to, &absence->record, sizeof(*to));
	SUBMIT(to);
	absence->record.skipped_count = 0;
	absence->record.skipped_ns = 0;
	absence->record.skipped_runnable_ns = 0;
	absence->told_ns = now;
	return 1;
}

/* Where the ring is full the totals stay, for the thread's next record. */
INLINE int write_totals(struct absence *absence, u64 now)
{
	absence->record.start_ns = now;
	absence->record.duration_ns = 0;
	absence->record.runq_latency_ns = 0;
	absence->record.off_state = OFF_RUNNING;
	absence->record.flags = O_IS_TOTALS_ONLY;
	absence->record.flags2 = 0;
	return write_out(absence, now);
}

/* What a switch-out says of a thread, read in each loader's own way. */
struct leaving {
	u32 pid;
	u32 tid;
	u32 next_pid;
	u32 next_tid;
	s64 syscall;
	s8 state;
	u8 flags2;
	u8 is_iowait;
};

INLINE void switch_out(struct leaving *leaving, u64 now)
{
	struct absence blank = {}, *absence = LOOKUP(absences, &leaving->tid);
	u32 probe_id = COUNT_OFF_CPU, tid = leaving->tid;
	struct probe_count *count;
	struct off_cpu_record *record;

	/* Its process may be no target any more: the last thread's exit ends that. */
	if (leaving->state == OFF_DEAD) {
		if (absence && absence->record.skipped_count && !write_totals(absence, now))
			count_lost(COUNT_OFF_CPU, now, 0);
		if (absence)
			DELETE(absences, &tid);
		return;
	}
	if (!is_target(leaving->pid))
		return;
	count = LOOKUP(probe_counts, &probe_id);
	if (count)
		__sync_fetch_and_add(&count->hits, 1);
	if (!absence) {
		blank.told_ns = now;
		if (UPDATE(absences, &tid, &blank, NEW)) {
			count_lost(COUNT_OFF_CPU, now, 1);
			return;
		}
		absence = LOOKUP(absences, &tid);
		if (!absence)
			return;
	}
	/* The kernel did not tell that it came back: once in some 50,000 switches. */
	if (absence->is_away && count)
		__sync_fetch_and_add(&count->unmatched, 1);
	record = &absence->record;
	record->start_ns = now;
	record->duration_ns = 0;
	record->runq_latency_ns = 0;
	record->pid = leaving->pid;
	record->tid = leaving->tid;
	record->next_pid = leaving->next_pid;
	record->next_tid = leaving->next_tid;
	record->prev_pid = record->prev_tid = record->waker_pid = record->waker_tid = 0;
	record->syscall = 0;
	record->cpu = bpf_get_smp_processor_id();
	record->off_state = leaving->state;
	record->flags = leaving->is_iowait ? O_IS_IOWAIT : 0;
	record->flags2 = leaving->flags2;
	if (leaving->syscall >= 0 && leaving->syscall < 4096) {
		record->syscall = leaving->syscall;
		record->flags |= O_HAS_SYSCALL;
	}
	/* Preemption in user mode looks exactly like sched_yield in the state. */
	if (leaving->state == OFF_RUNNING)
		record->flags |= leaving->syscall == SCHED_YIELD ? O_IS_YIELDED
								 : O_IS_PREEMPTED;
	absence->wake_ns = 0;
	absence->is_away = 1;
}

INLINE void switch_in(struct control *control, u32 tid, u32 prev_pid, u32 prev_tid, u64 now)
{
	struct absence *absence = LOOKUP(absences, &tid);
	struct off_cpu_record *record;
	u64 duration;

	if (!absence || !absence->is_away)
		return;
	absence->is_away = 0;
	record = &absence->record;
	duration = now - record->start_ns;
	if (record->off_state == OFF_RUNNING)
		record->runq_latency_ns = duration;
	else if (absence->wake_ns)
		record->runq_latency_ns = now - absence->wake_ns;
	if (record->off_state == OFF_RUNNING || absence->wake_ns)
		record->flags |= O_HAS_RUNQ;
	if (duration < control->off_cpu_min_ns) {
		record->skipped_count++;
		record->skipped_ns += duration;
		record->skipped_runnable_ns += record->runq_latency_ns;
		if (now - absence->told_ns > control->force_totals_ns)
			write_totals(absence, now);
		return;
	}
	record->duration_ns = duration;
	record->prev_pid = prev_pid;
	record->prev_tid = prev_tid;
	record->cpu = bpf_get_smp_processor_id();
	record->flags |= O_HAS_DURATION;
	if (!write_out(absence, now))
		count_lost(COUNT_OFF_CPU, now, 0);
}

#ifdef CORE

#if defined(__TARGET_ARCH_x86)
#define SYSCALL_OF(regs) ((s64)((struct pt_regs *)(regs))->orig_ax)
#else
#define SYSCALL_OF(regs) ((s64)((struct pt_regs *)(regs))->syscallno)
#endif

INLINE void switched(struct task_struct *prev, struct task_struct *next, s8 state)
{
	struct control *control = settings();
	struct leaving leaving = {};
	u64 now = bpf_ktime_get_ns();

	if (!control)
		return;
	leaving.pid = prev->tgid;
	leaving.tid = prev->pid;
	leaving.next_pid = next->tgid;
	leaving.next_tid = next->pid;
	leaving.state = state;
	leaving.syscall = SYSCALL_OF(bpf_task_pt_regs(prev));
	leaving.flags2 = O2_HAS_IOWAIT;
	leaving.is_iowait = BPF_CORE_READ_BITFIELD(prev, in_iowait);
	switch_out(&leaving, now);
	switch_in(control, next->pid, prev->tgid, prev->pid, now);
}

SEC("tp_btf/sched_switch")
int on_switch(u64 *ctx)
{
	switched((void *)ctx[1], (void *)ctx[2],
		 ctx[0] & 1 ? OFF_RUNNING : state_of((u32)ctx[3]));
	return 0;
}

/* Before 5.18 the tracepoint does not tell the state, but the task still has it. */
SEC("tp_btf/sched_switch")
int on_switch_of_task(u64 *ctx)
{
	struct task_struct *prev = (void *)ctx[1];

	switched(prev, (void *)ctx[2],
		 ctx[0] & 1 ? OFF_RUNNING : state_of(prev->__state));
	return 0;
}

/* Used where neither waking_*.bpf.c loads. */
SEC("tp_btf/sched_waking")
int on_waking(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];

	if (settings() && is_target(task->tgid))
		wake(task->pid, 0);
	return 0;
}

#else

/* The tracepoint has thread numbers only. The one that leaves is the current task; the
 * process of the next one cannot be read without the kernel's own types. */
static u64 (*current_task_btf)(void) = (void *)158;
static u64 (*registers_of)(u64 task) = (void *)175;

TRACEPOINT_PROBE(sched, sched_switch)
{
	struct control *control = settings();
	struct leaving leaving = {};
	u64 now = bpf_ktime_get_ns(), id = bpf_get_current_pid_tgid();

	if (!control)
		return 0;
	leaving.pid = id >> 32;
	leaving.tid = args->prev_pid;
	leaving.next_tid = args->next_pid;
	/* 0x100 is how the tracepoint writes a preempted task. */
	leaving.state = state_of(args->prev_state & ~0x100ULL);
#if defined(__TARGET_ARCH_x86)
	leaving.syscall = ((struct pt_regs *)registers_of(current_task_btf()))->orig_ax;
#else
	leaving.syscall = ((struct pt_regs *)registers_of(current_task_btf()))->syscallno;
#endif
	switch_out(&leaving, now);
	switch_in(control, args->next_pid, id >> 32, args->prev_pid, now);
	return 0;
}

TRACEPOINT_PROBE(sched, sched_waking)
{
	if (settings())
		wake(args->pid, 0);
	return 0;
}

#endif
