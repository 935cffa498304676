"""Recorded live, sealed, verified, loaded and diagnosed, a fault is found by its label.

Every process, probe, bundle and verdict here is real; only the fault is made, and so
known.  Nobody but the labelled rank is accused of anything.
"""

from __future__ import annotations

import dataclasses
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.lab.building import why_not_built
from tests.lab.diagnosing import diagnose, mismatches
from tests.lab.recording import PYTHON, ROOT
from tests.lab.scenarios import (
    cpu_hog,
    healthy,
    late_rank,
    run_scenario,
    slow_input,
    slow_stream,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lab.scenarios import Recording, Scenario

pytestmark = [
    pytest.mark.bpf,
    pytest.mark.slow,
    pytest.mark.skipif(why_not_built() is not None, reason=why_not_built() or ""),
]


def recorded(scenario: Scenario, folder: Path) -> Recording:
    """Run a scenario, and have the recorder's own verifier accept what it left."""
    recording = run_scenario(scenario, folder)
    command = [PYTHON, "-m", "capture", "verify", *map(str, recording.bundles)]
    verified = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert verified.returncode == 0, verified.stdout + verified.stderr
    return recording


@pytest.mark.parametrize(
    "scenario",
    [
        late_rank(steps=56),
        slow_input(steps=60),
        cpu_hog(steps=60),
        slow_stream(steps=40),
        healthy(steps=60),
    ],
    ids=lambda scenario: scenario.name,
)
def test_a_live_recording_is_diagnosed_as_its_label_says(
    scenario: Scenario, tmp_path: Path
) -> None:
    recording = recorded(scenario, tmp_path)

    with diagnose(recording.bundles) as case:
        wrong = mismatches(case, recording.truth)

    assert wrong == []


def test_bcc_leads_to_the_same_verdict_from_all_three_streams(tmp_path: Path) -> None:
    # One host: removing a probe of this loader takes the kernel a tenth of a second.
    scenario = dataclasses.replace(
        slow_input(steps=40),
        hosts=("hosta",),
        ranks_a_host=4,
        record_words=("--loader", "bcc"),
    )

    recording = recorded(scenario, tmp_path)

    with diagnose(recording.bundles) as case:
        wrong = mismatches(case, recording.truth)
        streams = case.frame(
            "select distinct stream from raw.bundle_stream where row_count > 0"
        )
        loaders = case.frame("select loader from raw.bundle").rows()
    assert wrong == []
    assert loaders == [("bcc",)]
    assert sorted(streams["stream"]) == ["collective", "gpu_call", "off_cpu"]
