"""Each sample holds the finding that was planted in it, and no other.

Claims: the verdicts on a sample are those of its ``expected.toml``; the clock model's
band contains the planted clock error of every host at every knot; samples are small.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.lab.diagnosing import diagnose, verdicts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workbench.store.case import Case

SAMPLES = Path(__file__).resolve().parent.parent.parent / "samples"
FOLDERS = sorted(path.parent for path in SAMPLES.glob("*/expected.toml"))
_TOLERANCE = "_tolerance"


@pytest.fixture(scope="module", params=FOLDERS, ids=lambda folder: folder.name)
def sample(request: pytest.FixtureRequest) -> Iterator[tuple[Path, Case]]:
    folder: Path = request.param
    with diagnose(sorted(folder.glob("*.bundle"))) as case:
        yield folder, case


def expected(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "expected.toml").read_text())


def is_as_planted(row: dict[str, Any], planted: dict[str, Any]) -> bool:
    for key, value in planted.items():
        if key.endswith(_TOLERANCE):
            continue
        tolerance = planted.get(key + _TOLERANCE, 0)
        said = row[key]
        if tolerance:
            if said is None or abs(said - value) > tolerance:
                return False
        elif said != value:
            return False
    return True


def test_there_are_the_three_samples() -> None:
    assert {"always-late", "healthy", "late-rank"} <= {f.name for f in FOLDERS}


def test_a_sample_holds_what_was_planted_and_nothing_else(
    sample: tuple[Path, Case],
) -> None:
    folder, case = sample
    planted = expected(folder).get("finding", [])

    rows = verdicts(case).to_dicts()
    found = [row for row in rows if row["verdict"] == "found"]
    unplanted = [r for r in found if not any(is_as_planted(r, p) for p in planted)]
    unfound = [p for p in planted if not any(is_as_planted(r, p) for r in found)]

    assert (unplanted, unfound) == ([], [])


def test_the_verdict_on_every_innocent_rank_is_what_the_label_says(
    sample: tuple[Path, Case],
) -> None:
    folder, case = sample
    truth = expected(folder)
    accused = {planted["rank"] for planted in truth.get("finding", [])}

    innocent = {
        row["verdict"]
        for row in verdicts(case).to_dicts()
        if row["finding"] == "finding_straggler" and row["rank"] not in accused
    }

    assert innocent == {"clear"}


def test_the_clock_band_contains_the_planted_error(sample: tuple[Path, Case]) -> None:
    folder, case = sample
    hosts = {host["host_name"]: host for host in expected(folder)["clock"]["host"]}
    knots = case.frame(
        """
        select host.host_name, clock.*, reference.host_name as reference_name
        from model.clock as clock
        inner join host on host.host_id = clock.host_id
        inner join host as reference on reference.host_id = clock.clock_group_id
        inner join raw.bundle as bundle on bundle.host_id = clock.host_id
        where clock.from_ns between bundle.start_ns and bundle.stop_ns
        """
    ).to_dicts()

    outside = [
        knot
        for knot in knots
        if abs(error_of(knot, hosts[knot["host_name"]], hosts[knot["reference_name"]]))
        > knot["error_ns"] + 1
    ]

    others = {knot["reference_name"] for knot in knots} ^ set(hosts)
    assert {knot["host_name"] for knot in knots} == others
    assert outside == []


def error_of(
    knot: dict[str, Any], host: dict[str, Any], reference: dict[str, Any]
) -> float:
    """Return how far a knot maps its host's clock from the reference's true reading."""
    true_ns = true_instant(host, knot["from_ns"])
    return knot["from_ns"] + knot["offset_ns"] - shown(reference, true_ns)


def true_instant(host: dict[str, Any], shown_ns: int) -> float:
    since = (shown_ns - host["about_ns"] - host["offset_ns"]) / (1 + host["rate"])
    return host["about_ns"] + since


def shown(host: dict[str, Any], true_ns: float) -> float:
    return true_ns + host["offset_ns"] + host["rate"] * (true_ns - host["about_ns"])


def test_a_sample_is_small(sample: tuple[Path, Case]) -> None:
    folder, _ = sample

    assert max(b.stat().st_size for b in folder.glob("*.bundle")) <= 300_000
