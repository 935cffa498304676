/*
 * Stand-in libcuda.so.1: the driver's calls over streams that are threads.
 * A kernel "runs" for as many nanoseconds as its first argument says.
 */
#include "stream.h"

#include <stdlib.h>

struct CUfunc_st {
    void (*run)(void *); /* NULL: sleep for the first argument */
};

struct CUgraphExec_st {
    CUgraph graph;
};

EXPORT CUfunction standin_function(void (*run)(void *))
{
    CUfunction function = calloc(1, sizeof(*function));

    if (function)
        function->run = run;
    return function;
}

EXPORT CUresult cuInit(unsigned flags)
{
    return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetCount(int *count)
{
    *count = 1;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxSynchronize(void)
{
    stream_wait_all();
    return CUDA_SUCCESS;
}

/* ---- streams ---- */

EXPORT CUresult cuStreamCreate(CUstream *out, unsigned flags)
{
    *out = stream_make(!(flags & CU_STREAM_NON_BLOCKING));
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamCreateWithPriority(CUstream *out, unsigned flags, int priority)
{
    (void)priority;
    *out = stream_make(!(flags & CU_STREAM_NON_BLOCKING));
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamDestroy_v2(CUstream stream)
{
    stream_close(stream);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamSynchronize(CUstream handle)
{
    CUstream stream = stream_of(handle);

    stream_wait(stream, stream_issued(stream));
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamQuery(CUstream handle)
{
    CUstream stream = stream_of(handle);

    return stream_has_done(stream, stream_issued(stream)) ? CUDA_SUCCESS
                                                          : CUDA_ERROR_NOT_READY;
}

EXPORT CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned flags)
{
    CUstream stream = stream_of(handle);

    (void)flags;
    pthread_mutex_lock(&event->lock);
    struct CUstream_st *on = event->on;
    uint64_t number = event->number;
    CUgraph capture = event->capture;
    pthread_mutex_unlock(&event->lock);
    if (capture) /* a stream that waits for a captured event joins the capture */
        stream->capture = capture;
    else if (on)
        stream_issue(handle, (struct operation){
                                 .kind = OP_WAIT, .on = on, .number = number});
    return CUDA_SUCCESS;
}

/* ---- graphs ---- */

EXPORT CUresult cuStreamBeginCapture_v2(CUstream handle, int mode)
{
    CUgraph graph = calloc(1, sizeof(*graph));

    (void)mode;
    if (!graph)
        return CUDA_ERROR_OUT_OF_MEMORY;
    graph->last = &graph->first;
    stream_of(handle)->capture = graph;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamEndCapture(CUstream handle, CUgraph *out)
{
    CUgraph graph = stream_of(handle)->capture;

    if (!graph)
        return CUDA_ERROR_INVALID_VALUE;
    stream_leave_capture(graph);
    *out = graph;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamIsCapturing(CUstream handle, int *out)
{
    *out = stream_of(handle)->capture != NULL;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph graph,
                                            unsigned long long flags)
{
    (void)flags;
    *out = calloc(1, sizeof(**out));
    if (!*out)
        return CUDA_ERROR_OUT_OF_MEMORY;
    (*out)->graph = graph;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    for (struct operation *each = exec->graph->first; each; each = each->next)
        stream_issue(stream, *each);
    return CUDA_SUCCESS;
}

/* ---- events ---- */

EXPORT CUresult cuEventCreate(CUevent *out, unsigned flags)
{
    (void)flags;
    *out = calloc(1, sizeof(**out));
    if (!*out)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_init(&(*out)->lock, NULL);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventDestroy_v2(CUevent event)
{
    pthread_mutex_destroy(&event->lock);
    free(event);
    return CUDA_SUCCESS;
}

static CUresult record(CUevent event, CUstream handle)
{
    CUstream stream = stream_of(handle);

    stream_issue(handle, (struct operation){.kind = OP_MARK});
    pthread_mutex_lock(&event->lock);
    event->capture = stream->capture;
    event->on = stream;
    event->number = stream_issued(stream);
    pthread_mutex_unlock(&event->lock);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventRecord(CUevent event, CUstream stream)
{
    return record(event, stream);
}

EXPORT CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags)
{
    (void)flags;
    return record(event, stream);
}

EXPORT CUresult cuEventSynchronize(CUevent event)
{
    if (event->on)
        stream_wait(event->on, event->number);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventQuery(CUevent event)
{
    if (event->on && !stream_has_done(event->on, event->number))
        return CUDA_ERROR_NOT_READY;
    return CUDA_SUCCESS;
}

/* ---- launches ---- */

static CUresult launch(CUfunction function, CUstream stream, void **arguments)
{
    struct operation operation = {.kind = OP_SLEEP};

    if (function && function->run) {
        operation.kind = OP_RUN;
        operation.run = function->run;
        operation.argument = *(void **)arguments[0];
    } else if (arguments) {
        operation.duration_ns = *(int64_t *)arguments[0];
    }
    stream_issue(stream, operation);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                               unsigned grid_z, unsigned block_x, unsigned block_y,
                               unsigned block_z, unsigned shared_bytes, CUstream stream,
                               void **arguments, void **extra)
{
    (void)grid_x, (void)grid_y, (void)grid_z, (void)block_x, (void)block_y;
    (void)block_z, (void)shared_bytes, (void)extra;
    return launch(function, stream, arguments);
}

EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function,
                                 void **arguments, void **extra)
{
    (void)extra;
    return launch(function, config->stream, arguments);
}

EXPORT CUresult cuLaunchHostFunc(CUstream stream, void (*function)(void *), void *data)
{
    stream_issue(stream, (struct operation){
                             .kind = OP_RUN, .run = function, .argument = data});
    return CUDA_SUCCESS;
}

/* ---- memory: device memory is ordinary memory here ---- */

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t bytes)
{
    void *pointer = malloc(bytes ? bytes : 1);

    *out = (CUdeviceptr)(uintptr_t)pointer;
    return pointer ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuMemFree_v2(CUdeviceptr pointer)
{
    stream_wait_all(); /* as the real one: freeing synchronises */
    free((void *)(uintptr_t)pointer);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemHostAlloc(void **out, size_t bytes, unsigned flags)
{
    (void)flags;
    *out = malloc(bytes ? bytes : 1);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuMemFreeHost(void *pointer)
{
    free(pointer);
    return CUDA_SUCCESS;
}

static CUresult copy(void *to, const void *from, size_t bytes, CUstream stream)
{
    stream_issue(stream, (struct operation){.kind = OP_COPY,
                                            .target = to,
                                            .argument = (void *)(uintptr_t)from,
                                            .bytes = bytes});
    return CUDA_SUCCESS;
}

static CUresult copy_now(void *to, const void *from, size_t bytes)
{
    CUstream stream = stream_of(NULL);

    copy(to, from, bytes, NULL);
    stream_wait(stream, stream_issued(stream));
    return CUDA_SUCCESS;
}

#define DEVICE(pointer) ((void *)(uintptr_t)(pointer))

EXPORT CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    return copy_now(DEVICE(to), DEVICE(from), bytes);
}

EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes)
{
    return copy_now(DEVICE(to), from, bytes);
}

EXPORT CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes)
{
    return copy_now(to, DEVICE(from), bytes);
}

EXPORT CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                              CUstream stream)
{
    return copy(DEVICE(to), DEVICE(from), bytes, stream);
}

EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes,
                                     CUstream stream)
{
    return copy(DEVICE(to), from, bytes, stream);
}

EXPORT CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes,
                                     CUstream stream)
{
    return copy(to, DEVICE(from), bytes, stream);
}

EXPORT CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes,
                                CUstream stream)
{
    stream_issue(stream, (struct operation){.kind = OP_FILL,
                                            .target = DEVICE(to),
                                            .bytes = bytes,
                                            .fill = value});
    return CUDA_SUCCESS;
}
