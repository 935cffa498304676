/* Library calls: one entry and one return program for every probe.
 *
 * A row of probe_rows says where a call keeps its arguments and what it means. Nesting
 * is kept per thread: a call inside a recorded call has depth > 0 and takes no number.
 */
#include "flavour.h"
#include "communicators.h"

#if defined(__TARGET_ARCH_x86)
#define RETURN_POPPED 8 /* the return instruction popped the return address */
#define RETURN_ADDRESS(ctx) read_user((ctx)->sp, 8)
#define STACK(ctx) ((ctx)->sp)
#define RESULT(ctx) ((s32)(ctx)->ax)
#else
#define RETURN_POPPED 0
#define USER(ctx) ((struct user_pt_regs *)(ctx))
#define RETURN_ADDRESS(ctx) (USER(ctx)->regs[30])
#define STACK(ctx) (USER(ctx)->sp)
#define RESULT(ctx) ((s32)USER(ctx)->regs[0])
#endif

#define IN_PROGRESS 7 /* ncclInProgress: a non-blocking call that has not failed */

/* The registers of an entry, copied before anything is decided: the compiler merges
 * reads of the context in different branches into one with a computed offset, which the
 * verifier refuses for a context and allows for the stack. */
struct registers {
	u64 argument[8];
	u64 stack;
	u64 caller;
};

INLINE void read_registers(struct pt_regs *ctx, struct registers *to)
{
#if defined(__TARGET_ARCH_x86)
	to->argument[0] = ctx->di;
	to->argument[1] = ctx->si;
	to->argument[2] = ctx->dx;
	to->argument[3] = ctx->cx;
	to->argument[4] = ctx->r8;
	to->argument[5] = ctx->r9;
	to->argument[6] = to->argument[7] = 0; /* on the stack */
#else
	int i;

#pragma unroll
	for (i = 0; i < 8; i++)
		to->argument[i] = USER(ctx)->regs[i];
#endif
	to->stack = STACK(ctx);
	to->caller = RETURN_ADDRESS(ctx);
}

INLINE u64 register_of(struct registers *from, u8 place)
{
	switch (place) {
	case 1: return from->argument[0];
	case 2: return from->argument[1];
	case 3: return from->argument[2];
	case 4: return from->argument[3];
	case 5: return from->argument[4];
	case 6: return from->argument[5];
	case 7: return from->argument[6];
	case 8: return from->argument[7];
	}
	return 0;
}

INLINE u64 argument(struct registers *from, struct argument *where)
{
	u64 value;

	if (where->place & 128)
		value = read_user(from->stack + 8 * (where->place & 127), 8);
	else
		value = register_of(from, where->place);
	if (where->follow == 1)
		value = read_user(value + where->offset, where->width);
	return where->width == 4 ? (u64)(s64)(s32)value : value;
}

#define HAS(row, slot) ((row)->arguments[slot].place)
#define GET(from, row, slot) argument(from, &(row)->arguments[slot])

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

/* Fills what a communicator-making call will make. */
INLINE void enter_making(struct registers *from, struct probe_row *row, struct call *call,
			 struct communicator *parent)
{
	struct made *made = &call->made;

	made->how = row->how;
	made->vendor = row->vendor;
	made->width = row->arguments[ARG_MADE].width;
	if (HAS(row, ARG_MADE))
		made->address = register_of(from, row->arguments[ARG_MADE].place);
	if (HAS(row, ARG_RANK)) {
		made->rank = GET(from, row, ARG_RANK);
		made->flags |= F_HAS_RANK;
	}
	if (HAS(row, ARG_RANKS)) {
		made->size = GET(from, row, ARG_RANKS);
		made->flags |= F_HAS_SIZE;
	}
	made->flags |= F_BASE_KNOWN;
	if (parent) {
		made->parent_ref = parent->ref;
		made->child_index = __sync_fetch_and_add(&parent->children, 1);
		made->flags |= F_HAS_PARENT;
		if (row->how != HOW_SPLIT_TYPE) /* its groups have no number of their own */
			made->flags |= F_HAS_COLOR;
		if (HAS(row, ARG_COLOR))
			made->color = GET(from, row, ARG_COLOR);
		if (HAS(row, ARG_COLOR) && made->color < 0)
			made->address = 0; /* "no colour": this rank gets none */
		if (HAS(row, ARG_KEY)) {
			made->key = GET(from, row, ARG_KEY);
			made->flags |= F_HAS_KEY;
		}
	} else if (HAS(row, ARG_ID)) {
		if (row->flags & ROW_ID_IN_PLACE)
			mix_id(made, from->stack + 8 * (row->arguments[ARG_ID].place & 127));
		else
			mix_id(made, GET(from, row, ARG_ID));
	}
}

INLINE void enter_group(struct probe_row *row, struct call *call, struct thread_state *thread)
{
	if (row->meaning == IS_GROUP_START) {
		if (!thread->group_depth)
			thread->group_seq++;
		thread->group_depth++;
	} else if (row->meaning == IS_GROUP_END) {
		if (thread->group_depth > 1) {
			call->is_silent = 1;
			thread->group_depth--;
		} else {
			thread->group_depth = 0;
			call->collective.group_depth = 0;
		}
	}
}

INLINE void enter_collective(struct registers *from, struct probe_row *row, struct call *call,
			     struct thread_state *thread, u32 pid, u32 probe_id)
{
	struct collective_record *record = &call->collective;
	struct process_state *process = LOOKUP(processes, &pid);
	struct communicator *communicator = 0;
	u64 handle = 0, now = record->start_ns;
	int is_outermost = !record->depth;
	u8 meaning = row->meaning;

	record->return_address = from->caller;
	record->group_depth = thread->group_depth;
	record->group_seq = thread->group_depth ? thread->group_seq : 0;
	if (process && process->captures > 0)
		record->flags |= C_IS_CAPTURED;
	if (meaning == IS_WORLD_INIT && is_outermost) {
		process = process_of(pid);
		if (process)
			process->is_mpi_known = 1;
	}
	if (meaning == IS_LOOK && process && process->pending_count)
		read_pending(process, pid, now, probe_id);
	enter_group(row, call, thread);
	if (HAS(row, ARG_SIZE)) {
		record->element_count = GET(from, row, ARG_SIZE);
		record->flags2 |= C2_HAS_COUNT;
	}
	if (HAS(row, ARG_STREAM)) {
		record->stream_handle = GET(from, row, ARG_STREAM);
		record->flags |= C_HAS_STREAM;
	}
	if (HAS(row, ARG_KIND)) {
		record->data_type = GET(from, row, ARG_KIND);
		record->flags |= C_HAS_DATA_TYPE;
	}
	if (HAS(row, ARG_PEER)) {
		record->peer_rank = GET(from, row, ARG_PEER);
		if (record->peer_rank >= 0) /* below: any source, no process, root of another */
			record->flags |= C_HAS_PEER;
	}
	if (HAS(row, ARG_COMMUNICATOR))
		handle = GET(from, row, ARG_COMMUNICATOR);
	if (handle && meaning != IS_LOOK)
		communicator = find_communicator(pid, handle, row->vendor, now, probe_id);
	if (communicator) {
		record->communicator_ref = communicator->ref;
		record->flags2 |= C2_HAS_COMMUNICATOR;
		if (communicator->is_base_known)
			record->flags |= C_IS_BASE_KNOWN;
	}
	if (!is_outermost)
		return;
	if (meaning == IS_INIT || meaning == IS_INIT_ALL || meaning == IS_CHILD)
		enter_making(from, row, call, communicator);
	if (!communicator)
		return;
	if (row->flags & ROW_NUMBERED) {
		record->collective_seq = __sync_fetch_and_add(&communicator->calls, 1);
		record->flags |= C_HAS_SEQ;
	} else if ((meaning == IS_PAIR_SEND || meaning == IS_PAIR_RECV) &&
		   record->flags & C_HAS_PEER) {
		record->collective_seq = number_pair(record->communicator_ref,
						     record->peer_rank,
						     meaning == IS_PAIR_RECV, now, probe_id);
		if (record->collective_seq >= 0)
			record->flags |= C_HAS_SEQ;
	} else if (meaning == IS_END) {
		end_communicator(pid, handle, communicator->ref);
	}
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

INLINE void leave_init_all(struct call *call, u32 pid, u64 now, u32 probe_id)
{
	struct made *made = &call->made;
	u64 handle, first = read_user(made->address, 8);
	s32 ref;
	int i;

	/* Known in this process only: an origin that no other process can have. */
	made->mix1 = mix(mix(mix(MIX_SEED_1, call->collective.start_ns), pid), first);
	made->mix2 = mix(mix(mix(MIX_SEED_2, call->collective.start_ns), pid), first);
	made->flags |= F_HAS_ORIGIN | F_HAS_RANK;
	for (i = 0; i < 16; i++) {
		if (i >= made->size)
			break;
		handle = read_user(made->address + 8 * i, 8);
		made->rank = i;
		ref = handle ? make_communicator(pid, handle, made, now, probe_id) : 0;
		if (ref && !i) {
			call->collective.child_ref = ref;
			call->collective.flags2 |= C2_HAS_CHILD;
		}
	}
}

/* Reads the handle of the communicator that was made, if it is there yet. */
INLINE void leave_making(struct call *call, u32 pid, u64 now, u32 probe_id)
{
	struct collective_record *record = &call->collective;
	u64 handle;

	if (record->return_code && record->return_code != IN_PROGRESS)
		return;
	if (call->meaning == IS_INIT_ALL) {
		leave_init_all(call, pid, now, probe_id);
		return;
	}
	handle = read_user(call->made.address, call->made.width);
	if (!handle) {
		keep_pending(pid, &call->made, now, probe_id);
		return;
	}
	if (call->made.vendor == 1 && handle == MPICH_COMM_NULL)
		return;
	record->child_ref = make_communicator(pid, handle, &call->made, now, probe_id);
	if (record->child_ref)
		record->flags2 |= C2_HAS_CHILD;
}

INLINE void leave_collective(struct call *call, u32 pid, u32 probe_id, s32 result, u64 now)
{
	struct collective_record *record = &call->collective;
	struct process_state *process;
	struct communicator *world;
	u64 *handle;

	record->duration_ns = now - record->start_ns;
	record->return_code = result;
	record->flags |= C_HAS_DURATION;
	record->flags2 |= C2_HAS_RETURN_CODE;
	if (call->made.address)
		leave_making(call, pid, now, probe_id);
	if (call->meaning == IS_GROUP_END) {
		process = LOOKUP(processes, &pid);
		if (process && process->pending_count)
			read_pending(process, pid, now, probe_id);
	}
	if (call->meaning == IS_WORLD_INIT && !result) {
		handle = LOOKUP(worlds, &pid);
		world = handle ? find_communicator(pid, *handle, 1, now, probe_id) : 0;
		if (world) {
			record->child_ref = world->ref;
			record->flags2 |= C2_HAS_CHILD;
		}
	}
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
		if (!thread || !is_repeat(control, row, thread))
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
