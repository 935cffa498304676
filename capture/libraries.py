"""The files that targets map: opened once, held, hashed, and known by a number.

A library is opened through ``/proc/PID/map_files``, which leads to the very file that
is mapped even where its name was replaced or deleted since; what is hashed, parsed and
probed afterwards is that one descriptor, ``/proc/self/fd/N``.  Probes on a file that
only has the same name attach without error and never fire.  Where map_files is closed
to us (it needs CAP_CHECKPOINT_RESTORE), the name below ``/proc/PID/root`` is taken, but
only if device and inode are those of the mapping, or the mapped header, where the build
id stands, is the file's.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from capture import procfs
from capture.elf import ElfError, ElfFile
from capture.errors import CaptureError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from capture.procfs import FileMapping

_KNOWN = (
    (re.compile(rb"lib(nccl|rccl)\.so[.\d]*"), "nccl"),
    (re.compile(rb"lib(mpi|mpich|mpi_cray)\.so[.\d]*"), "mpi"),
    (re.compile(rb"libcudart\.so[.\d]*"), "cudart"),
    (re.compile(rb"libcuda\.so[.\d]*"), "cuda"),
    (re.compile(rb"libamdhip64\.so[.\d]*"), "other"),
)
KNOWN_IN_MAPS = re.compile(
    rb"/(?:" + rb"|".join(pattern.pattern for pattern, _ in _KNOWN) + rb")(?: \(|$)",
    re.MULTILINE,
)
"""Finds a known library in the text of ``maps`` without parsing it."""

KIND_SYMBOLS = (
    ("ncclAllReduce", "nccl"),
    ("MPI_Allreduce", "mpi"),
    ("cuLaunchKernel", "cuda"),
    ("cudaLaunchKernel", "cudart"),
)
_MAX_HEAD = 1 << 16
_HASH_CHUNK = 1 << 20


@dataclass
class MappedLibrary:
    """One file that processes map; ``pids`` grows while recording."""

    library_ref: int
    path: str
    fd: int
    device: int
    inode: int
    kind: str
    build_id: str | None
    is_probed: bool
    sha256: str | None = None
    pids: set[int] = field(default_factory=set)

    @property
    def fd_path(self) -> str:
        """The path of the held descriptor, for everything that opens by name."""
        return f"/proc/self/fd/{self.fd}"


class LibraryTable:
    """Every library of a recording, by number.

    Parameters
    ----------
    extra
        Files given with ``--library``: probed whatever their name, from the start.

    Raises
    ------
    CaptureError
        If one of them cannot be opened, or is no ELF file of ours.
    """

    def __init__(self, extra: Iterable[Path] = ()) -> None:
        self.libraries: list[MappedLibrary] = []
        self._by_file: dict[tuple[int, int], MappedLibrary] = {}
        self.refusals: dict[str, str] = {}
        """Why a mapped library of a known name is not probed, by path."""
        self._refused: set[tuple[int, int]] = set()
        self._hashed: set[int] = set()
        for path in extra:
            self._open_extra(path)

    def __getitem__(self, library_ref: int) -> MappedLibrary:
        return self.libraries[library_ref]

    def is_wanted(self, maps: bytes) -> bool:
        """Tell whether a process with these mappings maps a library to probe."""
        if KNOWN_IN_MAPS.search(maps):
            return True
        given = [library for library in self.libraries if library.is_probed]
        return any(os.fsencode(library.path) in maps for library in given)

    def of_mapping(self, pid: int, mapping: FileMapping) -> MappedLibrary | None:
        """Return the library behind a mapping, opened now if it is new.

        None if it cannot be opened, is no 64-bit ELF file, or the process is gone.
        """
        key = (mapping.device, mapping.inode)
        if key in self._refused:
            return None
        library = self._by_file.get(key) or self._given(mapping)
        if library is None:
            library = self._open(pid, mapping)
            if library is None:
                return None
        self._by_file[key] = library
        library.pids.add(pid)
        return library

    def expect(self, path: Path) -> None:
        """Open a library that may be mapped later, if it can be opened."""
        with contextlib.suppress(CaptureError):
            self._open_extra(path)

    def hash_next(self) -> MappedLibrary | None:
        """Hash one probed library that has no hash yet, and return it."""
        for library in self.libraries:
            if library.is_probed and library.library_ref not in self._hashed:
                self._hashed.add(library.library_ref)
                with contextlib.suppress(OSError):  # an unreadable file has no hash
                    library.sha256 = _sha256(library.fd)
                return library
        return None

    def close(self) -> None:
        """Let go of every descriptor."""
        for library in self.libraries:
            if library.fd >= 0:
                os.close(library.fd)
                library.fd = -1

    def _given(self, mapping: FileMapping) -> MappedLibrary | None:
        """Return the ``--library`` that a mapping is of under another device number.

        Some file systems show one number in ``maps`` and another in ``stat``.
        """
        for library in self.libraries:
            if library.path == mapping.path and library.inode == mapping.inode:
                return library
        return None

    def _open(self, pid: int, mapping: FileMapping) -> MappedLibrary | None:
        kind = kind_by_name(mapping.path)
        fd = _open_mapped(pid, mapping)
        if fd is None:
            if kind is not None:
                self.refusals[mapping.path] = "the file cannot be opened"
            return None
        try:
            is_probed = kind is not None
            key = (mapping.device, mapping.inode)
            path = mapping.path
            return self._add(fd, path, key, kind or "other", is_probed=is_probed)
        except (ElfError, OSError) as error:
            os.close(fd)
            self._refused.add((mapping.device, mapping.inode))
            if kind is not None:
                self.refusals[mapping.path] = str(error)
            return None

    def _open_extra(self, path: Path) -> None:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            message = f"cannot open library {str(path)!r}: {error.strerror}"
            raise CaptureError(message, "give the path of the file itself") from error
        status = os.fstat(fd)
        key = (status.st_dev, status.st_ino)
        if key in self._by_file:
            os.close(fd)
            return
        name = str(path.resolve())
        try:
            kind = kind_by_name(name) or _kind_by_symbols(fd)
            self._by_file[key] = self._add(fd, name, key, kind, is_probed=True)
        except ElfError as error:
            os.close(fd)
            message = f"cannot use library {str(path)!r}: {error.message}"
            raise CaptureError(message, error.hint) from error

    def _add(
        self, fd: int, path: str, key: tuple[int, int], kind: str, *, is_probed: bool
    ) -> MappedLibrary:
        with ElfFile.open(fd) as elf:
            build_id = elf.build_id
        library = MappedLibrary(
            library_ref=len(self.libraries),
            path=path,
            fd=fd,
            device=key[0],
            inode=key[1],
            kind=kind,
            build_id=build_id,
            is_probed=is_probed,
        )
        if not is_probed:  # only named in facts: hundreds would use up descriptors
            os.close(fd)
            library.fd = -1
        self.libraries.append(library)
        return library


def kind_by_name(path: str) -> str | None:
    """Return the kind of a library that is known by its file name."""
    name = os.fsencode(path).rpartition(b"/")[2]
    return next((kind for known, kind in _KNOWN if known.fullmatch(name)), None)


def _kind_by_symbols(fd: int) -> str:
    """Return the kind of a library under a foreign name, by what it offers."""
    with ElfFile.open(fd) as elf:
        functions = elf.functions()
    return next((kind for name, kind in KIND_SYMBOLS if name in functions), "other")


def _open_mapped(pid: int, mapping: FileMapping) -> int | None:
    """Return a descriptor of the very file that is mapped, or None."""
    process = procfs.PROC / str(pid)
    link = f"{process}/map_files/{mapping.start:x}-{mapping.end:x}"
    fd = _open_file(link)
    if fd is not None:
        return fd
    fd = _open_file(f"{process}/root{mapping.path}")
    if fd is None:
        return None
    status = os.fstat(fd)
    if (status.st_dev, status.st_ino) == (mapping.device, mapping.inode):
        return fd
    if _has_same_head(process, mapping, fd):
        return fd
    os.close(fd)
    return None


def _open_file(path: str) -> int | None:
    """Return a descriptor of a plain file; devices are not even opened."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116 often a /proc link
            return None
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None


def _has_same_head(process: Path, mapping: FileMapping, fd: int) -> bool:
    """Tell whether a file begins as the mapped one does, build id included."""
    heads = [
        other
        for other in procfs.parse_maps(procfs.raw_maps(int(process.name)))
        if (other.device, other.inode) == (mapping.device, mapping.inode)
        and other.file_offset == 0
    ]
    if not heads:
        return False
    size = min(heads[0].end - heads[0].start, _MAX_HEAD)
    try:
        with (process / "mem").open("rb", buffering=0) as memory:
            mapped = os.pread(memory.fileno(), size, heads[0].start)
        return len(mapped) > 0 and mapped == os.pread(fd, len(mapped), 0)
    except (OSError, OverflowError):
        return False


def _sha256(fd: int) -> str:
    digest = hashlib.sha256()
    offset = 0
    while chunk := os.pread(fd, _HASH_CHUNK, offset):
        digest.update(chunk)
        offset += len(chunk)
    return digest.hexdigest()
