"""Every part of two sides compared, the gate, and the names of what differs.

The gate fails when the lower confidence bound of the job's relative change exceeds the
threshold.  Between runs the job's time is the length of its steps.  Between groups of
hosts in one job it is the time outside waiting for others, for members of one job end
their steps together.  P-values are there to be read and never decide.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from workbench.analysis.comparison.change import Change, change, holm
from workbench.analysis.comparison.sides import OWN, STEP

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from workbench.analysis.comparison.change import Series
    from workbench.analysis.comparison.sides import Run

DEFAULT_THRESHOLD = 0.03
FEW_STEPS = 50
"""Below this the size that could have been seen is said before all else."""

KINDS = ("time", "class", "operation", "operation_wait")
QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}

FAILED = "failed"
PASSED = "passed"
NOT_DECIDABLE = "not_decidable"


@dataclass(frozen=True, kw_only=True, slots=True)
class PartChange:
    """One part of the time, of all hosts or of one, on both sides."""

    host: str | None
    kind: str
    part: str
    is_against_all: bool
    """The base has no host of that name: it is compared with all of the base."""

    base_steps: Series
    case_steps: Series
    change: Change
    corrected_p: float | None
    base_step_ns: float
    """Mean length of the base's steps: what a change is a share of."""

    @property
    def key(self) -> tuple[str, str]:
        """Return the kind and the part."""
        return self.kind, self.part

    @property
    def share(self) -> float:
        """Return the change as a share of the base's step."""
        return self.change.difference / self.base_step_ns

    @property
    def share_interval(self) -> tuple[float, float] | None:
        """Return the interval of the change as a share of the base's step."""
        bounds = self.change.interval()
        if bounds is None:
            return None
        return bounds[0] / self.base_step_ns, bounds[1] / self.base_step_ns

    @property
    def ratio(self) -> float | None:
        """Return the change relative to the part's own mean in the base."""
        mean = self.change.base.mean
        return self.change.difference / mean if mean > 0 else None

    @property
    def is_shown(self) -> bool:
        """Return whether the whole interval lies on one side of zero."""
        bounds = self.change.interval()
        return bounds is not None and not bounds[0] <= 0 <= bounds[1]


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """Two sides, all their parts, and the one that decides."""

    base: tuple[Run, ...]
    case: tuple[Run, ...]
    threshold: float
    is_of_groups: bool
    parts: tuple[PartChange, ...]

    @property
    def decisive(self) -> PartChange:
        """Return the part whose change the gate judges."""
        wanted = OWN if self.is_of_groups else STEP
        return next(p for p in self.parts if p.host is None and p.key == wanted)

    @property
    def gate(self) -> str:
        """Return failed, passed or not_decidable."""
        bounds = self.decisive.change.ratio_interval()
        if bounds is None:
            return NOT_DECIDABLE
        return FAILED if bounds[0] > self.threshold else PASSED

    @property
    def detectable(self) -> float | None:
        """Return the relative change that would have failed the gate, mostly."""
        decisive = self.decisive.change
        mean = decisive.base.mean
        found = decisive.detectable(self.threshold * mean)
        return None if found is None else found / mean


def compare(
    base: Sequence[Run],
    case: Sequence[Run],
    *,
    threshold: float = DEFAULT_THRESHOLD,
    is_of_groups: bool = False,
) -> Comparison:
    """Return the comparison of two sides, of one run or more each."""
    base_step_ns = float(np.concatenate(_steps(base, None, *STEP)).mean())
    keys = list(_keys(base, case))
    found = [_sides(base, case, key) for key in keys]
    changes = [change(first, second) for first, second, _ in found]
    corrected = holm([each.p_value for each in changes])
    parts = tuple(
        PartChange(
            host=key[0],
            kind=key[1],
            part=key[2],
            is_against_all=is_against_all,
            base_steps=np.concatenate(first),
            case_steps=np.concatenate(second),
            change=each,
            corrected_p=p_value,
            base_step_ns=base_step_ns,
        )
        for key, (first, second, is_against_all), each, p_value in zip(
            keys, found, changes, corrected, strict=True
        )
    )
    return Comparison(
        base=tuple(base),
        case=tuple(case),
        threshold=threshold,
        is_of_groups=is_of_groups,
        parts=parts,
    )


def _keys(
    base: Sequence[Run], case: Sequence[Run]
) -> Iterator[tuple[str | None, str, str]]:
    """Yield what is compared: all hosts together in every part, each host in its own.

    Operations are compared over all hosts only.
    """
    found = {key for run in (*base, *case) for key in run.series}
    hosts = {host for run in case for host in run.hosts}
    parts = {key[1:] for key in found if key[0] is None}
    order = ("time", "class", "operation", "operation_wait")
    ordered = sorted(
        parts, key=lambda key: (order.index(key[0]), key[1] != "step", key)
    )
    yield from ((None, *key) for key in ordered)
    for host in sorted(hosts):
        yield from ((host, *key) for key in ordered if key[0] in ("time", "class"))


def _sides(
    base: Sequence[Run], case: Sequence[Run], key: tuple[str | None, str, str]
) -> tuple[list[Series], list[Series], bool]:
    """Return the series of a key on both sides; the base's own host if it has one."""
    first = _steps(base, *key)
    is_against_all = not first
    if is_against_all:
        first = _steps(base, None, *key[1:])
    return first, _steps(case, *key), is_against_all


def _steps(runs: Sequence[Run], host: str | None, kind: str, part: str) -> list[Series]:
    found = (run.steps(host, kind, part) for run in runs)
    return [steps for steps in found if steps is not None]


def frame_of(comparison: Comparison) -> pl.DataFrame:
    """Return a row a part; times in ns a step and rank, ratios as they are."""
    rows = [_row(part, comparison.threshold) for part in comparison.parts]
    return pl.DataFrame(rows, infer_schema_length=None)


def _row(part: PartChange, threshold: float) -> dict[str, object]:
    low, high = part.change.interval() or (None, None)
    share_low, share_high = part.share_interval or (None, None)
    return {
        "host": part.host,
        "kind": part.kind,
        "part": part.part,
        "against": "all hosts" if part.is_against_all else "the same",
        "verdict": verdict(part, threshold),
        "base_mean_ns": part.change.base.mean,
        "case_mean_ns": part.change.case.mean,
        **_quantiles("base", part.base_steps),
        **_quantiles("case", part.case_steps),
        "change_ns": part.change.difference,
        "change_low_ns": low,
        "change_high_ns": high,
        "change_ratio": part.ratio,
        "step_ratio": part.share,
        "step_low_ratio": share_low,
        "step_high_ratio": share_high,
        "effect_size": part.change.effect_size,
        "p_value": part.change.p_value,
        "holm_p_value": part.corrected_p,
        "base_step_count": part.change.base.step_count,
        "case_step_count": part.change.case.step_count,
        "base_unit_count": part.change.base.unit_count,
        "case_unit_count": part.change.case.unit_count,
    }


def _quantiles(side: str, steps: Series) -> dict[str, float]:
    values = np.quantile(steps, list(QUANTILES.values()))
    names = (f"{side}_{name}_ns" for name in QUANTILES)
    return dict(zip(names, map(float, values), strict=True))


def verdict(part: PartChange, threshold: float) -> str:
    """Return slower, faster, same or not_decidable, by the change's share of a step."""
    bounds = part.share_interval
    if bounds is None:
        return NOT_DECIDABLE
    low, high = bounds
    if low > threshold:
        return "slower"
    if high < -threshold:
        return "faster"
    return "same" if -threshold <= low and high <= threshold else NOT_DECIDABLE
