"""A planted clock moves every instant of a bundle, and nothing else.

Claims: lengths change by the clock's rate alone; MONOTONIC carries offset, rate and
wander, MONOTONIC_RAW no wander, REALTIME no offset; the result is a sound bundle that
says what was planted in it, and can be planted only once.
"""

from __future__ import annotations

import io
import json
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from capture.seal import seal
from capture.verify import verify_bundle
from tests.bench.made_job import MadeJob
from tests.bench.made_spool import write_spool
from tests.lab.plant_clock import ClockError, plant_clock, planted_in

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

OFFSET_NS = 250_000_000
RATE = 20e-6
ERROR = ClockError(offset_ns=OFFSET_NS, rate=RATE)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plain")
    write_spool(MadeJob(hosts=1, steps=20), 0, folder / "spool")
    return seal(folder / "spool", folder, keep_spool=False)


@pytest.fixture(scope="module")
def planted(plain: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("planted") / plain.name
    return plant_clock(plain, target, ERROR)


def manifest_of(bundle: Path) -> dict[str, Any]:
    with zipfile.ZipFile(bundle) as opened:
        return json.loads(opened.read("manifest.json"))


def column(bundle: Path, name: str) -> NDArray[np.int64]:
    with zipfile.ZipFile(bundle) as opened:
        return np.load(io.BytesIO(opened.read(f"events/collective/000000/{name}.npy")))


def readings(bundle: Path, name: str) -> list[int]:
    with zipfile.ZipFile(bundle) as opened:
        lines = opened.read("clock.jsonl").splitlines()
    return [json.loads(line)[name] for line in lines]


def test_a_planted_bundle_verifies(planted: Path) -> None:
    assert verify_bundle(planted).problems == []


def test_the_manifest_says_what_was_planted(plain: Path, planted: Path) -> None:
    start_ns = manifest_of(plain)["capture"]["start_ns"]

    host_name, error = planted_in(planted)

    assert host_name == manifest_of(plain)["host"]["host_name"]
    assert (error.offset_ns, error.rate, error.about_ns) == (OFFSET_NS, RATE, start_ns)


def test_the_error_is_the_offset_at_the_start_of_the_capture(
    plain: Path, planted: Path
) -> None:
    before, after = (
        manifest_of(path)["capture"]["start_ns"] for path in (plain, planted)
    )

    assert after - before == OFFSET_NS


def test_every_start_moves_by_offset_and_drift(plain: Path, planted: Path) -> None:
    before, after = column(plain, "start_ns"), column(planted, "start_ns")
    about_ns = planted_in(planted)[1].about_ns

    moved = after - before - OFFSET_NS

    assert np.abs(moved - RATE * (before - about_ns)).max() <= 1


def test_lengths_change_by_the_rate_alone(plain: Path, planted: Path) -> None:
    before, after = column(plain, "duration_ns"), column(planted, "duration_ns")

    assert np.abs(after - before * (1 + RATE)).max() <= 2


def test_wander_is_in_monotonic_and_not_in_raw(plain: Path, tmp_path: Path) -> None:
    error = ClockError(wander_ppb=1_000_000, period_s=0.5)

    bent = plant_clock(plain, tmp_path / "bent.bundle", error)

    assert readings(bent, "monotonic_raw_ns") == readings(plain, "monotonic_raw_ns")
    moved = column(bent, "start_ns") - column(plain, "start_ns")
    assert np.ptp(moved) > 100_000
    assert np.all(np.diff(np.sort(column(bent, "start_ns"))) >= 0)


def test_realtime_keeps_its_distance_from_monotonic_but_for_the_offset(
    plain: Path, planted: Path
) -> None:
    distances = [
        np.subtract(readings(path, "realtime_ns"), readings(path, "monotonic_ns"))
        for path in (plain, planted)
    ]

    assert set(distances[0] - distances[1]) == {OFFSET_NS}


def test_a_second_error_is_refused(planted: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has a planted clock already"):
        plant_clock(planted, tmp_path / "again.bundle", ERROR)
