"""Text of a bundle as text: hosts that nobody here controls wrote it.

Control characters, and those that turn the direction of writing, act on a terminal and
abort the library that draws pictures; they are shown as escapes.
"""

from __future__ import annotations

import re

_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff"
    "\ufffe\uffff]"
)


def plain(text: str) -> str:
    """Return a text in which nothing acts on who shows it: escapes for what would."""
    return _UNSAFE.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}"  # noqa: PLR2004 -- one byte
