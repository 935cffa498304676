"""Search a finished bundle for what redaction was to take out of it.

Looked for are the originals of the mapping file and what this host knows of itself,
and of each its beginning of five characters: the kernel cuts names, so a leak need not
be whole.  The name of the file, everything between its members and the text of members
are searched in full.  In columns and in compressed bytes any five bytes come up by
chance once they are many, so the beginning must be longer there in large files: as long
as chance finds in one of a thousand.

A find is no leak where it lies in words of the recorder's own source, for every bundle
holds those.  What cannot be looked for is counted and told.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING

from capture.archive_reader import (
    ArchiveError,
    MemberError,
    read_blocks,
    read_member,
    read_members,
)
from capture.errors import CaptureError
from capture.own_words import is_own
from capture.pseudonyms import PATTERN, as_bytes, read_mapping

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from capture.archive_reader import Member
    from capture.site_names import SiteNames

LEAST_PREFIX = 5
LEAST_WORD = 3
_LEAST_HEX = 12
"""Check sums are full of shorter runs of hexadecimal digits."""
_WORD_BYTES = b"abcdefghijklmnopqrstuvwxyz0123456789_"
_CHANCE = 1e-3
_OVERLAP = 256
_BLOCK = 1 << 20

_PSEUDONYM = re.compile(PATTERN.pattern.encode())
_HEX = re.compile(rb"[0-9a-f-]+")
_NUMBER = re.compile(rb"\d+(?:\.\d+)*")
_ADDRESS = re.compile(rb"\d+(?:\.\d+){3}|[0-9a-f]*:[0-9a-f:]*:[0-9a-f:.]*")


class LeakError(CaptureError):
    """A bundle that holds what was to be taken out, or could not be searched."""


@dataclass(frozen=True)
class Leak:
    """One original, or its beginning, at one place."""

    place: str
    found: str
    original: str


@dataclass
class Search:
    """What a search of one bundle found, and what it could not look for."""

    leaks: list[Leak] = field(default_factory=list)
    original_count: int = 0
    too_short_count: int = 0
    """Originals of one or two characters, and numbers of few digits."""
    packed_prefix: int = LEAST_PREFIX
    """Shortest beginning that counted in columns and compressed bytes."""

    @property
    def told(self) -> str:
        """Return what was looked for, and what could not be."""
        return (
            f"{self.original_count} originals looked for, {self.too_short_count} of "
            f"them too short to tell; in columns by {self.packed_prefix} bytes"
        )


class Needles:
    """What is looked for, as two patterns: one for text, one for numbers."""

    def __init__(self, originals: Iterable[str]) -> None:
        self.originals = {text for text in originals if text}
        self.too_short_count = 0
        self._anywhere: set[str] = set()
        self._alone: set[str] = set()
        self._addresses: set[str] = set()
        for original in sorted(self.originals):
            self._sort(original)
        self.text = _alternatives(self._anywhere)
        self.words = _alternatives(self._alone, before=rb"(?<!\w)", after=rb"(?!\w)")
        self.addresses = _alternatives(self._addresses, before=rb"(?<![\w.:])")

    def _sort(self, original: str) -> None:
        """Put an original where it is looked for."""
        text = as_bytes(original).lower()
        is_number = bool(_NUMBER.fullmatch(text)) and len(text) < _LEAST_HEX
        if _ADDRESS.fullmatch(text):
            self._addresses.add(original[:LEAST_PREFIX])
        elif is_number or len(original) < LEAST_WORD:
            self.too_short_count += 1
        elif _HEX.fullmatch(text):
            self._alone.add(original)
            if len(text) >= _LEAST_HEX:
                self._anywhere.add(original[:_LEAST_HEX])
        elif len(original) < LEAST_PREFIX:
            self._alone.add(original)
        else:
            self._anywhere.add(original[:LEAST_PREFIX])

    def packed(self, size: int) -> tuple[int, re.Pattern[bytes] | None]:
        """Return the shortest beginning for so many bytes of numbers, and a pattern."""
        count = max(len(self.originals), 1)
        length = LEAST_PREFIX
        while length < _LEAST_HEX and size * count > _CHANCE * math.pow(256, length):
            length += 1
        return length, _alternatives(
            {text[:length] for text in self.originals if len(text) >= length}
        )

    def longest(self, data: bytes, start: int) -> tuple[int, str]:
        """Return how much of which original begins at a place."""
        return max(
            (_common(text, data, start), original)
            for original in self.originals
            for text in _spellings(original)
        )


def search_bundle(path: Path, mapping: Path, names: SiteNames) -> Search:
    """Return what a finished bundle holds of the originals.

    Raises
    ------
    LeakError
        If the mapping or the bundle cannot be read as a whole, or the mapping does not
        know every pseudonym of the bundle: then nobody knows what to look for.
    """
    try:
        originals = read_mapping(mapping)
    except CaptureError as error:
        raise LeakError(f"cannot search {path}: {error.message}") from error
    needles = Needles(
        {*originals.values(), *(name for _, name in names.as_originals())}
    )
    search = Search(
        original_count=len(needles.originals), too_short_count=needles.too_short_count
    )
    try:
        with path.open("rb") as file:
            pseudonyms = _Searcher(needles, search).whole(path.name, file)
    except (OSError, ArchiveError, MemberError) as error:
        raise LeakError(f"cannot search {path}: {error}") from error
    unknown = pseudonyms - set(originals)
    if unknown:
        raise LeakError(
            f"cannot search {path}: {mapping} does not know {len(unknown)} of its "
            f"pseudonyms, such as {min(unknown)}",
            "give the mapping that was written with this bundle by --mapping",
        )
    return search


def refuse_leaks(path: Path, mapping: Path, names: SiteNames) -> Search:
    """Search a bundle, and do not return if it holds a leak."""
    search = search_bundle(path, mapping, names)
    if search.leaks:
        first = search.leaks[0]
        raise LeakError(
            f"{len(search.leaks)} leaks, the first in {first.place}: {first.found!r} "
            f"of {first.original!r}",
            "no bundle is left; please report the place, not the name",
        )
    return search


class _Searcher:
    def __init__(self, needles: Needles, search: Search) -> None:
        self._needles = needles
        self._search = search
        self._seen: set[tuple[str, str]] = set()
        self._packed: re.Pattern[bytes] | None = None

    def whole(self, name: str, file: IO[bytes]) -> set[str]:
        """Search all of a bundle and return the pseudonyms that it holds."""
        size = file.seek(0, 2)
        members = read_members(file, size)
        total = size + sum(member.header.size for member in members)
        self._search.packed_prefix, self._packed = self._needles.packed(total)
        self._text("file name", name.encode("utf-8", "surrogateescape"))
        pseudonyms = _pseudonyms(name.encode("utf-8", "surrogateescape"))
        end = 0
        for member in [*members, None]:
            start = size if member is None else member.data_offset
            self._text("headers", _read(file, end, start))
            if member is not None:
                end = member.end
                self._compressed(member, file)
        for member in members:
            pseudonyms |= self._content(member, file)
        return pseudonyms

    def _compressed(self, member: Member, file: IO[bytes]) -> None:
        place = f"{member.name}, as stored"
        before = b""
        for start in range(member.data_offset, member.end, _BLOCK):
            block = before + _read(file, start, min(start + _BLOCK, member.end))
            self._numbers(place, block)
            before = block[-_OVERLAP:]

    def _content(self, member: Member, file: IO[bytes]) -> set[str]:
        """Search what a member holds and return its pseudonyms."""
        if not member.name.endswith(".npy"):
            data = read_member(file, member)
            self._text(member.name, data)
            return _pseudonyms(data)
        before = b""
        for part in read_blocks(file, member):
            block = before + part
            self._numbers(member.name, block)
            before = block[-_OVERLAP:]
        return set()

    def _text(self, place: str, data: bytes) -> None:
        bare = _PSEUDONYM.sub(lambda match: b"\0" * len(match[0]), data).lower()
        needles = self._needles
        for pattern in (needles.text, needles.words, needles.addresses):
            self._find(place, bare, pattern)

    def _numbers(self, place: str, data: bytes) -> None:
        self._find(place, data.lower(), self._packed)

    def _find(self, place: str, data: bytes, pattern: re.Pattern[bytes] | None) -> None:
        if pattern is None:
            return
        for match in pattern.finditer(data):
            length, original = self._needles.longest(data, match.start())
            end = match.start() + max(length, len(match[0]))
            if is_own(_words_around(data, match.start(), end)):
                continue
            found = data[match.start() : end].decode("utf-8", "replace")
            if (place, found) not in self._seen:
                self._seen.add((place, found))
                self._search.leaks.append(Leak(place, found, original))


def _spellings(original: str) -> Iterator[bytes]:
    """Yield an original as UTF-8 and, where it differs, as JSON writes it."""
    plain = as_bytes(original).lower()
    yield plain
    escaped = "".join(
        c if " " <= c <= "~" and c not in '"\\' else _escape(c) for c in original
    )
    if escaped.encode("ascii").lower() != plain:
        yield escaped.encode("ascii").lower()


def _escape(character: str) -> str:
    return json.dumps(character)[1:-1]


def _alternatives(
    texts: set[str], before: bytes = b"", after: bytes = b""
) -> re.Pattern[bytes] | None:
    """Return a pattern of any of some texts, grouped by their first byte."""
    spellings = {spelling for text in texts for spelling in _spellings(text)}
    if not spellings:
        return None
    by_first: dict[bytes, list[bytes]] = {}
    for text in sorted(spellings, key=lambda text: (text[:1], -len(text), text)):
        by_first.setdefault(text[:1], []).append(re.escape(text[1:]))
    groups = [
        re.escape(first) + b"(?:" + b"|".join(rest) + b")"
        for first, rest in by_first.items()
    ]
    return re.compile(before + b"(?:" + b"|".join(groups) + b")" + after)


def _common(text: bytes, data: bytes, start: int) -> int:
    """Return how many bytes of a text stand at a place."""
    part = data[start : start + len(text)]
    for length, (one, other) in enumerate(zip(text, part)):
        if one != other:
            return length
    return min(len(text), len(part))


def _words_around(data: bytes, start: int, end: int) -> bytes:
    """Return a find with the rest of the words at its edges."""
    while start > 0 and _is_word(data[start - 1]):
        start -= 1
    while end < len(data) and _is_word(data[end]):
        end += 1
    return data[start:end]


def _is_word(byte: int) -> bool:
    return byte in _WORD_BYTES


def _pseudonyms(data: bytes) -> set[str]:
    return {match[0].decode("ascii") for match in _PSEUDONYM.finditer(data)}


def _read(file: IO[bytes], start: int, end: int) -> bytes:
    file.seek(start)
    data = file.read(end - start)
    if len(data) != end - start:
        raise ArchiveError("truncated", "it became shorter while it was read")
    return data
