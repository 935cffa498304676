"""The claim: loading takes all that is sound, twice nothing, and says the rest."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.builders import SECOND, case
from tests.bundle_writer import npy, read_zip, with_sums, write_zip
from workbench.errors import CaseError
from workbench.store.case import Case, open_case
from workbench.store.load import LoadReport, load_bundles
from workbench.store.raw_schema import EVENT_TABLES, table_columns

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.builders import CaseBuilder, HostBuilder


def load(*paths: Path) -> tuple[Case, LoadReport]:
    """Return an in-memory case with these bundles loaded in one go."""
    made = Case.create(None)
    return made, load_bundles(made, paths, build=False)


def kinds(report: LoadReport) -> list[str]:
    return sorted(problem.kind for problem in report.problems)


def all_rows(made: Case) -> dict[str, list[tuple[Any, ...]]]:
    """Return every raw table but paths, sorted: what loading is meant to give."""
    tables: dict[str, list[tuple[Any, ...]]] = {}
    for table in table_columns():
        hidden = " exclude (path)" if table in ("bundle", "load_problem") else ""
        if table == "load_problem":
            hidden = " exclude (path, message)"
        rows = made.frame(f"select *{hidden} from raw.{table}").rows()
        tables[table] = sorted(rows, key=repr)
    return tables


def two_hosts() -> CaseBuilder:
    builder = case()
    first = builder.host("a")
    first.rank(0).collective(start_ns=1_000, duration_ns=500)
    first.rank(0).off_cpu(start_ns=200, duration_ns=300, syscall="read")
    second = builder.host("b", offset_ns=7_000_000)
    second.rank(1).collective(start_ns=1_100, duration_ns=400).gpu_call(start_ns=9)
    return builder


def rewritten(path: Path, **changes: Any) -> Path:
    """Write a bundle again with keys of its manifest's capture or host changed."""
    members = read_zip(path)
    manifest = json.loads(members["manifest.json"])
    for key, value in changes.items():
        holder = manifest["capture"] if key in manifest["capture"] else manifest["host"]
        holder[key] = value
    members["manifest.json"] = json.dumps(manifest).encode()
    return write_zip(path, with_sums(members))


def test_every_stream_has_its_table_before_anything_is_loaded():
    with Case.create(None) as made:
        for stream in EVENT_TABLES:
            assert made.frame(f"select * from raw.{stream}").is_empty()


def test_values_arrive_with_their_names_and_nulls(tmp_path: Path):
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


def test_codes_without_a_name_keep_their_number(tmp_path: Path):
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


def test_hostile_names_do_not_act(tmp_path: Path):
    evil = "x'); drop table raw.bundle; --\x1b[31m\x00"
    host = case().host("a", manifest={"operations": {"1": evil}, "host_name": evil})
    host.events("gpu_call", start_ns=[1], tid=[7], operation=[1])
    made, _ = load(host.write(tmp_path))

    assert made.frame("select operation from raw.gpu_call").item() == evil
    assert made.frame("select host_name from raw.bundle").item() == evil


def test_keys_come_from_content(tmp_path: Path):
    builder = two_hosts()
    paths = builder.write(tmp_path)
    made, _ = load(*paths)

    boot_id = builder.hosts["a"].boot_id
    host_id = int.from_bytes(hashlib.sha256(boot_id.encode()).digest()[:4], "big") >> 1
    sums = hashlib.sha256(read_zip(paths[0])["SHA256SUMS"]).digest()
    thread = int.from_bytes(hashlib.sha256(b"1000:0").digest()[:4], "big") >> 1
    assert made.frame(
        "select host_id, bundle_id, content_sha256 from raw.bundle where host_name = 'a'"
    ).rows() == [(host_id, int.from_bytes(sums[:4], "big") >> 1, sums.hex())]
    assert made.frame(
        f"select distinct thread_id from raw.off_cpu where host_id = {host_id}"
    ).rows() == [(thread,)]


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 2, 0]])
def test_the_order_of_loading_changes_nothing(tmp_path: Path, order: list[int]):
    paths = [*two_hosts().write(tmp_path), overlapping(tmp_path)]
    expected, _ = load(*paths)

    one_go, _ = load(*[paths[index] for index in order])
    one_by_one = Case.create(None)
    for index in order:
        load_bundles(one_by_one, [paths[index]], build=False)

    assert all_rows(one_go) == all_rows(expected)
    assert all_rows(one_by_one) == all_rows(expected)


def test_the_same_bundle_twice_is_loaded_once(tmp_path: Path):
    paths = two_hosts().write(tmp_path)
    copy = tmp_path / "renamed.bundle"
    copy.write_bytes(paths[0].read_bytes())

    made, report = load(*paths, copy)

    once, _ = load(*paths)
    assert kinds(report) == ["duplicate_bundle"]
    assert not report.is_damaged
    assert report.problems[0].message.startswith("a copy of ")
    without = all_rows(made) | {"load_problem": []}
    assert without == all_rows(once) | {"load_problem": []}


def test_loading_twice_gives_identical_tables(tmp_path: Path):
    paths = two_hosts().write(tmp_path)
    made, _ = load(*paths)
    before = all_rows(made)

    report = load_bundles(made, paths, build=False)

    assert kinds(report) == ["duplicate_bundle", "duplicate_bundle"]
    assert report.is_any_read
    after = all_rows(made)
    del before["load_problem"], after["load_problem"]
    assert after == before


def test_a_damaged_file_twice_is_loaded_once(tmp_path: Path):
    path = two_hosts().write(tmp_path)[0]
    members = read_zip(path)
    members["facts/thread.jsonl"] += b"{}\n"
    damaged = write_zip(tmp_path / "damaged.bundle", members)
    made, first = load(damaged)

    again = load_bundles(made, [damaged], build=False)

    assert kinds(first)[0] == "bad_checksum"
    assert kinds(again)[0] == "duplicate_bundle"
    assert made.frame("select count(*) from raw.bundle").item() == 1


def damaged_copy(sound: Path, name: str, member: str) -> Path:
    """Write a copy of a bundle in which one member is not what the sums say."""
    members = read_zip(sound)
    members[member] = members[member][:-1] + b"\x01"
    return write_zip(sound.with_name(name), members)


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 0, 2]])
@pytest.mark.parametrize("is_one_go", [True, False])
def test_a_sound_copy_takes_the_place_of_damaged_ones(
    tmp_path: Path, order: list[int], is_one_go: bool
):
    host = case().host("m", chunk_rows=3)
    host.rank(0)
    host.events("collective", start_ns=np.arange(7) * 10, tid=[1_000] * 7)
    sound = host.write(tmp_path)
    member = "events/collective/000001/start_ns.npy"
    flipped = damaged_copy(sound, "a.bundle", member)
    torn = tmp_path / "z.bundle"
    torn.write_bytes(sound.read_bytes()[:-50])
    paths = [(sound, flipped, torn)[index] for index in order]

    made = Case.create(None)
    for group in [paths] if is_one_go else [[path] for path in paths]:
        report = load_bundles(made, group, build=False)

    starts = made.frame("select start_ns from raw.collective order by start_ns")
    assert starts["start_ns"].to_list() == [0, 10, 20, 30, 40, 50, 60]
    assert made.frame(
        "select loaded_row_count, is_damaged from raw.bundle_stream"
        " where stream = 'collective'"
    ).rows() == [(7, False)]
    assert sorted(
        made.frame("select path, kind, message from raw.load_problem").rows()
    )[-1] == (str(torn), "duplicate_bundle", f"a copy of {sound}, skipped")
    assert made.frame("select distinct kind from raw.load_problem").rows() == [
        ("duplicate_bundle",)
    ]
    assert not (is_one_go and report.is_damaged)


def test_two_damaged_copies_complete_each_other(tmp_path: Path):
    host = case().host("m", chunk_rows=3)
    host.rank(0)
    host.events("collective", start_ns=np.arange(7) * 10, tid=[1_000] * 7)
    sound = host.write(tmp_path)
    halves = [
        damaged_copy(sound, f"{part}.bundle", f"events/collective/{part:06d}/tid.npy")
        for part in (0, 1)
    ]

    made, report = load(*halves)

    starts = made.frame("select start_ns from raw.collective order by start_ns")
    assert starts["start_ns"].to_list() == [0, 10, 20, 30, 40, 50, 60]
    assert report.is_damaged


def overlapping(folder: Path) -> Path:
    """Write a second capture of host a that shares its second half, one call open."""
    host = case().host("a", start_ns=900, stop_ns=3 * SECOND)
    host.changes["capture_id"] = "00c0ffee"
    host.rank(0).collective(start_ns=1_000, duration_ns=500, collective_seq=0)
    host.rank(0).collective(start_ns=5_000, duration_ns=500)
    members = host.members()
    return write_zip(folder / "a-later.bundle", members)


def test_overlapping_captures_of_one_boot_count_once(tmp_path: Path):
    first = case().host("a", start_ns=0, stop_ns=2 * SECOND)
    first.rank(0).collective(start_ns=1_000).off_cpu(start_ns=200, duration_ns=300)

    made, report = load(first.write(tmp_path), overlapping(tmp_path))

    assert kinds(report) == ["overlapping_capture"]
    assert "1 events recorded twice are kept once" in report.problems[0].message
    assert made.frame(
        "select start_ns, is_open from raw.collective order by start_ns"
    ).rows() == [(1_000, False), (5_000, False)]
    assert made.frame("select count(distinct host_id) from raw.bundle").item() == 1


def test_two_captures_of_one_boot_that_do_not_overlap_are_no_problem(tmp_path: Path):
    first = case().host("a", start_ns=0, stop_ns=500)
    first.rank(0).off_cpu(start_ns=200, duration_ns=100)

    _, report = load(first.write(tmp_path), overlapping(tmp_path))

    assert kinds(report) == []


def test_equal_events_of_one_bundle_are_kept(tmp_path: Path):
    first = case().host("a", start_ns=0, stop_ns=2 * SECOND)
    first.rank(0)
    first.events("gpu_call", start_ns=[7, 7], tid=[1_000, 1_000])

    made, report = load(first.write(tmp_path), overlapping(tmp_path))

    assert made.frame("select count(*) from raw.gpu_call").item() == 2
    assert "0 events" in report.problems[0].message


def clones(folder: Path, *, start_utc: str) -> list[Path]:
    builder = two_hosts()
    for host in builder.hosts.values():
        host.changes["machine_id"] = "5" * 32
        host.rank(0 if host.name == "a" else 1)
    first, second = builder.write(folder)
    return [first, rewritten(second, start_utc=start_utc)]


def test_clones_of_one_machine_are_told_apart_and_named(tmp_path: Path):
    first, second = clones(tmp_path, start_utc="2026-11-30T00:53:20Z")

    made, report = load(first, second)

    assert kinds(report) == ["cloned_machine_id"]
    assert report.problems[0].message == (
        f"machine id {'5' * 32} is shared by a and b, two hosts that ran at the same time"
    )
    assert made.frame("select count(distinct host_id) from raw.bundle").item() == 2


def test_a_machine_after_a_reboot_is_no_clone(tmp_path: Path):
    first, second = clones(tmp_path, start_utc="2026-12-01T00:53:20Z")

    _, report = load(first, second)

    assert kinds(report) == []


def test_bundles_of_different_jobs_are_named(tmp_path: Path):
    builder = case()
    builder.host("a", job_id="train", world_size=1).rank(0).gpu_call(start_ns=1)
    builder.host("b", job_id="eval", world_size=1).rank(0).gpu_call(start_ns=1)

    _, report = load(*builder.write(tmp_path))

    assert [(p.kind, p.message) for p in report.problems] == [
        ("different_jobs", "bundles of different jobs in one case: eval, train")
    ]


def test_ranks_that_no_bundle_brings_are_named(tmp_path: Path):
    host = case().host("a", world_size=8)
    for rank in (0, 1, 2, 3, 4, 7):
        host.rank(rank)

    made, report = load(host.write(tmp_path))

    message = "no bundle brings ranks 5, 6 of the 8 of job job"
    assert [(p.kind, p.message) for p in report.problems] == [("missing_rank", message)]
    assert made.frame("select kind, message from raw.load_problem").rows() == [
        ("missing_rank", message)
    ]


def test_a_missing_rank_that_arrives_is_missing_no_longer(tmp_path: Path):
    builder = case()
    builder.host("a", world_size=2).rank(0)
    builder.host("b", world_size=2).rank(1)
    first, second = builder.write(tmp_path)
    made, report = load(first)
    assert kinds(report) == ["missing_rank"]

    later = load_bundles(made, [second], build=False)

    assert kinds(later) == []
    assert made.frame("select * from raw.load_problem").is_empty()


def claimed(host: HostBuilder, *, first_ns: int, exit_ns: int | None) -> None:
    """Say when the only process of a host was there."""
    host.facts["process"][0] |= {"first_ns": first_ns, "exit_ns": exit_ns}


def test_one_rank_claimed_by_two_processes_is_a_conflict(tmp_path: Path):
    builder = case()
    builder.host("a", world_size=1).rank(0)
    builder.host("b", world_size=1).rank(0)

    _, report = load(*builder.write(tmp_path))

    assert [(p.kind, p.message) for p in report.problems] == [
        (
            "rank_conflict",
            "rank 0 of job job is claimed by process 1000 on a and process 1000 on b",
        )
    ]


def test_a_rank_that_moved_after_a_restart_is_no_conflict(tmp_path: Path):
    builder = case()
    for name, first_ns, exit_ns in (("a", 10, 50 * SECOND), ("b", 60 * SECOND, None)):
        host = builder.host(name, world_size=1)
        host.rank(0)
        claimed(host, first_ns=first_ns, exit_ns=exit_ns)

    _, report = load(*builder.write(tmp_path))

    assert kinds(report) == []


def test_negative_lengths_are_counted_and_null(tmp_path: Path):
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


def test_impossible_times_are_counted_and_left_out(tmp_path: Path):
    host = case().host("a", start_ns=0, stop_ns=SECOND)
    host.rank(0)
    host.events("off_cpu", start_ns=[-1, 5, 2**62], tid=[1_000] * 3)

    made, report = load(host.write(tmp_path))

    assert made.frame("select start_ns from raw.off_cpu")["start_ns"].to_list() == [5]
    assert kinds(report) == ["impossible_time"]


def test_a_column_that_a_loader_cannot_give_is_null_and_no_damage(tmp_path: Path):
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


def test_a_missing_column_is_null_and_named(tmp_path: Path):
    builder = case().host("a").rank(0).off_cpu(start_ns=10, duration_ns=7, cpu=3)
    path = without(builder.write(tmp_path)[0], "off_cpu", "cpu")

    made, report = load(path)

    assert made.frame("select cpu, tid from raw.off_cpu").rows() == [(None, 1_000)]
    assert [(p.kind, p.message) for p in report.problems] == [
        ("missing_column", "column cpu of stream off_cpu is not there, it is null")
    ]


def test_a_column_of_another_type_than_the_format_says_is_null(tmp_path: Path):
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


def test_a_tid_beyond_the_kernel_s_limit_is_loaded(tmp_path: Path):
    host = case().host("a")
    host.events("off_cpu", start_ns=[1, 2, 3], tid=[-1, 7, 2**31 - 1])

    made, _ = load(host.write(tmp_path))

    assert made.frame(
        "select count(distinct thread_id), min(thread_id) >= 0 from raw.off_cpu"
    ).rows() == [(3, True)]


def test_a_stream_without_start_is_not_loaded(tmp_path: Path):
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


def test_bundles_that_cannot_be_read_never_stop_the_others(tmp_path: Path):
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


def test_a_torn_bundle_marks_its_rows(tmp_path: Path):
    path = two_hosts().write(tmp_path)[0]
    data = path.read_bytes()
    path.write_bytes(data[: data.index(b"PK\x01\x02")])

    made, report = load(path)

    assert made.frame("select is_directory_missing from raw.bundle").item()
    assert made.frame("select count(*) from raw.collective").item() == 1
    assert "truncated" in kinds(report)
    assert report.is_damaged


def test_a_tid_used_again_is_two_threads(tmp_path: Path):
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


def test_a_thread_without_fact_has_a_key_of_its_own(tmp_path: Path):
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
):
    monkeypatch.setattr(
        "workbench.store.bundle_load.short_hash", lambda text: len(text)
    )

    _, report = load(*two_hosts().write(tmp_path))

    assert report.bundle_count == 1
    assert kinds(report)[0] == "id_collision"
    assert "another host" in report.problems[0].message


def test_threads_that_share_a_hash_get_two_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("workbench.store.identity.short_hash", lambda text: len(text))
    host = case().host("a")
    host.events("off_cpu", start_ns=[1, 2], tid=[7, 8])

    made, _ = load(host.write(tmp_path))

    assert made.frame("select tid, thread_id from raw.off_cpu order by tid").rows() == [
        (7, 3),
        (8, 4),
    ]


def test_many_chunks_arrive_in_their_order(tmp_path: Path):
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


def test_bulk_and_single_events_are_the_same(tmp_path: Path):
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


def test_a_case_open_for_reading_cannot_be_loaded_into(tmp_path: Path):
    path = tmp_path / "x.duckdb"
    Case.create(path).close()

    with open_case(path) as made, pytest.raises(CaseError, match="for reading only"):
        load_bundles(made, [], build=False)


def test_a_folder_stands_for_its_bundles(tmp_path: Path):
    two_hosts().write(tmp_path)
    (tmp_path / "notes.txt").write_text("no bundle")

    _, report = load(tmp_path)

    assert report.bundle_count == 2


def test_a_load_that_fails_leaves_no_half_bundle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def fail(*_: object, **__: object) -> Sequence[object]:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("workbench.store.bundle_load.remove_twice_recorded", fail)
    made = Case.create(None)

    with pytest.raises(OSError, match="No space left"):
        load_bundles(made, two_hosts().write(tmp_path), build=False)

    assert made.frame("select * from raw.bundle").is_empty()
    assert made.frame("select * from raw.collective").is_empty()
