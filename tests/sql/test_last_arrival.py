"""Last is claimed only beyond the clock error against every other member's host."""

from __future__ import annotations

import duckdb

from workbench.store.views import library_folder

BODY = (library_folder() / "measure" / "_last_arrival.sql").read_text()
ERROR_NS = 100


def _last(*members: tuple[int, int]) -> tuple[int, int, bool]:
    """Return (rank, error, surely last) of members given as (host, arrival).

    Ranks count from 0 in the order given; the clocks of any two hosts are known to
    ERROR_NS.
    """
    connection = duckdb.connect()
    connection.execute(
        "create table _arrival_time (communicator_id varchar, collective_seq bigint,"
        " operation varchar, pairing varchar, clock_group_id integer, host_id integer,"
        " rank integer, ts_ns bigint);"
        "create schema model; create table model.clock_pair (host_id integer,"
        " other_host_id integer, from_ts_ns bigint, to_ts_ns bigint, error_ns bigint)"
    )
    for rank, (host, ts_ns) in enumerate(members):
        connection.execute(
            "insert into _arrival_time values ('c', 1, 'barrier', 'all', 1, ?, ?, ?)",
            [host, rank, ts_ns],
        )
    hosts = {host for host, _ in members}
    for one in hosts:
        for other in hosts - {one}:
            connection.execute(
                "insert into model.clock_pair values (?, ?, -1000000, 1000000, ?)",
                [one, other, ERROR_NS],
            )
    rows = connection.sql(f"select rank, error_ns, is_surely_last from ({BODY})")
    ((rank, error_ns, is_surely_last),) = rows.fetchall()
    return rank, error_ns, is_surely_last


def test_a_lead_over_its_own_host_proves_nothing_about_another() -> None:
    # Rank 1 came 5 after rank 0 of its own host, and 60 after rank 2 of another: less
    # than the error, though the member just before it is known exactly.
    assert _last((1, 55), (1, 60), (2, 0)) == (1, ERROR_NS, False)


def test_later_than_every_host_by_more_than_the_error_is_surely_last() -> None:
    assert _last((1, 55), (1, 160), (2, 55), (3, 59)) == (1, ERROR_NS, True)


def test_one_host_that_may_have_been_later_is_enough_to_doubt() -> None:
    assert _last((1, 160), (2, 0), (3, 60)) == (0, ERROR_NS, False)


def test_on_one_host_order_is_exact() -> None:
    assert _last((1, 3), (1, 7)) == (1, 0, True)


def test_nobody_of_a_tie_is_last() -> None:
    _, _, is_surely_last = _last((1, 7), (1, 7))

    assert not is_surely_last


def test_a_member_alone_is_last_of_nobody() -> None:
    assert _last((1, 5)) == (0, 0, False)
