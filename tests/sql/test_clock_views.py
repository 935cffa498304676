"""The clock views keep what proves an order, and say of the rest why it does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from workbench.store.views import library_folder

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SPAN = {
    "host_id": 1,
    "thread_id": 1,
    "start_ns": 0,
    "rank": 0,
    "communicator_id": "world",
    "collective_seq": 0,
    "operation": "all_reduce",
    "communicator_rank": 0,
    "communicator_size": 4,
    "peer_rank": None,
    "element_count": 1,
    "arrival_ns": 0,
    "completion_ns": 100,
    "is_blocking": True,
    "is_enqueue_only": False,
    "is_captured": False,
    "is_open": False,
    "is_failed": False,
    "is_base_known": True,
}
TYPES = {str: "varchar", bool: "boolean"}


def clock_views(*spans: dict[str, Any], kind: str = "mpi") -> DuckDBPyConnection:
    """Return a database with the clock views over these calls."""
    connection = duckdb.connect()
    names = ", ".join(
        f"{name} {TYPES.get(type(value), 'bigint')}" for name, value in SPAN.items()
    )
    connection.execute(f"create table collective_span ({names})")
    connection.execute(
        "create table communicator (communicator_id varchar, kind varchar)"
    )
    connection.execute("insert into communicator values ('world', ?)", [kind])
    for span in spans:
        marks = ", ".join("?" * len(SPAN))
        connection.execute(
            f"insert into collective_span values ({marks})",
            list((SPAN | span).values()),
        )
    for name in (
        "clock_rule",
        "clock_call",
        "clock_bound",
        "clock_message",
        "clock_last",
        "clock_meeting",
    ):
        layer = "entity" if name == "clock_rule" else "measure"
        text = (library_folder() / layer / f"{name}.sql").read_text()
        connection.execute(f"create view {name} as {text}")
    return connection


def members(operation: str, **columns: object) -> list[dict[str, Any]]:
    """Return ranks 0, 1 on host 1 and 2, 3 on host 2; rank r arrives at 10 r."""
    return [
        {
            "host_id": 1 + rank // 2,
            "thread_id": rank,
            "rank": rank,
            "communicator_rank": rank,
            "operation": operation,
            "arrival_ns": 10 * rank,
            "completion_ns": 100 + rank,
        }
        | columns
        for rank in range(4)
    ]


def bounds(connection: DuckDBPyConnection) -> list[tuple[Any, ...]]:
    return connection.execute(
        "select part, host_id, arrival_ns, completion_ns from clock_bound order by all"
    ).fetchall()


@pytest.mark.parametrize(
    ("operation", "peer", "expected"),
    [
        ("all_reduce", None, [("all", 1, 10, 100), ("all", 2, 30, 102)]),
        ("barrier", None, [("all", 1, 10, 100), ("all", 2, 30, 102)]),
        ("comm_split", None, [("all", 1, 10, 100), ("all", 2, 30, 102)]),
        ("broadcast", 1, [("all", 1, 10, 100), ("all", 2, None, 102)]),
        ("scatter", 3, [("all", 1, None, 100), ("all", 2, 30, 102)]),
        ("reduce", 2, [("all", 1, 10, None), ("all", 2, 30, 102)]),
        ("gather", 0, [("all", 1, 10, 100), ("all", 2, 30, None)]),
        (
            "scan",
            None,
            [
                ("from_first", 1, 0, 100),
                ("from_first", 2, None, 102),
                ("to_last", 1, 10, None),
                ("to_last", 2, 30, 103),
            ],
        ),
    ],
)
def test_each_operation_proves_its_own_law(
    operation: str, peer: int | None, expected: list[tuple[Any, ...]]
) -> None:
    connection = clock_views(*members(operation, peer_rank=peer))

    assert bounds(connection) == expected


def test_the_latest_rank_of_a_host_is_named() -> None:
    connection = clock_views(*members("all_reduce"))

    found = connection.execute(
        "select host_id, arrival_rank, member_count from clock_bound order by all"
    ).fetchall()
    assert found == [(1, 1, 2), (2, 3, 2)]


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({}, None),
        ({"element_count": 0}, "it moves nothing, or nobody knows how much"),
        ({"element_count": None}, "it moves nothing, or nobody knows how much"),
        ({"operation": "barrier", "element_count": None}, None),
        ({"is_captured": True}, "the call was captured into a graph and did not run"),
        ({"is_failed": True}, "the call failed"),
        (
            {"is_base_known": False},
            "calls are not numbered from the start of the communicator",
        ),
        ({"collective_seq": None}, "the call has no number"),
        ({"communicator_id": None}, "the communicator is not known"),
        (
            {"operation": "comm_init", "collective_seq": None},
            "this library does not wait for all members here",
        ),
        (
            {"operation": "send", "peer_rank": 1},
            "tags of MPI messages are not recorded",
        ),
        (
            {"operation": "comm_create"},
            "the operation makes nobody wait for all, or its counts are not known",
        ),
    ],
)
def test_a_call_that_proves_nothing_says_why(
    columns: dict[str, Any], reason: str | None
) -> None:
    connection = clock_views(columns)

    assert connection.execute("select reason from clock_call").fetchall() == [(reason,)]


def test_making_an_nccl_communicator_makes_all_wait() -> None:
    makers = members("comm_init", collective_seq=None, element_count=None)

    connection = clock_views(*makers, kind="nccl")

    assert bounds(connection) == [("all", 1, 10, 100), ("all", 2, 30, 102)]


def test_an_open_call_gives_its_arrival_and_no_completion() -> None:
    spans = members("all_reduce")
    spans[2] |= {"is_open": True}
    spans[3] |= {"is_open": True}

    assert bounds(clock_views(*spans)) == [("all", 1, 10, 100), ("all", 2, 30, None)]


def test_a_rendezvous_of_one_host_alone_is_left_out() -> None:
    assert bounds(clock_views(*members("all_reduce")[:2])) == []


def test_calls_of_one_number_but_two_operations_do_not_meet() -> None:
    spans = members("all_reduce")[:2] + members("all_gather")[2:]

    assert bounds(clock_views(*spans)) == []


def test_only_blocking_symmetric_calls_release_together() -> None:
    def released(operation: str, **columns: object) -> set[bool]:
        connection = clock_views(*members(operation, **columns))
        rows = connection.execute("select is_release from clock_bound").fetchall()
        return {row[0] for row in rows}

    assert released("all_reduce") == {True}
    assert released("all_reduce", is_blocking=False) == {False}
    assert released("broadcast", peer_rank=0) == {False}


def test_nccl_messages_of_one_number_are_sent_before_they_are_received() -> None:
    fixed = {"is_enqueue_only": True, "is_blocking": False}
    send = members("send", peer_rank=2, **fixed)[0] | {"arrival_ns": 7}
    receive = members("recv", peer_rank=0, **fixed)[2] | {"completion_ns": 90}

    connection = clock_views(send, receive, kind="nccl")

    assert connection.execute(
        "select source_rank, destination_rank, send_host_id, receive_host_id,"
        " send_ns, receive_ns from clock_message"
    ).fetchall() == [(0, 2, 1, 2, 7, 90)]


def test_the_last_to_arrive_is_the_one_that_stays_least() -> None:
    spans = members("all_reduce")
    later = members("all_reduce", collective_seq=1)
    for span in later[:2]:
        span |= {"arrival_ns": 95}

    connection = clock_views(*spans, *later)

    assert connection.execute(
        "select host_id, met_count, last_count, last_ratio from clock_last order by all"
    ).fetchall() == [(1, 2, 1, 0.5), (2, 2, 1, 0.5)]


def test_meetings_count_the_laws_in_each_direction() -> None:
    spans = members("broadcast", peer_rank=0) + members("barrier", collective_seq=1)

    connection = clock_views(*spans)

    assert connection.execute(
        "select host_id, other_host_id, law_count from clock_meeting order by all"
    ).fetchall() == [(1, 2, 1), (2, 1, 2)]
