"""Write a made job as spools, as a recorder would: frames of whole ring regions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from capture.spool import SpoolWriter
from tests.bench.made_job import FIRST_NS, RANKS_PER_HOST, STEP_NS, MadeJob, pid_of

if TYPE_CHECKING:
    from pathlib import Path

FRAME_RECORDS = 8_192
JOB_ID = "made-job"
WORLD_ORIGIN = "5eed" * 8
PROBES = (
    (1, "collective", "all_reduce", "mpi", 1, "MPI_Allreduce", True),
    (2, "gpu_call", "launch", "nvidia", 0, "cuLaunchKernel", False),
    (3, "gpu_call", "memcpy_async", "nvidia", 1, "cudaMemcpyAsync", True),
    (4, "gpu_call", "memcpy_async", "nvidia", 0, "cuMemcpyHtoDAsync_v2", True),
    (5, "gpu_call", "stream_sync", "nvidia", 1, "cudaStreamSynchronize", True),
    (6, "gpu_call", "stream_sync", "nvidia", 0, "cuStreamSynchronize", True),
    (7, "off_cpu", "switch", "kernel", 0, "sched_switch", False),
)


def write_spool(job: MadeJob, host: int, folder: Path) -> int:
    """Write one host's spool and return the number of its events."""
    stop_ns = FIRST_NS + (job.steps + 1) * STEP_NS
    spool = SpoolWriter(folder, _header(host))
    count = 0
    spool.append("facts", _lines(_facts(job, host)))
    spool.append("clock", _lines(_clock(FIRST_NS - STEP_NS, stop_ns)))
    for stream, rows in job.host_streams(host):
        for at in range(0, len(rows), FRAME_RECORDS):
            part = rows[at : at + FRAME_RECORDS]
            spool.append(f"events/{stream}", part.tobytes(), len(part))
        count += len(rows)
    for stream in ("collective", "gpu_call", "off_cpu"):
        spool.append(f"inflight/{stream}", b"")
    end = {"stop_reason": "targets_gone", "stop_ns": stop_ns, "facts": []}
    spool.append("end", json.dumps(end).encode())
    spool.close()
    return count


def _header(host: int) -> dict[str, Any]:
    return {
        "capture_id": f"{host:08x}",
        "version": 1,
        "created_by": {"name": "coldtrace-bench", "version": "0"},
        "host": _host(host),
        "capture": {
            "start_ns": FIRST_NS - STEP_NS,
            "start_utc": "2026-01-01T00:00:00Z",
            "loader": "core",
            "loader_detail": "made, not recorded",
            "probe_set": "standard",
            "off_cpu_min_ns": 100_000,
        },
        "streams": ["collective", "gpu_call", "off_cpu"],
        "missing_columns": {},
        "syscalls": {"7": "poll", "202": "futex"},
    }


def _host(host: int) -> dict[str, Any]:
    return {
        "boot_id": f"00000000-0000-4000-8000-{host:012x}",
        "machine_id": f"{host:032x}",
        "host_name": f"host{host}",
        "architecture": "x86_64",
        "kernel_release": "6.18.0",
        "os_name": "made",
        "cpu_count": RANKS_PER_HOST,
        "page_size_bytes": 4096,
        "ticks_per_second": 100,
    }


def _facts(job: MadeJob, host: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [{"fact": "host", **_host(host)}]
    for local in range(RANKS_PER_HOST):
        rows += _rank_facts(job, host * RANKS_PER_HOST + local, local)
    for probe_id, stream, operation, vendor, layer, symbol, has_return in PROBES:
        rows.append(
            {
                "fact": "probe",
                "probe_id": probe_id,
                "stream": stream,
                "operation": operation,
                "vendor": vendor,
                "layer": layer,
                "library_ref": None,
                "symbol": symbol,
                "file_offset": None,
                "has_return": has_return,
                "is_asked": True,
                "is_attached": True,
                "refused_reason": None,
                "hit_count": job.steps,
                "lost_count": 0,
                "lost_first_ns": None,
                "lost_last_ns": None,
                "unmatched_return_count": 0,
                "aliases": [],
            }
        )
    return rows


def _rank_facts(job: MadeJob, rank: int, local: int) -> list[dict[str, Any]]:
    pid, ticks = pid_of(rank), 90_000
    first = FIRST_NS - STEP_NS
    return [
        {
            "fact": "process",
            "pid": pid,
            "start_ticks": ticks,
            "process_name": "train",
            "target_reason": "library",
            "first_ns": first,
            "job_id": JOB_ID,
        },
        {
            "fact": "thread",
            "pid": pid,
            "tid": pid,
            "start_ticks": ticks,
            "thread_name": "train",
            "first_ns": first,
        },
        {
            "fact": "rank",
            "pid": pid,
            "start_ticks": ticks,
            "rank": rank,
            "local_rank": local,
            "world_size": job.ranks,
            "source": "openmpi",
            "job_id": JOB_ID,
        },
        {
            "fact": "communicator",
            "communicator_ref": local + 1,
            "pid": pid,
            "kind": "mpi",
            "origin": WORLD_ORIGIN,
            "generation": 0,
            "size": job.ranks,
            "rank": rank,
            "how": "world",
            "is_base_known": True,
            "first_ns": first,
        },
    ]


def _clock(start_ns: int, stop_ns: int) -> list[dict[str, int]]:
    utc_ns = 1_767_225_600_000_000_000
    return [
        {
            "monotonic_ns": at,
            "monotonic_raw_ns": at,
            "boottime_ns": at,
            "realtime_ns": utc_ns + at,
            "tai_ns": utc_ns + at,
            "bracket_ns": 200,
            "adjtime_frequency_ppb": 0,
            "adjtime_tick": 10_000,
            "adjtime_status": 0,
            "adjtime_maxerror_us": 500,
            "adjtime_esterror_us": 10,
        }
        for at in range(start_ns, stop_ns, 1_000_000_000)
    ]


def _lines(rows: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()
