"""When a call arrives, and what proves that it is complete.

A blocking call is complete when it returns.  An enqueue-only one is complete when a
synchronisation returns that is shown to cover its stream, and never on less.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.builders import case as build_case
from tests.sql.standing import rows, stand

if TYPE_CHECKING:
    from pathlib import Path

    from tests.builders import ThreadBuilder
    from workbench.store.case import Case

NCCL, OTHER, MAIN = 0x51, 0x52, 0x53
EVENT = 0xE1
COMPLETION = "select completion_ns, completion_proof from collective_span"
Call = tuple[str, int, dict[str, int]]


def rank(kind: str) -> ThreadBuilder:
    """Return rank 0 of two, with a communicator of that kind."""
    job = build_case().communicator("world", kind=kind, size=2)
    return job.host("a").rank(0)


def enqueued(folder: Path, *calls: Call) -> list[tuple[Any, ...]]:
    """Return completion and proof of a call enqueued at 1,000 until 1,010."""
    thread = rank("nccl")
    thread.collective(start_ns=1_000, duration_ns=10, stream_handle=NCCL)
    for operation, start_ns, columns in calls:
        thread.gpu_call(operation, start_ns=start_ns, **{"duration_ns": 5, **columns})
    return rows(stand(thread, folder, "collective_span"), COMPLETION)


def on(stream: int) -> dict[str, int]:
    """Return the columns of a call on a stream."""
    return {"stream_handle": stream}


def event(stream: int = 0) -> dict[str, int]:
    """Return the columns of a call with the event, on a stream."""
    return {"object_handle": EVENT, "stream_handle": stream}


def test_blocking_call_is_complete_when_it_returns(tmp_path: Path) -> None:
    thread = rank("mpi").collective(start_ns=1_000, duration_ns=500)

    spans = stand(thread, tmp_path, "collective_span")

    assert rows(spans, COMPLETION) == [(1_500, "return")]


PROOFS: dict[str, tuple[list[Call], tuple[int | None, str | None]]] = {
    "nothing": ([], (None, None)),
    "its own stream": ([("stream_sync", 1_020, on(NCCL))], (1_025, "stream_sync")),
    "another stream": ([("stream_sync", 1_020, on(OTHER))], (None, None)),
    "the whole device": ([("device_sync", 1_020, {})], (1_025, "device_sync")),
    "a synchronisation before it": ([("stream_sync", 900, on(NCCL))], (None, None)),
    "one that failed": (
        [("stream_sync", 1_020, {**on(NCCL), "return_code": 700})],
        (None, None),
    ),
    "an event recorded after it": (
        [("event_record", 1_020, event(NCCL)), ("event_sync", 1_040, event())],
        (1_045, "event_sync"),
    ),
    "an event recorded before it": (
        [("event_record", 900, event(NCCL)), ("event_sync", 1_040, event())],
        (None, None),
    ),
    "an event recorded again elsewhere": (
        [
            ("event_record", 1_020, event(NCCL)),
            ("event_record", 1_030, event(OTHER)),
            ("event_sync", 1_040, event()),
        ],
        (None, None),
    ),
    "a successful query": (
        [("event_record", 1_020, event(NCCL)), ("event_query", 1_040, event())],
        (1_045, "query"),
    ),
    "a stream that waits for the event": (
        [
            ("event_record", 1_020, event(NCCL)),
            ("stream_wait", 1_030, event(MAIN)),
            ("stream_sync", 1_050, on(MAIN)),
        ],
        (1_055, "stream_sync"),
    ),
    "a stream that was synchronised before it waited": (
        [
            ("event_record", 1_020, event(NCCL)),
            ("stream_sync", 1_025, on(MAIN)),
            ("stream_wait", 1_040, event(MAIN)),
        ],
        (None, None),
    ),
    "the earliest of two": (
        [
            ("stream_sync", 1_020, {**on(NCCL), "duration_ns": 900}),
            ("device_sync", 1_100, {}),
        ],
        (1_105, "device_sync"),
    ),
}


@pytest.mark.parametrize("name", PROOFS)
def test_enqueued_call_is_complete_when_covered_by(name: str, tmp_path: Path) -> None:
    calls, expected = PROOFS[name]

    assert enqueued(tmp_path, *calls) == [expected]


def test_proof_that_a_later_one_beats_is_left_out(tmp_path: Path) -> None:
    thread = rank("nccl")
    thread.collective(start_ns=10, duration_ns=1, stream_handle=NCCL)
    thread.gpu_call("stream_sync", start_ns=100, duration_ns=900, stream_handle=NCCL)
    thread.gpu_call("stream_sync", start_ns=200, duration_ns=50, stream_handle=NCCL)
    thread.gpu_call("stream_sync", start_ns=300, duration_ns=50, stream_handle=OTHER)

    proofs = stand(thread, tmp_path, "_stream_proof")

    order = "select operation, stream_handle, covers_until_ns, end_ns from _gpu_order"
    sql = "select covers_until_ns, sync_start_ns, end_ns from _stream_proof"
    assert rows(proofs, sql) == [(200, 200, 250)]
    assert sorted(rows(proofs, order)) == [
        ("stream_sync", NCCL, 100, 1_000),
        ("stream_sync", NCCL, 200, 250),
    ]


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """Return one rank with a call of each unusual kind."""
    thread = rank("nccl")
    thread.collective(
        "comm_init", start_ns=100, duration_ns=50, communicator=None, child="world"
    )
    in_group: dict[str, Any] = {"group_seq": 3, "stream_handle": NCCL}
    thread.collective("all_gather", start_ns=1_000, duration_ns=1, **in_group)
    thread.collective(
        "group_end", start_ns=1_050, duration_ns=7, communicator=None, group_seq=3
    )
    thread.collective("reduce", start_ns=2_000, duration_ns=1, return_code=5)
    thread.collective("gather", start_ns=3_000, duration_ns=1, is_captured=True)
    thread.collective("scatter", start_ns=4_000)
    thread.collective("barrier", start_ns=5_000, duration_ns=1, depth=1)
    thread.collective("comm_destroy", start_ns=6_000, duration_ns=1)
    thread.gpu_call("device_sync", start_ns=7_000, duration_ns=100)
    folder = tmp_path_factory.mktemp("kinds")
    return stand(thread, folder, "collective_span", "_meeting", "_step_thread")


def test_grouped_call_arrives_when_the_group_ends(kinds: Case) -> None:
    sql = (
        "select arrival_ns, issued_ns, completion_ns from collective_span"
        " where operation = 'all_gather'"
    )

    assert rows(kinds, sql) == [(1_050, 1_057, 7_100)]


def test_making_a_communicator_blocks_and_has_no_number(kinds: Case) -> None:
    sql = (
        "select collective_seq, is_blocking, completion_ns, communicator_id is null"
        " from collective_span where operation = 'comm_init'"
    )

    assert rows(kinds, sql) == [(None, True, 150, False)]


def test_failed_captured_and_open_calls_are_never_complete(kinds: Case) -> None:
    sql = (
        "select operation, is_failed, is_captured, is_open from collective_span"
        " where completion_ns is null order by start_ns"
    )

    assert rows(kinds, sql) == [
        ("reduce", True, False, False),
        ("gather", False, True, False),
        ("scatter", False, False, True),
    ]


def test_nested_calls_and_the_end_of_a_communicator_are_no_spans(kinds: Case) -> None:
    sql = "select operation from collective_span where start_ns >= 5000"

    assert rows(kinds, sql) == []


def test_only_sound_calls_can_be_met(kinds: Case) -> None:
    sql = "select operation, stay_ns from _meeting order by start_ns"

    assert rows(kinds, sql) == [
        ("comm_init", 50),
        ("all_gather", 6_050),
        ("scatter", None),
    ]


def test_thread_with_most_collectives_is_the_main_one(tmp_path: Path) -> None:
    host = build_case().host("a")
    host.rank(0).collective(start_ns=1_000, duration_ns=1)
    for start_ns in (2_000, 3_000):
        host.thread(50, pid=1_000).collective(start_ns=start_ns, duration_ns=1)

    threads = stand(host, tmp_path, "_step_thread", "thread")

    sql = (
        "select t.tid, s.call_count, s.is_main from _step_thread as s"
        " inner join thread as t on s.thread_id = t.thread_id order by 1"
    )
    assert rows(threads, sql) == [(50, 2, True), (1_000, 1, False)]


def test_blocking_is_told_by_the_communicator(kinds: Case) -> None:
    sql = "select is_enqueue_only from _collective_call where operation = 'reduce'"

    assert rows(kinds, sql) == [(True,)]


def test_send_meets_its_receive(tmp_path: Path) -> None:
    job = build_case().communicator("world", kind="mpi", size=2)
    job.host("a").rank(0).collective("send", start_ns=1_000, duration_ns=9, peer_rank=1)
    job.host("b").rank(1).collective("recv", start_ns=900, duration_ns=200, peer_rank=0)

    meetings = stand(job, tmp_path, "rendezvous")

    sql = (
        "select operation, pairing, member_count, is_complete, least_stay_ns,"
        " largest_stay_ns from rendezvous"
    )
    assert rows(meetings, sql) == [("send_recv", "0>1", 2, True, 9, 200)]


def test_rendezvous_without_all_members_is_not_complete(tmp_path: Path) -> None:
    job = build_case().communicator("world", kind="mpi", size=3)
    for number in range(2):
        job.host("ab"[number]).rank(number).collective(start_ns=1_000, duration_ns=9)

    meetings = stand(job, tmp_path, "rendezvous")

    sql = "select member_count, expected_count, host_count, is_complete from rendezvous"
    assert rows(meetings, sql) == [(2, 3, 2, False)]
