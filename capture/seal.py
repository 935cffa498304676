"""Seal a spool: two passes, one bundle, renamed into place when it is whole.

The first pass (``survey``) gives the manifest, which stands first and holds counts;
the second writes the columns, one chunk of one stream in memory at a time.  The bundle
is written under a temporary name in the output folder, synced, read back by ``verify``,
and only then renamed; only after that the spool may go.  Nothing here needs privilege.

The same spool always gives the same ``SHA256SUMS``: no clock, no random number and no
order of a set takes part.
"""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any

from capture.archive import ArchiveWriter
from capture.callers import CallerResolver
from capture.chunks import chunks, column_bytes
from capture.errors import CaptureError
from capture.fact_columns import whole_row
from capture.identity import resolve_origins
from capture.layout import LAYOUTS
from capture.leaks import LeakError, refuse_leaks
from capture.manifest import (
    SPOOL_DAMAGED,
    Facts,
    build_manifest,
    manifest_bytes,
    missing_columns,
    ordered,
)
from capture.npy import npy_header
from capture.site_names import read_site_names
from capture.spool import FRAMES_NAME, HEADER_NAME, SpoolReader
from capture.survey import Survey, event_regions, survey
from capture.verify import verify_bundle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    Progress = Callable[[int, int], None]

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")


def seal(
    spool: Path,
    out_dir: Path,
    *,
    keep_spool: bool = False,
    force: bool = False,
    progress: Progress | None = None,
    mapping: Path | None = None,
) -> Path:
    """Return the path of the bundle that a spool was sealed into.

    Parameters
    ----------
    spool
        Folder of the spool; nobody may be writing to it any more.
    out_dir
        Existing folder for the bundle.
    keep_spool
        Leave the spool where it is.
    force
        Replace a bundle of the same name.
    progress
        Called with bytes done and bytes in all, over both passes.
    mapping
        Of a spool with pseudonyms: the originals that the bundle is searched for.

    Raises
    ------
    CaptureError
        If the spool cannot be read, the bundle cannot be written, or what was written
        does not verify; the spool is then untouched.
    LeakError
        If the bundle holds what redaction was to take out; it is then removed.
    """
    reader = SpoolReader(spool)
    try:
        search = _search_for_leaks(reader.header, mapping)
        bundle = _seal(reader, out_dir, force, progress or _silent, search)
    finally:
        reader.close()
    if not keep_spool:
        _erase(spool)
    return bundle


def _search_for_leaks(
    header: Mapping[str, Any], mapping: Path | None
) -> Callable[[Path], object]:
    """Return what a bundle must stand before it gets its name."""
    if "redaction" not in header:
        return _accept
    if mapping is None:
        raise LeakError(
            "this spool has pseudonyms, so its bundle must be searched for leaks",
            "name the mapping that record wrote with --mapping",
        )
    names = read_site_names()
    return lambda bundle: refuse_leaks(bundle, mapping, names)


def _accept(_bundle: Path) -> None:
    """Ask for nothing: names are as they are."""


def _seal(
    reader: SpoolReader,
    out_dir: Path,
    force: bool,  # noqa: FBT001
    progress: Progress,
    search: Callable[[Path], object],
) -> Path:
    total = 2 * reader.size_bytes
    found = survey(reader, lambda done: progress(done, total))
    facts = bundle_facts(reader.header, found)
    manifest = build_manifest(reader.header, found, facts)
    bundle = out_dir / bundle_name(manifest)
    if bundle.exists() and not force:
        raise CaptureError(f"{bundle} exists", "give --force to replace it")
    partial = out_dir / f".{bundle.name}.{os.getpid()}.partial"
    try:
        archive = ArchiveWriter(partial)
    except OSError as error:
        message = f"cannot write to {out_dir}: {error.strerror}"
        raise CaptureError(
            message, "give a folder that can be written with -o"
        ) from error
    try:
        archive.add("manifest.json", manifest_bytes(manifest))
        _write_small(archive, found, facts)
        resolver = CallerResolver(found.fact_rows("mapping"))
        done = reader.size_bytes
        for name in found.streams:
            for length in _write_stream(archive, reader, found, name, resolver):
                done += length
                progress(min(done, total), total)
        archive.finish()
        _check(partial, bundle)
        search(partial)
        partial.rename(bundle)
    except BaseException as error:
        archive.abandon()
        partial.unlink(missing_ok=True)
        if isinstance(error, OSError):
            message = f"cannot write {bundle}: {error.strerror}"
            raise CaptureError(message, "the spool is kept; seal it again") from error
        raise
    _sync_folder(out_dir)
    return bundle


def bundle_name(manifest: Mapping[str, Any]) -> str:
    """Return the file name of a bundle."""
    host = _UNSAFE.sub("_", manifest["host"]["host_name"])
    start = re.sub("[-:]", "", manifest["capture"]["start_utc"])
    return f"{host}-{start}-{manifest['capture_id']}.bundle"


def bundle_facts(header: Mapping[str, Any], found: Survey) -> Facts:
    """Return the facts of a bundle: merged, origins resolved, every key present."""
    rows: Facts = {kind: found.fact_rows(kind) for kind in found.facts}
    rows["host"] = [{**header["host"], **(rows.get("host") or [{}])[0]}]
    rows["communicator"] = resolve_origins(rows.get("communicator", []), _jobs(rows))
    rows["loss"] = rows.get("loss", []) + [
        {
            "stream": name,
            "reason": SPOOL_DAMAGED,
            "lost_count": stream.damaged_records,
        }
        for name, stream in found.streams.items()
        if stream.damaged_records
    ]
    return {
        kind: [whole_row(kind, row) for row in found_rows]
        for kind, found_rows in rows.items()
    }


def _jobs(rows: Facts) -> dict[int, str | None]:
    """Return the job of each process, from whichever fact knows it."""
    jobs: dict[int, str | None] = {}
    for kind in ("process", "rank"):
        for row in rows.get(kind, []):
            if row.get("job_id"):
                jobs[row["pid"]] = row["job_id"]
    return jobs


def _write_small(archive: ArchiveWriter, found: Survey, facts: Facts) -> None:
    archive.add("clock.jsonl", b"".join(line + b"\n" for line in found.clock_lines))
    for name, rows in ordered(facts):
        lines = [json.dumps(row, allow_nan=False) + "\n" for row in rows]
        archive.add(f"facts/{name}.jsonl", "".join(lines).encode())


def _write_stream(
    archive: ArchiveWriter,
    reader: SpoolReader,
    found: Survey,
    name: str,
    resolver: CallerResolver,
) -> Iterator[int]:
    """Write the chunks of one stream and yield the spool bytes that each one took."""
    layout = LAYOUTS[name]
    missing = missing_columns(reader.header, name)
    regions = _regions(reader, name, found.streams[name].open_records)
    for number, chunk in enumerate(chunks(regions, layout)):
        rows = len(chunk) // layout.stride
        for column, data in column_bytes(chunk, name, resolver, missing):
            member = f"events/{name}/{number:06}/{column.name}.npy"
            archive.add(member, npy_header(column.dtype, rows) + data)
        yield len(chunk)


def _regions(
    reader: SpoolReader, name: str, open_records: bytes
) -> Iterator[memoryview]:
    """Yield what ended, then what was still open."""
    yield from event_regions(reader, name)
    if open_records:
        yield memoryview(open_records)


def _check(partial: Path, bundle: Path) -> None:
    """Read the bundle back from the disk before anything is given up for it.

    A fact that came incomplete out of the spool (a kill between two of its writings)
    is no reason to have no bundle: it is in there as it was, and readers name it.
    """
    found = verify_bundle(partial).problems
    problems = [problem for problem in found if problem.kind != "bad_fact"]
    if problems:
        raise CaptureError(
            f"{bundle.name} does not verify after writing: {problems[0].message}",
            "the spool is kept; please report this with the spool's header.json",
        )


def _erase(spool: Path) -> None:
    """Remove the two files of a spool, and its folder where nothing else is in it."""
    for name in (FRAMES_NAME, HEADER_NAME):
        (spool / name).unlink(missing_ok=True)
    try:
        spool.rmdir()
    except OSError:
        return  # somebody put a file of their own beside ours: it is not ours to remove


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _silent(_done: int, _total: int) -> None:
    """Show no progress."""
