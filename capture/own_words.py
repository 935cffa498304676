"""The words that stand in the recorder's own source: they say nothing about a site."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import Any

from capture.probes import known_symbols

_SOURCES = (".py", ".c", ".h")
_LETTER = re.compile(rb"[a-z]")


@cache
def _source() -> bytes:
    """Return all source of the recorder in lower case, from a folder or an archive.

    And the symbols that its tables of probes give, which are put together there.
    """
    texts = _texts(resources.files("capture"))
    return b"\n".join([*texts, *(name.encode() for name in known_symbols())]).lower()


def _texts(folder: Any) -> list[bytes]:  # noqa: ANN401 - Traversable moves by version
    found: list[bytes] = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _texts(entry)
        elif entry.name.endswith(_SOURCES):
            found.append(entry.read_bytes())
    return found


@cache
def is_own(text: bytes) -> bool:
    """Tell whether a text, in lower case, stands in the source as whole words.

    What has no letter (a number, an address) never counts as own.
    """
    if not _LETTER.search(text):
        return False
    pattern = rb"(?<!\w)" + re.escape(text) + rb"(?!\w)"
    return re.search(pattern, _source()) is not None
