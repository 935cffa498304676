"""Libraries and a caller made from the probe tables: a new row is called without more.

Every name of every row is a function that does nothing, with as many parameters as the
row says; the second name of a collective is an alias of the first, as in the real
libraries, and a few GPU calls have their per-thread variant.  The caller makes a prime
number of each by name, then calls each with the next one inside of it.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from capture import probe_table_collective as collective
from capture import probe_table_gpu as gpu
from capture.probes import LAUNCHES, Meaning, Probe

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILES = {
    "nccl": "libnccl.so.2",
    "mpi": "libmpi.so.40",
    "cudart": "libcudart.so.12",
    "cuda": "libcuda.so.1",
}
ROWS = (*collective.NCCL, *collective.MPI, *gpu.RUNTIME, *gpu.DRIVER)
_STREAM_SYNC = 130
_NESTED = 3


@dataclass(frozen=True)
class Function:
    """One function of a library, with all its names."""

    row: Probe
    names: tuple[str, ...]


def functions() -> list[Function]:
    """Return every function that the tables name."""
    return [made for row in ROWS for made in _functions(row)]


def _functions(row: Probe) -> Iterator[Function]:
    if row.stream == "collective":
        yield Function(row, row.symbols)
        return
    for symbol in row.symbols:
        yield Function(row, (symbol,))
    if row.operation in (*LAUNCHES, _STREAM_SYNC):
        yield Function(row, (f"{row.symbols[0]}_ptsz",))


def call_counts() -> dict[str, int]:
    """Return how often each name is called by itself: a prime of its own."""
    names = [name for one in functions() for name in one.names]
    return dict(zip(names, _primes(), strict=False))


def nested_pairs() -> list[tuple[Function, Function]]:
    """Return who is called inside of whom, each pair three times.

    A group that is opened stays open, and no end inside of it is recorded, so what
    opens one comes last.
    """
    every = functions()
    half = len(every) // 2
    # Half the list apart: communication inside of GPU calls, driver inside of runtime.
    turned = every[half:] + every[:half]
    pairs = sorted(zip(every, turned, strict=True), key=lambda p: any(map(_opens, p)))
    return [pair for pair in pairs for _ in range(_NESTED)]


def _opens(one: Function) -> bool:
    return one.row.meaning == Meaning.GROUP_START


def build(folder: Path) -> Path:
    """Compile libraries and caller, and return the caller."""
    every = functions()
    shared = ["gcc", "-O1", "-fPIC", "-shared", "-fno-ipa-icf"]
    (folder / "hook.c").write_text("void (*hook)(void);\n")
    _compile([*shared, "hook.c", "-o", "libhook.so", "-Wl,-soname,libhook.so"], folder)
    for kind, file in FILES.items():
        source = folder / f"{kind}.c"
        text = "".join(
            _definition(one) for one in every if one.row.library_kind == kind
        )
        source.write_text(f"{_PROLOGUE}{text}")
        soname = f"-Wl,-soname,{file}"
        _compile([*shared, source.name, "-o", file, soname, "./libhook.so"], folder)
    (folder / "caller.c").write_text(_caller(every))
    libraries = [f"./{file}" for file in (*FILES.values(), "libhook.so")]
    command = ["gcc", "-O0", "caller.c", "-o", "caller", *libraries]
    _compile([*command, "-Wl,-rpath,$ORIGIN"], folder)
    return folder / "caller"


def _compile(command: list[str], folder: Path) -> None:
    subprocess.run(command, cwd=folder, check=True)


_TYPES = """
struct id { char bytes[128]; };
extern void (*hook)(void);
"""
_PROLOGUE = f"""{_TYPES}
static int inside(void) {{
  void (*call)(void) = hook;
  hook = 0;
  if (call) call();
  return 0;
}}
"""


def _parameters(row: Probe) -> list[str]:
    return ["struct id" if word == "=id" else "long" for word in row.call.split()]


def _definition(one: Function) -> str:
    """Return a function that calls what hangs on the hook, and its aliases."""
    first, *aliases = one.names
    kinds = ", ".join(f"{k} a{i}" for i, k in enumerate(_parameters(one.row))) or "void"
    text = f"int {first}({kinds}) {{ return inside(); }}\n"
    for alias in aliases:
        text += f'int {alias}({kinds}) __attribute__((alias("{first}")));\n'
    return text


def _call(row: Probe, name: str) -> str:
    values = ["none" if kind == "struct id" else "0L" for kind in _parameters(row)]
    return f"{name}({', '.join(values)})"


def _caller(every: list[Function]) -> str:
    """Return a program that waits for a line, makes all calls, and waits again."""
    lines = [
        "#include <stdio.h>",
        _TYPES,
        "struct id none;",
    ]
    for one in every:
        kinds = ", ".join(_parameters(one.row)) or "void"
        lines += [f"int {name}({kinds});" for name in one.names]
        lines.append(
            f"static void in_{one.names[0]}(void) {{ {_call(one.row, one.names[0])}; }}"
        )
    lines += ["int main(void) {", 'puts("up"); fflush(stdout); getchar(); getchar();']
    calls = [(_opens(one), one.row, name) for one in every for name in one.names]
    counts = call_counts()
    by_name = [
        (opens, f"for (int i = 0; i < {counts[name]}; i++) {_call(row, name)};")
        for opens, row, name in calls
    ]
    lines += [line for opens, line in by_name if not opens]
    lines += [
        f"hook = in_{inner.names[0]}; {_call(outer.row, outer.names[-1])};"
        for outer, inner in nested_pairs()
    ]
    lines += [line for opens, line in by_name if opens]
    lines.append('puts("done"); fflush(stdout); getchar(); return 0; }')
    return "\n".join(lines) + "\n"


def _primes() -> Iterator[int]:
    found: list[int] = []
    number = 2
    while True:
        if all(number % prime for prime in found):
            found.append(number)
            yield number
        number += 1
