/* Records, facts and map values: the numbers that kernel and Python share.
 *
 * The records stand in capture/layout.py too, the rest in capture/loaders/kernel.py;
 * tests/capture/test_layout.py compiles this file and compares every offset.
 */
#ifndef COLDTRACE_RECORD_H
#define COLDTRACE_RECORD_H

/* Records: whole ring regions are copied and cut into columns, so every field is
 * aligned to its size, every record is a multiple of 8, and booleans are bits. */

struct collective_record {
	s64 start_ns;
	s64 duration_ns;
	s64 collective_seq;
	s64 element_count;
	s64 stream_handle;
	u64 return_address;
	s32 pid; /* tgid: user space calls it pid, and so does all of Coldtrace */
	s32 tid;
	s32 communicator_ref;
	s32 child_ref;
	s32 return_code;
	s32 data_type;
	s32 peer_rank;
	s32 group_seq;
	s16 operation;
	s16 probe_id;
	s16 group_depth;
	s8 depth;
	u8 flags;
	u8 flags2;
	u8 unused[7];
};

#define C_HAS_DURATION (1 << 0)
#define C_IS_OPEN (1 << 1)
#define C_HAS_SEQ (1 << 2)
#define C_HAS_PEER (1 << 3)
#define C_HAS_STREAM (1 << 4)
#define C_IS_CAPTURED (1 << 5)
#define C_IS_BASE_KNOWN (1 << 6)
#define C_HAS_DATA_TYPE (1 << 7)
#define C2_HAS_COMMUNICATOR (1 << 0)
#define C2_HAS_COUNT (1 << 1)
#define C2_HAS_RETURN_CODE (1 << 2)
#define C2_HAS_CHILD (1 << 3)

struct gpu_call_record {
	s64 start_ns;
	s64 duration_ns;
	s64 size_bytes;
	s64 stream_handle;
	s64 object_handle;
	u64 return_address;
	s32 pid;
	s32 tid;
	s32 return_code;
	s16 operation;
	s16 probe_id;
	s8 depth;
	s8 copy_kind;
	u8 flags;
	s8 layer;
	u8 unused[4];
};

#define G_HAS_DURATION (1 << 0)
#define G_IS_OPEN (1 << 1)
#define G_HAS_SIZE (1 << 2)
#define G_HAS_STREAM (1 << 3)
#define G_HAS_OBJECT (1 << 4)
#define G_HAS_COPY_KIND (1 << 5)
#define G_IS_CAPTURED (1 << 6)
#define G_HAS_RETURN_CODE (1 << 7)

struct off_cpu_record {
	s64 start_ns;
	s64 duration_ns;
	s64 runq_latency_ns;
	s64 skipped_ns;
	s64 skipped_runnable_ns;
	s32 pid;
	s32 tid;
	s32 next_pid;
	s32 next_tid;
	s32 prev_pid;
	s32 prev_tid;
	s32 waker_pid;
	s32 waker_tid;
	s32 skipped_count;
	s16 syscall;
	s16 cpu;
	s8 off_state;
	u8 flags;
	u8 flags2;
	u8 unused[5];
};

#define O_HAS_DURATION (1 << 0)
#define O_IS_OPEN (1 << 1)
#define O_HAS_RUNQ (1 << 2)
#define O_HAS_SYSCALL (1 << 3)
#define O_IS_IOWAIT (1 << 4)
#define O_IS_PREEMPTED (1 << 5)
#define O_IS_YIELDED (1 << 6)
#define O_IS_TOTALS_ONLY (1 << 7)
#define O2_HAS_WAKER (1 << 0)
#define O2_WAKER_IN_INTERRUPT (1 << 1)
#define O2_HAS_IOWAIT (1 << 2)

enum off_state { OFF_RUNNING, OFF_SLEEP, OFF_DISK, OFF_STOPPED, OFF_DEAD };

/* Facts: rare, read one by one. */

struct fact {
	u64 time_ns;
	u64 mix1;
	u64 mix2;
	u32 kind;
	s32 pid;
	s32 tid;
	s32 ref;
	s32 parent; /* a communicator's reference, or a process's parent */
	s32 child_index;
	s32 color;
	s32 key;
	s32 size;
	s32 rank;
	u8 how;
	u8 vendor;
	u16 flags;
	u32 unused;
};

enum fact_kind {
	FACT_COMMUNICATOR = 1,
	FACT_DESTROYED,
	FACT_EXEC,
	FACT_FORK,
	FACT_EXIT,
	FACT_TARGET,
	FACT_THREAD,
};

enum how {
	HOW_SEEN = 1,
	HOW_WORLD,
	HOW_INIT,
	HOW_INIT_ALL,
	HOW_SPLIT,
	HOW_DUP,
	HOW_CREATE,
	HOW_SHRINK,
	HOW_GROW,
	HOW_SPLIT_TYPE,
};

#define F_HAS_ORIGIN 1
#define F_HAS_PARENT 2
#define F_HAS_COLOR 4
#define F_HAS_KEY 8
#define F_HAS_SIZE 16
#define F_HAS_RANK 32
#define F_BASE_KNOWN 64

/* Settings, and the row that says how to read one probe's call. */

struct control {
	u64 off_cpu_min_ns;
	u64 force_totals_ns;
	u32 is_quiet; /* read first by every program: stopping must not wait for a detach */
	u32 own_pid;
	u32 follow_fork;
	u32 adopt;
	u32 nested_driver_calls;
	u32 unused;
};

struct argument {
	u8 place; /* 0: none; 1..8: integer argument register; 128 + n: SP + 8 n */
	u8 width; /* 4: cut and sign-extended, the upper half is garbage; 8 */
	u8 follow; /* 0: the value; 1: read where it points, at entry; 2: at return */
	u8 offset; /* added before following */
};

enum argument_slot {
	ARG_SIZE, /* gpu_call: bytes; collective: elements */
	ARG_SIZE_BY, /* multiplies it */
	ARG_STREAM,
	ARG_OBJECT,
	ARG_KIND, /* gpu_call: copy kind; collective: data type */
	ARG_COMMUNICATOR,
	ARG_PEER,
	ARG_MADE, /* where the new communicator's handle will stand */
	ARG_ID, /* address of the 128-byte id */
	ARG_COLOR,
	ARG_KEY,
	ARG_RANK,
	ARG_RANKS,
	ARG_SLOTS
};

struct probe_row {
	u8 stream; /* 1 collective, 2 gpu_call */
	u8 meaning;
	u8 vendor; /* 0 nvidia (NCCL), 1 MPI */
	u8 layer;
	s16 operation;
	u8 flags;
	s8 copy_kind; /* where the name says it: cuMemcpyHtoD */
	u8 size_shift;
	u8 how;
	u8 unused[2];
	struct argument arguments[ARG_SLOTS];
};

#define ROW_HAS_RETURN 1 /* a return program will come */
#define ROW_DROP_FAILED 2 /* queries: "not ready" is no event */
#define ROW_HAS_COPY_KIND 4
#define ROW_ID_IN_PLACE 16 /* ARG_ID is the id itself, by value on the stack */
#define ROW_NUMBERED 32 /* takes a number of its communicator */
#define ROW_IS_MUTE 64 /* another layer records these calls, or the budget is short */

enum meaning {
	IS_CALL = 0,
	IS_PAIR_SEND, /* point to point: numbered by peer and direction */
	IS_PAIR_RECV,
	IS_INIT, /* makes a communicator from an id */
	IS_INIT_ALL,
	IS_CHILD, /* makes one from a parent */
	IS_END, /* destroys or frees one */
	IS_GROUP_START,
	IS_GROUP_END,
	IS_LOOK, /* only a chance to read pending handles */
	IS_WORLD_INIT, /* MPI_Init */
	IS_CAPTURE_BEGIN,
	IS_CAPTURE_END,
};

/* One a CPU: what was lost where, and no two CPUs write to one line. A program for a
 * library call may be preempted, so a CPU's own counts still need atomic additions. */
struct probe_count {
	u64 hits;
	u64 lost;
	u64 lost_first_ns;
	u64 lost_last_ns;
	u64 map_full;
	u64 unmatched;
};

/* A call between entry and return. Its record stands first and is complete but for
 * what only the return knows: a snapshot of this map is a snapshot of open calls. */

struct call_key {
	u64 stack; /* user stack pointer at entry: an inner call has another */
	u32 tid;
	u32 probe_id;
};

struct made {
	u64 address; /* of the variable that will hold the handle; 0: none */
	u64 mix1;
	u64 mix2;
	s32 parent_ref;
	s32 child_index;
	s32 color;
	s32 key;
	s32 size;
	s32 rank;
	u16 flags;
	u8 how;
	u8 vendor;
	u32 width; /* of the handle */
};

struct call {
	union {
		struct collective_record collective;
		struct gpu_call_record gpu;
	};
	struct made made;
	u64 follow; /* address whose value is known at return: *devPtr, *pStream */
	u8 stream;
	u8 meaning;
	u8 is_silent; /* counted and matched, never a record */
	u8 was_in_runtime;
	u32 unused;
};

struct thread_state {
	u64 outer_stack; /* of the outermost call that is open */
	u32 outer_probe;
	u32 group_seq;
	u16 group_depth;
	u8 depth;
	u8 in_runtime; /* inside a recorded runtime call */
	u32 unused;
};

#define PENDING 8

struct process_state {
	s32 captures; /* streams of the process that are in graph capture */
	u32 is_mpi_known; /* we saw its MPI_Init: no communicator is older than us */
	u32 pending_count;
	u32 unused;
	struct made pending[PENDING];
};

struct communicator_key {
	u64 handle;
	u32 pid;
	u32 unused;
};

struct communicator {
	u64 calls; /* collectives so far, this process's outermost ones */
	u64 children;
	s32 ref;
	u32 is_base_known;
	u32 vendor;
	u32 unused;
};

struct pair_key {
	s32 ref;
	s32 peer;
	u32 direction;
	u32 unused;
};

/* A thread's last switch-out, and its absences too short for a record. */

struct absence {
	struct off_cpu_record record;
	u64 wake_ns;
	u64 told_ns; /* when totals were last written */
	u32 is_away;
	u32 is_seen;
};

#endif
