/* Streams of the stand-in driver; see stream.h. */
#define _GNU_SOURCE
#include "stream.h"

#include <stdlib.h>
#include <string.h>

/* As on a GPU, a program that runs too far ahead waits in the launch. */
#define QUEUE_LIMIT 1024
/* Simulated rate of a copy: 10 bytes a nanosecond. */
#define COPY_BYTES_PER_NS 10

static pthread_mutex_t streams_lock = PTHREAD_MUTEX_INITIALIZER;
static struct CUstream_st *streams;
static struct CUstream_st *legacy;
static __thread struct CUstream_st *per_thread;

static void perform(const struct operation *operation)
{
    switch (operation->kind) {
    case OP_RUN:
        operation->run(operation->argument);
        break;
    case OP_SLEEP:
        lab_sleep(operation->duration_ns);
        break;
    case OP_COPY:
        memmove(operation->target, operation->argument, operation->bytes);
        lab_sleep((int64_t)(operation->bytes / COPY_BYTES_PER_NS));
        break;
    case OP_FILL:
        memset(operation->target, operation->fill, operation->bytes);
        break;
    case OP_WAIT:
        stream_wait(operation->on, operation->number);
        break;
    case OP_MARK:
        break;
    }
}

static void *work(void *argument)
{
    struct CUstream_st *stream = argument;

    pthread_mutex_lock(&stream->lock);
    for (;;) {
        struct operation *operation = stream->first;

        if (!operation && stream->is_closing)
            break;
        if (!operation) {
            pthread_cond_wait(&stream->more, &stream->lock);
            continue;
        }
        stream->first = operation->next;
        if (!stream->first)
            stream->last = &stream->first;
        pthread_mutex_unlock(&stream->lock);
        perform(operation);
        free(operation);
        pthread_mutex_lock(&stream->lock);
        stream->completed++;
        pthread_cond_broadcast(&stream->done);
    }
    pthread_mutex_unlock(&stream->lock);
    return NULL;
}

CUstream stream_make(int is_blocking)
{
    struct CUstream_st *stream = calloc(1, sizeof(*stream));

    if (!stream)
        abort();
    pthread_mutex_init(&stream->lock, NULL);
    pthread_cond_init(&stream->more, NULL);
    pthread_cond_init(&stream->done, NULL);
    stream->last = &stream->first;
    stream->is_blocking = is_blocking;
    if (pthread_create(&stream->worker, NULL, work, stream))
        abort();
    pthread_setname_np(stream->worker, "gpu_stream");
    pthread_mutex_lock(&streams_lock);
    stream->next = streams;
    streams = stream;
    pthread_mutex_unlock(&streams_lock);
    return stream;
}

CUstream stream_of(CUstream handle)
{
    if (handle == CU_STREAM_PER_THREAD) {
        if (!per_thread)
            per_thread = stream_make(1);
        return per_thread;
    }
    if (handle && handle != CU_STREAM_LEGACY)
        return handle;
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&once);
    if (!legacy) {
        CUstream made = stream_make(0);
        __atomic_store_n(&legacy, made, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&once);
    return legacy;
}

static struct operation *copy_of(const struct operation *operation)
{
    struct operation *copy = malloc(sizeof(*copy));

    if (!copy)
        abort();
    *copy = *operation;
    copy->next = NULL;
    return copy;
}

static void push(struct CUstream_st *stream, const struct operation *operation)
{
    struct operation *copy = copy_of(operation);

    pthread_mutex_lock(&stream->lock);
    while (stream->issued - stream->completed >= QUEUE_LIMIT)
        pthread_cond_wait(&stream->done, &stream->lock);
    *stream->last = copy;
    stream->last = &copy->next;
    stream->issued++;
    pthread_cond_signal(&stream->more);
    pthread_mutex_unlock(&stream->lock);
}

static void push_wait(struct CUstream_st *stream, struct CUstream_st *on)
{
    uint64_t number = stream_issued(on);

    if (!stream_has_done(on, number))
        push(stream, &(struct operation){.kind = OP_WAIT, .on = on, .number = number});
}

/* The legacy stream waits for every blocking stream, and they wait for it. */
static void order_with_legacy(struct CUstream_st *stream)
{
    struct CUstream_st *old = __atomic_load_n(&legacy, __ATOMIC_ACQUIRE);

    if (stream != old) {
        if (old && stream->is_blocking)
            push_wait(stream, old);
        return;
    }
    pthread_mutex_lock(&streams_lock);
    struct CUstream_st *other = streams;
    pthread_mutex_unlock(&streams_lock);
    for (; other; other = other->next)
        if (other->is_blocking)
            push_wait(stream, other);
}

void stream_issue(CUstream handle, struct operation operation)
{
    struct CUstream_st *stream = stream_of(handle);

    if (stream->capture) {
        struct operation *copy = copy_of(&operation);
        *stream->capture->last = copy;
        stream->capture->last = &copy->next;
        return;
    }
    order_with_legacy(stream);
    push(stream, &operation);
}

void stream_wait(CUstream stream, uint64_t number)
{
    pthread_mutex_lock(&stream->lock);
    while (stream->completed < number)
        pthread_cond_wait(&stream->done, &stream->lock);
    pthread_mutex_unlock(&stream->lock);
}

int stream_has_done(CUstream stream, uint64_t number)
{
    pthread_mutex_lock(&stream->lock);
    int has_done = stream->completed >= number;
    pthread_mutex_unlock(&stream->lock);
    return has_done;
}

uint64_t stream_issued(CUstream stream)
{
    pthread_mutex_lock(&stream->lock);
    uint64_t issued = stream->issued;
    pthread_mutex_unlock(&stream->lock);
    return issued;
}

/* A closed stream finishes its work; it is never freed, events may name it. */
void stream_close(CUstream stream)
{
    pthread_mutex_lock(&stream->lock);
    stream->is_closing = 1;
    pthread_cond_signal(&stream->more);
    pthread_mutex_unlock(&stream->lock);
    pthread_detach(stream->worker);
}

void stream_wait_all(void)
{
    pthread_mutex_lock(&streams_lock);
    struct CUstream_st *stream = streams;
    pthread_mutex_unlock(&streams_lock);
    for (; stream; stream = stream->next)
        stream_wait(stream, stream_issued(stream));
}

void stream_leave_capture(CUgraph graph)
{
    pthread_mutex_lock(&streams_lock);
    for (struct CUstream_st *stream = streams; stream; stream = stream->next)
        if (stream->capture == graph)
            stream->capture = NULL;
    pthread_mutex_unlock(&streams_lock);
}
