/*
 * A stream of the stand-in driver: a worker thread that takes operations from a
 * FIFO, one after the other.  Whoever waits, waits on a condition variable.
 */
#ifndef COLDTRACE_LAB_STREAM_H
#define COLDTRACE_LAB_STREAM_H

#include "cuda_abi.h"

#include <pthread.h>

enum operation_kind { OP_RUN, OP_SLEEP, OP_COPY, OP_FILL, OP_WAIT, OP_MARK };

struct operation {
    enum operation_kind kind;
    void (*run)(void *);     /* OP_RUN */
    void *argument;          /* OP_RUN; source of OP_COPY */
    void *target;            /* OP_COPY, OP_FILL */
    size_t bytes;            /* OP_COPY, OP_FILL */
    int64_t duration_ns;     /* OP_SLEEP */
    unsigned char fill;      /* OP_FILL */
    struct CUstream_st *on;  /* OP_WAIT: this stream, up to ... */
    uint64_t number;         /* ... this many operations */
    struct operation *next;
};

struct CUgraph_st {
    struct operation *first, **last;
};

struct CUstream_st {
    pthread_t worker;
    pthread_mutex_t lock;
    pthread_cond_t more, done;
    struct operation *first, **last;
    uint64_t issued, completed;
    int is_closing, is_blocking;
    CUgraph capture;
    struct CUstream_st *next;
};

struct CUevent_st {
    pthread_mutex_t lock;
    struct CUstream_st *on;
    uint64_t number;
    CUgraph capture;
};

/* Put one operation on a stream (or into the graph that the stream captures). */
void stream_issue(CUstream handle, struct operation operation);
CUstream stream_make(int is_blocking);
CUstream stream_of(CUstream handle);
void stream_wait(CUstream stream, uint64_t number);
int stream_has_done(CUstream stream, uint64_t number);
uint64_t stream_issued(CUstream stream);
void stream_close(CUstream stream);
void stream_wait_all(void);
void stream_leave_capture(CUgraph graph);
void lab_sleep(int64_t duration_ns);

#endif
