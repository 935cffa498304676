/* Communicators: who they are, and the number of each call on them.
 *
 * All of it happens at entry, before any record is asked for: a lost record must leave
 * a hole in the numbers, never shift them against the other ranks.
 */
#ifndef COLDTRACE_COMMUNICATORS_H
#define COLDTRACE_COMMUNICATORS_H

#include "arguments.h"

#define MPICH_COMM_WORLD 0x44000000
#define MPICH_COMM_NULL 0x04000000
#define MIX_SEED_1 0x243F6A8885A308D3ULL
#define MIX_SEED_2 0x13198A2E03707344ULL

/* One step of the hash that BUNDLE.md spells out. */
INLINE u64 mix(u64 hash, u64 word)
{
	hash ^= word;
	hash *= 0x9E3779B97F4A7C15ULL;
	return hash ^ (hash >> 32);
}

INLINE void mix_id(struct made *made, u64 address)
{
	u64 first = MIX_SEED_1, second = MIX_SEED_2, word;
	int i;

	for (i = 0; i < 16; i++) {
		word = 0;
		if (bpf_probe_read_user(&word, 8, (void *)(address + 8 * i)))
			return;
		first = mix(first, word);
		second = mix(second, word);
	}
	made->mix1 = first;
	made->mix2 = second;
	made->flags |= F_HAS_ORIGIN;
}

INLINE struct process_state *process_of(u32 pid)
{
	u32 zero = 0;
	struct process_state *process = LOOKUP(processes, &pid), *blank;

	if (process)
		return process;
	blank = LOOKUP(blank_process, &zero); /* too large for the stack */
	if (!blank)
		return 0;
	UPDATE(processes, &pid, blank, NEW);
	return LOOKUP(processes, &pid);
}

/* Gives a handle its reference and tells of it; 0 where the map is full. */
INLINE s32 make_communicator(u32 pid, u64 handle, struct made *made, u64 now, u32 probe_id)
{
	u32 zero = 0;
	u64 *next = LOOKUP(next_ref, &zero);
	struct communicator_key key = {.handle = handle, .pid = pid};
	struct communicator value = {};
	struct fact *fact;

	if (!next)
		return 0;
	value.ref = (s32)__sync_fetch_and_add(next, 1) + 1;
	value.vendor = made->vendor;
	value.is_base_known = !!(made->flags & F_BASE_KNOWN);
	/* A handle used again after its end was missed starts a new communicator. */
	if (UPDATE(communicators, &key, &value, ANY)) {
		count_lost(probe_id, now, 1);
		return 0;
	}
	fact = begin_fact(FACT_COMMUNICATOR, pid);
	if (!fact)
		return value.ref;
	fact->mix1 = made->mix1;
	fact->mix2 = made->mix2;
	fact->ref = value.ref;
	fact->parent = made->parent_ref;
	fact->child_index = made->child_index;
	fact->color = made->color;
	fact->key = made->key;
	fact->size = made->size;
	fact->rank = made->rank;
	fact->how = made->how;
	fact->vendor = made->vendor;
	fact->flags = made->flags;
	SUBMIT(fact);
	return value.ref;
}

/* Handles of groups and non-blocking calls appear after the return: look again. */
INLINE void read_pending(struct process_state *process, u32 pid, u64 now, u32 probe_id)
{
	u64 handle;
	int i;

	for (i = 0; i < PENDING; i++) {
		struct made *made = &process->pending[i];

		if (!made->address)
			continue;
		handle = read_user(made->address, made->width);
		if (!handle)
			continue;
		made->address = 0;
		__sync_fetch_and_add(&process->pending_count, -1);
		make_communicator(pid, handle, made, now, probe_id);
	}
}

INLINE void keep_pending(u32 pid, struct made *made, u64 now, u32 probe_id)
{
	struct process_state *process = process_of(pid);
	int i;

	if (process) {
		for (i = 0; i < PENDING; i++) {
			if (process->pending[i].address)
				continue;
			process->pending[i] = *made;
			__sync_fetch_and_add(&process->pending_count, 1);
			return;
		}
	}
	count_lost(probe_id, now, 1);
}

INLINE int is_world(u32 pid, u64 handle)
{
	u64 *world = LOOKUP(worlds, &pid);

	return world ? *world == handle : handle == MPICH_COMM_WORLD;
}

/* A handle nobody saw being made. For MPI the life of every communicator is known if
 * we saw MPI_Init: then counting did begin with the first call on it. */
INLINE void meet(u32 pid, u64 handle, u8 vendor, u64 now, u32 probe_id)
{
	struct process_state *process = LOOKUP(processes, &pid);
	struct made made = {};

	made.vendor = vendor;
	made.how = vendor == 1 && is_world(pid, handle) ? HOW_WORLD : HOW_SEEN;
	if (vendor == 1 && process && process->is_mpi_known)
		made.flags = F_BASE_KNOWN;
	make_communicator(pid, handle, &made, now, probe_id);
}

INLINE struct communicator *find_communicator(u32 pid, u64 handle, u8 vendor, u64 now,
					      u32 probe_id)
{
	struct communicator_key key = {.handle = handle, .pid = pid};
	struct communicator *found = LOOKUP(communicators, &key);
	struct process_state *process;

	if (found)
		return found;
	process = LOOKUP(processes, &pid);
	if (process && process->pending_count) {
		read_pending(process, pid, now, probe_id);
		found = LOOKUP(communicators, &key);
		if (found)
			return found;
	}
	meet(pid, handle, vendor, now, probe_id);
	return LOOKUP(communicators, &key);
}

INLINE void end_communicator(u32 pid, u64 handle, s32 ref)
{
	struct communicator_key key = {.handle = handle, .pid = pid};
	struct fact *fact;

	/* At entry: once freed, another thread may be given the same address. */
	DELETE(communicators, &key);
	fact = begin_fact(FACT_DESTROYED, pid);
	if (!fact)
		return;
	fact->ref = ref;
	SUBMIT(fact);
}

/* The number of a point-to-point call: per communicator, peer and direction. */
INLINE s64 number_pair(s32 ref, s32 peer, u32 direction, u64 now, u32 probe_id)
{
	struct pair_key key = {.ref = ref, .peer = peer, .direction = direction};
	u64 zero = 0, *calls = LOOKUP(pair_calls, &key);

	if (!calls) {
		UPDATE(pair_calls, &key, &zero, NEW);
		calls = LOOKUP(pair_calls, &key);
		if (!calls) {
			count_lost(probe_id, now, 1);
			return -1;
		}
	}
	return __sync_fetch_and_add(calls, 1);
}

#endif
