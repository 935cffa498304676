"""The recorder: how fast it drains and stops, what a record costs, its memory."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from capture.layout import OFF_CPU
from capture.libraries import LibraryTable
from capture.loaders import RING_BYTES, bpf_syscall
from capture.probes import plan
from capture.ring import Drainer, Ring
from capture.spool import SpoolWriter
from tests.bench.figures import Figure, timed
from tests.capture import table_program
from tests.capture.kernel_ring import KernelRing, kernel_ring
from tests.capture.live import Bundle, recording

if TYPE_CHECKING:
    from collections.abc import Iterator

_RATES = (500_000, 1_000_000, 1_500_000, 2_000_000, 3_000_000, 4_000_000, 6_000_000)
_SECONDS = 2.0
_BATCH = 20_000
_PERF_PROBES = 20


class Drained(NamedTuple):
    """One run at one rate."""

    asked: int
    kept: int
    seconds: float
    cpu_ns: int


def measure_recorder() -> Iterator[Figure]:
    """Yield what the recorder does on this machine, or that it cannot be had."""
    if os.geteuid() != 0:
        yield Figure(what="recorder", measured="not measured: needs root")
        return
    yield from _drain_figures()
    with tempfile.TemporaryDirectory() as name:
        yield from _stop_figures(Path(name))
        yield _perf_figure(Path(name))


def _drain_figures() -> Iterator[Figure]:
    """Yield the highest rate without a loss, made by the kernel, with its CPU time."""
    best: Drained | None = None
    with timed("recorder, drain"):
        for rate in _RATES:
            run = _drain_at(rate)
            if run.kept < run.asked:
                break
            best = run
    if best is None:
        yield Figure(what="recorder: drain", measured="lost at the lowest rate")
        return
    yield Figure(
        what="recorder: drain of records made in the kernel, none lost",
        measured=f"{best.kept / best.seconds / 1e6:.2f} M records/s",
        bar=">= 1 M records/s",
    )
    yield Figure(
        what="recorder: CPU a record, drained and written",
        measured=f"{best.cpu_ns / best.kept / 1e3:.3f} us",
        bar="<= 0.2 us",
    )


def _drain_at(rate: int) -> Drained:
    """Drain and write records that the kernel makes at a rate, for two seconds."""
    size = RING_BYTES["off_cpu"]
    with (
        tempfile.TemporaryDirectory() as folder,
        kernel_ring(size, OFF_CPU.size) as made,
    ):
        ring = Ring(made.ring.fd, size, OFF_CPU.size)
        spool = SpoolWriter(Path(folder) / "spool", {"streams": ["off_cpu"]})
        kept: list[int] = []

        def write(_: str, region: memoryview, count: int) -> None:
            spool.append("events/off_cpu", region, count)
            kept.append(count)

        drainer = Drainer({"off_cpu": ring}, write)
        drainer.start()
        start = time.perf_counter()
        _make_at(made, rate, start)
        seconds = time.perf_counter() - start
        drainer.stop()
        spool.close()
        ring.close()
        cpu_ns = sum(drainer.spent_ns.values())
        return Drained(made.asked, sum(kept), seconds, cpu_ns)


def _make_at(made: KernelRing, rate: int, start: float) -> None:
    """Make batches of records so that their number keeps up with the clock."""
    for batch in range(int(rate * _SECONDS / _BATCH)):
        wait = start + batch * _BATCH / rate - time.perf_counter()
        if wait > 0:
            time.sleep(wait)
        made.make(_BATCH)


def _stop_figures(folder: Path) -> Iterator[Figure]:
    """Yield how long a recording of 300 probes takes to stop, and its memory."""
    libraries = _libraries(folder)
    with closing(LibraryTable(libraries)) as table:
        probes = len(plan(table.libraries, "full"))
    words = [word for path in libraries for word in ("--library", path)]
    idle = subprocess.Popen(["sleep", "600"])
    try:
        target = ("--pid", idle.pid, "--set", "full", "--loader", "core")
        with timed("recorder, stop"), recording(folder, *target, *words) as recorder:
            time.sleep(1)
            start = time.perf_counter()
            recorder.process.send_signal(signal.SIGINT)
            recorder.end()
            seconds = time.perf_counter() - start
    finally:
        idle.kill()
        idle.wait()
    with closing(Bundle(folder)) as bundle:
        (cost,) = bundle.facts["cost"]
        detail = bundle.manifest["capture"]["loader_detail"]
    yield Figure(
        what=f"recorder: stop, seal and exit, {probes} probes with returns ({detail})",
        measured=f"{seconds:.2f} s",
        bar="<= 2 s",
    )
    yield Figure(
        what="recorder: RSS without the rings, the same recording",
        measured=f"{cost['rss_without_rings_bytes'] / 1e6:.1f} MB",
        bar="<= 40 MB",
    )


def _libraries(folder: Path) -> list[Path]:
    """Return copies of the table's libraries that make more than 300 probes."""
    found: list[Path] = []
    for copy, count in (("one", 4), ("two", 4), ("three", 1)):
        (folder / copy).mkdir()
        table_program.build(folder / copy)
        files = list(table_program.FILES.values())[:count]
        found += [folder / copy / file for file in files]
    return found


def _perf_figure(folder: Path) -> Figure:
    """Return what removing one probe takes without uprobe_multi, as bcc does it."""
    with closing(LibraryTable([folder / "one/libmpi.so.40"])) as table:
        sites = plan(table.libraries, "full")[:_PERF_PROBES]
        program = bpf_syscall.load_program(bpf_syscall.EXIT)
        probes = [
            bpf_syscall.attach_perf(
                program, site.fd_path, site.file_offset, None, is_return=False
            )
            for site in sites
        ]
        with timed("recorder, perf events") as watch:
            for probe in probes:
                probe.close()
        os.close(program)
    return Figure(
        what="recorder: removing one perf event, for comparison (bcc)",
        measured=f"{watch.seconds / len(sites):.3f} s",
    )
