"""What one hit of a probe costs the program: the trap alone, and with a record.

It depends on the instruction that the breakpoint replaced.  The kernel emulates a
``push``, with which most functions of a CUDA library begin; an ``endbr64`` it runs out
of line, with a second trap.  Both are measured.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from capture.elf import ElfFile
from capture.loaders import bpf_syscall
from tests.gpu.processes import recording

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SOURCE = Path(__file__).with_name("probe_cost.c")
LIBRARY = "libcuda.so.1"
CALLS = {"l": ("cuLaunchKernel", False), "s": ("cuStreamSynchronize", True)}
"""Symbol and whether it carries a return probe, by the letter of the loop."""
COUNT = 20_000
REPEATS = 21
FIRST_INSTRUCTIONS = {"push": "", "endbr64": "endbr64"}
RETURN_ZERO = bytes.fromhex("b7000000000000009500000000000000")


@dataclass(frozen=True)
class ProbeCost:
    """Median nanoseconds of a call that does nothing else."""

    what: str
    bare_ns: float
    trap_ns: float
    recorded_ns: float


def probe_costs(recorder: Sequence[str]) -> list[ProbeCost]:
    """Return the cost of an entry probe, and of one with return, by instruction."""
    return [
        cost
        for name, first in FIRST_INSTRUCTIONS.items()
        for cost in _costs(recorder, name, first)
    ]


def _costs(recorder: Sequence[str], name: str, first: str) -> list[ProbeCost]:
    with tempfile.TemporaryDirectory() as folder, _loop(Path(folder), first) as loop:
        library = Path(folder) / LIBRARY
        bare = {call: _median(loop, call) for call in CALLS}
        trap = {}
        for call, (symbol, has_return) in CALLS.items():
            with _empty_probes(library, symbol, has_return=has_return):
                trap[call] = _median(loop, call)
        with recording(recorder, loop.pid, Path(folder), "--streams", "gpu_call"):
            recorded = {call: _median(loop, call) for call in CALLS}
    return [
        ProbeCost(
            f"{'entry and return' if has_return else 'entry'}, at {name}",
            bare[call],
            trap[call],
            recorded[call],
        )
        for call, (_, has_return) in CALLS.items()
    ]


@contextmanager
def _loop(folder: Path, first: str) -> Iterator[subprocess.Popen[str]]:
    """Give the running loop, built beside its library in `folder`."""
    library, program = folder / LIBRARY, folder / "loop"
    build = ["cc", "-O2", "-Wall", str(SOURCE)]
    driver = ["-DDRIVER", f'-DFIRST="{first}"', "-shared", "-fPIC", "-o", str(library)]
    subprocess.run([*build, *driver], check=True)
    linked = [str(library), f"-Wl,-rpath,{folder}", "-o", str(program)]
    subprocess.run([*build, *linked], check=True)
    process = subprocess.Popen(
        [str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.communicate()


def _median(loop: subprocess.Popen[str], call: str) -> float:
    assert loop.stdin is not None
    assert loop.stdout is not None
    found = []
    for _ in range(REPEATS):
        print(call, COUNT, file=loop.stdin, flush=True)
        found.append(float(loop.stdout.readline()))
    return statistics.median(found)


@contextmanager
def _empty_probes(library: Path, symbol: str, *, has_return: bool) -> Iterator[None]:
    """Attach programs that do nothing, so that only the trap is paid."""
    elf = ElfFile.open(library)
    offset = elf.functions()[symbol]
    program = bpf_syscall.load_program(RETURN_ZERO, bpf_syscall.ATTACH_UPROBE_MULTI)
    links = [
        bpf_syscall.attach_multi(
            program, str(library), [offset], [0], is_return=is_return
        )
        for is_return in ((False, True) if has_return else (False,))
    ]
    try:
        yield
    finally:
        for fd in (*links, program):
            os.close(fd)
