"""How far two sides differ in one quantity, and how sure that is.

Steps of one run are not independent: a slow one is seldom alone, and a t-test on single
steps alarms on 36 to 86 % of equal pairs once runs differ by 0.5 to 1 % for no reason.
So the unit is a run where each side has at least three, and else a block of steps three
times as long as their autocorrelation time (Geyer's initial positive sequence), of
which there are at least four a run.  The interval is Welch's on the means of the units.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from workbench.analysis.comparison import student

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Series = NDArray[np.float64]

CONFIDENCE = 0.95
POWER = 0.8
"""Chance with which a change of the stated detectable size would have been seen."""

RUNS_A_SIDE = 3
BLOCKS_A_RUN = 4
LENGTH_OF_TIME = 3
"""Blocks in autocorrelation times: their means then differ almost independently."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    """One quantity on one side: its mean over units, and how uncertain that is."""

    step_count: int
    unit_count: int
    block_steps: int | None
    """Length of the longest block; None where the unit is a run."""

    is_short: bool
    """The steps are correlated over more than a quarter of a run."""

    mean: float
    variance: float
    """Variance of the mean."""

    spread: float
    """Standard deviation of single steps."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """The difference of two sides; those numbers that cannot be had are None."""

    base: Side
    case: Side
    difference: float
    standard_error: float | None
    freedom: float | None
    p_value: float | None
    """Welch's two-sided t-test on the units, not corrected."""

    effect_size: float | None
    """Cohen's d on single steps: the difference in standard deviations."""

    def interval(self) -> tuple[float, float] | None:
        """Return the confidence interval of the difference."""
        if self.standard_error is None or self.freedom is None:
            return None
        reach = student.quantile((1 + CONFIDENCE) / 2, self.freedom)
        reach *= self.standard_error
        return self.difference - reach, self.difference + reach

    def ratio_interval(self) -> tuple[float, float] | None:
        """Return the interval of the change relative to the base's own mean.

        The base's mean is uncertain too, so the interval is made on the logarithm of
        the ratio of the means.
        """
        if self.freedom is None or self.base.mean <= 0 or self.case.mean <= 0:
            return None
        error = math.sqrt(
            self.base.variance / self.base.mean**2
            + self.case.variance / self.case.mean**2
        )
        reach = student.quantile((1 + CONFIDENCE) / 2, self.freedom) * error
        centre = math.log(self.case.mean / self.base.mean)
        return math.expm1(centre - reach), math.expm1(centre + reach)

    def detectable(self, threshold: float) -> float | None:
        """Return the true difference whose lower bound would pass `threshold`.

        With a chance of `POWER`, in the unit of the series.
        """
        if self.standard_error is None or self.freedom is None:
            return None
        reach = student.quantile((1 + CONFIDENCE) / 2, self.freedom)
        reach += student.quantile(POWER, self.freedom)
        return threshold + reach * self.standard_error


def change(base: Sequence[Series], case: Sequence[Series]) -> Change:
    """Return how two sides differ.

    Parameters
    ----------
    base, case
        One array of steps a run, in order, any unit.
    """
    by_run = min(len(base), len(case)) >= RUNS_A_SIDE
    first, second = _side(base, by_run=by_run), _side(case, by_run=by_run)
    difference = second.mean - first.mean
    spread = math.sqrt((first.spread**2 + second.spread**2) / 2)
    error, freedom = _welch(first, second)
    return Change(
        base=first,
        case=second,
        difference=difference,
        standard_error=error,
        freedom=freedom,
        p_value=_p_value(difference, error, freedom),
        effect_size=difference / spread if spread > 0 else None,
    )


def _side(runs: Sequence[Series], *, by_run: bool) -> Side:
    steps = np.concatenate(runs)
    if by_run:
        units, length, is_short = np.array([run.mean() for run in runs]), None, False
    else:
        blocks = [_blocks(run) for run in runs]
        units = np.concatenate([means for means, _, _ in blocks])
        length = max(length for _, length, _ in blocks)
        is_short = any(is_cut for _, _, is_cut in blocks)
    is_enough = len(units) >= (RUNS_A_SIDE if by_run else BLOCKS_A_RUN)
    return Side(
        step_count=len(steps),
        unit_count=len(units),
        block_steps=length,
        is_short=is_short,
        mean=float(units.mean() if by_run else steps.mean()),
        variance=float(units.var(ddof=1) / len(units)) if is_enough else math.nan,
        spread=float(steps.std(ddof=1)) if len(steps) > 1 else 0.0,
    )


def _blocks(steps: Series) -> tuple[Series, int, bool]:
    """Return the means of blocks, their length, and whether that had to be cut.

    The steps left over are the first ones, which are the least like the others.
    """
    wanted = math.ceil(LENGTH_OF_TIME * (correlation_steps(steps) - 1) + 1)
    length = max(1, min(wanted, len(steps) // BLOCKS_A_RUN))
    count = len(steps) // length
    whole = steps[len(steps) - count * length :].reshape(count, length)
    return whole.mean(axis=1), length, wanted > length


def correlation_steps(steps: Series) -> float:
    """Return the integrated autocorrelation time of a series, at least 1.

    Autocorrelations are added in pairs until the first pair that is not positive
    (Geyer, "Practical Markov chain Monte Carlo", 1992, section 3.3).
    """
    centred = steps - steps.mean()
    spectrum = np.fft.rfft(centred, 2 * len(steps))
    covariance = np.fft.irfft(spectrum * spectrum.conj())[: len(steps)]
    if covariance[0] <= 0:
        return 1.0
    correlation = covariance / covariance[0]
    total = 1.0
    for lag in range(1, len(steps) // 2, 2):
        pair = float(correlation[lag] + correlation[lag + 1])
        if pair <= 0:
            break
        total += 2 * pair
    return total


def _welch(base: Side, case: Side) -> tuple[float | None, float | None]:
    """Return the standard error of the difference and Satterthwaite's freedom."""
    total = base.variance + case.variance
    if math.isnan(total):
        return None, None
    parts = sum(
        side.variance**2 / (side.unit_count - 1)
        for side in (base, case)
        if side.variance > 0
    )
    if parts == 0:  # both sides constant: any freedom gives the same, empty, interval
        return 0.0, float(base.unit_count + case.unit_count - 2)
    return math.sqrt(total), total**2 / parts


def _p_value(
    difference: float, error: float | None, freedom: float | None
) -> float | None:
    if error is None or freedom is None:
        return None
    if error == 0:
        return float(difference == 0)
    return student.two_sided(difference / error, freedom)


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Return p-values corrected for their number, by Holm's step-down method.

    Parts of a step depend on each other in both directions, for time that one class
    gains another loses.  Holm's bound on the chance of any false one holds under every
    dependence; Benjamini and Hochberg's needs a positive one.
    """
    known = sorted((p, at) for at, p in enumerate(p_values) if p is not None)
    corrected: list[float | None] = [None] * len(p_values)
    worst = 0.0
    for rank, (p, at) in enumerate(known):
        worst = max(worst, min(1.0, p * (len(known) - rank)))
        corrected[at] = worst
    return corrected
