"""Every call is counted exactly, whatever it is nested in, by both loaders.

The driver makes a prime number of each call, so a call counted twice or under another's
name cannot add up by chance.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.capture import fake_driver

if TYPE_CHECKING:
    from pathlib import Path

    from tests.capture.fake_driver import Session

pytestmark = pytest.mark.bpf


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fake_driver.build(tmp_path_factory.mktemp("driver"))


@pytest.fixture(scope="module")
def core(folder: Path) -> Session:
    return fake_driver.run("core", folder, "calls")


def columns_of(session: Session) -> Counter[tuple[tuple[str, object], ...]]:
    """Return the records without what differs from run to run."""
    varying = {"pid", "tid", "start_ns", "duration_ns", "return_address", "probe_id"}
    return Counter(
        tuple(sorted((k, v) for k, v in row.items() if k not in varying))
        for stream in ("collective", "gpu_call")
        for row in session.rows(stream)
    )


def test_each_gpu_call_is_recorded_once_at_its_depth(core: Session) -> None:
    assert core.count("gpu_call", "symbol", "depth", "is_captured") == {
        ("cuLaunchKernel", 0, False): 17,  # the runtime's launches pass here
        ("cuLaunchKernel", 1, False): 16,  # those of ncclAllReduce
        ("cuLaunchKernelEx", 0, False): 7,
        ("cudaMemcpyAsync", 0, False): 11,
        ("cudaMemcpyAsync", 0, True): 2,
        ("cudaMemcpy2D", 0, False): 3,
        ("cudaStreamSynchronize", 0, False): 5,
        ("cuStreamSynchronize", 0, False): 2,  # called directly
        ("cudaEventQuery", 0, False): 3,
        ("cudaMalloc", 0, False): 2,
        ("cudaStreamBeginCapture", 0, False): 1,
        ("cudaStreamEndCapture", 0, True): 1,
    }


def test_failed_queries_are_hits_without_a_record(core: Session) -> None:
    assert core.hits("cudaEventQuery") == 13 + 3
    assert core.count("gpu_call", "symbol")[("cudaEventQuery",)] == 3


def test_arguments_are_read_from_registers_and_from_the_stack(core: Session) -> None:
    by_symbol = {row["symbol"]: row for row in core.rows("gpu_call")}

    launch = by_symbol["cuLaunchKernelEx"]  # its stream stands in a struct
    assert (launch["stream_handle"], launch["object_handle"]) == (0x5000, 0x4000)
    assert {
        row["stream_handle"]
        for row in core.rows("gpu_call")
        if row["symbol"] == "cuLaunchKernel"
    } == {0x5000}  # on the stack
    copy = by_symbol["cudaMemcpy2D"]  # width times height, kind on the stack
    assert (copy["size_bytes"], copy["copy_kind"]) == (70, 2)
    malloc = by_symbol["cudaMalloc"]  # the pointer is known at return
    assert malloc["object_handle"] == 0x700000000000 + 4099


def test_launches_have_no_duration_and_other_calls_have_one(core: Session) -> None:
    assert core.count("gpu_call", "operation", "has_duration_ns").keys() >= {
        (100, False),
        (111, True),
    }
    assert not [
        row
        for row in core.rows("gpu_call")
        if row["has_duration_ns"] == (row["operation"] == 100)
    ]


def test_a_call_inside_a_call_takes_no_number(core: Session) -> None:
    numbers = {
        symbol: [
            row["collective_seq"]
            for row in core.rows("collective")
            if row["symbol"] == symbol and row["has_collective_seq"]
        ]
        for symbol in ("ncclBcast", "ncclBroadcast")
    }

    assert numbers == {"ncclBcast": [11, 12, 13, 14, 15], "ncclBroadcast": []}
    assert core.count("collective", "symbol", "depth")[("ncclBroadcast", 1)] == 5


def test_collectives_of_a_communicator_are_numbered_in_order(core: Session) -> None:
    rows = [row for row in core.rows("collective") if row["symbol"] == "ncclAllReduce"]
    first = [
        row for row in rows if row["communicator_ref"] == rows[0]["communicator_ref"]
    ]

    assert [row["collective_seq"] for row in first] == list(range(11))
    assert {row["element_count"] for row in first} == {1021}
    assert {row["data_type"] for row in first} == {7}
    assert all(row["is_base_known"] for row in first)


def test_pairs_are_numbered_by_peer_and_direction(core: Session) -> None:
    pairs = [
        (row["symbol"], row["peer_rank"], row["collective_seq"], row["group_depth"])
        for row in core.rows("collective")
        if row["symbol"] in ("ncclSend", "ncclRecv")
    ]

    assert pairs == [
        ("ncclSend", 1, 0, 2),
        ("ncclSend", 1, 1, 2),
        ("ncclSend", 1, 2, 2),
        ("ncclRecv", 1, 0, 1),
        ("ncclRecv", 1, 1, 1),
        ("ncclSend", 2, 0, 0),
    ]


def test_the_outermost_group_has_one_end_with_its_number(core: Session) -> None:
    ends = [row for row in core.rows("collective") if row["operation"] == 14]
    inside = [row for row in core.rows("collective") if row["group_depth"]]

    assert [row["group_seq"] for row in ends] == [1, 2]
    assert Counter(row["group_seq"] for row in inside) == {1: 5, 2: 1}


def test_communicators_are_told_as_they_were_made(core: Session) -> None:
    made = [
        (f["how"], f["size"], f["rank"], f["color"], f["key"], f["is_base_known"])
        for f in core.facts_of("communicator")
    ]

    assert made == [
        ("init", 4, 3, None, None, True),
        ("split", None, None, 5, 9, True),  # its handle came at the group's end
        ("init_all", 2, 0, None, None, True),
        ("init_all", 2, 1, None, None, True),
        ("seen", None, None, None, None, False),
    ]
    (destroyed,) = core.facts_of("destroyed")
    split = core.facts_of("communicator")[1]
    assert destroyed["communicator_ref"] == split["communicator_ref"]
    # The split without a colour before it counts as a child-making call.
    assert split["child_index"] == 1


def test_the_id_is_hashed_as_the_format_says(core: Session) -> None:
    words = [
        int.from_bytes(bytes(range(8 * i, 8 * i + 8)), "little") for i in range(16)
    ]

    def mix(seed: int) -> int:
        for word in words:
            seed = (seed ^ word) * 0x9E3779B97F4A7C15 % 2**64
            seed ^= seed >> 32
        return seed

    init = core.facts_of("communicator")[0]
    assert init["mix1"] == mix(0x243F6A8885A308D3)
    assert init["mix2"] == mix(0x13198A2E03707344)


def test_nothing_is_lost_or_unmatched(core: Session) -> None:
    assert all(result["is_attached"] for result in core.attached)
    assert sum(counter["lost_count"] for counter in core.counters) == 0
    assert sum(counter["unmatched_return_count"] for counter in core.counters) == 0
    assert "collective" not in core.in_flight


def test_the_full_set_marks_what_is_nested(folder: Path) -> None:
    full = fake_driver.run("core", folder, "calls", probe_set="full")

    counts = full.count("gpu_call", "symbol", "depth")
    assert counts["cudaLaunchKernel", 0] == 17
    assert counts["cuLaunchKernel", 1] == 17 + 16
    assert counts["cuMemcpyHtoDAsync_v2", 1] == 11 + 2
    assert counts["cuStreamSynchronize", 0] == 2
    assert counts["cuStreamSynchronize", 1] == 5


def test_a_child_of_a_target_is_a_target(folder: Path) -> None:
    forked = fake_driver.run("core", folder, "fork")

    assert Counter(row["pid"] == forked.pid for row in forked.rows("gpu_call")) == {
        True: 2,
        False: 3,
    }
    (fork,) = forked.facts_of("fork")
    assert fork["parent_pid"] == forked.pid
    assert [fact["pid"] for fact in forked.facts_of("exit")] == [fork["pid"]]


def test_a_call_that_hangs_is_seen_while_it_does(folder: Path) -> None:
    hung = fake_driver.run("core", folder, "hang")

    (call,) = hung.in_flight["gpu_call"]
    assert (call["pid"], call["operation"]) == (hung.pid, 131)
    assert (call["is_open"], call["has_duration_ns"]) == (True, False)
    assert hung.rows("gpu_call") == []


def test_a_call_left_by_a_jump_is_over_with_the_next_call(folder: Path) -> None:
    left = fake_driver.run("core", folder, "jump")

    assert left.count("gpu_call", "symbol", "depth") == {
        ("cudaStreamSynchronize", 0): 1
    }
    assert "gpu_call" not in left.in_flight


@pytest.mark.slow
def test_perf_events_record_the_same_calls(folder: Path, core: Session) -> None:
    perf = fake_driver.run("core_perf", folder, "calls")

    assert "perf" in perf.detail
    assert columns_of(perf) == columns_of(core)


@pytest.mark.slow
def test_bcc_records_the_same_calls(folder: Path, core: Session) -> None:
    bcc = fake_driver.run("bcc", folder, "calls")

    assert columns_of(bcc) == columns_of(core)
    told = [
        [(f["fact"], f.get("how")) for f in session.facts if f["fact"] != "exec"]
        for session in (core, bcc)
    ]
    assert told[0] == told[1]
