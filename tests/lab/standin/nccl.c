/*
 * Stand-in libnccl.so.2: collectives and groups.  A collective is enqueued on the
 * caller's stream through the driver, as the real one's kernel is, and the call
 * returns at once; on the stream it ends shortly after the last member's stream has
 * come to its own.  No data is moved or reduced: when things happen is what the lab
 * needs.
 */
#include "nccl_comm.h"

#include <stdlib.h>

/* Simulated transfer: a fixed latency and 10 bytes a nanosecond. */
#define LATENCY_NS 20000
#define BYTES_PER_NS 10

static __thread int group_depth;
static __thread struct task *group_tasks, **group_last;
static __thread struct deferred *group_splits;
static CUfunction kernel;
static pthread_once_t kernel_once = PTHREAD_ONCE_INIT;

static const size_t type_bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};


/* ---- on the stream ---- */

static int arrive(ncclComm_t comm, const struct part *part)
{
    struct message message = {
        .communicator = comm->id,
        .kind = part->is_pair ? MEET_PAIR : MEET_COLLECTIVE,
        .expected = part->is_pair ? 2 : comm->size,
        .rank = part->is_pair ? part->sender : comm->rank,
        .peer = part->receiver,
    };

    if (!part->is_pair)
        message.number = comm->meetings++;
    else if (part->sender == comm->rank)
        message.number = comm->sent[part->receiver]++;
    else
        message.number = comm->received[part->sender]++;
    return rendezvous_send(comm->socket, &message);
}

static void run_task(void *argument)
{
    const struct task *task = argument;
    struct message answer;
    size_t bytes = 0;

    /* All parts arrive before any is waited for, or a ring of pairs would lock. */
    for (int i = 0; i < task->part_count; i++) {
        bytes += task->parts[i].bytes;
        if (arrive(task->comm, &task->parts[i]))
            task->comm->state = ncclRemoteError;
    }
    for (int i = 0; i < task->part_count; i++)
        if (rendezvous_receive(task->comm->socket, &answer))
            task->comm->state = ncclRemoteError;
    lab_sleep(LATENCY_NS + (int64_t)(bytes / BYTES_PER_NS));
}

static void make_kernel(void)
{
    kernel = standin_function(run_task);
}

static ncclResult_t launch(struct task *task)
{
    CUlaunchConfig config = {
        .grid_x = 1, .grid_y = 1, .grid_z = 1,
        .block_x = 1, .block_y = 1, .block_z = 1,
        .stream = task->stream,
    };
    void *arguments[] = {&task};

    pthread_once(&kernel_once, make_kernel);
    if (cuLaunchKernelEx(&config, kernel, arguments, NULL))
        return ncclUnhandledCudaError;
    return ncclSuccess;
}

/* ---- groups ---- */

static void add_part(struct task *task, const struct part *part)
{
    task->parts = realloc(task->parts,
                          sizeof(*part) * (size_t)(task->part_count + 1));
    if (!task->parts)
        abort();
    task->parts[task->part_count++] = *part;
}

static struct task *make_task(ncclComm_t comm, CUstream stream)
{
    struct task *task = calloc(1, sizeof(*task));

    if (!task)
        abort();
    task->comm = comm;
    task->stream = stream;
    return task;
}

static void keep(struct task *task)
{
    task->next = task->comm->tasks;
    task->comm->tasks = task;
}

static ncclResult_t enqueue(ncclComm_t comm, CUstream stream, const struct part *part)
{
    if (!comm)
        return ncclInvalidArgument;
    if (comm->state != ncclSuccess)
        return comm->state == ncclInProgress ? ncclInvalidUsage : comm->state;
    if (!group_depth) {
        struct task *task = make_task(comm, stream);
        add_part(task, part);
        keep(task);
        return launch(task);
    }
    struct task *task = group_tasks;
    while (task && (task->comm != comm || task->stream != stream))
        task = task->next;
    if (!task) {
        task = make_task(comm, stream);
        *group_last = task;
        group_last = &task->next;
    }
    add_part(task, part);
    return ncclSuccess;
}

int group_defers_split(ncclComm_t parent, int color, int key, ncclComm_t *out)
{
    if (!group_depth)
        return 0;
    struct deferred *later = malloc(sizeof(*later));
    if (!later)
        abort();
    *out = NULL;
    *later = (struct deferred){parent, out, color, key, group_splits};
    group_splits = later;
    return 1;
}

EXPORT ncclResult_t ncclGroupStart(void)
{
    if (group_depth++ == 0) {
        group_tasks = NULL;
        group_last = &group_tasks;
    }
    return ncclSuccess;
}

EXPORT ncclResult_t ncclGroupEnd(void)
{
    ncclResult_t result = ncclSuccess;

    if (!group_depth)
        return ncclInvalidUsage;
    if (--group_depth)
        return ncclSuccess;
    for (struct deferred *each = group_splits, *next; each; each = next) {
        ncclResult_t one = comm_split(each->parent, each->color, each->key, each->out);
        result = result ? result : one;
        next = each->next;
        free(each);
    }
    group_splits = NULL;
    for (struct task *task = group_tasks, *next; task; task = next) {
        next = task->next;
        keep(task);
        ncclResult_t one = launch(task);
        result = result ? result : one;
    }
    return result;
}

/* ---- collectives ---- */

static ncclResult_t collective(ncclComm_t comm, size_t count, ncclDataType_t type,
                               CUstream stream)
{
    if ((unsigned)type >= sizeof(type_bytes) / sizeof(type_bytes[0]))
        return ncclInvalidArgument;
    return enqueue(comm, stream, &(struct part){.bytes = count * type_bytes[type]});
}

EXPORT ncclResult_t ncclAllReduce(const void *from, void *to, size_t count,
                                  ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                                  CUstream stream)
{
    (void)from, (void)to, (void)op;
    return collective(comm, count, type, stream);
}

EXPORT ncclResult_t ncclBroadcast(const void *from, void *to, size_t count,
                                  ncclDataType_t type, int root, ncclComm_t comm,
                                  CUstream stream)
{
    (void)from, (void)to, (void)root;
    return collective(comm, count, type, stream);
}

EXPORT ncclResult_t ncclBcast(void *buffer, size_t count, ncclDataType_t type, int root,
                              ncclComm_t comm, CUstream stream)
{
    return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}

EXPORT ncclResult_t ncclReduce(const void *from, void *to, size_t count,
                               ncclDataType_t type, ncclRedOp_t op, int root,
                               ncclComm_t comm, CUstream stream)
{
    (void)from, (void)to, (void)op, (void)root;
    return collective(comm, count, type, stream);
}

EXPORT ncclResult_t ncclAllGather(const void *from, void *to, size_t count,
                                  ncclDataType_t type, ncclComm_t comm, CUstream stream)
{
    (void)from, (void)to;
    return collective(comm, count, type, stream);
}

EXPORT ncclResult_t ncclReduceScatter(const void *from, void *to, size_t count,
                                      ncclDataType_t type, ncclRedOp_t op,
                                      ncclComm_t comm, CUstream stream)
{
    (void)from, (void)to, (void)op;
    return collective(comm, count, type, stream);
}

static ncclResult_t pair(ncclComm_t comm, size_t count, ncclDataType_t type, int sender,
                         int receiver, CUstream stream)
{
    if ((unsigned)type >= sizeof(type_bytes) / sizeof(type_bytes[0]))
        return ncclInvalidArgument;
    return enqueue(comm, stream,
                   &(struct part){.is_pair = 1,
                                  .sender = sender,
                                  .receiver = receiver,
                                  .bytes = count * type_bytes[type]});
}

EXPORT ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t type,
                             int peer, ncclComm_t comm, CUstream stream)
{
    (void)from;
    return pair(comm, count, type, comm->rank, peer, stream);
}

EXPORT ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int peer,
                             ncclComm_t comm, CUstream stream)
{
    (void)to;
    return pair(comm, count, type, peer, comm->rank, stream);
}

PROFILING(ncclGroupStart);
PROFILING(ncclGroupEnd);
PROFILING(ncclAllReduce);
PROFILING(ncclBroadcast);
PROFILING(ncclBcast);
PROFILING(ncclReduce);
PROFILING(ncclAllGather);
PROFILING(ncclReduceScatter);
PROFILING(ncclSend);
PROFILING(ncclRecv);
