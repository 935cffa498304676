/* Library calls: one entry and one return program for every probe.
 *
 * A row of probe_rows says where a call keeps its arguments and what it means. Nesting
 * is kept per thread: a call inside a recorded call has depth > 0 and takes no number.
 */
#include "arguments.h"
#include "collectives.h"
#include "communicators.h"
#include "flavour.h"

/* A library's first hit makes its process a target, if nobody named targets. */
INLINE int is_wanted(struct control *control, u32 pid)
{
	struct fact *fact;
	u32 reason = 2;

	if (is_target(pid))
		return 1;
	if (!control->adopt || pid == control->own_pid)
		return 0;
	if (UPDATE(targets, &pid, &reason, ANY)) {
		count_lost(COUNT_FACTS, bpf_ktime_get_ns(), 1);
		return 0;
	}
	fact = begin_fact(FACT_TARGET, pid);
	if (fact) {
		fact->tid = (u32)bpf_get_current_pid_tgid();
		SUBMIT(fact);
	}
	return 1;
}

/* What a runtime call does in the driver is the same event twice. Entry and return
 * ask this in the same state of the thread, so neither needs to leave a note. */
INLINE int is_repeat(struct control *control, struct probe_row *row,
		     struct thread_state *thread)
{
	return row->stream == 2 && row->layer == 0 && row->flags & ROW_HAS_RETURN &&
	       thread->in_runtime && !control->nested_driver_calls;
}

INLINE void emit(struct call *call, u32 probe_id, u64 now)
{
	if (call->stream == 1) {
		struct collective_record *to =
			RESERVE(ring_collective, sizeof(struct collective_record));

		if (!to) {
			count_lost(probe_id, now, 0);
			return;
		}
		__builtin_memcpy(to, &call->collective, sizeof(*to));
		SUBMIT(to);
	} else {
		struct gpu_call_record *to =
			RESERVE(ring_gpu_call, sizeof(struct gpu_call_record));

		if (!to) {
			count_lost(probe_id, now, 0);
			return;
		}
		__builtin_memcpy(to, &call->gpu, sizeof(*to));
		SUBMIT(to);
	}
}

INLINE void enter_gpu(struct registers *from, struct probe_row *row, struct call *call,
		      u32 pid)
{
	struct gpu_call_record *record = &call->gpu;
	struct process_state *process = LOOKUP(processes, &pid);

	record->return_address = from->caller;
	record->layer = row->layer;
	if (HAS(row, ARG_SIZE)) {
		record->size_bytes = GET(from, row, ARG_SIZE);
		if (HAS(row, ARG_SIZE_BY))
			record->size_bytes *= GET(from, row, ARG_SIZE_BY);
		record->size_bytes <<= row->size_shift & 7;
		record->flags |= G_HAS_SIZE;
	}
	if (HAS(row, ARG_STREAM)) {
		record->stream_handle = GET(from, row, ARG_STREAM);
		if (row->arguments[ARG_STREAM].follow == 2)
			call->follow = record->stream_handle;
		else
			record->flags |= G_HAS_STREAM;
	}
	if (HAS(row, ARG_OBJECT)) {
		record->object_handle = GET(from, row, ARG_OBJECT);
		if (row->arguments[ARG_OBJECT].follow == 2)
			call->follow = record->object_handle;
		else
			record->flags |= G_HAS_OBJECT;
	}
	if (HAS(row, ARG_KIND)) {
		record->copy_kind = GET(from, row, ARG_KIND);
		record->flags |= G_HAS_COPY_KIND;
	} else if (row->flags & ROW_HAS_COPY_KIND) {
		record->copy_kind = row->copy_kind;
		record->flags |= G_HAS_COPY_KIND;
	}
	if (!process)
		return;
	if (process->captures > 0)
		record->flags |= G_IS_CAPTURED;
	if (row->meaning == IS_CAPTURE_END && !record->depth && process->captures > 0)
		__sync_fetch_and_add(&process->captures, -1);
}

INLINE struct thread_state *thread_of(u32 tid, u64 stack)
{
	struct thread_state blank = {}, *thread = LOOKUP(threads, &tid);
	struct call_key left = {};

	if (!thread) {
		UPDATE(threads, &tid, &blank, NEW);
		return LOOKUP(threads, &tid);
	}
	/* A jump out of a call (longjmp) leaves it open; a later call that starts above
	 * its frame proves that it is over. */
	if (thread->depth && stack > thread->outer_stack) {
		left.stack = thread->outer_stack;
		left.tid = tid;
		left.probe_id = thread->outer_probe;
		DELETE(calls, &left);
		thread->depth = 0;
		thread->in_runtime = 0;
	}
	return thread;
}

ENTRY_PROGRAM(on_enter)
{
	struct control *control = settings();
	u64 id = bpf_get_current_pid_tgid(), now = bpf_ktime_get_ns(), stack = STACK(ctx);
	u32 pid = id >> 32, tid = id, probe_id;
	struct registers from;
	struct thread_state *thread;
	struct probe_count *count;
	struct probe_row *row;
	struct call_key key = {};
	struct call call = {};

	if (!control || !is_wanted(control, pid))
		return 0;
	probe_id = PROBE_ID(ctx);
	row = LOOKUP(probe_rows, &probe_id);
	count = LOOKUP(probe_counts, &probe_id);
	if (!row || !count || row->flags & ROW_IS_MUTE)
		return 0;
	__sync_fetch_and_add(&count->hits, 1);
	thread = thread_of(tid, stack);
	if (!thread) {
		count_lost(probe_id, now, 1);
		return 0;
	}
	if (is_repeat(control, row, thread))
		return 0;
	read_registers(ctx, &from);
	call.stream = row->stream;
	call.meaning = row->meaning;
	call.was_in_runtime = thread->in_runtime;
	if (row->stream == 1) {
		call.collective.start_ns = now;
		call.collective.pid = pid;
		call.collective.tid = tid;
		call.collective.operation = row->operation;
		call.collective.probe_id = probe_id;
		call.collective.depth = thread->depth;
		enter_collective(&from, row, &call, thread, pid, probe_id);
	} else {
		call.gpu.start_ns = now;
		call.gpu.pid = pid;
		call.gpu.tid = tid;
		call.gpu.operation = row->operation;
		call.gpu.probe_id = probe_id;
		call.gpu.depth = thread->depth;
		enter_gpu(&from, row, &call, pid);
	}
	if (!(row->flags & ROW_HAS_RETURN)) {
		/* Without its return, a query does not say whether it succeeded. */
		if (row->meaning == IS_LOOK || row->meaning == IS_GROUP_START ||
		    call.is_silent || row->flags & ROW_DROP_FAILED)
			return 0;
		if (call.made.address && row->meaning != IS_INIT_ALL)
			keep_pending(pid, &call.made, now, probe_id);
		emit(&call, probe_id, now);
		return 0;
	}
	key.stack = stack;
	key.tid = tid;
	key.probe_id = probe_id;
	if (UPDATE(calls, &key, &call, ANY)) {
		count_lost(probe_id, now, 1);
		return 0;
	}
	if (!thread->depth) {
		thread->outer_stack = stack;
		thread->outer_probe = probe_id;
	}
	if (thread->depth < 127)
		thread->depth++;
	if (row->stream == 2 && row->layer == 1)
		thread->in_runtime = 1;
	return 0;
}

INLINE void leave_gpu(struct call *call, struct probe_row *row, u32 pid, s32 result, u64 now)
{
	struct gpu_call_record *record = &call->gpu;
	struct process_state *process;

	record->duration_ns = now - record->start_ns;
	record->return_code = result;
	record->flags |= G_HAS_DURATION | G_HAS_RETURN_CODE;
	if (call->follow && !result) {
		if (row->arguments[ARG_STREAM].follow == 2) {
			record->stream_handle = read_user(call->follow, 8);
			record->flags |= G_HAS_STREAM;
		} else {
			record->object_handle = read_user(call->follow, 8);
			record->flags |= G_HAS_OBJECT;
		}
	} else if (call->follow) { /* the address of a variable is no handle */
		if (row->arguments[ARG_STREAM].follow == 2)
			record->stream_handle = 0;
		else
			record->object_handle = 0;
	}
	if (call->meaning == IS_CAPTURE_BEGIN && !record->depth && !result) {
		process = process_of(pid);
		if (process)
			__sync_fetch_and_add(&process->captures, 1);
	}
}

RETURN_PROGRAM(on_leave)
{
	struct control *control = settings();
	u64 id = bpf_get_current_pid_tgid(), now = bpf_ktime_get_ns();
	u32 pid = id >> 32, tid = id, probe_id;
	struct thread_state *thread;
	struct probe_count *count;
	struct probe_row *row;
	struct call_key key = {};
	struct call *call;
	s32 result = RESULT(ctx);

	if (!control || !is_target(pid))
		return 0;
	probe_id = PROBE_ID(ctx);
	row = LOOKUP(probe_rows, &probe_id);
	count = LOOKUP(probe_counts, &probe_id);
	if (!row || !count)
		return 0;
	thread = LOOKUP(threads, &tid);
	key.stack = STACK(ctx) - RETURN_POPPED;
	key.tid = tid;
	key.probe_id = probe_id;
	call = LOOKUP(calls, &key);
	if (!call) {
		if (!(row->flags & ROW_IS_MUTE) &&
		    (!thread || !is_repeat(control, row, thread)))
			__sync_fetch_and_add(&count->unmatched, 1);
		return 0;
	}
	if (thread) {
		thread->depth = call->stream == 1 ? call->collective.depth : call->gpu.depth;
		thread->in_runtime = call->was_in_runtime;
	}
	if (!call->is_silent && !(row->flags & ROW_DROP_FAILED && result)) {
		if (call->stream == 1)
			leave_collective(call, pid, probe_id, result, now);
		else
			leave_gpu(call, row, pid, result, now);
		emit(call, probe_id, now);
	}
	DELETE(calls, &key);
	return 0;
}
