"""A sealed bundle holds what was spooled, the same way each time, after any ending."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capture import chunks as chunks_module
from capture.errors import CaptureError
from capture.layout import LAYOUTS, Field
from capture.seal import seal
from capture.spool import FRAMES_NAME
from capture.verify import verify_bundle
from tests.capture.spools import (
    CLOCK,
    collective,
    end,
    lines,
    off_cpu,
    probe,
    record,
    spool,
)

ROOT = Path(__file__).resolve().parents[2]


def _manifest(bundle: Path) -> dict[str, Any]:
    with zipfile.ZipFile(bundle) as archive:
        return json.loads(archive.read("manifest.json"))


def _facts(bundle: Path, name: str) -> list[dict[str, Any]]:
    with zipfile.ZipFile(bundle) as archive:
        return [json.loads(line) for line in archive.open(f"facts/{name}.jsonl")]


def _column(bundle: Path, stream: str, name: str) -> list[int]:
    manifest = _manifest(bundle)
    found: list[int] = []
    with np.load(bundle) as archive:
        for number in range(len(manifest["streams"][stream]["chunk_rows"])):
            found += archive[f"events/{stream}/{number:06}/{name}"].tolist()
    return found


def _sums(bundle: Path) -> bytes:
    with zipfile.ZipFile(bundle) as archive:
        return archive.read("SHA256SUMS")


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    return spool(
        tmp_path / "spool",
        ("clock", lines(CLOCK)),
        ("facts", lines(probe(3, "collective", hit_count=5))),
        ("events/collective", collective(2_000) + collective(3_000)),
        ("events/off_cpu", off_cpu(2_500, cpu=1)),
        ("inflight/collective", collective(4_000, "is_open")),
        ("clock", lines({**CLOCK, "monotonic_ns": 9_000})),
        ("end", end()),
    )


BITS = {"q": 62, "Q": 63, "i": 31, "h": 15, "b": 7}


def _numbers(field: Field) -> st.SearchStrategy[int]:
    """Return what a field can hold; times of a host are never negative."""
    top = 2 ** BITS[field.code] - 1
    is_signed = field.code != "Q" and not field.name.endswith("_ns")
    return st.integers(-top if is_signed else 0, top)


@st.composite
def _records(draw: st.DrawFn) -> tuple[str, list[dict[str, int]], list[list[str]]]:
    """Return a stream, and the fields and flags of some of its records."""
    layout = LAYOUTS[draw(st.sampled_from(sorted(LAYOUTS)))]
    fields = st.fixed_dictionaries(
        {field.name: _numbers(field) for field in layout.fields}
    )
    names = [name for flags in layout.flags for name in flags.names]
    flags = st.lists(st.sampled_from(names), unique=True)
    rows = draw(st.lists(st.tuples(fields, flags), min_size=1, max_size=9))
    return layout.stream, [row[0] for row in rows], [row[1] for row in rows]


@settings(max_examples=25, deadline=None)
@given(given_records=_records())
def test_every_number_and_flag_comes_back(
    tmp_path_factory: pytest.TempPathFactory,
    given_records: tuple[str, list[dict[str, int]], list[list[str]]],
) -> None:
    stream, rows, flags = given_records
    folder = tmp_path_factory.mktemp("any")
    region = b"".join(
        record(stream, *names, **values)
        for values, names in zip(rows, flags, strict=True)
    )

    bundle = seal(
        spool(
            folder / "s", (f"events/{stream}", region), ("end", end()), streams=[stream]
        ),
        folder,
    )

    with np.load(bundle) as archive:
        for name in rows[0]:
            if name != "return_address":
                column = archive[f"events/{stream}/000000/{name}"].tolist()
                assert column == [values[name] for values in rows], name
        for group in LAYOUTS[stream].flags:
            for name in group.names:
                column = archive[f"events/{stream}/000000/{name}"].tolist()
                assert column == [name in names for names in flags], name
        assert f"events/{stream}/000000/return_address" not in archive
    shutil.rmtree(folder)


def test_name_tells_host_start_and_capture(whole: Path, tmp_path: Path) -> None:
    bundle = seal(whole, tmp_path)

    assert bundle.name == "hosta-20261130T200000Z-c01d7ace.bundle"
    assert stat.S_IMODE(bundle.stat().st_mode) == 0o600
    assert not whole.exists()


def test_a_spool_that_is_kept_seals_to_the_same_bytes(
    whole: Path, tmp_path: Path
) -> None:
    first = seal(whole, tmp_path, keep_spool=True).read_bytes()
    (tmp_path / "other").mkdir()

    second = seal(whole, tmp_path / "other", keep_spool=True)

    assert second.read_bytes() == first
    assert whole.exists()


def test_nothing_is_overwritten_without_force(whole: Path, tmp_path: Path) -> None:
    bundle = seal(whole, tmp_path, keep_spool=True)

    with pytest.raises(CaptureError, match="exists") as raised:
        seal(whole, tmp_path, keep_spool=True)

    assert raised.value.hint == "give --force to replace it"
    assert seal(whole, tmp_path, force=True) == bundle


def test_a_folder_that_cannot_be_written_costs_nothing(
    whole: Path, tmp_path: Path
) -> None:
    with pytest.raises(CaptureError, match="cannot write to"):
        seal(whole, tmp_path / "absent")

    assert (whole / FRAMES_NAME).exists()


def test_a_full_disk_leaves_the_spool_and_no_half_bundle(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("capture.archive.os.fsync", full)
    with pytest.raises(CaptureError, match="No space left on device"):
        seal(whole, tmp_path)
    monkeypatch.undo()

    assert list(tmp_path.iterdir()) == [whole]
    assert seal(whole, tmp_path).exists()


def test_members_stand_in_the_order_of_the_format(whole: Path, tmp_path: Path) -> None:
    bundle = seal(whole, tmp_path)

    with zipfile.ZipFile(bundle) as archive:
        infos = archive.infolist()
    names = [info.filename for info in infos]
    columns = _manifest(bundle)["streams"]["off_cpu"]["columns"]
    assert names[:4] == [
        "manifest.json",
        "clock.jsonl",
        "facts/host.jsonl",
        "facts/probe.jsonl",
    ]
    assert names[-1] == "SHA256SUMS"
    assert [name for name in names if "off_cpu" in name] == [
        f"events/off_cpu/000000/{column['name']}.npy" for column in columns
    ]
    assert {info.date_time for info in infos} == {(1980, 1, 1, 0, 0, 0)}
    assert {info.external_attr >> 16 for info in infos} == {stat.S_IFREG | 0o600}
    assert {info.flag_bits for info in infos} == {0}


def test_numpy_opens_a_bundle_by_itself(whole: Path, tmp_path: Path) -> None:
    bundle = seal(whole, tmp_path)

    starts = np.load(bundle)["events/collective/000000/start_ns"]

    assert starts.tolist() == [2_000, 3_000, 4_000]


def test_unzip_and_sha256sum_need_no_code_of_ours(whole: Path, tmp_path: Path) -> None:
    unzip, sha256sum = shutil.which("unzip"), shutil.which("sha256sum")
    if unzip is None or sha256sum is None:
        pytest.skip("needs unzip and sha256sum")
    bundle = seal(whole, tmp_path)
    folder = tmp_path / "x"

    listing = subprocess.run(
        [unzip, "-l", bundle], capture_output=True, text=True, check=True
    )
    subprocess.run([unzip, "-q", bundle, "-d", folder], check=True)
    checked = subprocess.run(
        [sha256sum, "-c", "SHA256SUMS"], cwd=folder, capture_output=True, check=True
    )

    assert "events/collective/000000/start_ns.npy" in listing.stdout
    covered = sum(line.endswith(b": OK") for line in checked.stdout.splitlines())
    with zipfile.ZipFile(bundle) as archive:
        assert covered == len(archive.namelist()) - 1


def test_long_streams_are_cut_into_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks_module, "CHUNK_ROWS", 5)
    monkeypatch.setattr(chunks_module.chunks, "__defaults__", (5,))
    regions = [
        b"".join(off_cpu(start) for start in range(first, last))
        for first, last in ((0, 4), (4, 6), (6, 13))
    ]
    folder = spool(
        tmp_path / "s",
        *(("events/off_cpu", region) for region in regions),
        ("inflight/off_cpu", off_cpu(100, "is_open")),
        ("end", end()),
    )

    bundle = seal(folder, tmp_path)

    assert _manifest(bundle)["streams"]["off_cpu"]["chunk_rows"] == [5, 5, 4]
    assert _column(bundle, "off_cpu", "start_ns") == [*range(13), 100]


def test_manifest_counts_what_is_there(whole: Path, tmp_path: Path) -> None:
    manifest = _manifest(seal(whole, tmp_path))

    stream = manifest["streams"]["collective"]
    wanted = {
        "row_count": 3,
        "chunk_rows": [3],
        "open_count": 1,
        "from_ns": 2_000,
        "to_ns": 4_000,
        "hit_count": 5,
        "asked_probe_count": 1,
        "attached_probe_count": 1,
        "lost_count": 0,
        "lost_first_ns": None,
        "kind": "uprobe",
    }
    assert {name: stream[name] for name in wanted} == wanted
    assert manifest["streams"]["gpu_call"]["row_count"] == 0
    assert manifest["streams"]["gpu_call"]["from_ns"] is None
    assert manifest["facts"] == {"host": 1, "probe": 1}
    assert manifest["capture"]["stop_ns"] == 9_000
    assert manifest["capture"]["is_recovered"] is False
    assert manifest["capture"]["return_probe_symbols"] == ["ncclAllReduce"]


def test_a_stream_that_was_not_asked_for_is_absent(tmp_path: Path) -> None:
    folder = spool(tmp_path / "s", ("end", end()), streams=["off_cpu"])

    manifest = _manifest(seal(folder, tmp_path))

    assert list(manifest["streams"]) == ["off_cpu"]


def test_a_column_that_the_loader_cannot_give_is_left_out_and_named(
    tmp_path: Path,
) -> None:
    reason = "loader bcc cannot read it"
    folder = spool(
        tmp_path / "s",
        ("events/off_cpu", off_cpu(1)),
        ("end", end()),
        missing_columns={"off_cpu": {"is_iowait": reason, "next_pid": reason}},
    )

    bundle = seal(folder, tmp_path)

    stream = _manifest(bundle)["streams"]["off_cpu"]
    names = {column["name"] for column in stream["columns"]}
    assert names.isdisjoint({"is_iowait", "has_is_iowait", "next_pid"})
    assert stream["missing_columns"] == [
        {"name": "is_iowait", "reason": reason},
        {"name": "next_pid", "reason": reason},
    ]
    assert "next_tid" in names


def test_facts_written_last_win_and_have_every_key(tmp_path: Path) -> None:
    thread = {"fact": "thread", "pid": 7, "tid": 70, "start_ticks": 4, "first_ns": 2}
    folder = spool(
        tmp_path / "s",
        ("facts", lines({**thread, "thread_name": "old"}, probe(3, "off_cpu"))),
        ("facts", lines({**thread, "thread_name": "new", "x_note": 1})),
        ("end", end(facts=[probe(3, "off_cpu", hit_count=17)])),
    )

    bundle = seal(folder, tmp_path)

    assert _facts(bundle, "thread") == [
        {
            "pid": 7,
            "tid": 70,
            "start_ticks": 4,
            "thread_name": "new",
            "first_ns": 2,
            "state_at_start": None,
            "x_note": 1,
        }
    ]
    assert _manifest(bundle)["streams"]["off_cpu"]["hit_count"] == 17


def test_losses_of_probes_and_rings_are_not_counted_twice(tmp_path: Path) -> None:
    lost = {"lost_count": 5, "lost_first_ns": 20, "lost_last_ns": 30}
    loss = {"fact": "loss", "stream": "off_cpu", "probe_id": 3, "reason": "ring_full"}
    loss |= {"lost_count": 5, "first_ns": 20, "last_ns": 31}
    folder = spool(
        tmp_path / "s", ("end", end(facts=[probe(3, "off_cpu", **lost), loss]))
    )

    stream = _manifest(seal(folder, tmp_path))["streams"]["off_cpu"]

    assert stream["lost_count"] == 5
    assert (stream["lost_first_ns"], stream["lost_last_ns"]) == (20, 31)


def test_callers_become_library_and_offset(tmp_path: Path) -> None:
    def mapping(pid: int, ref: int) -> dict[str, Any]:
        row = {"fact": "mapping", "pid": pid, "library_ref": ref, "seen_ns": 1}
        return {
            **row,
            "start_address": "0x5000",
            "end_address": "0x6000",
            "file_offset": 0x200,
        }

    calls = [(7, 0x5010), (8, 0x5010), (7, 0x5FFF), (7, 0x6000), (9, 0x5010), (7, 0)]
    folder = spool(
        tmp_path / "s",
        ("facts", lines(mapping(7, 1), mapping(8, 2))),
        (
            "events/collective",
            b"".join(
                collective(place, pid=pid, return_address=address)
                for place, (pid, address) in enumerate(calls)
            ),
        ),
        ("end", end()),
    )

    bundle = seal(folder, tmp_path)

    has = _column(bundle, "collective", "has_caller_library_ref")
    assert has == [True, True, True, False, False, False]
    assert _column(bundle, "collective", "caller_library_ref") == [1, 2, 1, 0, 0, 0]
    offsets = _column(bundle, "collective", "caller_offset")
    assert offsets == [0x210, 0x210, 0x11FF, 0, 0, 0]


def test_communicators_get_their_origin_at_seal(tmp_path: Path) -> None:
    world = {"fact": "communicator", "communicator_ref": 1, "pid": 7, "kind": "mpi"}
    world |= {"how": "world", "is_base_known": True, "first_ns": 10}
    rank = {"fact": "rank", "pid": 7, "start_ticks": 4, "rank": 0, "source": "openmpi"}
    rank |= {"job_id": "prterun-hosta-1234@1"}
    folder = spool(tmp_path / "s", ("facts", lines(world, rank)), ("end", end()))

    bundle = seal(folder, tmp_path)

    (row,) = _facts(bundle, "communicator")
    assert row["origin"] == "3824f445f834b074e577a7428db32cb5"
    assert _manifest(bundle)["capture"]["job_ids"] == ["prterun-hosta-1234@1"]


def test_a_call_that_returned_after_the_snapshot_is_not_open(tmp_path: Path) -> None:
    snapshot = [
        collective(2_000, "is_open", tid=70),
        collective(2_000, "is_open", tid=71),
        collective(2_000, "is_open", tid=70, probe_id=4),
    ]
    folder = spool(
        tmp_path / "s",
        ("inflight/collective", b"".join(snapshot)),
        ("events/collective", collective(2_000, tid=70)),
    )

    bundle = seal(folder, tmp_path)

    assert _column(bundle, "collective", "is_open") == [False, True, True]
    assert _column(bundle, "collective", "tid") == [70, 71, 70]
    assert _column(bundle, "collective", "probe_id") == [3, 3, 4]


def test_a_record_of_totals_only_is_not_the_end_of_an_absence(tmp_path: Path) -> None:
    folder = spool(
        tmp_path / "s",
        ("inflight/off_cpu", off_cpu(2_000, "is_open")),
        ("events/off_cpu", off_cpu(2_000, "is_totals_only", skipped_count=3)),
        ("end", end()),
    )

    bundle = seal(folder, tmp_path)

    assert _column(bundle, "off_cpu", "is_open") == [False, True]


def test_only_the_last_snapshot_counts_an_empty_one_too(tmp_path: Path) -> None:
    folder = spool(
        tmp_path / "s",
        ("inflight/off_cpu", off_cpu(2_000, "is_open")),
        ("inflight/off_cpu", b""),
        ("inflight/collective", collective(2_000, "is_open")),
        ("inflight/collective", collective(3_000, "is_open")),
        ("end", end()),
    )

    bundle = seal(folder, tmp_path)

    assert _manifest(bundle)["streams"]["off_cpu"]["row_count"] == 0
    assert _column(bundle, "collective", "start_ns") == [3_000]


def test_a_spool_without_end_is_recovered_and_says_so(tmp_path: Path) -> None:
    folder = spool(
        tmp_path / "s",
        ("clock", lines(CLOCK)),
        ("facts", lines(probe(3, "collective", hit_count=2))),
        ("events/collective", collective(2_000, duration_ns=500)),
        ("inflight/collective", collective(2_100, "is_open", duration_ns=0)),
    )
    with (folder / FRAMES_NAME).open("ab") as file:
        file.write(b"CTF1 torn in the middle")

    bundle = seal(folder, tmp_path)

    capture = _manifest(bundle)["capture"]
    assert capture["stop_reason"] == "killed"
    assert capture["is_recovered"] is True
    assert capture["torn_bytes"] == 23
    assert capture["stop_ns"] == 2_500
    assert _column(bundle, "collective", "is_open") == [False, True]
    assert _manifest(bundle)["streams"]["collective"]["hit_count"] == 2


def test_a_damaged_frame_is_counted_as_lost(tmp_path: Path) -> None:
    three = b"".join(off_cpu(start) for start in (5, 6, 7))
    folder = spool(
        tmp_path / "s",
        ("events/off_cpu", off_cpu(1)),
        ("events/off_cpu", three),
        ("end", end()),
    )
    frames = bytearray((folder / FRAMES_NAME).read_bytes())
    frames[frames.index(three) + 100] ^= 1
    (folder / FRAMES_NAME).write_bytes(frames)

    bundle = seal(folder, tmp_path)

    manifest = _manifest(bundle)
    assert manifest["streams"]["off_cpu"]["row_count"] == 1
    assert manifest["streams"]["off_cpu"]["lost_count"] == 3
    assert manifest["capture"]["is_recovered"] is True
    assert manifest["capture"]["damaged_frame_count"] == 1
    assert manifest["capture"]["stop_reason"] == "signal"
    (loss,) = _facts(bundle, "loss")
    assert (loss["reason"], loss["lost_count"]) == ("spool_damaged", 3)


def test_a_spool_cut_at_any_byte_seals(whole: Path, tmp_path: Path) -> None:
    frames = (whole / FRAMES_NAME).read_bytes()
    rows = []

    for length in range(0, len(frames), 31):
        (whole / FRAMES_NAME).write_bytes(frames[:length])
        bundle = seal(whole, tmp_path, keep_spool=True, force=True)
        manifest = _manifest(bundle)
        rows.append(sum(entry["row_count"] for entry in manifest["streams"].values()))
        assert manifest["capture"]["is_recovered"] is True

    assert rows == sorted(rows)
    assert set(rows) >= {0, 2, 3, 4}


KILLED = """
import sys, time
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from capture.spool import SpoolWriter
from tests.capture.spools import HEADER, off_cpu
spool = SpoolWriter(Path(sys.argv[1]), HEADER)
start = 0
while True:
    spool.append("events/off_cpu", off_cpu(start) + off_cpu(start + 1))
    spool.append("inflight/off_cpu", off_cpu(start + 2, "is_open"))
    start += 10
    print(start, flush=True)
"""


def test_a_killed_writer_leaves_a_spool_that_seals(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, folder, ROOT], stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout is not None
        while int(writer.stdout.readline()) < 500:
            time.sleep(0)
        os.kill(writer.pid, signal.SIGKILL)

    bundle = seal(folder, tmp_path)

    opens = _column(bundle, "off_cpu", "is_open")
    starts = _column(bundle, "off_cpu", "start_ns")
    assert _manifest(bundle)["capture"]["stop_reason"] == "killed"
    assert len(starts) >= 2 * 50 + 1
    assert opens == [False] * (len(opens) - 1) + [True]
    assert starts[:-1] == [n for n in range(starts[-2] + 1) if n % 10 < 2]


def test_content_does_not_depend_on_the_zlib_at_hand(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = seal(whole, tmp_path, keep_spool=True)
    sums, size = _sums(first), first.stat().st_size

    monkeypatch.setattr("capture.archive.DEFLATE_LEVEL", 1)
    second = seal(whole, tmp_path, keep_spool=True, force=True)

    assert _sums(second) == sums
    assert second.stat().st_size != size
    assert len(hashlib.sha256(sums).hexdigest()) == 64


def test_an_incomplete_fact_costs_no_bundle(tmp_path: Path) -> None:
    process = {"fact": "process", "pid": 7, "start_ticks": 4, "first_ns": 2}
    frames = (("facts", lines(process) + b"no JSON\n"), ("events/off_cpu", off_cpu(1)))
    folder = spool(tmp_path / "s", *frames)

    bundle = seal(folder, tmp_path)

    (row,) = _facts(bundle, "process")
    messages = [problem.message for problem in verify_bundle(bundle).problems]
    assert row["process_name"] is None
    assert _manifest(bundle)["capture"]["unreadable_line_count"] == 1
    assert messages == [
        f"facts/process.jsonl line 1: '{name}' is null, not string"
        for name in ("process_name", "target_reason")
    ]
