"""The claim: loading takes all that is sound and says the rest."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.builders import SECOND, case
from tests.bundle_writer import npy, read_zip, with_sums, write_zip
from tests.workbench.loading import kinds, load, two_hosts
from workbench.errors import CaseError
from workbench.store.case import Case, open_case
from workbench.store.load import load_bundles
from workbench.store.raw_schema import EVENT_TABLES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def test_every_stream_has_its_table_before_anything_is_loaded() -> None:
    with Case.create(None) as made:
        for stream in EVENT_TABLES:
            assert made.frame(f"select * from raw.{stream}").is_empty()


def test_values_arrive_with_their_names_and_nulls(tmp_path: Path) -> None:
    builder = case().host("a").rank(3)
    builder.collective("broadcast", start_ns=1_000, duration_ns=5, peer_rank=0)
    builder.collective("barrier", start_ns=2_000)
    builder.off_cpu(start_ns=10, duration_ns=7, off_state="disk", syscall="fsync")
    builder.off_cpu(start_ns=30, duration_ns=7, is_iowait=None, waker_tid=5)
    made, _ = load(*builder.write(tmp_path))

    assert made.frame(
        "select operation, start_ns, duration_ns, collective_seq, peer_rank, tid,"
        " is_open, return_code, probe_id, caller_offset from raw.collective"
        " order by start_ns"
    ).rows() == [
        ("broadcast", 1_000, 5, 0, 0, 1_003, False, 0, 1, None),
        ("barrier", 2_000, None, 1, None, 1_003, True, None, 2, None),
    ]
    assert made.frame(
        "select off_state, syscall, is_iowait, waker_tid, runq_latency_ns, cpu"
        " from raw.off_cpu order by start_ns"
    ).rows() == [("disk", "fsync", False, None, 0, 0), ("sleep", None, None, 5, 0, 0)]


def test_codes_without_a_name_keep_their_number(tmp_path: Path) -> None:
    host = case().host("a", manifest={"operations": {"2": "known"}})
    host.events(
        "gpu_call", start_ns=[1, 2, 3, 4], tid=[7] * 4, operation=[1, 2, 99, -5]
    )
    host.events("off_cpu", start_ns=[1], tid=[7], off_state=[9], syscall=[400])
    made, _ = load(host.write(tmp_path))

    names = made.frame("select operation from raw.gpu_call order by start_ns")
    assert names["operation"].to_list() == [
        "operation_1",
        "known",
        "operation_99",
        "operation_-5",
    ]
    assert made.frame("select off_state, syscall from raw.off_cpu").rows() == [
        ("off_state_9", "syscall_400")
    ]


def test_hostile_names_do_not_act(tmp_path: Path) -> None:
    evil = "x'); drop table raw.bundle; --\x1b[31m\x00"
    host = case().host("a", manifest={"operations": {"1": evil}, "host_name": evil})
    host.events("gpu_call", start_ns=[1], tid=[7], operation=[1])
    made, _ = load(host.write(tmp_path))

    assert made.frame("select operation from raw.gpu_call").item() == evil
    assert made.frame("select host_name from raw.bundle").item() == evil


def test_keys_come_from_content(tmp_path: Path) -> None:
    builder = two_hosts()
    paths = builder.write(tmp_path)
    made, _ = load(*paths)

    boot_id = builder.hosts["a"].boot_id
    host_id = int.from_bytes(hashlib.sha256(boot_id.encode()).digest()[:4], "big") >> 1
    sums = hashlib.sha256(read_zip(paths[0])["SHA256SUMS"]).digest()
    thread = int.from_bytes(hashlib.sha256(b"1000:0").digest()[:4], "big") >> 1
    assert made.frame(
        "select host_id, bundle_id, content_sha256 from raw.bundle"
        " where host_name = 'a'"
    ).rows() == [(host_id, int.from_bytes(sums[:4], "big") >> 1, sums.hex())]
    assert made.frame(
        f"select distinct thread_id from raw.off_cpu where host_id = {host_id}"
    ).rows() == [(thread,)]


def test_negative_lengths_are_counted_and_null(tmp_path: Path) -> None:
    host = case().host("a")
    host.rank(0)
    host.events(
        "off_cpu",
        start_ns=[1, 2, 3],
        tid=[1_000] * 3,
        duration_ns=[5, -412, 7],
        runq_latency_ns=[-1, 0, 2],
    )

    made, report = load(host.write(tmp_path))

    rows = made.frame("select duration_ns, runq_latency_ns from raw.off_cpu").rows()
    assert rows == [(5, None), (None, 0), (7, 2)]
    assert [(p.kind, p.message) for p in report.problems] == [
        ("negative_duration", "stream off_cpu has 2 lengths below 0, they are null")
    ]
    assert report.is_damaged


def test_impossible_times_are_counted_and_left_out(tmp_path: Path) -> None:
    host = case().host("a", start_ns=0, stop_ns=SECOND)
    host.rank(0)
    host.events("off_cpu", start_ns=[-1, 5, 2**62], tid=[1_000] * 3)

    made, report = load(host.write(tmp_path))

    assert made.frame("select start_ns from raw.off_cpu")["start_ns"].to_list() == [5]
    assert kinds(report) == ["impossible_time"]


def test_a_column_that_a_loader_cannot_give_is_null_and_no_damage(
    tmp_path: Path,
) -> None:
    gone = {"off_cpu": ["next_pid", "is_iowait"]}
    builder = case().host("a", without_columns=gone).rank(0)
    builder.off_cpu(start_ns=10, duration_ns=7, next_tid=3)

    made, report = load(*builder.write(tmp_path))

    assert report.problems == ()
    assert made.frame(
        "select next_pid, next_tid, is_iowait from raw.off_cpu"
    ).rows() == [(None, 3, None)]
    assert made.frame(
        "select missing_columns from raw.bundle_stream where stream = 'off_cpu'"
    ).item().to_list() == ["is_iowait", "next_pid"]


def without(path: Path, stream: str, column: str) -> Path:
    """Write a bundle again as if its version had no such column."""
    members = read_zip(path)
    manifest = json.loads(members["manifest.json"])
    entry = manifest["streams"][stream]
    entry["columns"] = [c for c in entry["columns"] if c["name"] != column]
    gone = f"events/{stream}/000000/{column}.npy"
    members = {name: data for name, data in members.items() if name != gone}
    members["manifest.json"] = json.dumps(manifest).encode()
    return write_zip(path, with_sums(members))


def test_a_missing_column_is_null_and_named(tmp_path: Path) -> None:
    builder = case().host("a").rank(0).off_cpu(start_ns=10, duration_ns=7, cpu=3)
    path = without(builder.write(tmp_path)[0], "off_cpu", "cpu")

    made, report = load(path)

    assert made.frame("select cpu, tid from raw.off_cpu").rows() == [(None, 1_000)]
    assert [(p.kind, p.message) for p in report.problems] == [
        ("missing_column", "column cpu of stream off_cpu is not there, it is null")
    ]


def test_a_column_of_another_type_than_the_format_says_is_null(tmp_path: Path) -> None:
    builder = case().host("a").rank(0).off_cpu(start_ns=10, duration_ns=7, cpu=3)
    path = builder.write(tmp_path)[0]
    members = read_zip(path)
    manifest = json.loads(members["manifest.json"])
    for column in manifest["streams"]["off_cpu"]["columns"]:
        if column["name"] == "cpu":
            column["dtype"] = "<u8"
    members["manifest.json"] = json.dumps(manifest).encode()
    members["events/off_cpu/000000/cpu.npy"] = npy(np.array([2**63], "<u8"))
    write_zip(path, with_sums(members))

    made, report = load(path)

    assert made.frame("select cpu, tid from raw.off_cpu").rows() == [(None, 1_000)]
    assert [(p.kind, p.message) for p in report.problems] == [
        ("bad_column", "column cpu of stream off_cpu is <u8 and not <i2, it is null")
    ]


def test_a_tid_beyond_the_kernel_s_limit_is_loaded(tmp_path: Path) -> None:
    host = case().host("a")
    host.events("off_cpu", start_ns=[1, 2, 3], tid=[-1, 7, 2**31 - 1])

    made, _ = load(host.write(tmp_path))

    assert made.frame(
        "select count(distinct thread_id), min(thread_id) >= 0 from raw.off_cpu"
    ).rows() == [(3, True)]


def test_a_stream_without_start_is_not_loaded(tmp_path: Path) -> None:
    builder = case().host("a").rank(0).off_cpu(start_ns=10, duration_ns=7)
    builder.collective(start_ns=5, duration_ns=1)
    path = without(builder.write(tmp_path)[0], "off_cpu", "start_ns")

    made, report = load(path)

    assert made.frame("select * from raw.off_cpu").is_empty()
    assert made.frame("select count(*) from raw.collective").item() == 1
    assert kinds(report) == ["missing_column"]
    assert made.frame(
        "select is_damaged from raw.bundle_stream where stream = 'off_cpu'"
    ).item()


def test_bundles_that_cannot_be_read_never_stop_the_others(tmp_path: Path) -> None:
    paths = two_hosts().write(tmp_path)
    text = tmp_path / "notes.bundle"
    text.write_text("hello")
    newer = write_zip(
        tmp_path / "newer.bundle",
        {"manifest.json": b'{"format": "coldtrace-bundle", "version": 2}'},
    )

    made, report = load(text, newer, tmp_path / "none.bundle", *paths)

    assert kinds(report) == ["not_a_zip", "unreadable", "unsupported_version"]
    assert report.bundle_count == 2
    assert report.row_count == 4
    assert made.frame(
        "select kind from raw.load_problem where path like '%newer%'"
    ).rows() == [("unsupported_version",)]


def test_a_torn_bundle_marks_its_rows(tmp_path: Path) -> None:
    path = two_hosts().write(tmp_path)[0]
    data = path.read_bytes()
    path.write_bytes(data[: data.index(b"PK\x01\x02")])

    made, report = load(path)

    assert made.frame("select is_directory_missing from raw.bundle").item()
    assert made.frame("select count(*) from raw.collective").item() == 1
    assert "truncated" in kinds(report)
    assert report.is_damaged


def test_a_tid_used_again_is_two_threads(tmp_path: Path) -> None:
    host = case().host("a", start_ns=0)
    host.thread(4_242, start_ticks=100)
    host.fact(
        "thread",
        pid=4_242,
        tid=4_242,
        start_ticks=900,
        thread_name="again",
        first_ns=9 * SECOND,
        state_at_start=None,
    )
    host.events(
        "off_cpu", start_ns=[0, 2 * SECOND, 9 * SECOND, 12 * SECOND], tid=[4_242] * 4
    )

    made, _ = load(host.write(tmp_path))

    names = made.frame(
        "select thread_name from raw.off_cpu as event"
        " left join raw.fact_thread as thread on event.thread_id = thread.thread_id"
        " order by event.start_ns"
    )
    assert names["thread_name"].to_list() == ["python", "python", "again", "again"]


def test_a_thread_without_fact_has_a_key_of_its_own(tmp_path: Path) -> None:
    host = case().host("a")
    host.events("off_cpu", start_ns=[1, 2, 3], tid=[7, 8, 7])

    made, _ = load(host.write(tmp_path))

    expected = int.from_bytes(hashlib.sha256(b"7:0").digest()[:4], "big") >> 1
    assert made.frame(
        "select tid, count(*) from raw.off_cpu group by all order by tid"
    ).rows() == [(7, 2), (8, 1)]
    assert made.frame(
        "select distinct thread_id from raw.off_cpu where tid = 7"
    ).rows() == [(expected,)]


def test_a_key_that_two_hosts_share_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workbench.store.bundle_load.short_hash", len)

    _, report = load(*two_hosts().write(tmp_path))

    assert report.bundle_count == 1
    assert kinds(report)[0] == "id_collision"
    assert "another host" in report.problems[0].message


def test_threads_that_share_a_hash_get_two_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workbench.store.identity.short_hash", len)
    host = case().host("a")
    host.events("off_cpu", start_ns=[1, 2], tid=[7, 8])

    made, _ = load(host.write(tmp_path))

    assert made.frame("select tid, thread_id from raw.off_cpu order by tid").rows() == [
        (7, 3),
        (8, 4),
    ]


def test_many_chunks_arrive_in_their_order(tmp_path: Path) -> None:
    host = case().host("a", chunk_rows=10)
    host.rank(0)
    host.events("gpu_call", start_ns=np.arange(997), tid=np.full(997, 1_000))
    calls: list[tuple[str, int, int]] = []

    with Case.create(None) as made:
        load_bundles(
            made,
            [host.write(tmp_path)],
            progress=lambda *call: calls.append(call),
            build=False,
        )
        starts = made.frame("select start_ns from raw.gpu_call")["start_ns"]

        assert starts.to_list() == list(range(997))
    assert calls[0] == ("a.bundle", 40, 997)
    assert calls[-1] == ("a.bundle", 997, 997)


def test_bulk_and_single_events_are_the_same(tmp_path: Path) -> None:
    single = case().host("a", offset_ns=500, rate=1e-3)
    for start in (1_000, 2_000):
        single.rank(0).gpu_call("malloc", start_ns=start, duration_ns=50, size_bytes=7)
    bulk = case().host("a", offset_ns=500, rate=1e-3)
    bulk.rank(0)
    bulk.events(
        "gpu_call",
        start_ns=[1_000, 2_000],
        duration_ns=[50, 50],
        size_bytes=[7, 7],
        stream_handle=[0, 0],
        return_code=[0, 0],
        operation=[bulk.code("malloc")] * 2,
        pid=[1_000] * 2,
        tid=[1_000] * 2,
    )

    rows = [
        load(host.write(tmp_path))[0].frame("select * from raw.gpu_call").rows()
        for host in (single, bulk)
    ]

    assert rows[0] == rows[1]
    assert rows[0][0][3:5] == (1_501, 50)


def test_a_case_open_for_reading_cannot_be_loaded_into(tmp_path: Path) -> None:
    path = tmp_path / "x.duckdb"
    Case.create(path).close()

    with open_case(path) as made, pytest.raises(CaseError, match="for reading only"):
        load_bundles(made, [], build=False)


def test_a_folder_stands_for_its_bundles(tmp_path: Path) -> None:
    two_hosts().write(tmp_path)
    (tmp_path / "notes.txt").write_text("no bundle")

    _, report = load(tmp_path)

    assert report.bundle_count == 2


def test_a_load_that_fails_leaves_no_half_bundle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> Sequence[object]:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("workbench.store.bundle_load.remove_twice_recorded", fail)
    made = Case.create(None)

    with pytest.raises(OSError, match="No space left"):
        load_bundles(made, two_hosts().write(tmp_path), build=False)

    assert made.frame("select * from raw.bundle").is_empty()
    assert made.frame("select * from raw.collective").is_empty()
