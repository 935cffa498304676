"""The claim: nothing counts twice, and the order of loading changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.builders import SECOND, case
from tests.bundle_writer import read_zip, write_zip
from tests.workbench.loading import all_rows, kinds, load, two_hosts
from workbench.store.case import Case
from workbench.store.load import load_bundles

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 2, 0]])
def test_the_order_of_loading_changes_nothing(tmp_path: Path, order: list[int]) -> None:
    paths = [*two_hosts().write(tmp_path), overlapping(tmp_path)]
    expected, _ = load(*paths)

    one_go, _ = load(*[paths[index] for index in order])
    one_by_one = Case.create(None)
    for index in order:
        load_bundles(one_by_one, [paths[index]], build=False)

    assert all_rows(one_go) == all_rows(expected)
    assert all_rows(one_by_one) == all_rows(expected)


def test_the_same_bundle_twice_is_loaded_once(tmp_path: Path) -> None:
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


def test_loading_twice_gives_identical_tables(tmp_path: Path) -> None:
    paths = two_hosts().write(tmp_path)
    made, _ = load(*paths)
    before = all_rows(made)

    report = load_bundles(made, paths, build=False)

    assert kinds(report) == ["duplicate_bundle", "duplicate_bundle"]
    assert report.is_any_read
    after = all_rows(made)
    del before["load_problem"], after["load_problem"]
    assert after == before


def test_a_damaged_file_twice_is_loaded_once(tmp_path: Path) -> None:
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
    tmp_path: Path, order: list[int], *, is_one_go: bool
) -> None:
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
    groups = [paths] if is_one_go else [[path] for path in paths]
    reports = [load_bundles(made, group, build=False) for group in groups]

    starts = made.frame("select start_ns from raw.collective order by start_ns")
    assert starts["start_ns"].to_list() == [0, 10, 20, 30, 40, 50, 60]
    assert made.frame(
        "select loaded_row_count, is_damaged from raw.bundle_stream"
        " where stream = 'collective'"
    ).rows() == [(7, False)]
    assert made.frame(
        "select path, kind, message from raw.load_problem order by path"
    ).rows() == [
        (str(copy), "duplicate_bundle", f"a copy of {sound}, skipped")
        for copy in (flipped, torn)
    ]
    assert not (is_one_go and reports[0].is_damaged)


def test_two_damaged_copies_complete_each_other(tmp_path: Path) -> None:
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


def test_overlapping_captures_of_one_boot_count_once(tmp_path: Path) -> None:
    first = case().host("a", start_ns=0, stop_ns=2 * SECOND)
    first.rank(0).collective(start_ns=1_000).off_cpu(start_ns=200, duration_ns=300)

    made, report = load(first.write(tmp_path), overlapping(tmp_path))

    assert kinds(report) == ["overlapping_capture"]
    assert "1 events recorded twice are kept once" in report.problems[0].message
    assert made.frame(
        "select start_ns, is_open from raw.collective order by start_ns"
    ).rows() == [(1_000, False), (5_000, False)]
    assert made.frame("select count(distinct host_id) from raw.bundle").item() == 1


def test_two_captures_of_one_boot_that_do_not_overlap_are_no_problem(
    tmp_path: Path,
) -> None:
    first = case().host("a", start_ns=0, stop_ns=500)
    first.rank(0).off_cpu(start_ns=200, duration_ns=100)

    _, report = load(first.write(tmp_path), overlapping(tmp_path))

    assert kinds(report) == []


def test_equal_events_of_one_bundle_are_kept(tmp_path: Path) -> None:
    first = case().host("a", start_ns=0, stop_ns=2 * SECOND)
    first.rank(0)
    first.events("gpu_call", start_ns=[7, 7], tid=[1_000, 1_000])

    made, report = load(first.write(tmp_path), overlapping(tmp_path))

    assert made.frame("select count(*) from raw.gpu_call").item() == 2
    assert "0 events" in report.problems[0].message
