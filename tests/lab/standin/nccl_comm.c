/* Communicators of the NCCL stand-in: made by meeting, as the real ones are. */
#define _GNU_SOURCE
#include "nccl_comm.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#define VERSION 22809

/* What stands in the 128 bytes of a unique id. */
struct identity {
    uint64_t magic;
    struct sockaddr_in address;
};

EXPORT ncclResult_t ncclGetVersion(int *version)
{
    *version = VERSION;
    return ncclSuccess;
}

EXPORT ncclResult_t ncclGetUniqueId(ncclUniqueId *out)
{
    struct identity identity = {0};

    memset(out, 0, sizeof(*out));
    if (getrandom(&identity.magic, sizeof(identity.magic), 0) < 0 ||
        rendezvous_serve(&identity.address))
        return ncclSystemError;
    memcpy(out, &identity, sizeof(identity));
    return ncclSuccess;
}

static ncclComm_t make_comm(uint64_t id, const struct sockaddr_in *address, int size,
                            int rank)
{
    ncclComm_t comm = calloc(1, sizeof(*comm));

    if (!comm)
        abort();
    comm->id = id;
    comm->size = size;
    comm->rank = rank;
    comm->address = *address;
    comm->sent = calloc((size_t)size, sizeof(*comm->sent));
    comm->received = calloc((size_t)size, sizeof(*comm->received));
    comm->socket = -1;
    if (!comm->sent || !comm->received)
        abort();
    return comm;
}

static ncclResult_t join(ncclComm_t comm)
{
    struct message message = {
        .communicator = comm->id,
        .kind = MEET_INIT,
        .expected = comm->size,
        .rank = comm->rank,
    };

    comm->socket = rendezvous_connect(&comm->address);
    if (comm->socket < 0 || rendezvous_send(comm->socket, &message) ||
        rendezvous_receive(comm->socket, &message))
        return ncclRemoteError;
    return ncclSuccess;
}

static void *join_later(void *argument)
{
    ncclComm_t comm = argument;
    ncclResult_t state = join(comm);

    __atomic_store_n(&comm->state, state, __ATOMIC_RELEASE);
    return NULL;
}

static ncclResult_t init(ncclComm_t *out, int size, const ncclUniqueId *id, int rank,
                         int is_blocking)
{
    struct identity identity;

    if (!out || size < 1 || rank < 0 || rank >= size)
        return ncclInvalidArgument;
    memcpy(&identity, id, sizeof(identity));
    ncclComm_t comm = make_comm(identity.magic, &identity.address, size, rank);
    *out = comm;
    if (is_blocking)
        return comm->state = join(comm);
    comm->state = ncclInProgress;
    if (pthread_create(&comm->starter, NULL, join_later, comm))
        return comm->state = ncclSystemError;
    comm->has_starter = 1;
    return ncclInProgress;
}

EXPORT ncclResult_t ncclCommInitRank(ncclComm_t *out, int size, ncclUniqueId id,
                                     int rank)
{
    return init(out, size, &id, rank, 1);
}

EXPORT ncclResult_t ncclCommInitRankConfig(ncclComm_t *out, int size, ncclUniqueId id,
                                           int rank, ncclConfig_t *config)
{
    return init(out, size, &id, rank, !config || config->blocking != 0);
}

EXPORT ncclResult_t ncclCommInitAll(ncclComm_t *out, int size, const int *devices)
{
    struct identity identity;
    ncclUniqueId id;
    ncclResult_t result = ncclGetUniqueId(&id);

    (void)devices;
    memcpy(&identity, &id, sizeof(identity));
    for (int rank = 0; rank < size && !result; rank++) {
        out[rank] = make_comm(identity.magic, &identity.address, size, rank);
        out[rank]->socket = rendezvous_connect(&identity.address);
        if (out[rank]->socket < 0)
            result = ncclSystemError;
    }
    return result;
}

/* Children agree on their number without a word: parent, count, colour. */
static uint64_t child_id(const struct ncclComm *parent, int color)
{
    uint64_t id = parent->id ^ (parent->splits * 0x9E3779B97F4A7C15ull);

    return (id ^ (uint32_t)color) * 0xD6E8FEB86659FD93ull;
}

ncclResult_t comm_split(ncclComm_t parent, int color, int key, ncclComm_t *out)
{
    struct message message = {
        .communicator = parent->id,
        .number = parent->splits++,
        .kind = MEET_SPLIT,
        .expected = parent->size,
        .rank = parent->rank,
        .color = color,
        .key = key,
    };

    *out = NULL;
    if (rendezvous_send(parent->socket, &message) ||
        rendezvous_receive(parent->socket, &message))
        return ncclRemoteError;
    if (color == NCCL_SPLIT_NOCOLOR)
        return ncclSuccess;
    *out = make_comm(child_id(parent, color), &parent->address, message.child_size,
                     message.child_rank);
    return (*out)->state = join(*out);
}

EXPORT ncclResult_t ncclCommSplit(ncclComm_t parent, int color, int key,
                                  ncclComm_t *out, ncclConfig_t *config)
{
    (void)config;
    if (!parent || !out)
        return ncclInvalidArgument;
    if (group_defers_split(parent, color, key, out))
        return ncclSuccess;
    return comm_split(parent, color, key, out);
}

EXPORT ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    return comm ? ncclSuccess : ncclInvalidArgument;
}

EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    if (!comm)
        return ncclSuccess;
    if (comm->has_starter)
        pthread_join(comm->starter, NULL);
    cuCtxSynchronize(); /* nothing on a stream may still need the communicator */
    if (comm->socket >= 0)
        close(comm->socket);
    for (struct task *task = comm->tasks, *next; task; task = next) {
        next = task->next;
        free(task->parts);
        free(task);
    }
    free(comm->sent);
    free(comm->received);
    free(comm);
    return ncclSuccess;
}

EXPORT ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    if (!comm)
        return ncclSuccess;
    if (comm->socket >= 0)
        shutdown(comm->socket, SHUT_RDWR); /* what waits on a stream gives up */
    return ncclCommDestroy(comm);
}

EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *out)
{
    if (!comm)
        return ncclInvalidArgument;
    *out = __atomic_load_n(&comm->state, __ATOMIC_ACQUIRE);
    return ncclSuccess;
}

EXPORT ncclResult_t ncclCommCount(const ncclComm_t comm, int *out)
{
    *out = comm->size;
    return ncclSuccess;
}

EXPORT ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *out)
{
    *out = comm->rank;
    return ncclSuccess;
}

EXPORT ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *out)
{
    (void)comm;
    *out = 0;
    return ncclSuccess;
}

PROFILING(ncclGetUniqueId);
PROFILING(ncclCommInitRank);
PROFILING(ncclCommInitRankConfig);
PROFILING(ncclCommInitAll);
PROFILING(ncclCommSplit);
PROFILING(ncclCommDestroy);
PROFILING(ncclCommAbort);
