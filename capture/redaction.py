"""The one place that all text passes on its way to a spool, where a site key is given.

Each text column of a fact says in :mod:`capture.fact_columns` what it holds, and each
text of the header says so here; what says nothing becomes a pseudonym as a whole.  The
mapping is on the disk before the row that needs it.
"""

from __future__ import annotations

import ipaddress
import re
import threading
from typing import TYPE_CHECKING, Any, Callable, cast

from capture.fact_columns import FACTS
from capture.kept_words import (
    GROUP_WORDS,
    HOMES,
    is_path_word,
    is_process_name,
    is_setting_word,
    library_ending,
)
from capture.pseudonyms import Mapping, read_site_key

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from capture.pseudonyms import SiteKey
    from capture.site_names import SiteNames

Row = dict[str, Any]

MODE = "keyed"
RULES = 1
"""Version of the rules, of the kept words too."""

NOT_PROMISED = (
    "times, counts, sizes, process numbers, inodes and pointers are as they were",
    "build ids and hashes of files are as they were: who has a file can recognise it",
    "kernel release, distribution and settings keep their well-known words and numbers",
    "well-known names of programs, libraries and folders are as they were",
    "how long a job ran, on how many hosts, and what its ranks did can be seen",
    "who holds the site key can try originals",
)

HEADER_TYPES = {
    "capture_id": "kept",
    "created_by.name": "kept",
    "created_by.version": "kept",
    "created_by.sha256": "hex",
    "capture.start_utc": "kept",
    "capture.loader": "kept",
    "capture.loader_detail": "message",
    "capture.probe_set": "kept",
    "capture.no_return_probes_reason": "message",
    "capture.absent_streams.name": "kept",
    "capture.absent_streams.reason": "message",
    "streams": "kept",
    "missing_columns": "message",
    "syscalls": "kept",
    "redaction": "kept",
}
"""Texts of ``header.json`` by their path; ``host`` has the types of the fact."""

_DELETED = " (deleted)"
_MAPPINGS = frozenset(("[vdso]", "[vsyscall]", "[heap]", "[stack]"))
_HEX = re.compile(r"[0-9a-f]*")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_JOB_SOURCES = ("torchrun", "pmix", "pmi", "slurm", "rendezvous")
_PATH_IN_TEXT = re.compile(r"(?<![\w/])/[^\s'\",;:()<>]+")
_ADDRESS_IN_TEXT = re.compile(
    r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.]*\d)"
    r"|(?<![\w:])[0-9a-fA-F]{0,4}(?::[0-9a-fA-F]{0,4}){2,7}(?:%\w+)?(?![\w:])"
)


class Redaction:
    """Turns what identifies a site into pseudonyms.

    Parameters
    ----------
    key
        The site's key.
    mapping
        Where each pseudonym is noted before it is used.
    names
        What the host knows of itself, for texts that may hold any of it.
    """

    def __init__(self, key: SiteKey, mapping: Mapping, names: SiteNames) -> None:
        self.mapping = mapping
        self._key = key
        self._names = names
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], str] = {}
        words = sorted(names.hosts | names.users, key=len, reverse=True)
        alternatives = "|".join(re.escape(word) for word in words) or r"(?!)"
        self._site_word = re.compile(rf"(?<!\w)(?:{alternatives})(?!\w)")
        self._types: dict[str, Callable[[str], str]] = {
            "kept": str,
            "hex": self._hex,
            "host": self._host,
            "boot": lambda text: self._pseudonym("boot", text),
            "machine": lambda text: self._pseudonym("machine", text),
            "path": lambda text: self._path(text, "path"),
            "group": lambda text: self._path(text, "group"),
            "name": self._name,
            "job": self._job,
            "words": self._words,
            "message": self._message,
        }

    def header(self, header: Row) -> Row:
        """Return a spool's header as it may be written."""
        about = {"mode": MODE, "rules": RULES, "key_id": self._key.key_id}
        with self._lock:
            redacted = {
                name: self._columns("host", value)
                if name == "host"
                else self._nested(name, value)
                for name, value in header.items()
            }
            self.mapping.flush()
        return {**redacted, "redaction": about}

    def rows(self, rows: Iterable[Row]) -> list[Row]:
        """Return facts, clock readings or the end as they may be written."""
        with self._lock:
            redacted = [self._row(row) for row in rows]
            self.mapping.flush()
        return redacted

    def _row(self, row: Row) -> Row:
        if "fact" in row:
            columns = {name: v for name, v in row.items() if name != "fact"}
            return {"fact": row["fact"], **self._columns(row["fact"], columns)}
        if "stop_reason" in row:  # the end frame; its reason is a word of ours
            facts = [self._row(fact) for fact in row["facts"]]
            return {**row, "facts": facts}
        return self._columns("", row)

    def _columns(self, fact: str, row: Row) -> Row:
        types = {key.name: key.redaction for key in FACTS.get(fact, ())}
        return {name: self._value(types.get(name), v) for name, v in row.items()}

    def _nested(self, path: str, value: Any) -> Any:  # noqa: ANN401 - any JSON
        """Return a part of the header; the type of the nearest path that has one."""
        if path in HEADER_TYPES or not isinstance(value, (dict, list)):
            return self._value(HEADER_TYPES.get(path), value)
        if isinstance(value, list):
            return [self._nested(path, v) for v in cast("list[Any]", value)]
        known = cast("Row", value)
        return {k: self._nested(f"{path}.{k}", v) for k, v in known.items()}

    def _value(self, kind: str | None, value: Any) -> Any:  # noqa: ANN401 - any JSON
        if isinstance(value, str):
            return self._types.get(kind or "", self._text)(value)
        if isinstance(value, list):
            return [self._value(kind, part) for part in cast("list[Any]", value)]
        if isinstance(value, dict):
            known = cast("Row", value)
            return {name: self._value(kind, part) for name, part in known.items()}
        return value

    def _pseudonym(self, kind: str, original: str) -> str:
        found = self._known.get((kind, original))
        if found is None:
            found = self._known[kind, original] = self._key.pseudonym(kind, original)
            self.mapping.note(kind, found, original)
        return found

    def _text(self, text: str) -> str:
        return self._pseudonym("text", text) if text else text

    def _hex(self, text: str) -> str:
        return text if _HEX.fullmatch(text) else self._text(text)

    def _host(self, text: str) -> str:
        """Return an address, or the pseudonyms of a host and of its domain.

        So the short name and the full one are of the same host.
        """
        if not text:
            return text
        address = self._address(text)
        if address is not None:
            return address
        label, dot, domain = text.lower().partition(".")
        if not dot:
            return self._pseudonym("host", label)
        return f"{self._pseudonym('host', label)}.{self._pseudonym('domain', domain)}"

    def _address(self, text: str) -> str | None:
        """Return the pseudonym of an address, which says of what kind it is."""
        bare, percent, zone = text.strip("[]").partition("%")
        try:
            address = ipaddress.ip_address(bare)
        except ValueError:
            return None
        address = getattr(address, "ipv4_mapped", None) or address
        found = self._pseudonym(f"address-{_reach(address)}", str(address))
        return f"{found}%{self._pseudonym('word', zone)}" if percent else found

    def _path(self, text: str, kind: str) -> str:
        """Return a path, each component of it kept or a pseudonym."""
        if text in _MAPPINGS:
            return text
        is_deleted = text.endswith(_DELETED)
        parts = (text[: -len(_DELETED)] if is_deleted else text).split("/")
        shown = [
            self._component(part, parts[index - 1] if index else "", kind)
            for index, part in enumerate(parts)
        ]
        return "/".join(shown) + _DELETED * is_deleted

    def _component(self, part: str, parent: str, kind: str) -> str:
        if part in ("", ".", ".."):
            return part
        if parent in HOMES or part in self._names.users:
            return self._pseudonym("user", part)
        if part in self._names.hosts:
            return self._host(part)
        if part in GROUP_WORDS if kind == "group" else is_path_word(part):
            return part
        return self._pseudonym(kind, part) + library_ending(part)

    def _name(self, text: str) -> str:
        """Return the name of a process or thread, whole: the kernel cuts it at 15."""
        is_kept = not text or is_process_name(text)
        return text if is_kept else self._pseudonym("name", text)

    def _job(self, text: str) -> str:
        source, colon, rest = text.partition(":")
        if not colon or source not in _JOB_SOURCES:
            return self._pseudonym("job", text)
        host, _, port = rest.rpartition(":")
        if source == "rendezvous" and port.isdigit():
            return f"{source}:{self._host(host)}:{port}"
        return f"{source}:{self._pseudonym('job', rest)}"

    def _words(self, text: str) -> str:
        """Return a setting: numbers and well-known words of it stay."""

        def shown(match: re.Match[str]) -> str:
            word = match[0]
            return word if is_setting_word(word) else self._pseudonym("word", word)

        return _WORD.sub(shown, text)

    def _message(self, text: str) -> str:
        """Return a sentence of ours without the paths and names that stand in it."""
        text = _PATH_IN_TEXT.sub(lambda match: self._path(match[0], "path"), text)
        text = _ADDRESS_IN_TEXT.sub(
            lambda match: self._address(match[0]) or match[0], text
        )
        return self._site_word.sub(lambda match: self._site_name(match[0]), text)

    def _site_name(self, word: str) -> str:
        is_user = word in self._names.users
        return self._pseudonym("user", word) if is_user else self._host(word)


def open_redaction(key: Path, mapping: Path, names: SiteNames) -> Redaction:
    """Return the redaction by a site key.

    Raises
    ------
    CaptureError
        If the key or the mapping cannot be used.
    """
    return Redaction(read_site_key(key), Mapping(mapping), names)


def _reach(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
    if address.is_loopback:
        return "loopback"
    if address.is_link_local:
        return "linklocal"
    return "private" if address.is_private else "public"
