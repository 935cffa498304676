"""Which calls are recorded, and where each is found in a library.

A probe is a row of a table (``probe_table_*.py``); ``bpf/calls.bpf.c`` reads any call
by what :func:`pack_row` makes of it.  A name stands for one file offset, and every
offset is probed once: ``MPI_*`` and ``PMPI_*`` are aliases of one address, variants
such as ``_ptsz`` are functions of their own.
"""

from __future__ import annotations

import enum
import itertools
import platform
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from capture.elf import ElfError, ElfFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from capture.libraries import MappedLibrary


class Meaning(enum.IntEnum):
    """What the kernel does with a call beside recording it (``enum meaning``)."""

    CALL = 0
    PAIR_SEND = 1
    PAIR_RECV = 2
    INIT = 3
    INIT_ALL = 4
    CHILD = 5
    END = 6
    GROUP_START = 7
    GROUP_END = 8
    LOOK = 9
    WORLD_INIT = 10
    CAPTURE_BEGIN = 11
    CAPTURE_END = 12


@dataclass(frozen=True)
class Probe:
    """One call that can be recorded."""

    stream: str
    operation: int
    vendor: str
    layer: int
    symbols: tuple[str, ...]
    """Names of this call, by preference; each may have an offset of its own."""
    call: str
    """Its parameters, see :func:`parameters`."""
    library_kind: str
    meaning: Meaning
    has_return: bool
    how: int = 0
    copy_kind: int | None = None
    size_shift: int = 0
    drops_failed: bool = False
    is_numbered: bool = False
    is_full: bool = False

    @property
    def part(self) -> str | None:
        """Return the part of its stream that may be left out by itself, if any."""
        return next(
            (name for name, codes in PARTS.items() if self.operation in codes), None
        )


@dataclass(frozen=True)
class ProbeSite:
    """One probe in one library: a file offset that is probed once."""

    probe_id: int
    probe: Probe
    library_ref: int
    fd_path: str
    file_offset: int
    symbol: str
    aliases: tuple[str, ...] = ()
    has_return: bool = True
    handle_width: int = 8
    """Bytes of an MPI handle in this library."""


LAUNCHES = (100, 101)
"""Operations that return before the GPU begins."""
PARTS = {"launch": LAUNCHES, "query": (135, 136)}
"""Operations of ``gpu_call`` that are frequent, and can be done without."""

ROW = struct.Struct("<BBBBhBbBB2x52s")
_ROW_HAS_RETURN, _ROW_DROP_FAILED, _ROW_HAS_COPY_KIND = 1, 2, 4
_ROW_ID_IN_PLACE, _ROW_NUMBERED, ROW_IS_MUTE = 16, 32, 64
_SLOTS = (
    "size",
    "size_by",
    "stream",
    "object",
    "kind",
    "communicator",
    "peer",
    "made",
    "id",
    "color",
    "key",
    "rank",
    "ranks",
)
_STREAMS = {"collective": 1, "gpu_call": 2}
_REGISTERS = {"x86_64": 6, "aarch64": 8}
_FIRST_STACK_SLOT = {"x86_64": 1, "aarch64": 0}  # x86-64: the return address is at SP
_WIDTHS = {"i32": 4, "": 8}
_ID_BYTES = 128
_AT_ENTRY, _AT_RETURN = 1, 2

_next_probe_id = itertools.count(1)


@dataclass(frozen=True)
class Parameter:
    """Where one parameter of a call is, and how to read it (``struct argument``)."""

    place: int
    width: int
    follow: int = 0
    offset: int = 0

    def pack(self) -> bytes:
        """Return the four bytes of it."""
        return bytes((self.place, self.width, self.follow, self.offset))


def parameters(
    call: str, machine: str, handle_width: int = 8
) -> Iterator[tuple[str, Parameter]]:
    """Yield the named parameters of a call with their places.

    ``call`` has a word for each parameter in order: ``_`` is of no interest, ``name``
    is 64 bits wide, ``name:i32`` 32 and ``name:h`` an MPI handle; ``*name+8`` is read
    where the parameter points, 8 bytes on; ``name>`` is read there at return; ``=id``
    is a 128-byte struct by value.
    """
    index = 0
    for word in call.split():
        if word == "=id" and machine == "x86_64":
            # A large struct is copied to the stack and takes no register.
            yield "id", Parameter(_place(_REGISTERS[machine], machine), 8)
            continue
        place = _place(index, machine)
        index += 1
        if word != "_":
            yield _named(word, place, handle_width)


def _named(word: str, place: int, handle_width: int) -> tuple[str, Parameter]:
    """Return the name and the reading of one word."""
    follow = _AT_RETURN if word.endswith(">") else _AT_ENTRY if word[0] == "*" else 0
    text, _, offset = word.strip("*>=").partition("+")
    name, _, kind = text.partition(":")
    width = handle_width if kind == "h" else _WIDTHS[kind]
    return name, Parameter(place, width, follow, int(offset or 0))


def _place(index: int, machine: str) -> int:
    """Return the code of the place of the n-th integer parameter."""
    registers = _REGISTERS[machine]
    if index < registers:
        return index + 1
    return 128 | (index - registers + _FIRST_STACK_SLOT[machine])


def pack_row(site: ProbeSite, machine: str | None = None) -> bytes:
    """Return what the kernel needs to read the calls of a site."""
    probe = site.probe
    machine = machine or platform.machine()
    slots = [bytes(4)] * len(_SLOTS)
    for name, parameter in parameters(probe.call, machine, site.handle_width):
        slots[_SLOTS.index(name)] = parameter.pack()
    flags = (
        _ROW_HAS_RETURN * site.has_return
        | _ROW_DROP_FAILED * probe.drops_failed
        | _ROW_HAS_COPY_KIND * (probe.copy_kind is not None)
        | _ROW_ID_IN_PLACE * ("=id" in probe.call and machine == "x86_64")
        | _ROW_NUMBERED * probe.is_numbered
    )
    return ROW.pack(
        _STREAMS[probe.stream],
        probe.meaning,
        int(probe.vendor == "mpi"),
        probe.layer,
        probe.operation,
        flags,
        probe.copy_kind or 0,
        probe.size_shift,
        probe.how,
        b"".join(slots),
    )


def plan(libraries: Iterable[MappedLibrary], probe_set: str) -> list[ProbeSite]:
    """Return where to probe these libraries; each call gives new probe ids.

    Parameters
    ----------
    libraries
        Libraries not planned before.
    probe_set
        ``standard`` or ``full``.
    """
    return [
        site
        for library in libraries
        if library.is_probed
        for site in _sites(library, is_full=probe_set == "full")
    ]


def _sites(library: MappedLibrary, *, is_full: bool) -> Iterator[ProbeSite]:
    """Yield the sites of one library."""
    try:
        with ElfFile.open(library.fd) as elf:
            functions = elf.functions()
            is_open_mpi = elf.data_symbol("ompi_mpi_comm_world") is not None
            machine = elf.machine
    except (ElfError, OSError):
        return
    if machine != platform.machine():
        return
    taken: set[int] = set()
    for probe in rows_for(library.kind):
        if probe.is_full and not is_full:
            continue
        for offset, names in _places(probe, functions).items():
            if offset not in taken:
                taken.add(offset)
                yield ProbeSite(
                    probe_id=next(_next_probe_id),
                    probe=probe,
                    library_ref=library.library_ref,
                    fd_path=library.fd_path,
                    file_offset=offset,
                    symbol=names[0],
                    aliases=tuple(names[1:]),
                    has_return=_has_return(probe, is_full=is_full),
                    handle_width=8 if is_open_mpi else 4,
                )


def rows_for(library_kind: str) -> tuple[Probe, ...]:
    """Return the rows whose calls a library of this kind may hold."""
    return tuple(row for row in _rows() if row.library_kind == library_kind)


def known_symbols() -> set[str]:
    """Return every name that a probed function of any library may have."""
    return {name for row in _rows() for name in _names(row)}


def _rows() -> tuple[Probe, ...]:
    """Return the rows of all tables."""
    # The tables are made of Probe, so they can only be read once it is there.
    from capture import probe_table_collective as collective  # noqa: PLC0415
    from capture import probe_table_gpu as gpu  # noqa: PLC0415

    return (*collective.NCCL, *collective.MPI, *gpu.RUNTIME, *gpu.DRIVER)


def _names(probe: Probe) -> Iterator[str]:
    """Yield the names of a call, those of per-thread default streams too."""
    for symbol in probe.symbols:
        yield from (symbol, f"{symbol}_ptsz", f"{symbol}_ptds")


def _places(probe: Probe, functions: dict[str, int]) -> dict[int, list[str]]:
    """Return the offsets at which a library has this call, with their names."""
    places: dict[int, list[str]] = {}
    for name in _names(probe):
        if name in functions:
            places.setdefault(functions[name], []).append(name)
    return places


def _has_return(probe: Probe, *, is_full: bool) -> bool:
    """Return whether a return is recorded: of launches in ``full`` only."""
    return probe.has_return or (is_full and probe.operation in LAUNCHES)
