"""Rows out of a command: a table to read, or JSON, JSON lines and CSV to go on with.

Text in a bundle comes from hosts that nobody here controls, so it is hostile: control
characters, and those that turn the direction of writing, are shown as escapes and never
sent; JSON escapes everything beyond ASCII and the characters of markup; a CSV cell that
a spreadsheet would run as a formula begins with an apostrophe.

JSON is strict: there is no NaN and no infinity, both are null.  A whole number beyond
2**53 is a string, because JavaScript and jq would round it in silence.

A table that is wider than the page is written as records, one column a line: no value
is cut off, for a cut value is no evidence.
"""

from __future__ import annotations

import json
import math
import re
import sys
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from workbench.store.plain_text import plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import polars as pl
    from tqdm import tqdm

FORMATS = ("table", "json", "jsonl", "csv")
PAGE_WIDTH = 80
EXACT_INTEGER = 2**53
"""Largest whole number up to which a double holds every one."""

MISSING = "-"
"""How a table shows that there is no value."""

_MARKUP = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}
_FORMULA = ("=", "+", "-", "@", "\t", "\r")

Row = dict[str, Any]
T = TypeVar("T")


def emit(
    frame: pl.DataFrame,
    fmt: str,
    stream: TextIO | None = None,
    *,
    origin_ns: int | None = None,
    instants: Sequence[str] = (),
) -> None:
    """Write the rows of a frame.

    Parameters
    ----------
    frame
        Rows to write.
    fmt
        One of `FORMATS`.
    stream
        Where to; standard output if not given.
    origin_ns
        Zero of the case.  If given, the columns `instants` are written relative to it
        in every format, and JSON says it once, as a string: the rows are then the value
        of the key ``rows``; in JSON lines it has the first line for itself.
    instants
        Columns that hold instants of cluster time.
    """
    out = stream or sys.stdout
    if origin_ns is not None:
        frame = _since(frame, origin_ns, instants)
    writers = {"json": _json, "jsonl": _json_lines, "csv": _csv, "table": _table}
    for line in writers[fmt](frame, origin_ns):
        out.write(line + "\n")


def _since(frame: pl.DataFrame, origin_ns: int, names: Sequence[str]) -> pl.DataFrame:
    return frame.with_columns(
        frame[name] - origin_ns for name in names if name in frame.columns
    )


def _json(frame: pl.DataFrame, origin_ns: int | None) -> Iterable[str]:
    rows = [strict_json(row) for row in frame.iter_rows(named=True)]
    body = ",\n".join(f"  {row}" for row in rows)
    listed = f"[\n{body}\n]" if rows else "[]"
    if origin_ns is None:
        return [listed]
    return [f'{{"origin_ns": "{origin_ns}", "rows": {listed}}}']


def _json_lines(frame: pl.DataFrame, origin_ns: int | None) -> Iterable[str]:
    if origin_ns is not None:
        yield strict_json({"origin_ns": str(origin_ns)})
    for row in frame.iter_rows(named=True):
        yield strict_json(row)


def strict_json(value: object) -> str:
    """Return a value as strict JSON in one line, with no character that acts."""
    text = json.dumps(_jsonable(value), allow_nan=False, ensure_ascii=True)
    return re.sub("[<>&]", lambda found: _MARKUP[found[0]], text)


def _jsonable(value: object) -> object:  # noqa: PLR0911 -- one line a type reads best
    if isinstance(value, dict):
        return {str(key): _jsonable(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_jsonable(each) for each in value]
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, int):
        return value if abs(value) <= EXACT_INTEGER else str(value)
    if isinstance(value, Decimal):
        return _jsonable(int(value) if value == value.to_integral() else float(value))
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return _worded(value)


def _worded(value: object) -> str:
    """Return a value of a type that JSON has no form for, as text."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, timedelta):
        return f"{value.total_seconds():.6f} s"
    return str(value)


def _csv(frame: pl.DataFrame, origin_ns: int | None) -> Iterable[str]:
    del origin_ns
    yield ",".join(_csv_cell(name) for name in frame.columns)
    for row in frame.iter_rows():
        yield ",".join(_csv_cell(value) for value in row)


def _csv_cell(value: object) -> str:
    """Return a cell: nothing for a missing value, quotes around an empty text."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    if isinstance(value, (list, tuple, dict)):
        text = strict_json(value)
    elif isinstance(value, str):
        text = plain(f"'{value}" if value.startswith(_FORMULA) else value)
    else:
        text = _number_or_word(value)
    needs_quotes = text == "" or any(each in text for each in ',"')
    quoted = text.replace('"', '""')
    return f'"{quoted}"' if needs_quotes else text


def _number_or_word(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, int):
        return str(value)
    return plain(_worded(value))


def _table(frame: pl.DataFrame, origin_ns: int | None) -> Iterable[str]:
    del origin_ns
    names = [plain(name) for name in frame.columns]
    rows = [[_cell(value) for value in row] for row in frame.iter_rows()]
    widths = [
        max(len(text) for text in column) for column in zip(names, *rows, strict=True)
    ]
    if sum(widths) + 2 * (len(widths) - 1) > PAGE_WIDTH and rows:
        return _records(names, rows)
    rights = [dtype.is_numeric() for dtype in frame.dtypes]
    rules = ["-" * width for width in widths]
    return [_line(cells, widths, rights) for cells in (names, rules, *rows)]


def _line(cells: list[str], widths: list[int], rights: list[bool]) -> str:
    padded = [
        cell.rjust(width) if is_right else cell.ljust(width)
        for cell, width, is_right in zip(cells, widths, rights, strict=True)
    ]
    return "  ".join(padded).rstrip()


def _records(names: list[str], rows: list[list[str]]) -> Iterable[str]:
    width = max(len(name) for name in names)
    for number, row in enumerate(rows, start=1):
        yield f"row {number}"
        for name, cell in zip(names, row, strict=True):
            yield f"  {name.ljust(width)}  {cell}".rstrip()


def _cell(value: object) -> str:
    if value is None:
        return MISSING
    if isinstance(value, (list, tuple)):
        return "; ".join(_cell(each) for each in value) or MISSING
    if isinstance(value, dict):
        return strict_json(value)
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, float):
        return f"{value:.6g}" if math.isfinite(value) else MISSING
    return _number_or_word(value)


def progress(items: Iterable[T] | int, label: str) -> tqdm[T]:
    """Return a progress bar over items, or up to a total that is `update`d.

    It draws in a notebook, or on standard error where that is a terminal.
    """
    from tqdm.auto import tqdm  # noqa: PLC0415 -- most commands draw none

    is_notebook = _is_notebook()
    settings: dict[str, Any] = {
        "desc": plain(label),
        "file": sys.stderr,
        "disable": not (is_notebook or sys.stderr.isatty()),
        "leave": False,
        "ncols": None if is_notebook else PAGE_WIDTH,
    }
    if isinstance(items, int):
        return tqdm(total=items, **settings)
    return tqdm(items, **settings)


def _is_notebook() -> bool:
    """Return whether this process is a notebook's kernel, by the rule of tqdm."""
    shell = sys.modules.get("IPython")
    running = None if shell is None else shell.get_ipython()
    return running is not None and "IPKernelApp" in running.config


def narrate(text: str, *, kind: str | None = None) -> None:
    """Write one line for a person to standard error; `kind` is error, hint or note."""
    prefix = f"coldtrace: {kind}: " if kind else "coldtrace: "
    sys.stderr.write(f"{prefix}{plain(text)}\n")
