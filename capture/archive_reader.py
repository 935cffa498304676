"""Read the ZIP of a bundle as BUNDLE.md (section Integrity) demands, member by member.

``zipfile`` believes the central directory.  Evidence may not: the directory and every
local header must agree and every byte of the file must belong to a member, so that no
reader can be shown other members than another.  Hence a reader of its own.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOCAL = struct.Struct("<4sHHHHHIIIHH")
_CENTRAL = struct.Struct("<4sHHHHHHIIIHHHHHII")
_END = struct.Struct("<4sHHHHIIH")
_END64_LOCATOR = struct.Struct("<4sIQI")
_END64 = struct.Struct("<4sQHHIIQQQQ")
_LOCAL_MAGIC = b"PK\x03\x04"
_CENTRAL_MAGIC = b"PK\x01\x02"
_END_MAGIC = b"PK\x05\x06"
_END64_MAGIC = b"PK\x06\x06"
_END64_LOCATOR_MAGIC = b"PK\x06\x07"
_ZIP64_EXTRA = 1
_WIDE = 0xFFFFFFFF
_ALLOWED_FLAGS = (0x0000, 0x0800)
_ALLOWED_METHODS = (0, 8)
_NAME = re.compile(r"[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*")
_BLOCK = 1 << 20
_MAX_TAIL = 65_557
"""End record and the longest comment: how far from the end it is looked for."""


class ArchiveError(Exception):
    """Something that makes the whole file unusable; ``kind`` as in BUNDLE.md."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


class MemberError(Exception):
    """A member whose bytes are not those that were written."""


class Header(NamedTuple):
    """What a local header and the directory both say of a member."""

    name: str
    flags: int
    method: int
    crc: int
    packed_size: int
    size: int


@dataclass(frozen=True)
class Member:
    """One member, and where its bytes stand in the file."""

    header: Header
    offset: int
    data_offset: int

    @property
    def name(self) -> str:
        """Return the name of the member."""
        return self.header.name

    @property
    def end(self) -> int:
        """Return where the next member must begin."""
        return self.data_offset + self.header.packed_size


class _Directory(NamedTuple):
    start: int
    end: int
    """First byte after the directory, where the end records begin."""
    entries: int


_LABELS = ("name", "flags", "method", "crc", "compressed size", "size")


def read_members(file: IO[bytes], length: int) -> list[Member]:
    """Return the members of a ZIP in the order in which they stand in the file.

    Raises
    ------
    ArchiveError
        If it is no ZIP, has no directory, or the directory is not the truth.
    """
    directory = _find_directory(file, length)
    found = sorted(_central_headers(file, directory), key=lambda entry: entry[1])
    names: set[str] = set()
    members: list[Member] = []
    expected = 0
    for header, offset in found:
        _check_header(header, names)
        _check_gap(header.name, expected, offset)
        member = _local_member(file, header, offset)
        members.append(member)
        expected = member.end
    if expected != directory.start:
        _check_gap("the central directory", expected, directory.start)
    return members


def read_blocks(file: IO[bytes], member: Member) -> Iterator[bytes]:
    """Yield the content of a member, never more than its header says.

    Raises
    ------
    MemberError
        If the content is not what the header says, after the last block.
    """
    crc = size = 0
    for block in _unpacked(file, member):
        crc = zlib.crc32(block, crc)
        size += len(block)
        yield block
    if size != member.header.size:
        raise MemberError(f"cannot decompress {member.name}")
    if crc != member.header.crc:
        raise MemberError(
            f"CRC mismatch in {member.name}: "
            f"{member.header.crc:08x} stored, {crc:08x} found"
        )


def read_member(file: IO[bytes], member: Member) -> bytes:
    """Return the content of a member; errors as ``read_blocks``."""
    return b"".join(read_blocks(file, member))


def _unpacked(file: IO[bytes], member: Member) -> Iterator[bytes]:
    """Yield the content without looking at its check sum."""
    file.seek(member.data_offset)
    left = member.header.packed_size
    allowed = member.header.size
    if member.header.method == 0:
        while left > 0 and (block := file.read(min(_BLOCK, left))):
            left -= len(block)
            yield block
        return
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        while not inflater.eof:
            packed = inflater.unconsumed_tail
            if not packed:
                packed = file.read(min(_BLOCK, left))
                left -= len(packed)
            # One byte more than allowed is enough to know that there is too much.
            # With all input read, the inflater can still hold output back.
            block = inflater.decompress(packed, min(_BLOCK, allowed + 1))
            allowed -= len(block)
            if allowed < 0 or not (packed or block):
                break
            yield block
    except zlib.error as error:
        raise MemberError(f"cannot decompress {member.name}") from error
    if allowed or left or not inflater.eof or inflater.unused_data:
        raise MemberError(f"cannot decompress {member.name}")


def _find_directory(file: IO[bytes], length: int) -> _Directory:
    """Return where the directory stands, which must end the file."""
    file.seek(0)
    is_zip = file.read(4) == _LOCAL_MAGIC
    start = max(0, length - _MAX_TAIL)
    file.seek(start)
    tail = file.read(_MAX_TAIL)
    place = tail.rfind(_END_MAGIC)
    if place < 0 or len(tail) - place < _END.size:
        if is_zip:
            raise ArchiveError("truncated", "truncated: no central directory")
        raise ArchiveError("not_a_zip", "not a ZIP file")
    after = len(tail) - place - _END.size
    if after:
        message = f"{after} bytes after the end of the directory"
        raise ArchiveError("directory_mismatch", message)
    _, _, _, _, count, size, offset, _ = _END.unpack_from(tail, place)
    wide = _end64(file, start + place)
    if wide is not None:
        return wide
    end = start + place
    if offset + size != end:
        _check_gap("the end of the directory", offset + size, end)
    return _Directory(offset, end, count)


def _end64(file: IO[bytes], end: int) -> _Directory | None:
    """Return the directory by the ZIP64 records before the end record, if any."""
    place = end - _END64_LOCATOR.size
    if place < 0:
        return None
    file.seek(place)
    locator = file.read(_END64_LOCATOR.size)
    if not locator.startswith(_END64_LOCATOR_MAGIC):
        return None
    _, _, offset, _ = _END64_LOCATOR.unpack(locator)
    file.seek(min(offset, place))
    record = file.read(_END64.size)
    if len(record) < _END64.size or not record.startswith(_END64_MAGIC):
        raise ArchiveError("truncated", "truncated: no central directory")
    fields = _END64.unpack(record)
    if offset + _END64.size != place:
        _check_gap("the end of the directory", offset + _END64.size, place)
    directory = _Directory(fields[9], offset, fields[7])
    if directory.start + fields[8] != offset:
        _check_gap("the end of the directory", directory.start + fields[8], offset)
    return directory


def _central_headers(
    file: IO[bytes], directory: _Directory
) -> Iterator[tuple[Header, int]]:
    """Yield what the directory says of each member, and where it says it stands."""
    file.seek(directory.start)
    data = file.read(directory.end - directory.start)
    place = 0
    for _ in range(directory.entries):
        head = data[place : place + _CENTRAL.size]
        if len(head) < _CENTRAL.size or not head.startswith(_CENTRAL_MAGIC):
            raise ArchiveError("truncated", "truncated: no central directory")
        fields = _CENTRAL.unpack(head)
        flags, method, crc = fields[3], fields[4], fields[7]
        name_length, extra_length, comment_length = fields[10:13]
        start = place + _CENTRAL.size
        name = data[start : start + name_length].decode("utf-8", "replace")
        extra = data[start + name_length : start + name_length + extra_length]
        size, packed, offset = _widen(extra, [fields[9], fields[8], fields[16]])
        yield Header(name, flags, method, crc, packed, size), offset
        place = start + name_length + extra_length + comment_length
    if place != len(data):
        _check_gap("the end of the directory", place, len(data))


def walk_members(file: IO[bytes], length: int) -> tuple[list[Member], str]:
    """Return the whole members of a file that was cut, and the name of a torn one.

    For a file without directory only: the local headers are all there is to go by.

    Raises
    ------
    ArchiveError
        If a header holds what no bundle may contain.
    """
    members: list[Member] = []
    names: set[str] = set()
    offset = 0
    while (member := _read_local(file, offset)) is not None:
        _check_header(member.header, names)
        if member.end > length:
            return members, member.name
        members.append(member)
        offset = member.end
    return members, ""


def _read_local(file: IO[bytes], offset: int) -> Member | None:
    """Return the member whose local header stands at an offset, if one does."""
    file.seek(offset)
    head = file.read(_LOCAL.size)
    if len(head) < _LOCAL.size or not head.startswith(_LOCAL_MAGIC):
        return None
    fields = _LOCAL.unpack(head)
    name, extra = file.read(fields[9]), file.read(fields[10])
    if len(name) < fields[9] or len(extra) < fields[10]:
        return None
    size, packed = _widen(extra, [fields[8], fields[7]])
    text = name.decode("utf-8", "replace")
    header = Header(text, fields[2], fields[3], fields[6], packed, size)
    return Member(header, offset, offset + _LOCAL.size + len(name) + len(extra))


def _local_member(file: IO[bytes], header: Header, offset: int) -> Member:
    """Return a member whose local header says what the directory says."""
    member = _read_local(file, offset)
    if member is None:
        message = f"directory disagrees with the local header of {header.name}: "
        message += f"name {json.dumps(header.name)} against no header"
        raise ArchiveError("directory_mismatch", message)
    for label, ours, theirs in zip(_LABELS, header, member.header):
        if ours != theirs:
            raise ArchiveError(
                "directory_mismatch",
                f"directory disagrees with the local header of {header.name}: "
                f"{label} {_shown(label, ours)} against {_shown(label, theirs)}",
            )
    return member


def _shown(label: str, value: object) -> str:
    if label == "crc":
        return f"{value:08x}"
    if label == "flags":
        return f"0x{value:04x}"
    return json.dumps(value)


def _widen(extra: bytes, values: list[int]) -> list[int]:
    """Return the values, those of 32 bits that say so read from the ZIP64 field."""
    wide = b""
    while len(extra) >= 4:  # noqa: PLR2004 - an extra field's id and length
        kind, length = struct.unpack_from("<HH", extra)
        if kind == _ZIP64_EXTRA:
            wide = extra[4 : 4 + length]
        extra = extra[4 + length :]
    found: list[int] = []
    for value in values:
        if value == _WIDE and len(wide) >= 8:  # noqa: PLR2004 - one 64-bit number
            found.append(struct.unpack_from("<Q", wide)[0])
            wide = wide[8:]
        else:
            found.append(value)
    return found


def _check_header(header: Header, names: set[str]) -> None:
    """Refuse what no bundle may contain."""
    message = ""
    if not _NAME.fullmatch(header.name) or {".", ".."} & set(header.name.split("/")):
        message = f"member name {json.dumps(header.name)} is not allowed"
    elif header.name in names:
        message = f"{header.name} appears twice"
    elif header.flags not in _ALLOWED_FLAGS:
        message = f"{header.name} has flags 0x{header.flags:04x}, "
        message += "only 0x0000 and 0x0800 are allowed"
    elif header.method not in _ALLOWED_METHODS:
        message = f"{header.name} has compression method {header.method}, "
        message += "only 0 and 8 are allowed"
    if message:
        raise ArchiveError("directory_mismatch", message)
    names.add(header.name)


def _check_gap(name: str, expected: int, found: int) -> None:
    """Refuse bytes that belong to nothing, and bytes that belong to two."""
    if found > expected:
        message = f"{found - expected} bytes before {name} belong to no member"
        raise ArchiveError("directory_mismatch", message)
    if found < expected:
        message = f"{name} overlaps the member before it"
        raise ArchiveError("directory_mismatch", message)
