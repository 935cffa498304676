"""Operation traces of a training job in Parquet, as StragglerAnalysis publishes them.

One row is one operation of one worker in one step: when it began, how long it took,
and the number by which the workers' sends, receives and reductions belong together.
Times are seconds in single precision: after some minutes about a microsecond is lost.

Without the column ``stage`` the roles of the workers are unknown; such a file is
imported, and the findings say what cannot be told from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from workbench.errors import EvidenceError
from workbench.store.imports import Reading

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KIND = "straggler-ops"
HELP = "operation trace of a training job (Parquet, StragglerAnalysis)"

TABLE = "imported_operation"
PART_ROWS = 500_000

COLUMNS = {
    "dp_rank": ("dp_rank", pl.Int32),
    "stage": ("stage", pl.Int32),
    "rank": ("rank", pl.Int32),
    "step": ("step", pl.Int64),
    "optype": ("operation", pl.String),
    "seq_id": ("seq", pl.Int64),
    "start_ts": ("start_s", pl.Float64),
    "duration": ("duration_s", pl.Float64),
}
"""Column of the table and its type by column of the file."""

KEY = ("rank", "step", "operation", "seq")
"""What tells the operations of a job apart."""

OPTIONAL = frozenset({"stage"})


def read(path: Path) -> Reading:
    """Return the operations of a trace.

    Raises
    ------
    EvidenceError
        If the file is no Parquet file, lacks a column, or holds a value that no
        operation has.
    """
    try:
        frame = pl.read_parquet(path)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise EvidenceError(
            f"not a Parquet file that can be read: {str(error).splitlines()[0]}",
            path=path,
        ) from error
    missing = sorted(COLUMNS.keys() - OPTIONAL - set(frame.columns))
    if missing:
        raise EvidenceError(
            f"no operation trace: it lacks {', '.join(missing)}",
            path=path,
            hint=f"the columns are {', '.join(COLUMNS)}",
        )
    rows = _renamed(frame, path)
    _check(rows, path)
    return Reading(row_count=rows.height, parts=_parts(rows))


def _renamed(frame: pl.DataFrame, path: Path) -> pl.DataFrame:
    """Return the columns under our names and types; one that is not there is null."""
    columns = [
        (pl.col(name) if name in frame.columns else pl.lit(None))
        .cast(kind)
        .alias(renamed)
        for name, (renamed, kind) in COLUMNS.items()
    ]
    try:
        return frame.select(columns)
    except pl.exceptions.PolarsError as error:
        raise EvidenceError(
            f"no operation trace: {str(error).splitlines()[0]}", path=path
        ) from error


def _check(rows: pl.DataFrame, path: Path) -> None:
    """Refuse what no operation can be, with the number of the first row that is it."""
    if rows.is_empty():
        raise EvidenceError("it holds no operation", path=path)
    times = pl.col("start_s", "duration_s")
    wrong = {
        "without one of its values": pl.any_horizontal(
            pl.col(name).is_null() for name in rows.columns if name not in OPTIONAL
        ),
        "with a time that is no number": pl.any_horizontal(~times.is_finite()),
        "with a negative duration": pl.col("duration_s") < 0,
        "that repeat an operation": pl.struct(*KEY).is_duplicated(),
        "of a rank in two places of the job": (
            pl.struct("dp_rank", "stage").n_unique().over("rank") > 1
        ),
    }
    for what, is_wrong in wrong.items():
        found = rows.select(is_wrong.fill_null(value=False).alias("wrong"))["wrong"]
        if found.any():
            raise EvidenceError(
                f"{found.sum()} rows {what}, the first is row {found.arg_max()}",
                path=path,
            )


def _parts(rows: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    for part in rows.iter_slices(PART_ROWS):
        yield TABLE, part
