"""Keyed pseudonyms, the site key they rest on, and the mapping that stays at home.

A pseudonym is its class and the first 64 bits of HMAC-SHA-256 over class and original:
``host-3f9a12c4d5e6f708``.  Without the key nobody can try originals (all of IPv4 would
take seconds with a plain hash).  Among n originals of one class two share a pseudonym
with a probability below n**2 / 2**65: for a million below 3e-8.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import hmac
import json
import os
import re
import stat
from typing import TYPE_CHECKING, Any, cast

from capture.errors import CaptureError

if TYPE_CHECKING:
    from pathlib import Path

CLASSES = (
    "host",
    "domain",
    "boot",
    "machine",
    "user",
    "path",
    "group",
    "name",
    "job",
    "word",
    "text",
    "address-loopback",
    "address-linklocal",
    "address-private",
    "address-public",
)
PATTERN = re.compile(rf"\b({'|'.join(CLASSES)})-([0-9a-f]{{16}})(?![0-9a-f])")
"""A pseudonym, wherever it stands in a text."""

KEY_HINT = "make one by: (umask 077; head -c 32 /dev/urandom > site.key)"
_LEAST_KEY_BYTES, _MOST_KEY_BYTES, _LEAST_DISTINCT = 32, 4096, 12
_DIGITS = 16
_FOR_OTHERS = 0o077


class SiteKey:
    """A secret that all hosts of a site share; it never leaves memory."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    @property
    def key_id(self) -> str:
        """Return what tells two keys apart and tells nothing else about them."""
        return self._digest("key", "id")[: _DIGITS // 2]

    def pseudonym(self, kind: str, original: str) -> str:
        """Return the pseudonym of an original of a class."""
        return f"{kind}-{self._digest(kind, original)[:_DIGITS]}"

    def _digest(self, kind: str, original: str) -> str:
        message = f"coldtrace:{kind}\0".encode() + as_bytes(original)
        return hmac.new(self._secret, message, hashlib.sha256).hexdigest()


def as_bytes(text: str) -> bytes:
    """Return the bytes of a name, whatever it holds."""
    return text.encode("utf-8", "surrogatepass")


def read_site_key(path: Path) -> SiteKey:
    """Return the site key that a file holds; all of its bytes are the key.

    Raises
    ------
    CaptureError
        If the file cannot be read, others may read it, or it is no random key.
    """
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            data = (
                file.read(_MOST_KEY_BYTES + 1) if stat.S_ISREG(found.st_mode) else b""
            )
    except OSError as error:
        message = f"cannot read site key {path}: {error.strerror}"
        raise CaptureError(message, KEY_HINT) from error
    if not stat.S_ISREG(found.st_mode):
        raise CaptureError(f"site key {path} is no regular file", KEY_HINT)
    if found.st_mode & _FOR_OTHERS:
        raise CaptureError(
            f"site key {path} has mode {stat.S_IMODE(found.st_mode):04o}: others may "
            "use it",
            f"chmod 600 {path}",
        )
    if not _LEAST_KEY_BYTES <= len(data) <= _MOST_KEY_BYTES:
        raise CaptureError(
            f"site key {path} is not {_LEAST_KEY_BYTES} to {_MOST_KEY_BYTES} bytes",
            KEY_HINT,
        )
    if len(set(data)) < _LEAST_DISTINCT:
        raise CaptureError(f"site key {path} is not random", KEY_HINT)
    return SiteKey(data)


def mapping_of(key: Path, named: Path | None) -> Path:
    """Return where the mapping lies: as named, else beside the key."""
    return named or key.with_name(f"{key.name}.mapping.jsonl")


def read_mapping(path: Path) -> dict[str, str]:
    """Return the original of each pseudonym in a mapping file.

    Raises
    ------
    CaptureError
        If it cannot be read as a whole: nobody could say then what was not looked for.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise CaptureError(f"cannot read mapping {path}: {error.strerror}") from error
    found: dict[str, str] = {}
    for number, line in enumerate(data.splitlines(), 1):
        try:
            row: object = json.loads(line)
        except ValueError:
            row = None
        known = cast("dict[str, Any]", row) if isinstance(row, dict) else {}
        pseudonym, original = known.get("pseudonym"), known.get("original")
        if not isinstance(pseudonym, str) or not isinstance(original, str):
            raise CaptureError(f"mapping {path} line {number} is no entry of a mapping")
        found[pseudonym] = original
    return found


def _refuse_others(path: Path, mode: int) -> None:
    """Refuse a mapping that others than its owner may read."""
    if not stat.S_ISREG(mode) or mode & _FOR_OTHERS:
        raise CaptureError(
            f"mapping {path} is no regular file of mode 0600",
            f"chmod 600 {path}, or name another file with --mapping",
        )


class Mapping:
    """The file that says which original each pseudonym stands for; appended only.

    Raises
    ------
    CaptureError
        If it cannot be written, or others may read it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            self._fd = os.open(path, flags, 0o600)
        except OSError as error:
            message = f"cannot write mapping {path}: {error.strerror}"
            raise CaptureError(message, "name another file with --mapping") from error
        try:
            _refuse_others(path, os.fstat(self._fd).st_mode)
            self.originals = read_mapping(path)
        except BaseException:
            os.close(self._fd)
            raise
        self._pending: list[str] = []

    def note(self, kind: str, pseudonym: str, original: str) -> None:
        """Note what a pseudonym stands for, unless the file says so already."""
        before = self.originals.get(pseudonym)
        if before is None:
            self.originals[pseudonym] = original
            row = {"class": kind, "pseudonym": pseudonym, "original": original}
            self._pending.append(json.dumps(row) + "\n")
        elif before != original:
            raise CaptureError(
                f"two originals share the pseudonym {pseudonym}",
                "give another site key to all hosts of the site",
            )

    def flush(self) -> None:
        """Write what is new; of a write that fails nothing stays behind."""
        if not self._pending:
            return
        data = "".join(self._pending).encode()
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        try:
            start = os.fstat(self._fd).st_size
            try:
                done = 0
                while done < len(data):
                    done += os.write(self._fd, data[done:])
                os.fsync(self._fd)
            except OSError:
                with contextlib.suppress(OSError):
                    os.ftruncate(self._fd, start)
                raise
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_UN)
        self._pending.clear()

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)
