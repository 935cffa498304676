"""A rank's excess is its own time beyond the median of its role, step by step."""

from __future__ import annotations

import duckdb

from workbench.store.views import library_folder

BODY = (library_folder() / "measure" / "step_excess.sql").read_text()


def _excess(
    own_ns: dict[tuple[int, str], tuple[int, ...]],
) -> list[tuple[int, int, int]]:
    """Return (rank, step, excess) for the own times of each (rank, role), in steps."""
    connection = duckdb.connect()
    connection.execute("create table rank (job_id varchar, rank integer, role varchar)")
    connection.execute(
        "create table step_work (job_id varchar, rank integer, step bigint,"
        " own_ns bigint, wait_ns bigint, step_ns bigint)"
    )
    for (rank, role), steps in own_ns.items():
        connection.execute("insert into rank values ('j', ?, ?)", [rank, role])
        for step, own in enumerate(steps):
            connection.execute(
                "insert into step_work values ('j', ?, ?, ?, 0, ?)",
                [rank, step, own, own],
            )
    rows = connection.sql(f"select rank, step, excess_ns from ({BODY}) order by all")
    return rows.fetchall()


def test_excess_is_measured_against_the_median_of_the_same_step() -> None:
    rows = _excess({(0, "w"): (10, 30), (1, "w"): (10, 30), (2, "w"): (17, 30)})

    assert rows == [(0, 0, 0), (0, 1, 0), (1, 0, 0), (1, 1, 0), (2, 0, 7), (2, 1, 0)]


def test_a_role_that_works_longer_is_not_late_against_another() -> None:
    rows = _excess({(0, "a"): (10,), (1, "a"): (10,), (2, "b"): (50,), (3, "b"): (50,)})

    assert {excess for _, _, excess in rows} == {0}
