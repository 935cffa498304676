"""TCP packets that two hosts or more traced, in CSV: one row a packet seen by a host.

A packet that left one host and came to another bounds their clocks as a message does:
it was sent before it was received.  The view ``clock_packet`` pairs them; packets seen
on one side only, or more than once, pair with nothing.

Times are whole nanoseconds of any clock of the host that is one and the same in the
whole file.  Columns beside those named here are ignored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from workbench.errors import EvidenceError
from workbench.store.identity import short_hash
from workbench.store.imports import Reading

if TYPE_CHECKING:
    from pathlib import Path

KIND = "tcp-pairs"
HELP = "TCP packets as each host saw them (CSV)"

TABLE = "imported_packet"

COLUMNS = {
    "host": ("host_name", pl.String),
    "t_ns": ("time_ns", pl.Int64),
    "direction": ("direction", pl.String),
    "seq": ("packet_seq", pl.String),
    "ack_seq": ("packet_ack", pl.String),
    "flags": ("packet_flags", pl.String),
}
"""Column of the table and its type by column of the file."""

DIRECTIONS = ("out", "in")


def read(path: Path) -> Reading:
    """Return the packets of a file.

    Raises
    ------
    EvidenceError
        If the file is no CSV file of packets, or a row lacks a value or has one that
        no packet has.
    """
    try:
        frame = pl.read_csv(path, infer_schema=False)
    except (pl.exceptions.PolarsError, UnicodeDecodeError) as error:
        raise EvidenceError(
            f"not a CSV file that can be read: {str(error).splitlines()[0]}", path=path
        ) from error
    missing = sorted(COLUMNS.keys() - set(frame.columns))
    if missing:
        raise EvidenceError(
            f"no packets: it lacks {', '.join(missing)}",
            path=path,
            hint=f"the columns are {', '.join(COLUMNS)}",
        )
    rows = frame.select(
        pl.col(name).cast(kind, strict=False).alias(renamed)
        for name, (renamed, kind) in COLUMNS.items()
    )
    _check(rows, path)
    rows = rows.with_columns(host_id=_host_ids(rows["host_name"]))
    return Reading(row_count=rows.height, parts=[(TABLE, rows)])


def _host_ids(names: pl.Series) -> pl.Series:
    """Return a key for each host: the same for one name in every file."""
    keys = {name: short_hash(f"{KIND} host {name}") for name in names.unique()}
    return names.replace_strict(keys, return_dtype=pl.Int32)


def _check(rows: pl.DataFrame, path: Path) -> None:
    """Refuse what no packet can be, with the number of the first row that is it."""
    if rows.is_empty():
        raise EvidenceError("it holds no packet", path=path)
    wrong = {
        "without one of its values, or with a time that is no whole number": (
            pl.any_horizontal(pl.all().is_null())
        ),
        "with a direction other than out and in": ~pl.col("direction").is_in(
            DIRECTIONS
        ),
    }
    for what, is_wrong in wrong.items():
        found = rows.select(is_wrong.fill_null(value=True).alias("wrong"))["wrong"]
        if found.any():
            raise EvidenceError(
                f"{found.sum()} rows {what}, the first is row {found.arg_max()}",
                path=path,
            )
