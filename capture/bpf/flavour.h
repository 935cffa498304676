/* One source, two loaders: what differs between them is all here.
 *
 * The maps are made by Python (capture/loaders/kernel.py) for both. Ahead of time,
 * libbpf puts their descriptors into the object; BCC gets them as macros, because it
 * refuses its own map methods inside of macros and would make maps of its own.
 */
#ifndef COLDTRACE_FLAVOUR_H
#define COLDTRACE_FLAVOUR_H

#define INLINE static __attribute__((always_inline)) inline

#ifdef CORE /* ------------------------------------------------ ahead of time */

/* A bare header in place of vmlinux.h: bpf_tracing.h asks for this name first. */
#define __VMLINUX_H__
typedef unsigned char u8;
typedef signed char s8;
typedef unsigned short u16;
typedef short s16;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;
typedef long long s64;
typedef u8 __u8;
typedef u16 __u16;
typedef s16 __s16;
typedef u32 __u32;
typedef s32 __s32;
typedef u64 __u64;
typedef s64 __s64;
typedef u16 __be16;
typedef u32 __be32;
typedef u32 __wsum;
enum { false, true };
typedef _Bool bool;

#define BPF_MAP_TYPE_HASH 1
#define BPF_MAP_TYPE_ARRAY 2
#define BPF_MAP_TYPE_PERCPU_ARRAY 6
#define BPF_MAP_TYPE_RINGBUF 27

#if defined(__TARGET_ARCH_x86)
struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8;
	unsigned long ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
};
#else
struct user_pt_regs {
	u64 regs[31];
	u64 sp, pc, pstate;
};
struct pt_regs {
	struct user_pt_regs user_regs;
	u64 orig_x0;
	s32 syscallno;
};
#endif

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct counter {
	int counter;
};
struct signal_struct {
	struct counter live;
};
struct preempt {
	u64 preempt_count;
};
struct task_struct {
	struct preempt thread_info; /* has the count on arm64 only */
	unsigned __state; /* since 5.14 */
	int pid;
	int tgid;
	struct signal_struct *signal;
	unsigned in_iowait : 1;
};
#pragma clang attribute pop

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "record.h"

#define MAP_OF(name, kind, entries, key_type, value_type)                              \
	struct {                                                                       \
		__uint(type, kind);                                                    \
		__uint(max_entries, entries);                                          \
		__type(key, key_type);                                                 \
		__type(value, value_type);                                             \
	} name SEC(".maps")
#define RING(name)                                                                     \
	struct {                                                                       \
		__uint(type, BPF_MAP_TYPE_RINGBUF);                                    \
		__uint(max_entries, 65536);                                            \
	} name SEC(".maps")

#define LOOKUP(map, key) bpf_map_lookup_elem(&map, key)
#define UPDATE(map, key, value, how) bpf_map_update_elem(&map, key, value, how)
#define DELETE(map, key) bpf_map_delete_elem(&map, key)
#define RESERVE(ring, size) bpf_ringbuf_reserve(&ring, size, 0)

#define ENTRY_PROGRAM(name) SEC("uprobe/enter") int name(struct pt_regs *ctx)
#define RETURN_PROGRAM(name) SEC("uretprobe/leave") int name(struct pt_regs *ctx)
#define PROBE_ID(ctx) ((u32)bpf_get_attach_cookie(ctx))

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#else /* -------------------------------------------------------- compiled by BCC */

#include <uapi/linux/ptrace.h>
#include "record.h"

#define MAP_OF(name, kind, entries, key_type, value_type)
#define RING(name)
#define LOOKUP(map, key) bpf_map_lookup_elem_(bpf_pseudo_fd(1, map##_FD), key)
#define UPDATE(map, key, value, how)                                                   \
	bpf_map_update_elem_(bpf_pseudo_fd(1, map##_FD), key, value, how)
#define DELETE(map, key) bpf_map_delete_elem_(bpf_pseudo_fd(1, map##_FD), key)
#define RESERVE(ring, size)                                                            \
	bpf_ringbuf_reserve((void *)bpf_pseudo_fd(1, ring##_FD), size, 0)

#define ENTRY_PROGRAM(name) int name(struct pt_regs *ctx)
#define RETURN_PROGRAM(name) int name(struct pt_regs *ctx)
/* A stub per probe leaves its number under the thread and tail-calls to here. */
#define PROBE_ID(ctx) bcc_probe_id()
INLINE u32 bcc_probe_id(void)
{
	u32 tid = bpf_get_current_pid_tgid(), number = ~0U;
	u32 *probe_id = LOOKUP(probe_hops, &tid);

	if (probe_id) {
		number = *probe_id;
		DELETE(probe_hops, &tid);
	}
	return number;
}

#endif

#define NEW 1 /* BPF_NOEXIST */
#define ANY 0
#define SUBMIT(record) bpf_ringbuf_submit(record, 1) /* BPF_RB_NO_WAKEUP: we poll */

MAP_OF(control, BPF_MAP_TYPE_ARRAY, 1, u32, struct control);
MAP_OF(next_ref, BPF_MAP_TYPE_ARRAY, 1, u32, u64);
MAP_OF(targets, BPF_MAP_TYPE_HASH, 1, u32, u32);
MAP_OF(probe_rows, BPF_MAP_TYPE_ARRAY, 1, u32, struct probe_row);
MAP_OF(probe_counts, BPF_MAP_TYPE_PERCPU_ARRAY, 1, u32, struct probe_count);
MAP_OF(threads, BPF_MAP_TYPE_HASH, 1, u32, struct thread_state);
MAP_OF(processes, BPF_MAP_TYPE_HASH, 1, u32, struct process_state);
MAP_OF(blank_process, BPF_MAP_TYPE_ARRAY, 1, u32, struct process_state);
MAP_OF(calls, BPF_MAP_TYPE_HASH, 1, struct call_key, struct call);
MAP_OF(communicators, BPF_MAP_TYPE_HASH, 1, struct communicator_key, struct communicator);
MAP_OF(pair_calls, BPF_MAP_TYPE_HASH, 1, struct pair_key, u64);
MAP_OF(worlds, BPF_MAP_TYPE_HASH, 1, u32, u64);
MAP_OF(absences, BPF_MAP_TYPE_HASH, 1, u32, struct absence);
RING(ring_collective);
RING(ring_gpu_call);
RING(ring_off_cpu);
RING(ring_facts);

/* Rows of probe_counts that belong to no library probe. */
#define COUNT_OFF_CPU 1023
#define COUNT_FACTS 1022

INLINE struct control *settings(void)
{
	u32 zero = 0;
	struct control *c = LOOKUP(control, &zero);

	return c && !*(volatile u32 *)&c->is_quiet ? c : 0;
}

INLINE int is_target(u32 pid)
{
	return LOOKUP(targets, &pid) != 0;
}

INLINE void count_lost(u32 probe_id, u64 now, int is_map)
{
	struct probe_count *count = LOOKUP(probe_counts, &probe_id);

	if (!count)
		return;
	__sync_fetch_and_add(&count->lost, 1);
	if (is_map)
		__sync_fetch_and_add(&count->map_full, 1);
	if (!count->lost_first_ns)
		count->lost_first_ns = now;
	count->lost_last_ns = now;
}

/* A fact to fill and SUBMIT; in the ring at once, for the stack is small. */
INLINE struct fact *begin_fact(u32 kind, u32 pid)
{
	struct fact *fact = RESERVE(ring_facts, sizeof(struct fact));

	if (!fact) {
		count_lost(COUNT_FACTS, bpf_ktime_get_ns(), 0);
		return 0;
	}
	__builtin_memset(fact, 0, sizeof(*fact));
	fact->time_ns = bpf_ktime_get_ns();
	fact->kind = kind;
	fact->pid = pid;
	return fact;
}

#endif
