"""The ZIP of a bundle, read strictly.

``zipfile`` trusts the central directory and never compares it with the local headers,
so a crafted file can show a reviewer's ``unzip -l`` one thing and the loader another.
Here both are read and must agree on name, sizes, CRC, method and flags, members must
lie end to end from byte 0, and nothing may follow the directory.  Local headers are
walked alone only when there is no directory at all (a torn file), and the caller is
told so.
"""

from __future__ import annotations

import json
import os
import re
import struct
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.errors import BundleError, IntegrityError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_LOCAL = struct.Struct("<4s5H3I2H")
_CENTRAL = struct.Struct("<4s6H3I5H2I")
_END = struct.Struct("<4s4H2IH")
_LOCATOR = struct.Struct("<4sIQI")
_END64 = struct.Struct("<4sQ2H2I4Q")
_LOCAL_MAGIC = b"PK\x03\x04"
_CENTRAL_MAGIC = b"PK\x01\x02"
_END_MAGIC = b"PK\x05\x06"
_LOCATOR_MAGIC = b"PK\x06\x07"
_END64_MAGIC = b"PK\x06\x06"
_MAX_COMMENT = 0xFFFF
_MAX_32 = 0xFFFF_FFFF
_FLAGS = (0x0000, 0x0800)
_METHODS = (0, 8)
_NAME = re.compile(r"[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*")
_COMPARED: dict[str, Callable[[Any], str]] = {
    "name": json.dumps,
    "flags": "0x{:04x}".format,
    "method": str,
    "crc": "{:08x}".format,
    "compressed_size": str,
    "size": str,
}
"""Fields in which directory and local header must agree, in the order of BUNDLE.md."""
_MAX_DEFLATE_RATIO = 1032
"""Deflate cannot expand a byte to more, so a larger claim is a lie."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Member:
    """One member as its local header describes it."""

    name: str
    method: int
    flags: int
    crc: int
    compressed_size: int
    size: int
    header_offset: int
    data_offset: int

    @property
    def end(self) -> int:
        """Return the offset of the first byte behind the member."""
        return self.data_offset + self.compressed_size


@dataclass(frozen=True, kw_only=True, slots=True)
class Container:
    """Members of one file in file order, and how the file ends."""

    members: dict[str, Member]
    is_directory_missing: bool
    torn_member: str | None = None


class _Source:
    """Positioned reads of one file, safe from several threads."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.size = os.fstat(descriptor).st_size

    def read(self, offset: int, length: int) -> bytes:
        if offset < 0 or offset >= self.size:
            return b""
        return os.pread(self.descriptor, min(length, self.size - offset), offset)


def read_container(descriptor: int, path: Path) -> Container:
    """Return the members of an open file, or raise why it is not a bundle.

    Raises
    ------
    BundleError
        Kinds ``not_a_zip`` and ``foreign_zip``.
    IntegrityError
        Kind ``directory_mismatch``: the directory and the file disagree.
    """
    source = _Source(descriptor)
    walked, torn, stop = _walk(source)
    end = _find_end(source, torn, stop)
    entries = None if end is None else _directory(source, end, path)
    if end is not None and entries is not None:
        local_names = {member.name for member in walked}
        _check_names([entry.name for entry in entries], local_names, path)
        return _strict(source, entries, end.directory_offset, path)
    if source.read(0, len(_LOCAL_MAGIC)) != _LOCAL_MAGIC:
        raise BundleError("not a ZIP file", path=path, kind="not_a_zip")
    for member in walked:
        _check_rules(member, path)
    return Container(
        members={member.name: member for member in walked},
        is_directory_missing=True,
        torn_member=None if torn is None else torn.name,
    )


def _walk(source: _Source) -> tuple[list[Member], Member | None, int]:
    """Return the whole members from byte 0, the torn one and where the walk stops."""
    members: list[Member] = []
    seen: set[str] = set()
    offset = 0
    while (member := _local_member(source, offset)) is not None:
        if member.end > source.size or member.name in seen:
            return members, member, offset
        members.append(member)
        seen.add(member.name)
        offset = member.end
    return members, None, offset


def _local_member(source: _Source, offset: int) -> Member | None:
    """Return the member whose local header stands at `offset`, None if none does."""
    block = source.read(offset, _LOCAL.size)
    if len(block) < _LOCAL.size or block[:4] != _LOCAL_MAGIC:
        return None
    _, _, flags, method, _, _, crc, packed, size, name_length, extra_length = (
        _LOCAL.unpack(block)
    )
    tail = source.read(offset + _LOCAL.size, name_length + extra_length)
    sizes = _wide(tail[name_length:], size, packed)
    if len(tail) < name_length + extra_length:
        return None
    return Member(
        name=_text(tail[:name_length]),
        method=method,
        flags=flags,
        crc=crc,
        compressed_size=sizes[1],
        size=sizes[0],
        header_offset=offset,
        data_offset=offset + _LOCAL.size + name_length + extra_length,
    )


def _text(raw: bytes) -> str:
    """Return a name as text; what is not ASCII breaks the rules in any case."""
    return raw.decode("utf-8", errors="replace")


def _wide(extra: bytes, *fields: int) -> tuple[int, ...]:
    """Return 32-bit header fields with their ZIP64 values in place."""
    wide = _zip64_field(extra)
    result: list[int] = []
    for field in fields:
        if field == _MAX_32 and len(wide) >= struct.calcsize("<Q"):
            result.append(int(struct.unpack_from("<Q", wide)[0]))
            wide = wide[8:]
        else:
            result.append(field)
    return tuple(result)


def _zip64_field(extra: bytes) -> bytes:
    """Return the content of extra field 0x0001, empty if there is none."""
    while len(extra) >= struct.calcsize("<2H"):
        tag, length = struct.unpack_from("<2H", extra)
        if tag == 1:
            return extra[4 : 4 + length]
        extra = extra[4 + length :]
    return b""


@dataclass(frozen=True, kw_only=True, slots=True)
class _End:
    """Where the directory lies, as its end record says."""

    offset: int
    entry_count: int
    directory_offset: int
    directory_size: int
    directory_end: int


def _find_end(source: _Source, torn: Member | None, stop: int) -> _End | None:
    """Return the end record of the directory, None for a file that has lost it.

    The four magic bytes can occur by chance in compressed data: they count only behind
    the walked members, or where they lead to a directory (a local header that claims
    the rest of the file must not hide the real one).
    """
    reach = min(source.size, _END.size + _MAX_COMMENT)
    tail = source.read(source.size - reach, reach)
    member_end = stop if torn is None else torn.end
    at = tail.rfind(_END_MAGIC)
    while at >= 0:
        if len(tail) - at >= _END.size:
            end = _parse_end(source, source.size - reach + at)
            if end.offset >= member_end or _leads_to_directory(source, end):
                return end
        at = tail.rfind(_END_MAGIC, 0, at)
    return None


def _parse_end(source: _Source, offset: int) -> _End:
    fields = _END.unpack(source.read(offset, _END.size))
    count, size, start = fields[4:7]
    directory_end = offset
    locator = source.read(offset - _LOCATOR.size, _LOCATOR.size)
    if locator[:4] == _LOCATOR_MAGIC:
        at = _LOCATOR.unpack(locator)[2]
        wide = source.read(at, _END64.size)
        if len(wide) == _END64.size and wide[:4] == _END64_MAGIC:
            count, size, start = _END64.unpack(wide)[7:10]
            directory_end = at
    return _End(
        offset=offset,
        entry_count=count,
        directory_offset=start,
        directory_size=size,
        directory_end=directory_end,
    )


def _leads_to_directory(source: _Source, end: _End) -> bool:
    starts = (end.directory_offset, end.directory_end - end.directory_size)
    return any(source.read(start, 4) == _CENTRAL_MAGIC for start in starts)


def _check_names(names: list[str], local_names: set[str], path: Path) -> None:
    if "manifest.json" not in local_names.union(names):
        raise BundleError(
            "a ZIP file without manifest.json, not a bundle",
            path=path,
            kind="foreign_zip",
        )
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise _mismatch(f"{twice[0]} appears twice", path)


def _strict(
    source: _Source, entries: list[Member], directory_offset: int, path: Path
) -> Container:
    """Return the members after comparing the directory with every local header."""
    members: dict[str, Member] = {}
    offset = 0
    for entry in sorted(entries, key=lambda entry: entry.header_offset):
        _check_rules(entry, path)
        _check_gap(offset, entry.header_offset, entry.name, path)
        member = _agreed(source, entry, path)
        members[member.name] = member
        offset = member.end
    _check_gap(offset, directory_offset, "the central directory", path)
    return Container(members=members, is_directory_missing=False)


def _check_gap(expected: int, actual: int, before: str, path: Path) -> None:
    if actual > expected:
        raise _mismatch(
            f"{actual - expected} bytes before {before} belong to no member", path
        )
    if actual < expected:
        raise _mismatch(f"{before} overlaps the member before it", path)


def _check_rules(member: Member, path: Path) -> None:
    """Refuse a member whose name, flags or method the format forbids."""
    parts = member.name.split("/")
    if not _NAME.fullmatch(member.name) or "." in parts or ".." in parts:
        raise _mismatch(f"member name {json.dumps(member.name)} is not allowed", path)
    if member.flags not in _FLAGS:
        raise _mismatch(
            f"{member.name} has flags 0x{member.flags:04x}, "
            "only 0x0000 and 0x0800 are allowed",
            path,
        )
    if member.method not in _METHODS:
        raise _mismatch(
            f"{member.name} has compression method {member.method}, "
            "only 0 and 8 are allowed",
            path,
        )


def _agreed(source: _Source, entry: Member, path: Path) -> Member:
    """Return the local member if it is what the directory's entry says."""
    member = _local_member(source, entry.header_offset)
    where = f"directory disagrees with the local header of {entry.name}"
    if member is None:
        raise _mismatch(
            f"{where}: name {json.dumps(entry.name)} against no header", path
        )
    for field, shown in _COMPARED.items():
        listed, actual = getattr(entry, field), getattr(member, field)
        if listed != actual:
            raise IntegrityError(
                f"{where}: {field.replace('_', ' ')} {shown(listed)} "
                f"against {shown(actual)}",
                path=path,
                kind="directory_mismatch",
                file=entry.name,
                expected=str(listed),
                actual=str(actual),
            )
    return member


def _directory(source: _Source, end: _End, path: Path) -> list[Member] | None:
    """Return the directory's entries, None if it is broken.

    The end record must describe it exactly, and be the end of the file.
    """
    behind = source.size - end.offset - _END.size
    if behind:
        raise _mismatch(f"{behind} bytes after the end of the directory", path)
    stop = end.directory_offset + end.directory_size
    _check_gap(stop, end.directory_end, _DIRECTORY_END, path)
    data = source.read(end.directory_offset, end.directory_size)
    entries: list[Member] = []
    offset = 0
    for _ in range(end.entry_count):
        found = _central_entry(data, offset)
        if found is None:
            return None
        entries.append(found[0])
        offset = found[1]
    _check_gap(offset, len(data), _DIRECTORY_END, path)
    return entries


_DIRECTORY_END = "the end of the directory"


def _central_entry(data: bytes, offset: int) -> tuple[Member, int] | None:
    """Return the entry at an offset of the directory and where it ends."""
    block = data[offset : offset + _CENTRAL.size]
    if len(block) < _CENTRAL.size or block[:4] != _CENTRAL_MAGIC:
        return None
    fields = _CENTRAL.unpack(block)
    flags, method, crc, packed, size = (fields[i] for i in (3, 4, 7, 8, 9))
    name_length, extra_length, comment_length = fields[10:13]
    start = offset + _CENTRAL.size
    extra = data[start + name_length : start + name_length + extra_length]
    wide = _wide(extra, size, packed, fields[16])
    entry = Member(
        name=_text(data[start : start + name_length]),
        method=method,
        flags=flags,
        crc=crc,
        compressed_size=wide[1],
        size=wide[0],
        header_offset=wide[2],
        data_offset=0,
    )
    return entry, start + name_length + extra_length + comment_length


def _mismatch(message: str, path: Path) -> IntegrityError:
    return IntegrityError(message, path=path, kind="directory_mismatch")


def refusal(member: Member, limit: int) -> str | None:
    """Return why a member must not be unpacked, None if it may be.

    Checked before any allocation: a claim of a terabyte costs nothing.
    """
    if member.size > limit:
        return f"it declares {member.size} bytes, more than the {limit} allowed here"
    if member.method == 0 and member.size != member.compressed_size:
        return "it is stored with two different sizes"
    if member.size > member.compressed_size * _MAX_DEFLATE_RATIO + 64:
        return f"it declares {member.size} bytes, more than deflate can hold"
    return None
