"""Calls of a step by operation, and the parts that two runs are compared by."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb

from workbench.store.views import library_folder

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MEASURE = library_folder() / "measure"
TABLES = """
create table outer_span (host_id integer, thread_id integer, start_ns bigint,
    operation varchar, duration_ns bigint);
create table _meeting (host_id integer, thread_id integer, start_ns bigint,
    communicator_id varchar, collective_seq bigint, operation varchar,
    pairing varchar, stay_ns bigint, is_enqueue_only boolean);
create table _thread_step (host_id integer, thread_id integer, step bigint,
    rank integer, job_id varchar, is_main boolean, start_ns bigint, end_ns bigint);
create table step_work (job_id varchar, host_id integer, rank integer, step bigint,
    step_ns bigint, own_ns bigint, wait_ns bigint);
create table step_budget (job_id varchar, host_id integer, rank integer, step bigint,
    class varchar, duration_ns bigint, is_main boolean);
create table step_operation (job_id varchar, host_id integer, rank integer,
    step bigint, operation varchar, duration_ns bigint, wait_ns bigint,
    is_main boolean);
"""


def opened() -> DuckDBPyConnection:
    """Return a database with what the two views read, empty."""
    connection = duckdb.connect()
    connection.execute(TABLES)
    cell = (MEASURE / "_step_cell.sql").read_text()
    connection.execute(f"create view _step_cell as {cell}")
    return connection


def two_threads(connection: DuckDBPyConnection) -> None:
    """Add two ranks with steps of 100 ns that begin at 0 and 100."""
    for thread in (1, 2):
        for step in (0, 1):
            connection.execute(
                "insert into _thread_step values (9, $t, $s, $t, 'j', true,"
                " $s * 100, ($s + 1) * 100)",
                {"t": thread, "s": step},
            )


def operations(connection: DuckDBPyConnection) -> list[tuple[object, ...]]:
    """Return (thread, step, operation, calls, time, wait)."""
    body = (MEASURE / "step_operation.sql").read_text()
    return connection.execute(
        f"select thread_id, step, operation, call_count, duration_ns, wait_ns"
        f" from ({body}) order by all"
    ).fetchall()


def test_the_wait_of_a_call_is_its_stay_beyond_the_last_to_come() -> None:
    connection = opened()
    two_threads(connection)
    connection.execute(
        "insert into outer_span values (9, 1, 50, 'all_reduce', 40),"
        " (9, 2, 80, 'all_reduce', 10), (9, 1, 110, 'all_reduce', 5)"
    )
    connection.execute(
        "insert into _meeting values"
        " (9, 1, 50, 'c', 0, 'all_reduce', 'all', 40, false),"
        " (9, 2, 80, 'c', 0, 'all_reduce', 'all', 10, false)"
    )

    assert operations(connection) == [
        (1, 0, "all_reduce", 1, 40, 30),
        (1, 1, "all_reduce", 1, 5, 0),
        (2, 0, "all_reduce", 1, 10, 0),
    ]


def test_what_is_only_enqueued_and_what_is_outside_steps_waits_for_nobody() -> None:
    connection = opened()
    two_threads(connection)
    connection.execute(
        "insert into outer_span values (9, 1, 10, 'all_reduce', 4),"
        " (9, 1, 20, 'memcpy', 6), (9, 1, 30, 'memcpy', 1), (9, 1, 500, 'memcpy', 1)"
    )
    connection.execute(
        "insert into _meeting values"
        " (9, 1, 10, 'c', 0, 'all_reduce', 'all', 90, true),"
        " (9, 2, 20, 'c', 0, 'all_reduce', 'all', 10, true)"
    )

    assert operations(connection) == [
        (1, 0, "all_reduce", 1, 4, 0),
        (1, 0, "memcpy", 2, 7, 0),
    ]


def parts(connection: DuckDBPyConnection) -> list[tuple[object, ...]]:
    """Return (host, step, kind, part, ranks, time)."""
    body = (MEASURE / "step_part.sql").read_text()
    return connection.execute(
        f"select host_id, step, kind, part, rank_count, duration_ns from ({body})"
        " order by all"
    ).fetchall()


def test_parts_are_sums_over_the_ranks_of_a_host_by_each_cut() -> None:
    connection = opened()
    connection.execute(
        "insert into step_work values ('j', 9, 0, 3, 100, 70, 30),"
        " ('j', 9, 1, 3, 100, 90, 10), ('j', 8, 2, 3, 100, 60, 40)"
    )
    connection.execute(
        "insert into step_budget values ('j', 9, 0, 3, 'on_cpu', 70, true),"
        " ('j', 9, 1, 3, 'on_cpu', 90, true), ('j', 9, 1, 3, 'on_cpu', 5, false)"
    )
    connection.execute(
        "insert into step_operation values"
        " ('j', 9, 0, 3, 'all_reduce', 30, 28, true),"
        " ('j', 9, 1, 3, 'all_reduce', 10, 8, true),"
        " ('j', 9, 1, 3, 'memcpy', 2, 0, true)"
    )

    assert parts(connection) == [
        (8, 3, "time", "own", 1, 60),
        (8, 3, "time", "step", 1, 100),
        (8, 3, "time", "wait", 1, 40),
        (9, 3, "class", "on_cpu", 2, 160),
        (9, 3, "operation", "all_reduce", 2, 40),
        (9, 3, "operation", "memcpy", 2, 2),
        (9, 3, "operation_wait", "all_reduce", 2, 36),
        (9, 3, "time", "own", 2, 160),
        (9, 3, "time", "step", 2, 200),
        (9, 3, "time", "wait", 2, 40),
    ]
