/*
 * Stand-in libcudart.so: the runtime's calls, each passing through the driver's,
 * as the real runtime does.  A "kernel" takes its running time as first argument.
 */
#include "cuda_abi.h"

typedef int cudaError_t;
typedef CUstream cudaStream_t;
typedef CUevent cudaEvent_t;

typedef struct {
    unsigned x, y, z;
} dim3;

typedef struct {
    dim3 grid, block;
    size_t shared_bytes;
    cudaStream_t stream;
    void *attributes;
    unsigned attribute_count;
} cudaLaunchConfig_t;

enum copy_kind { HOST_TO_HOST, HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE };

static __thread cudaError_t last_error;

static cudaError_t remember(CUresult result)
{
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY)
        last_error = result;
    return result;
}

EXPORT cudaError_t cudaGetLastError(void)
{
    cudaError_t error = last_error;

    last_error = 0;
    return error;
}

EXPORT cudaError_t cudaGetDeviceCount(int *count)
{
    return remember(cuDeviceGetCount(count));
}

EXPORT cudaError_t cudaSetDevice(int device)
{
    return remember(device < 0 ? CUDA_ERROR_INVALID_VALUE : cuInit(0));
}

EXPORT cudaError_t cudaDeviceSynchronize(void)
{
    return remember(cuCtxSynchronize());
}

/* ---- memory ---- */

EXPORT cudaError_t cudaMalloc(void **out, size_t bytes)
{
    return remember(cuMemAlloc_v2((CUdeviceptr *)out, bytes));
}

EXPORT cudaError_t cudaFree(void *pointer)
{
    return remember(cuMemFree_v2((CUdeviceptr)(uintptr_t)pointer));
}

EXPORT cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned flags)
{
    return remember(cuMemHostAlloc(out, bytes, flags));
}

EXPORT cudaError_t cudaMallocHost(void **out, size_t bytes)
{
    return remember(cuMemHostAlloc(out, bytes, 0));
}

EXPORT cudaError_t cudaFreeHost(void *pointer)
{
    return remember(cuMemFreeHost(pointer));
}

#define DEVICE(pointer) ((CUdeviceptr)(uintptr_t)(pointer))

EXPORT cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, int kind)
{
    if (kind == HOST_TO_DEVICE)
        return remember(cuMemcpyHtoD_v2(DEVICE(to), from, bytes));
    if (kind == DEVICE_TO_HOST)
        return remember(cuMemcpyDtoH_v2(to, DEVICE(from), bytes));
    return remember(cuMemcpy(DEVICE(to), DEVICE(from), bytes));
}

EXPORT cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind,
                                   cudaStream_t stream)
{
    if (kind == HOST_TO_DEVICE)
        return remember(cuMemcpyHtoDAsync_v2(DEVICE(to), from, bytes, stream));
    if (kind == DEVICE_TO_HOST)
        return remember(cuMemcpyDtoHAsync_v2(to, DEVICE(from), bytes, stream));
    return remember(cuMemcpyAsync(DEVICE(to), DEVICE(from), bytes, stream));
}

EXPORT cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes,
                                   cudaStream_t stream)
{
    return remember(cuMemsetD8Async(DEVICE(to), (unsigned char)value, bytes, stream));
}

/* ---- launches ---- */

EXPORT cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block,
                                    void **arguments, size_t shared_bytes,
                                    cudaStream_t stream)
{
    (void)function;
    return remember(cuLaunchKernel(NULL, grid.x, grid.y, grid.z, block.x, block.y,
                                   block.z, (unsigned)shared_bytes, stream, arguments,
                                   NULL));
}

EXPORT cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config,
                                       const void *function, void **arguments)
{
    CUlaunchConfig driver = {
        .grid_x = config->grid.x,
        .grid_y = config->grid.y,
        .grid_z = config->grid.z,
        .block_x = config->block.x,
        .block_y = config->block.y,
        .block_z = config->block.z,
        .shared_bytes = (unsigned)config->shared_bytes,
        .stream = config->stream,
    };

    (void)function;
    return remember(cuLaunchKernelEx(&driver, NULL, arguments, NULL));
}

EXPORT cudaError_t cudaLaunchHostFunc(cudaStream_t stream, void (*function)(void *),
                                      void *data)
{
    return remember(cuLaunchHostFunc(stream, function, data));
}

/* ---- streams, graphs ---- */

EXPORT cudaError_t cudaStreamCreate(cudaStream_t *out)
{
    return remember(cuStreamCreate(out, 0));
}

EXPORT cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
    return remember(cuStreamCreate(out, flags));
}

EXPORT cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned flags,
                                                int priority)
{
    return remember(cuStreamCreateWithPriority(out, flags, priority));
}

EXPORT cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    return remember(cuStreamDestroy_v2(stream));
}

EXPORT cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    return remember(cuStreamSynchronize(stream));
}

EXPORT cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    return remember(cuStreamQuery(stream));
}

EXPORT cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                       unsigned flags)
{
    return remember(cuStreamWaitEvent(stream, event, flags));
}

EXPORT cudaError_t cudaStreamBeginCapture(cudaStream_t stream, int mode)
{
    return remember(cuStreamBeginCapture_v2(stream, mode));
}

EXPORT cudaError_t cudaStreamEndCapture(cudaStream_t stream, CUgraph *out)
{
    return remember(cuStreamEndCapture(stream, out));
}

EXPORT cudaError_t cudaGraphInstantiateWithFlags(CUgraphExec *out, CUgraph graph,
                                                 unsigned long long flags)
{
    return remember(cuGraphInstantiateWithFlags(out, graph, flags));
}

EXPORT cudaError_t cudaGraphLaunch(CUgraphExec exec, cudaStream_t stream)
{
    return remember(cuGraphLaunch(exec, stream));
}

/* ---- events ---- */

EXPORT cudaError_t cudaEventCreate(cudaEvent_t *out)
{
    return remember(cuEventCreate(out, 0));
}

EXPORT cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags)
{
    return remember(cuEventCreate(out, flags));
}

EXPORT cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    return remember(cuEventDestroy_v2(event));
}

EXPORT cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    return remember(cuEventRecord(event, stream));
}

EXPORT cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream,
                                            unsigned flags)
{
    return remember(cuEventRecordWithFlags(event, stream, flags));
}

EXPORT cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    return remember(cuEventSynchronize(event));
}

EXPORT cudaError_t cudaEventQuery(cudaEvent_t event)
{
    return remember(cuEventQuery(event));
}
