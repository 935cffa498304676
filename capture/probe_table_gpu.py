"""Calls of the CUDA runtime (layer 1) and of the driver (layer 0).

``standard`` has launches of the driver layer by entry alone, because every launch of
the runtime, cuBLAS and Triton passes there and a return probe on it is what a
launch-bound job feels.  Of the calls that can block it has both layers: a program may
call either, and what a runtime call does in the driver is left out in the kernel, so a
pair costs its probes but no second record.  ``full`` records both and marks nesting.
"""

from __future__ import annotations

from capture.probes import Meaning, Probe

_LAUNCH, _LAUNCH_HOST = 100, 101
_HOST_TO_DEVICE, _DEVICE_TO_HOST, _DEVICE_TO_DEVICE = 1, 2, 3


def _row(
    layer: int,
    operation: int,
    names: str,
    call: str,
    meaning: Meaning = Meaning.CALL,
    *,
    copy_kind: int | None = None,
    size_shift: int = 0,
    drops_failed: bool = False,
    is_full: bool = False,
    has_return: bool = True,
) -> Probe:
    return Probe(
        stream="gpu_call",
        operation=operation,
        vendor="nvidia",
        layer=layer,
        symbols=tuple(names.split()),
        call=call,
        library_kind="cudart" if layer else "cuda",
        meaning=meaning,
        has_return=has_return,
        copy_kind=copy_kind,
        size_shift=size_shift,
        drops_failed=drops_failed,
        is_full=is_full,
    )


# The two 12-byte dim3 of a launch take two registers each.
_RUNTIME_LAUNCH = "object _ _ _ _ _ _ stream"
_DRIVER_LAUNCH = "object _ _ _ _ _ _ _ stream"
_COPY_ASYNC = "_ _ size stream"

RUNTIME = (
    _row(
        1,
        _LAUNCH,
        "cudaLaunchKernel cudaLaunchCooperativeKernel",
        _RUNTIME_LAUNCH,
        has_return=False,
    ),
    _row(1, _LAUNCH, "cudaLaunchKernelExC", "*stream+32 object _", has_return=False),
    _row(1, _LAUNCH_HOST, "cudaLaunchHostFunc", "stream object _", is_full=True),
    _row(1, 110, "cudaMemcpy", "_ _ size kind:i32"),
    _row(1, 110, "cudaMemcpy2D", "_ _ _ _ size size_by kind:i32"),
    _row(1, 110, "cudaMemcpyPeer", "_ _ _ _ size", copy_kind=_DEVICE_TO_DEVICE),
    _row(1, 111, "cudaMemcpyAsync", "_ _ size kind:i32 stream"),
    _row(1, 111, "cudaMemcpy2DAsync", "_ _ _ _ size size_by kind:i32 stream"),
    _row(
        1,
        111,
        "cudaMemcpyPeerAsync",
        "_ _ _ _ size stream",
        copy_kind=_DEVICE_TO_DEVICE,
    ),
    _row(1, 112, "cudaMemset", "object _ size"),
    _row(1, 113, "cudaMemsetAsync", "object _ size stream"),
    _row(1, 120, "cudaMalloc", "object> size"),
    _row(1, 120, "cudaMallocManaged", "object> size _"),
    _row(1, 120, "cudaMallocAsync", "object> size stream"),
    _row(1, 121, "cudaFree", "object"),
    _row(1, 121, "cudaFreeAsync", "object stream"),
    _row(1, 122, "cudaHostAlloc cudaMallocHost", "object> size _"),
    _row(1, 123, "cudaFreeHost", "object"),
    _row(1, 130, "cudaStreamSynchronize", "stream"),
    _row(1, 131, "cudaDeviceSynchronize", ""),
    _row(1, 132, "cudaEventSynchronize", "object"),
    _row(1, 133, "cudaEventRecord cudaEventRecordWithFlags", "object stream _"),
    _row(1, 134, "cudaStreamWaitEvent", "stream object _"),
    _row(1, 135, "cudaEventQuery", "object", drops_failed=True),
    _row(1, 136, "cudaStreamQuery", "stream", drops_failed=True),
    _row(
        1,
        137,
        "cudaStreamCreate cudaStreamCreateWithFlags cudaStreamCreateWithPriority",
        "stream> _ _",
    ),
    _row(1, 138, "cudaStreamDestroy", "stream"),
    _row(1, 140, "cudaStreamBeginCapture", "stream _", Meaning.CAPTURE_BEGIN),
    _row(
        1,
        140,
        "cudaStreamBeginCaptureToGraph",
        "stream object _ _ _ _",
        Meaning.CAPTURE_BEGIN,
    ),
    _row(1, 141, "cudaStreamEndCapture", "stream object>", Meaning.CAPTURE_END),
    _row(1, 142, "cudaGraphLaunch", "object stream"),
)

DRIVER = (
    _row(
        0,
        _LAUNCH,
        "cuLaunchKernel cuLaunchCooperativeKernel",
        _DRIVER_LAUNCH,
        has_return=False,
    ),
    _row(0, _LAUNCH, "cuLaunchKernelEx", "*stream+32 object _ _", has_return=False),
    _row(0, _LAUNCH_HOST, "cuLaunchHostFunc", "stream object _", is_full=True),
    _row(0, 110, "cuMemcpy", "_ _ size"),
    _row(0, 110, "cuMemcpyHtoD_v2", "_ _ size", copy_kind=_HOST_TO_DEVICE),
    _row(0, 110, "cuMemcpyDtoH_v2", "_ _ size", copy_kind=_DEVICE_TO_HOST),
    _row(0, 110, "cuMemcpyDtoD_v2", "_ _ size", copy_kind=_DEVICE_TO_DEVICE),
    _row(0, 110, "cuMemcpyPeer", "_ _ _ _ size", copy_kind=_DEVICE_TO_DEVICE),
    _row(0, 110, "cuMemcpy2D_v2 cuMemcpy2DUnaligned_v2 cuMemcpy3D_v2", "_"),
    _row(0, 111, "cuMemcpyAsync", _COPY_ASYNC),
    _row(0, 111, "cuMemcpyHtoDAsync_v2", _COPY_ASYNC, copy_kind=_HOST_TO_DEVICE),
    _row(0, 111, "cuMemcpyDtoHAsync_v2", _COPY_ASYNC, copy_kind=_DEVICE_TO_HOST),
    _row(0, 111, "cuMemcpyDtoDAsync_v2", _COPY_ASYNC, copy_kind=_DEVICE_TO_DEVICE),
    _row(
        0, 111, "cuMemcpyPeerAsync", "_ _ _ _ size stream", copy_kind=_DEVICE_TO_DEVICE
    ),
    _row(0, 111, "cuMemcpy2DAsync_v2 cuMemcpy3DAsync_v2", "_ stream"),
    _row(0, 112, "cuMemsetD8_v2", "object _ size"),
    _row(0, 112, "cuMemsetD16_v2", "object _ size", size_shift=1),
    _row(0, 112, "cuMemsetD32_v2", "object _ size", size_shift=2),
    _row(0, 113, "cuMemsetD8Async", "object _ size stream"),
    _row(0, 113, "cuMemsetD16Async", "object _ size stream", size_shift=1),
    _row(0, 113, "cuMemsetD32Async", "object _ size stream", size_shift=2),
    _row(0, 120, "cuMemAlloc_v2", "object> size"),
    _row(0, 120, "cuMemAllocManaged", "object> size _"),
    _row(0, 120, "cuMemAllocAsync", "object> size stream"),
    _row(0, 120, "cuMemCreate", "object> size _ _", is_full=True),
    _row(0, 121, "cuMemFree_v2", "object"),
    _row(0, 121, "cuMemFreeAsync", "object stream"),
    _row(0, 122, "cuMemHostAlloc cuMemAllocHost_v2", "object> size _"),
    _row(0, 123, "cuMemFreeHost", "object"),
    _row(0, 130, "cuStreamSynchronize", "stream"),
    _row(0, 131, "cuCtxSynchronize", ""),
    _row(0, 132, "cuEventSynchronize", "object"),
    _row(0, 133, "cuEventRecord cuEventRecordWithFlags", "object stream _"),
    _row(0, 134, "cuStreamWaitEvent", "stream object _"),
    _row(0, 135, "cuEventQuery", "object", drops_failed=True),
    _row(0, 136, "cuStreamQuery", "stream", drops_failed=True),
    _row(0, 137, "cuStreamCreate cuStreamCreateWithPriority", "stream> _ _"),
    _row(0, 138, "cuStreamDestroy_v2", "stream"),
    _row(0, 140, "cuStreamBeginCapture_v2", "stream _", Meaning.CAPTURE_BEGIN),
    _row(
        0,
        140,
        "cuStreamBeginCaptureToGraph",
        "stream object _ _ _ _",
        Meaning.CAPTURE_BEGIN,
    ),
    _row(0, 141, "cuStreamEndCapture", "stream object>", Meaning.CAPTURE_END),
    _row(0, 142, "cuGraphLaunch", "object stream"),
)
