"""The border between a case and a chart: what a frame for a chart may hold.

At most 5,000 rows, of types that JSON has.  Sums of integers are HUGEINT in DuckDB and
Decimal in Altair, and nothing can serialise them; NaN and infinity are no JSON either.
A control character in a name aborts vl-convert, and the interpreter with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from workbench.errors import WorkbenchError
from workbench.store.plain_text import plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from workbench.store.case import Case

MOST_ROWS = 5_000
"""More marks than this are neither drawn quickly nor read: aggregate in SQL."""

TYPES = (pl.Int64, pl.Int32, pl.Float64, pl.String, pl.Boolean)
"""BIGINT, INTEGER, DOUBLE, VARCHAR and BOOLEAN."""


class ChartError(WorkbenchError):
    """A frame that no chart can draw."""


def chart_frame(
    case: Case, sql: str, params: Mapping[str, Any] | None = None
) -> pl.DataFrame:
    """Return the rows of a query as a frame that a chart can draw.

    Raises
    ------
    ChartError
        If a column has another type, or there are more than `MOST_ROWS` rows.
    """
    return drawable(case.frame(sql, params and dict(params)))


def drawable(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the frame with NaN and infinity as null, and all text plain.

    Raises
    ------
    ChartError
        If a column has another type than `TYPES`, or it has over `MOST_ROWS` rows.
    """
    for name, kind in frame.schema.items():
        if kind not in TYPES:
            raise ChartError(
                f"column {name} is {kind}, which no chart can hold",
                hint=f"cast it in SQL, for instance {name}::bigint or 1e-6 * {name}",
            )
    if frame.height > MOST_ROWS:
        raise ChartError(
            f"{frame.height} rows are more than the {MOST_ROWS} of a chart",
            hint="aggregate in SQL, or take a narrower window",
        )
    number = pl.selectors.float()
    text = pl.selectors.string()
    return frame.with_columns(
        pl.when(number.is_finite()).then(number).name.keep(),
        text.map_elements(plain, return_dtype=pl.String),
    )
