"""The spool: what a recording appends to, and what seal reads back after any ending.

A spool is a folder of mode 0700 that the recorder creates itself and exclusively, never
a shared temporary folder, with two files of mode 0600:

``header.json``
    written and synced before the first frame.
``frames.bin``
    frames, appended only.  A frame is a header of 24 bytes, little-endian, then its
    payload: magic ``CTF1``, u16 kind, u16 reserved, u32 record count, u32 length of the
    payload, u32 CRC-32 of the payload, u32 CRC-32 of the 20 bytes before it.

The header has a check sum of its own, so that a flipped byte in a payload costs that
frame only (its length can still be believed) and a flipped byte in a header costs that
frame only too: the reader looks for the next header whose check sum is right.

Kinds
-----
``events/<stream>``
    whole ring records: 8 bytes of ring header, then the record, repeated.
``inflight/<stream>``
    the same shape: what is open now.  The last such frame of a stream wins, one with
    an empty payload too, so a recording that ends cleanly appends one a stream after it
    has quiesced, empty or not.
``facts``
    JSON lines, each ``{"fact": "process", ...columns}``.
``clock``
    JSON lines, one reading each.
``end``
    one JSON object: ``stop_reason``, ``stop_ns``, and ``facts``, a list of last fact
    rows (probe counters and losses) of the same shape as in a ``facts`` frame.

The kind codes are written to ``header.json``, so a spool explains itself.
"""

from __future__ import annotations

import fcntl
import json
import mmap
import os
import struct
import threading
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Union, cast

from capture.errors import CaptureError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from capture.redaction import Redaction

HEADER_NAME = "header.json"
FRAMES_NAME = "frames.bin"
SPOOL_VERSION = 1
FREE_SPACE_FLOOR_BYTES = 256 * 1024 * 1024
"""Space that is left for seal beyond a third of the spool (design/recorder.md 1)."""

_MAGIC = b"CTF1"
_HEADER = struct.Struct("<4sHHIII")
_CHECK = struct.Struct("<I")
FRAME_HEADER_SIZE = _HEADER.size + _CHECK.size
_MAX_PAYLOAD = 0xFFFFFFFF
_PLAIN_KINDS = ("facts", "clock", "end")

Buffer = Union[bytes, bytearray, memoryview]


class SpoolError(CaptureError):
    """A spool that cannot be created or read."""


def kind_codes(streams: list[str]) -> dict[str, int]:
    """Return the code of every kind of frame in a recording of these streams."""
    names = list(_PLAIN_KINDS)
    names += [
        f"{kind}/{stream}" for stream in streams for kind in ("events", "inflight")
    ]
    return {name: code for code, name in enumerate(names, start=1)}


class SpoolWriter:
    """Append frames to a new spool; every method may be called from any thread.

    Parameters
    ----------
    folder
        Folder to create; it must not exist.
    header
        What ``header.json`` holds; ``spool_version`` and ``kinds`` are added.
    redaction
        What all text passes on its way to the disk; None to write it as it is.
    """

    def __init__(
        self,
        folder: Path,
        header: Mapping[str, Any],
        redaction: Redaction | None = None,
    ) -> None:
        self.folder = folder
        self.size_bytes = 0
        self._kinds = kind_codes(list(header["streams"]))
        self._lock = threading.Lock()
        self._redaction = redaction
        shown = dict(header) if redaction is None else redaction.header(dict(header))
        _create_folder(folder)
        whole = {**shown, "spool_version": SPOOL_VERSION, "kinds": self._kinds}
        _write_synced(folder / HEADER_NAME, json.dumps(whole, indent=1).encode())
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        self._fd = os.open(folder / FRAMES_NAME, flags, 0o600)
        # Held until close or death: seal refuses a spool that is still being written.
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        _sync_folder(folder)

    def append(self, kind: str, payload: Buffer, record_count: int = 0) -> None:
        """Append one frame; on an error of the disk nothing of it stays behind."""
        length = memoryview(payload).nbytes
        if length > _MAX_PAYLOAD:
            raise SpoolError(f"a frame of {length} bytes is too long for the spool")
        code = self._kinds[kind]
        check = zlib.crc32(payload)
        head = _HEADER.pack(_MAGIC, code, 0, record_count, length, check)
        head += _CHECK.pack(zlib.crc32(head))
        with self._lock:
            self._write([memoryview(head), memoryview(payload).cast("B")])

    def append_rows(self, kind: str, rows: list[dict[str, Any]]) -> None:
        """Append one frame of JSON lines, redacted where that was asked for."""
        if self._redaction is not None:
            rows = self._redaction.rows(rows)
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        self.append(kind, lines.encode(), len(rows))

    def sync(self) -> None:
        """Bring every frame so far to the disk."""
        os.fsync(self._fd)

    def close(self) -> None:
        """Sync and close; the spool can be sealed from now on."""
        with self._lock:
            if self._fd >= 0:
                os.fsync(self._fd)
                os.close(self._fd)
                self._fd = -1

    def free_space_is_low(self) -> bool:
        """Tell whether seal might no longer find room for the bundle."""
        disk = os.statvfs(self.folder)
        free = disk.f_bavail * disk.f_frsize
        return free < self.size_bytes / 3 + FREE_SPACE_FLOOR_BYTES

    def _write(self, parts: list[memoryview]) -> None:
        start = self.size_bytes
        total = sum(len(part) for part in parts)
        try:
            done = os.writev(self._fd, parts)
            if done < total:  # a nearly full disk or a signal: the rest, plainly
                rest = memoryview(b"".join(parts))
                while done < total:
                    done += os.write(self._fd, rest[done:])
        except OSError:
            os.ftruncate(self._fd, start)
            raise
        self.size_bytes = start + total


@dataclass(frozen=True)
class Frame:
    """One whole frame; the payload points into the mapped file."""

    kind: str
    record_count: int
    payload: memoryview
    offset: int


@dataclass
class SpoolDamage:
    """What the reader had to leave out, in the middle and at the end."""

    torn_bytes: int = 0
    damaged_bytes: int = 0
    damaged_frame_count: int = 0
    lost_payload_bytes: dict[str, int] = field(default_factory=dict)
    """Bytes in damaged frames, by kind, where their header could be believed."""


class SpoolReader:
    """Read a spool back, whatever ended it.

    Parameters
    ----------
    folder
        Folder of the spool.

    Raises
    ------
    SpoolError
        If there is no spool here, or it is still being written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.header = _read_header(folder)
        try:
            self._file = (folder / FRAMES_NAME).open("rb")
        except OSError as error:
            message = f"cannot read {folder / FRAMES_NAME}: {error.strerror}"
            raise SpoolError(message) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError as error:
            self._file.close()
            message = f"{folder} is still being written by a running recorder"
            raise SpoolError(message, "stop the recorder with SIGINT first") from error
        self.size_bytes = os.fstat(self._file.fileno()).st_size
        # An empty file cannot be mapped.
        self._map = (
            mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
            if self.size_bytes
            else None
        )
        self._names = {code: name for name, code in self.header["kinds"].items()}

    def close(self) -> None:
        """Unmap and close; payloads must be gone by now."""
        if self._map is not None:
            self._map.close()
        self._file.close()

    def frames(self, damage: SpoolDamage | None = None) -> Iterator[Frame]:
        """Yield every whole frame in order and note in ``damage`` what is left out."""
        if self._map is None:
            return
        damage = SpoolDamage() if damage is None else damage
        with memoryview(self._map) as view:
            offset = 0
            while offset < self.size_bytes:
                head = _parse_header(view, offset)
                if head is None:
                    offset = self._skip(offset, damage)
                    continue
                code, count, length, check = head
                start = offset + FRAME_HEADER_SIZE
                if start + length > self.size_bytes:
                    # The last frame is incomplete, or only pretends to be the last.
                    offset = self._skip(offset, damage)
                    continue
                kind = self._names.get(code, "")
                with view[start : start + length] as payload:
                    if zlib.crc32(payload) == check and kind:
                        yield Frame(kind, count, payload, offset)
                    else:
                        _note_damage(damage, kind, length, FRAME_HEADER_SIZE + length)
                offset = start + length

    def _skip(self, offset: int, damage: SpoolDamage) -> int:
        """Return where the next believable frame begins; note the bytes between."""
        mapped = self._map
        if mapped is None:
            return self.size_bytes
        found = offset
        while (found := mapped.find(_MAGIC, found + 1)) >= 0:
            if _parse_header(mapped, found) is not None:
                _note_damage(damage, "", 0, found - offset)
                return found
        damage.torn_bytes += self.size_bytes - offset
        return self.size_bytes


def _note_damage(damage: SpoolDamage, kind: str, payload: int, length: int) -> None:
    damage.damaged_frame_count += 1
    damage.damaged_bytes += length
    lost = damage.lost_payload_bytes
    lost[kind] = lost.get(kind, 0) + payload


def _parse_header(
    data: memoryview | mmap.mmap, offset: int
) -> tuple[int, int, int, int] | None:
    """Return kind, record count, length and check sum; nothing if it is no header."""
    head = bytes(data[offset : offset + FRAME_HEADER_SIZE])
    if len(head) < FRAME_HEADER_SIZE or not head.startswith(_MAGIC):
        return None
    if _CHECK.unpack_from(head, _HEADER.size)[0] != zlib.crc32(head[: _HEADER.size]):
        return None
    _, code, _, count, length, check = _HEADER.unpack_from(head)
    return code, count, length, check


def _read_header(folder: Path) -> dict[str, Any]:
    """Return ``header.json``, checked for what seal cannot do without."""
    path = folder / HEADER_NAME
    try:
        parsed: object = json.loads(path.read_bytes())
    except OSError as error:
        message = f"{folder} is not a spool: {HEADER_NAME}: {error.strerror}"
        raise SpoolError(message, "give the folder that record printed") from error
    except ValueError as error:
        raise SpoolError(f"{path} is not JSON: {error}") from error
    header = cast("dict[str, Any]", parsed) if isinstance(parsed, dict) else {}
    found = header.get("spool_version")
    if found != SPOOL_VERSION:
        raise SpoolError(
            f"{path} has spool version {found}, this recorder reads {SPOOL_VERSION}",
            "seal it with the recorder that recorded it",
        )
    return header


def _create_folder(folder: Path) -> None:
    """Create the folder for this user alone; one that exists is never taken over."""
    try:
        folder.mkdir(mode=0o700)
        folder.chmod(0o700)
    except FileExistsError as error:
        message = f"spool folder {folder} exists"
        raise SpoolError(message, "give another name with --spool") from error
    except OSError as error:
        message = f"cannot create spool folder {folder}: {error.strerror}"
        raise SpoolError(message) from error


def _write_synced(path: Path, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
