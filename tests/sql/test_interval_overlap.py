"""The overlap macro equals a comparison of every pair, whatever the cell.

Spans touch, nest, repeat and are empty or open here; cells are from shorter than any
span to longer than all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.store.views import library_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

Span = tuple[int, int, int | None]
"""thread_id, start_ns, duration_ns"""

SPANS = st.lists(
    st.tuples(
        st.integers(0, 1), st.integers(0, 120), st.one_of(st.none(), st.integers(0, 40))
    ),
    max_size=12,
    unique_by=lambda span: span[:2],
)


@pytest.fixture(scope="module")
def connection() -> duckdb.DuckDBPyConnection:
    """Return a database with the macro and two empty sets of spans."""
    opened = duckdb.connect()
    macro = library_folder() / "macro" / "interval_overlap.sql"
    opened.execute(macro.read_text(encoding="utf-8"))
    for name in ("one", "other"):
        opened.execute(
            f"create table {name} (host_id integer, thread_id integer, "
            "start_ns bigint, duration_ns bigint)"
        )
    return opened


def _overlap(
    connection: duckdb.DuckDBPyConnection,
    one: Sequence[Span],
    other: Sequence[Span],
    cell_ns: int,
) -> list[tuple[int, ...]]:
    for name, spans in (("one", one), ("other", other)):
        connection.execute(f"truncate {name}")
        for span in spans:
            connection.execute(f"insert into {name} values (3, ?, ?, ?)", span)
    return connection.execute(
        "from interval_overlap('one', 'other', ?::bigint) "
        "select thread_id, a_start_ns, b_start_ns, overlap_ns order by all",
        [cell_ns],
    ).fetchall()


def _by_pairs(one: Sequence[Span], other: Sequence[Span]) -> list[tuple[int, ...]]:
    common = [
        (
            thread,
            start,
            begin,
            min(start + (length or 0), begin + (long or 0)) - max(start, begin),
        )
        for thread, start, length in one
        for second, begin, long in other
        if thread == second and length and long
    ]
    return sorted(row for row in common if row[3] > 0)


@settings(max_examples=60, deadline=None)
@given(one=SPANS, other=SPANS, cell_ns=st.sampled_from([1, 3, 7, 50, 1000]))
def test_overlaps_are_those_of_every_pair(
    connection: duckdb.DuckDBPyConnection,
    one: list[Span],
    other: list[Span],
    cell_ns: int,
) -> None:
    assert _overlap(connection, one, other, cell_ns) == _by_pairs(one, other)


def test_spans_that_touch_do_not_overlap(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    assert _overlap(connection, [(0, 0, 10)], [(0, 10, 10)], 7) == []
