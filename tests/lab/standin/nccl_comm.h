/* What the two halves of the NCCL stand-in share. */
#ifndef COLDTRACE_LAB_NCCL_COMM_H
#define COLDTRACE_LAB_NCCL_COMM_H

#include "nccl_abi.h"
#include "rendezvous.h"

#include <pthread.h>

struct part { /* one collective, or one side of a send and receive */
    int is_pair, sender, receiver;
    size_t bytes;
};

struct task { /* what one launch does: one collective, or a group's of one communicator */
    ncclComm_t comm;
    CUstream stream;
    int part_count;
    struct part *parts;
    struct task *next;
};

struct ncclComm {
    uint64_t id;
    int size, rank, socket;
    struct sockaddr_in address;
    uint64_t meetings, splits, *sent, *received;
    ncclResult_t state;
    struct task *tasks; /* freed with the communicator: a captured graph keeps them */
    pthread_t starter;
    int has_starter;
};

struct deferred { /* a communicator that a group makes at its end */
    ncclComm_t parent, *out;
    int color, key;
    struct deferred *next;
};

/* Make the child now, as ncclCommSplit outside a group does. */
ncclResult_t comm_split(ncclComm_t parent, int color, int key, ncclComm_t *out);
/* Keep a split for the end of this thread's group; 0 when there is no group. */
int group_defers_split(ncclComm_t parent, int color, int key, ncclComm_t *out);
void lab_sleep(int64_t duration_ns);

/* The profiling names are the same functions, as in the real library. */
#define PROFILING(name)                                                               \
    extern __typeof__(name) p##name __attribute__((alias(#name), visibility("default")))

#endif
