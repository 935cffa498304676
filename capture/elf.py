"""Our own reader of ELF files: functions, data symbols, build id, class and machine.

Containers choose what it reads, so nothing in a file is believed: every offset, count
and size is checked against the file before it is used, work is bounded whatever the
file says, and all that is wrong comes out as :class:`ElfError`.

The file is read by ``pread`` and never mapped: whoever owns it may cut it while it is
read, and a mapping would then end the recorder by SIGBUS.  Symbols are found by
section headers; a file stripped of those (nothing that linkers make) has no symbols
here, which leaves its probes "symbol not found" instead of guessed.
"""

from __future__ import annotations

import mmap
import os
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from capture.errors import CaptureError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MACHINES = {62: "x86_64", 183: "aarch64"}

_HEADER_SIZE = 64
_MAX_HEADERS = 8_192
_MAX_TABLE_BYTES = 256 << 20
_MAX_SYMBOLS = 4_000_000
_MAX_NAME = 4_096
_MAX_NOTE_BYTES = 1 << 16
_MAX_BUILD_ID = 64

_SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")
_PROGRAM_HEADER = struct.Struct("<IIQQQQQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_NOTE = struct.Struct("<III")
_VERDEF = struct.Struct("<HHHHIII")

_PT_LOAD, _PT_NOTE, _PF_X = 1, 4, 1
_SHT_SYMTAB, _SHT_NOTE, _SHT_DYNSYM = 2, 7, 11
_SHT_GNU_VERDEF, _SHT_GNU_VERSYM = 0x6FFFFFFD, 0x6FFFFFFF
_STT_OBJECT, _STT_FUNC = 1, 2
_VERSION_HIDDEN = 0x8000
_NT_GNU_BUILD_ID = 3


class ElfError(CaptureError):
    """A file that is no 64-bit little-endian ELF file, or lies about itself."""


@dataclass(frozen=True)
class Section:
    """One section header, as far as it is used."""

    kind: int
    offset: int
    size: int
    link: int
    info: int


@dataclass(frozen=True)
class Segment:
    """One program header, as far as it is used."""

    kind: int
    flags: int
    offset: int
    address: int
    file_size: int


@dataclass(frozen=True)
class Symbol:
    """One defined symbol; ``version`` is set where it is not the default one."""

    name: str
    kind: int
    address: int
    size: int
    version: str | None


class ElfFile:
    """An ELF file held open by its descriptor."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._size = os.fstat(fd).st_size
        header = self._read(0, min(self._size, _HEADER_SIZE), "header")
        self.is_64 = True
        self.machine = _machine(header)
        self._segments = tuple(self._program_headers(header))
        self._sections = tuple(self._section_headers(header))
        self._symbols: tuple[Symbol, ...] | None = None

    @classmethod
    def open(cls, source: int | str | Path) -> ElfFile:
        """Return the file behind a path or a descriptor; a descriptor is copied.

        Raises
        ------
        ElfError
            If the file cannot be read as ELF, or is made for 32 bits.
        """
        if isinstance(source, int):
            return cls(os.dup(source))
        try:
            fd = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise ElfError(f"cannot open {str(source)!r}: {error.strerror}") from error
        try:
            return cls(fd)
        except BaseException:
            os.close(fd)
            raise

    def close(self) -> None:
        """Let go of the descriptor."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> ElfFile:  # noqa: PYI034 typing.Self needs Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def build_id(self) -> str | None:
        """The GNU build id in hexadecimal, from segments, else from sections."""
        spans = [(s.offset, s.file_size) for s in self._segments if s.kind == _PT_NOTE]
        spans += [(s.offset, s.size) for s in self._sections if s.kind == _SHT_NOTE]
        for offset, size in spans:
            if size <= _MAX_NOTE_BYTES:
                found = _build_id_note(self._read(offset, size, "note"))
                if found is not None:
                    return found
        return None

    def functions(self) -> dict[str, int]:
        """Return the file offset of every function, by name.

        A name stands for its default version; other versions have the key
        ``name@VERSION``.  Names with one offset are aliases.
        """
        offsets: dict[str, int] = {}
        for symbol in self.symbols():
            if symbol.kind != _STT_FUNC:
                continue
            offset = self.file_offset(symbol.address)
            if offset is not None:
                offsets.setdefault(_key(symbol), offset)
        return offsets

    def data_symbol(self, name: str) -> int | None:
        """Return the address of a variable before relocation, or None."""
        for symbol in self.symbols():
            if symbol.kind == _STT_OBJECT and _key(symbol) == name:
                return symbol.address
        return None

    def file_offset(self, address: int) -> int | None:
        """Return where the code at an unrelocated address stands in the file."""
        for segment in self._segments:
            inside = 0 <= address - segment.address < segment.file_size
            if segment.kind == _PT_LOAD and segment.flags & _PF_X and inside:
                return address - segment.address + segment.offset
        return None

    def load_bias(self, lowest_start: int) -> int:
        """Return what relocation added, from where the first mapping begins."""
        loads = [s.address for s in self._segments if s.kind == _PT_LOAD]
        first = min(loads, default=0)
        return lowest_start - first // mmap.PAGESIZE * mmap.PAGESIZE

    def symbols(self) -> tuple[Symbol, ...]:
        """Return every defined symbol, those of dynsym first."""
        if self._symbols is None:
            order = (_SHT_DYNSYM, _SHT_SYMTAB)
            tables = [s for kind in order for s in self._sections if s.kind == kind]
            self._symbols = tuple(s for t in tables for s in self._table(t))
        return self._symbols

    def _table(self, table: Section) -> Iterator[Symbol]:
        """Yield the defined symbols of one table."""
        count = table.size // _SYMBOL.size
        if count > _MAX_SYMBOLS:
            raise ElfError(f"too many symbols: {count}")
        data = self._content(table, "symbol table")[: count * _SYMBOL.size]
        names = self._content(self._section(table.link), "string table")
        versions = self._versions(count) if table.kind == _SHT_DYNSYM else {}
        for index, row in enumerate(_SYMBOL.iter_unpack(data)):
            name_at, info, _, section, address, size = row
            kind = info & 0xF
            if section and address and kind in (_STT_OBJECT, _STT_FUNC):
                name = _text(names, name_at)
                if name:
                    yield Symbol(name, kind, address, size, versions.get(index))

    def _versions(self, count: int) -> dict[int, str]:
        """Return the version of each dynsym row that is not its name's default."""
        section = next((s for s in self._sections if s.kind == _SHT_GNU_VERSYM), None)
        if section is None:
            return {}
        data = self._content(section, "symbol versions")
        names = self._version_names()
        rows = min(count, len(data) // 2)
        indexes = struct.unpack_from(f"<{rows}H", data)
        return {
            row: names.get(value & ~_VERSION_HIDDEN, str(value & ~_VERSION_HIDDEN))
            for row, value in enumerate(indexes)
            if value & _VERSION_HIDDEN
        }

    def _version_names(self) -> dict[int, str]:
        """Return the names of the versions that the file defines, by their index."""
        section = next((s for s in self._sections if s.kind == _SHT_GNU_VERDEF), None)
        if section is None:
            return {}
        data = self._content(section, "version definitions")
        strings = self._content(self._section(section.link), "string table")
        names: dict[int, str] = {}
        at = 0
        for _ in range(min(section.info, _MAX_HEADERS)):
            if not 0 <= at <= len(data) - _VERDEF.size:
                break
            _, _, index, _, _, aux, step = _VERDEF.unpack_from(data, at)
            if at + aux + 4 <= len(data):
                names[index] = _text(
                    strings, struct.unpack_from("<I", data, at + aux)[0]
                )
            if step == 0:
                break
            at += step
        return names

    def _program_headers(self, header: bytes) -> Iterator[Segment]:
        (at,) = struct.unpack_from("<Q", header, 32)
        size, count = struct.unpack_from("<HH", header, 54)
        if count == 0:
            return
        data = self._headers(at, size, count, _PROGRAM_HEADER, "program header")
        for kind, flags, offset, address, _, file_size, _, _ in data:
            yield Segment(kind, flags, offset, address, file_size)

    def _section_headers(self, header: bytes) -> Iterator[Section]:
        (at,) = struct.unpack_from("<Q", header, 40)
        size, count = struct.unpack_from("<HH", header, 58)
        if at == 0 or count == 0:
            return
        data = self._headers(at, size, count, _SECTION_HEADER, "section header")
        for _, kind, _, _, offset, length, link, info, _, _ in data:
            yield Section(kind, offset, length, link, info)

    def _headers(
        self, at: int, size: int, count: int, shape: struct.Struct, what: str
    ) -> Iterator[tuple[int, ...]]:
        if size != shape.size:
            raise ElfError(f"{what} of {size} bytes, not {shape.size}")
        if count > _MAX_HEADERS:
            raise ElfError(f"too many {what}s: {count}")
        return shape.iter_unpack(self._read(at, size * count, what))

    def _section(self, index: int) -> Section:
        if index >= len(self._sections):
            raise ElfError(f"section {index} of {len(self._sections)}")
        return self._sections[index]

    def _content(self, section: Section, what: str) -> bytes:
        return self._read(section.offset, section.size, what)

    def _read(self, offset: int, size: int, what: str) -> bytes:
        """Return bytes of the file, all of them or an error."""
        if size > _MAX_TABLE_BYTES:
            raise ElfError(f"{what} of {size} bytes is larger than any real one")
        if offset + size > self._size:
            raise ElfError(f"{what} at {offset} of {size} bytes is outside of the file")
        parts: list[bytes] = []
        while size > 0:
            part = os.pread(self._fd, size, offset)
            if not part:
                raise ElfError(f"{what} was cut off while it was read")
            parts.append(part)
            offset += len(part)
            size -= len(part)
        return b"".join(parts)


def _machine(header: bytes) -> str:
    """Return the architecture of a header that is ours to read."""
    if header[:4] != b"\x7fELF" or len(header) < _HEADER_SIZE:
        raise ElfError("no ELF file")
    if header[4] == 1:
        raise ElfError("made for 32 bits", "record 64-bit programs")
    if header[4] != 2 or header[5] != 1:  # noqa: PLR2004 the ELF classes and byte orders
        raise ElfError("no little-endian 64-bit ELF file")
    (number,) = struct.unpack_from("<H", header, 18)
    return MACHINES.get(number, f"machine {number}")


def _build_id_note(data: bytes) -> str | None:
    """Return the build id of one note segment or section."""
    at = 0
    while at + _NOTE.size <= len(data):
        name_size, size, kind = _NOTE.unpack_from(data, at)
        name_at = at + _NOTE.size
        desc_at = name_at + (name_size + 3) // 4 * 4
        end = desc_at + size
        if end > len(data):
            return None
        is_gnu = data[name_at : name_at + name_size] == b"GNU\0"
        if is_gnu and kind == _NT_GNU_BUILD_ID and 0 < size <= _MAX_BUILD_ID:
            return data[desc_at:end].hex()
        at = desc_at + (size + 3) // 4 * 4
    return None


def _text(strings: bytes, at: int) -> str:
    """Return one name of a string table; a name that never ends is no name."""
    end = strings.find(b"\0", at, at + _MAX_NAME)
    return strings[at:end].decode("utf-8", "replace") if end >= 0 else ""


def _key(symbol: Symbol) -> str:
    """Return the name that a symbol answers to."""
    return symbol.name if symbol.version is None else f"{symbol.name}@{symbol.version}"
