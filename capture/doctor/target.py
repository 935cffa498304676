"""What can be recorded of the processes in question, and what stopping will take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from capture import probes, procfs
from capture.doctor.row import CALL_STREAMS, MISSING, OK, PARTLY, Row
from capture.elf import ElfError, ElfFile
from capture.libraries import KIND_SYMBOLS, kind_by_name
from capture.options import STREAMS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from capture.libraries import LibraryTable, MappedLibrary
    from capture.procfs import FileMapping

FAMILY = "target"
_DELETED = b" (deleted)"
_LEAVE = "record 64-bit programs only"

PERF_REMOVAL_S = 0.123
"""One probe as a perf event: 600 of them took 74 s to remove on a 6.18 kernel."""
MULTI_REMOVAL_S = 0.04 / 300
"""One probe in a link of many: 300 took 40 ms there."""


def target_rows(pid: int, libraries: LibraryTable) -> list[Row]:
    """Return what can be recorded of one process; its files stay in ``libraries``."""
    stat = procfs.process_stat(pid)
    if stat is None or stat.is_gone:
        return [_nothing(pid, "there is no such process", "give a running one")]
    if procfs.is_32_bit(pid):
        sentence = "it runs a 32-bit program, which cannot be recorded"
        return [_nothing(pid, sentence, _LEAVE)]
    refusal = procfs.refusal(pid)
    if refusal is not None:
        sentence = f"its libraries cannot be read: {refusal}"
        advice = "run as its user, or add CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH"
        return [_nothing(pid, sentence, advice)]
    maps = procfs.raw_maps(pid)
    known = _known_mappings(maps)
    if not known:
        return [_without_library(pid, stat.name)]
    rows = [_library_row(pid, mapping, libraries) for mapping in known]
    return [*rows, *_replaced_rows(pid, maps, known)]


_CALLS = "the streams of calls"


def _nothing(pid: int, sentence: str, advice: str) -> Row:
    return Row(FAMILY, "program", MISSING, sentence, "everything", advice, STREAMS, pid)


def _without_calls(pid: int, sentence: str, advice: str) -> Row:
    streams = CALL_STREAMS
    return Row(FAMILY, "library", PARTLY, sentence, _CALLS, advice, streams, pid)


def _known_mappings(maps: bytes) -> list[FileMapping]:
    """Return the first executable mapping of each library that is known by its name."""
    found: dict[tuple[int, int], FileMapping] = {}
    for mapping in procfs.parse_maps(maps):
        if mapping.is_executable and kind_by_name(mapping.path) is not None:
            found.setdefault((mapping.device, mapping.inode), mapping)
    return list(found.values())


def _library_row(pid: int, mapping: FileMapping, libraries: LibraryTable) -> Row:
    library = libraries.of_mapping(pid, mapping)
    if library is None:
        reason = libraries.refusals.get(mapping.path, "the process is gone")
        sentence = f"{mapping.path} cannot be probed: {reason}"
        advice = "see CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH and CAP_CHECKPOINT_RESTORE"
        return _without_calls(pid, sentence, advice)
    count = len(probes.plan([library], "standard"))
    build = f"build id {library.build_id}" if library.build_id else "no build id"
    sentence = f"{mapping.path} ({library.kind}, {build}), {count} places to probe"
    return Row(FAMILY, "library", OK, sentence, _CALLS, pid=pid)


def _replaced_rows(
    pid: int, maps: bytes, known: Iterable[FileMapping]
) -> Iterator[Row]:
    for mapping in known:
        if mapping.path.encode("utf-8", "surrogateescape") + _DELETED in maps:
            sentence = (
                f"{mapping.path} was replaced or deleted since it was mapped: the file "
                "that is mapped is probed, not the one that has its name now"
            )
            yield Row(FAMILY, "file", OK, sentence, _CALLS, pid=pid)


def _without_library(pid: int, name: str) -> Row:
    """Return the row of a process that maps nothing known: linked in, or not used."""
    linked = _linked_in(pid)
    if linked:
        sentence = f"{name} maps no known library but has {linked} linked in"
        advice = f"add --library with the path that /proc/{pid}/exe leads to"
    else:
        sentence = f"{name} maps no known library (MPI, NCCL, RCCL, CUDA, HIP) now"
        advice = "name a library under another name with --library"
    return _without_calls(pid, sentence, advice)


def _linked_in(pid: int) -> str | None:
    """Return a telling function that the program itself defines."""
    try:
        with ElfFile.open(f"{procfs.PROC}/{pid}/exe") as elf:
            functions = elf.functions()
    except (ElfError, OSError):
        return None
    return next((name for name, _ in KIND_SYMBOLS if name in functions), None)


def stop_time_row(libraries: Iterable[MappedLibrary], *, has_multi: bool | None) -> Row:
    """Estimate how long it takes to remove the probes of the present targets."""
    sites = probes.plan(libraries, "standard")
    count = sum(1 + site.has_return for site in sites)
    needed_for = "knowing when the host is free of probes again"
    if has_multi:
        seconds = count * MULTI_REMOVAL_S
        how = "in links of many (300 took 40 ms on a 6.18 kernel)"
    else:
        seconds = count * PERF_REMOVAL_S
        how = (
            "as perf events (600 took 74 s on a 6.18 kernel, and SIGKILL did not help)"
        )
    sentence = (
        f"about {max(seconds, 0.1):.1f} s, an estimate: {count} probes of the present "
        f"targets {how}; the recording is on disk before that"
    )
    return Row(FAMILY, "stop_time", OK, sentence, needed_for)
