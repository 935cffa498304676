"""Record the sample cases again: `python -m tests.lab.make_samples [NAME...]`, as root.

A sample is a scenario of the lab, recorded by the real recorder, with a known clock
error planted in its second host.  ``expected.toml`` says what must be found in it; it
is written from the scenario's label and from nothing that was measured.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.lab.plant_clock import ClockError, plant_clock, planted_in
from tests.lab.scenarios import always_late, healthy, late_rank, run_scenario

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.lab.scenarios import Scenario, Truth

FOLDER = Path(__file__).resolve().parent.parent.parent / "samples"
LIMIT_BYTES = 300_000
"""A bundle of a sample: the late-rank case is carried in the wheel."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """A scenario, and what is wrong with the clock of each host but the first."""

    scenario: Scenario
    clock: ClockError | None = None


SAMPLES = (
    Sample(
        scenario=late_rank(steps=294),
        clock=ClockError(offset_ns=250_000_000, rate=20e-6),
    ),
    Sample(
        scenario=always_late(steps=160),
        clock=ClockError(offset_ns=-40_000_000, rate=-5e-6),
    ),
    Sample(scenario=healthy(steps=300)),
)


def make(sample: Sample, folder: Path) -> None:
    """Record one sample into its folder, in place of what is there.

    Raises
    ------
    RuntimeError
        If a bundle is larger than a sample may be.
    """
    with tempfile.TemporaryDirectory(prefix="sample-") as temporary:
        recording = run_scenario(sample.scenario, Path(temporary))
        large = [b for b in recording.bundles if b.stat().st_size > LIMIT_BYTES]
        if large:
            sizes = {bundle.name: bundle.stat().st_size for bundle in large}
            raise RuntimeError(f"larger than {LIMIT_BYTES} bytes: {sizes}")
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("*.bundle"):
            old.unlink()
        _keep(recording.bundles, folder, sample.clock)
    text = _expected(sample.scenario, sorted(folder.glob("*.bundle")))
    (folder / "expected.toml").write_text(text)


def _keep(bundles: Sequence[Path], folder: Path, clock: ClockError | None) -> None:
    first, *others = bundles
    shutil.copy(first, folder / first.name)
    for other in others:
        if clock is None:
            shutil.copy(other, folder / other.name)
        else:
            plant_clock(other, folder / other.name, clock)
    for kept in folder.glob("*.bundle"):
        kept.chmod(0o644)


def _expected(scenario: Scenario, bundles: Sequence[Path]) -> str:
    lines = [
        f"# Truth of the sample {scenario.name}, from the label of its scenario.",
        f'scenario = "{scenario.name}"',
        f"step_count = {scenario.options['steps']}",
        f'straggler_verdict = "{scenario.truth.verdict}"',
        *_findings(scenario.truth),
    ]
    for bundle in bundles:
        lines += _clock(bundle)
    return "\n".join(lines) + "\n"


def _findings(truth: Truth) -> list[str]:
    """Return what must be found: the late rank, and what it was blocked in."""
    if truth.verdict != "found":
        return []
    straggler = _finding("finding_straggler", truth)
    if truth.period_steps is not None:
        straggler.append(f"period_steps = {truth.period_steps}")
    if truth.affected_step_count is not None:
        straggler.append(f"affected_step_count = {truth.affected_step_count}")
    return straggler + _finding("finding_blocked", truth)


def _finding(name: str, truth: Truth) -> list[str]:
    return [
        "",
        "[[finding]]",
        f'finding = "{name}"',
        f"rank = {truth.rank}",
        f'host_name = "{truth.host_name}"',
        f'cause = "{truth.cause}"',
        f"magnitude_ns = {truth.magnitude_ns}",
        f"magnitude_ns_tolerance = {truth.tolerance_ns}",
    ]


def _clock(bundle: Path) -> list[str]:
    """Return the truth about one host: what its clock shows at a true instant.

    The host shows ``t + offset_ns + rate * (t - about_ns)`` at the true instant t.
    """
    host_name, error = planted_in(bundle)
    return [
        "",
        "[[clock.host]]",
        f'host_name = "{host_name}"',
        f"offset_ns = {error.offset_ns}",
        f"rate = {error.rate!r}",
        f"about_ns = {error.about_ns}",
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Record the samples that are named, or all of them."""
    names = [sample.scenario.name for sample in SAMPLES]
    parser = argparse.ArgumentParser(prog="python -m tests.lab.make_samples")
    parser.add_argument("name", nargs="*", help=", ".join(names))
    asked = parser.parse_args(arguments).name or names
    if unknown := set(asked) - set(names):
        parser.error(f"no such sample: {', '.join(sorted(unknown))}")
    for sample in SAMPLES:
        name = sample.scenario.name
        if name in asked:
            make(sample, FOLDER / name)
            sizes = [each.stat().st_size for each in (FOLDER / name).glob("*.bundle")]
            sys.stderr.write(f"wrote samples/{name}: {len(sizes)} bundles, {sizes}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
