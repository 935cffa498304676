r"""Text in CSV: harmless in a spreadsheet and on a terminal, and the same when read.

A text cell that begins with one of ``= + - @ '`` gets an apostrophe before it, for
spreadsheets run such cells as formulas.  Characters that act on a terminal, line ends
among them, and the backslash are written ``\xNN`` or ``\uNNNN``.  Both are undone by
:func:`restored`, so that what comes back is what the case holds.  NULL is an empty
cell, an empty text is ``""``; a list is JSON; numbers are as they are.
"""

from __future__ import annotations

import re

import polars as pl

_ACTS = "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\\\\]"
_ESCAPE = re.compile(r"\\x([0-9a-f]{2})|\\u([0-9a-f]{4})")
_FORMULA = r"^['=+\-@]"
_ONE_BYTE = 0xFF


def guarded(column: str) -> pl.Expr:
    """Return the expression of a text column as its cells are written."""
    escaped = pl.col(column).map_batches(_escape_all, return_dtype=pl.String)
    formula = escaped.str.contains(_FORMULA)
    return pl.when(formula).then("'" + escaped).otherwise(escaped).alias(column)


def restored(column: str) -> pl.Expr:
    """Return the expression that reads the cells of :func:`guarded` back."""
    text = pl.col(column).str.strip_prefix("'")
    return text.map_batches(_restore_all, return_dtype=pl.String).alias(column)


def _escape_all(texts: pl.Series) -> pl.Series:
    if not texts.str.contains(_ACTS).any():
        return texts
    return texts.map_elements(_escape, return_dtype=pl.String)


def _escape(text: str) -> str:
    return re.sub(_ACTS, _escaped, text)


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code <= _ONE_BYTE else f"\\u{code:04x}"


def _restore_all(texts: pl.Series) -> pl.Series:
    if not texts.str.contains("\\", literal=True).any():
        return texts
    return texts.map_elements(_restore, return_dtype=pl.String)


def _restore(text: str) -> str:
    return _ESCAPE.sub(lambda found: chr(int(found[1] or found[2], 16)), text)
