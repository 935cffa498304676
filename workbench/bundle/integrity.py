"""What keeps bytes honest: CRC, size and SHA-256 of every member.

Messages are those of the error table in ``capture/BUNDLE.md``.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from dataclasses import dataclass

from workbench.bundle.container import Member, refusal
from workbench.errors import IntegrityError

SUMS = "SHA256SUMS"
_LINE = re.compile(r"([0-9a-f]{64})  (\S+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Damage:
    """One thing that a bundle lost or says wrongly; a row of ``raw.load_problem``."""

    kind: str
    message: str
    member: str | None = None


def inflate(member: Member, packed: bytes, limit: int) -> bytes:
    """Return the content of a member, never more of it than its header declares.

    Raises
    ------
    IntegrityError
        If the size is absurd, the stream is broken or the CRC differs.
    """
    reason = refusal(member, limit)
    if reason is not None:
        raise _broken(member, f"cannot decompress {member.name}: {reason}")
    data = packed if member.method == 0 else _inflate(member, packed)
    if data is None or len(data) != member.size:
        raise _broken(member, f"cannot decompress {member.name}")
    crc = zlib.crc32(data)
    if crc != member.crc:
        raise IntegrityError(
            f"CRC mismatch in {member.name}: {member.crc:08x} stored, {crc:08x} found",
            kind="bad_checksum",
            file=member.name,
            expected=f"{member.crc:08x}",
            actual=f"{crc:08x}",
        )
    return data


def _inflate(member: Member, packed: bytes) -> bytes | None:
    """Return at most one byte more than declared, None if the stream is broken."""
    stream = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        data = stream.decompress(packed, member.size + 1)
    except zlib.error:
        return None
    return data if stream.eof and not stream.unused_data else None


def _broken(member: Member, message: str) -> IntegrityError:
    return IntegrityError(message, kind="bad_checksum", file=member.name)


def parse_sums(data: bytes) -> tuple[dict[str, str], list[Damage]]:
    """Return the listed checksums by member, and the lines that are none."""
    sums: dict[str, str] = {}
    damage: list[Damage] = []
    lines = data.decode("utf-8", errors="replace").split("\n")
    if lines[-1] == "":
        lines.pop()
    for number, line in enumerate(lines, start=1):
        match = _LINE.fullmatch(line)
        if match is None:
            message = f"{SUMS} line {number} is not a checksum and a name"
            damage.append(Damage(kind="bad_checksum", message=message, member=SUMS))
        else:
            sums[match[2]] = match[1]
    return sums, damage


def check_sum(name: str, data: bytes, sums: dict[str, str]) -> None:
    """Compare a member with its line of ``SHA256SUMS``.

    Raises
    ------
    IntegrityError
        If it has no line or another sum.
    """
    expected = sums.get(name)
    if expected is None:
        raise IntegrityError(
            f"{name} is not listed in {SUMS}", kind="bad_checksum", file=name
        )
    actual = hashlib.sha256(data).hexdigest()
    if actual != expected:
        raise IntegrityError(
            f"SHA-256 mismatch in {name}: {expected} stored, {actual} found",
            kind="bad_checksum",
            file=name,
            expected=expected,
            actual=actual,
        )
