/* What a collective call means at its entry and at its return: communicator, number,
 * group, and the communicator that it makes. */
#ifndef COLDTRACE_COLLECTIVES_H
#define COLDTRACE_COLLECTIVES_H

#include "arguments.h"
#include "communicators.h"

#define IN_PROGRESS 7 /* ncclInProgress: a non-blocking call that has not failed */

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

#endif
