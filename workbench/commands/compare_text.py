"""The text of a comparison: the verdict, what differs, and bars of the parts."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import numpy as np

from workbench.analysis.comparison.change import RUNS_A_SIDE
from workbench.analysis.comparison.outcome import (
    FAILED,
    FEW_STEPS,
    NOT_DECIDABLE,
    QUANTILES,
    Comparison,
    PartChange,
)
from workbench.analysis.comparison.settings import drift
from workbench.analysis.comparison.sides import OWN
from workbench.commands.output import PAGE_WIDTH, plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from workbench.analysis.comparison.change import Side
    from workbench.analysis.comparison.sides import Run

WAIT = ("time", "wait")
WAITING = ("waiting_for_others", "gpu_sync_wait")
"""Classes in which another rank's lateness shows."""

NOTABLE = 0.005
"""Part of a step: a smaller change is not worth a word."""

SHOWN = 0.001
"""Part of a step: a part that is smaller on both sides gets no bar."""

ALIKE = 0.5
"""Hosts and classes are named together with the first down to this part of it."""

LABEL_WIDTH = 17
HALF_BAR = 9
HASH_DIGITS = 12
UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns"))


def report(comparison: Comparison) -> Iterator[str]:
    """Return the lines of the verdict."""
    yield from _wrap(headline(comparison))
    for label, text in facts(comparison):
        yield from _wrap(plain(text), label)
    for title, rows in tables(comparison):
        yield from _table(title, rows)
    yield from _drift(comparison)


def _wrap(text: str, label: str | None = None) -> list[str]:
    return textwrap.wrap(
        text,
        PAGE_WIDTH,
        initial_indent="" if label is None else f"  {label:<{LABEL_WIDTH}}",
        subsequent_indent="" if label is None else " " * (LABEL_WIDTH + 2),
        break_long_words=False,
        break_on_hyphens=False,
    )


def headline(comparison: Comparison) -> str:
    """Return the verdict in one sentence."""
    case, base = _side_names(comparison)
    decisive = comparison.decisive
    what = "own time" if comparison.is_of_groups else "a step"
    ratio = decisive.ratio or 0.0
    much = f"{abs(ratio):.1%}".replace("%", " %")
    said = f"{what} of {case} takes {much} {'longer' if ratio > 0 else 'less'} than"
    said = f"{said} {'' if comparison.is_of_groups else 'of '}{base}"
    if comparison.gate == FAILED:
        return plain(f"the gate fails: {said}")
    if comparison.gate == NOT_DECIDABLE:
        return plain(f"too few steps to tell whether {case} is slower than {base}")
    if not decisive.is_shown:
        return plain(f"the gate holds: no difference of {case} from {base} is shown")
    return plain(f"the gate holds: {said}")


def _side_names(comparison: Comparison) -> tuple[str, str]:
    if comparison.is_of_groups:
        case, base = (
            ", ".join(side[0].hosts) for side in (comparison.case, comparison.base)
        )
        return case, base
    return _runs_name(comparison.case), _runs_name(comparison.base)


def _runs_name(runs: Sequence[Run]) -> str:
    return runs[0].name if len(runs) == 1 else f"{len(runs)} runs like {runs[0].name}"


def facts(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """Return what is said under the headline: a label and a text."""
    decisive = comparison.decisive
    gate = f"the gate is at {percent(comparison.threshold)}"
    bounds = decisive.change.ratio_interval()
    few = min(decisive.change.base.step_count, decisive.change.case.step_count)
    seen = comparison.detectable
    if seen is not None and few < FEW_STEPS:
        yield "could have seen", f"{percent(seen)} or more: only {few} steps a side"
    if bounds is not None:
        low, high = map(percent, bounds)
        yield "interval", f"{low} to {high} with 95 % confidence; {gate}"
    yield "base", _side(decisive.change.base, comparison.base)
    yield "case", _side(decisive.change.case, comparison.case)
    yield "quantiles", _quantiles(decisive)
    if seen is not None and few >= FEW_STEPS:
        yield "could have seen", f"{percent(seen)} or more, four times out of five"
    yield "interval from", _units(decisive)
    effect = decisive.change.effect_size
    if effect is not None:
        yield "effect size", f"{effect:+.2f} standard deviations of single steps"
    yield "what differs", what_differs(comparison)


def _side(side: Side, runs: Sequence[Run]) -> str:
    hosts = len({host for run in runs for host in run.hosts})
    many = "" if len(runs) == 1 else f" in {len(runs)} runs"
    return (
        f"{time_of(side.mean)} a step, {side.step_count} steps{many} of "
        f"{_count(runs[0].rank_count, 'rank')} on {_count(hosts, 'host')}"
    )


def _quantiles(part: PartChange) -> str:
    levels = list(QUANTILES.values())
    pairs = zip(
        QUANTILES,
        np.quantile(part.base_steps, levels),
        np.quantile(part.case_steps, levels),
        strict=True,
    )
    return ", ".join(f"{name} {time_of(a)} -> {time_of(b)}" for name, a, b in pairs)


def _units(part: PartChange) -> str:
    base, case = part.change.base, part.change.case
    if base.block_steps is None or case.block_steps is None:
        return f"the means of {base.unit_count} and {case.unit_count} runs"
    text = (
        f"{base.unit_count} and {case.unit_count} blocks of up to "
        f"{_count(max(base.block_steps, case.block_steps), 'step')}"
    )
    if base.is_short or case.is_short:
        text += "; steps hang together over more than a quarter of a run, so it is "
        text += "narrower than it should be"
    return f"{text}; with {RUNS_A_SIDE} runs a side it would come from the runs"


def what_differs(comparison: Comparison) -> str:
    """Return where and in what the time of the decisive part changed."""
    sign = 1 if comparison.decisive.share >= 0 else -1
    own = [p for p in comparison.parts if p.host is not None and p.key == OWN]
    hosts = [str(part.host) for part in _leading(own, sign)]
    wait = _of(comparison, None, *WAIT)
    if hosts:
        classes = [
            part
            for part in comparison.parts
            if part.host == hosts[0]
            and part.kind == "class"
            and part.part not in WAITING
        ]
        where = "every host" if len(hosts) == len(own) else ", ".join(hosts)
        named = [_named(part) for part in _leading(classes, sign)] or ["own time"]
        return f"{' and '.join(named)} on {where}; {_waited(wait)}"
    if _is_notable(wait):
        waits = [p for p in comparison.parts if p.kind == "operation_wait"]
        leading = _leading(waits, 1 if wait.share > 0 else -1)
        named = [f"{part.part} wait {percent(part.ratio)}" for part in leading]
        return f"{' and '.join(named) or 'waiting'}; own time unchanged"
    return "nothing that is worth a word and sure"


def _waited(wait: PartChange) -> str:
    if not _is_notable(wait):
        return "waiting for others unchanged"
    if wait.ratio is None or wait.ratio > 1:
        return f"waiting for others {_signed_time(wait)} a step"
    return f"waiting for others {percent(wait.ratio)}"


def _of(comparison: Comparison, host: str | None, *key: str) -> PartChange:
    return next(p for p in comparison.parts if p.host == host and p.key == key)


def _is_notable(part: PartChange) -> bool:
    return part.is_shown and abs(part.share) >= NOTABLE


def _leading(parts: Sequence[PartChange], sign: int) -> list[PartChange]:
    """Return the parts that changed most in one direction, the largest first."""
    moved = [p for p in parts if sign * p.share > 0 and _is_notable(p)]
    moved.sort(key=lambda part: -sign * part.share)
    return [part for part in moved if abs(part.share) >= ALIKE * abs(moved[0].share)]


def _named(part: PartChange) -> str:
    return f"{part.part} {_signed_time(part)} a step ({percent(part.share)} of one)"


def _signed_time(part: PartChange) -> str:
    difference = part.change.difference
    return f"{'-' if difference < 0 else '+'}{time_of(abs(difference))}"


def tables(comparison: Comparison) -> Iterator[tuple[str, list[PartChange]]]:
    """Return the parts that are large enough for a row, by what they are parts of."""
    of_all = [part for part in comparison.parts if part.host is None]
    own = [p for p in comparison.parts if p.host is not None and p.key == OWN]
    for title, parts in (
        ("all ranks, by what they did", [p for p in of_all if p.kind == "class"]),
        (
            "all ranks, by operation",
            [p for p in of_all if p.kind.startswith("operation")],
        ),
        ("own time of each host", own),
    ):
        rows = [
            part
            for part in parts
            if max(part.change.base.mean, part.change.case.mean)
            > SHOWN * part.base_step_ns
        ]
        if rows:
            yield title, rows


def _table(title: str, rows: Sequence[PartChange]) -> Iterator[str]:
    yield ""
    largest = max(NOTABLE, *(abs(part.share) for part in rows))
    yield (f"{title:<28}{'base':>9}{'case':>9}{'of a step':>11}{'p (Holm)':>10}")
    for part in rows:
        yield _line(part, largest)


def part_name(part: PartChange) -> str:
    """Return what a row of a table is about."""
    name = part.host if part.host is not None else part.part
    return f"{name} wait" if part.kind == "operation_wait" else name


def _line(part: PartChange, largest: float) -> str:
    filled = round(HALF_BAR * min(1.0, abs(part.share) / largest))
    left, right = (0, filled) if part.share > 0 else (filled, 0)
    bar = f"{'#' * left:>{HALF_BAR}}|{'#' * right}"
    cells = (
        f"  {plain(part_name(part)):<26}{time_of(part.change.base.mean):>9}"
        f"{time_of(part.change.case.mean):>9}{percent(part.share):>11}"
        f"{p_value(part.corrected_p):>10}"
    )
    return f"{cells} {bar}".rstrip()


def _drift(comparison: Comparison) -> Iterator[str]:
    """Return the settings and libraries in which the two sides differ."""
    differing = drift(comparison.base, comparison.case)
    if differing.is_empty():
        return
    yield ""
    yield "set up differently: no cause is shown by that, but look here first"
    for topic, setting, base, case in differing.iter_rows():
        yield from _wrap(f"{plain(setting)}", topic)
        for side, values in (("base", base), ("case", case)):
            said = ", ".join(map(shortened, values)) or "not told"
            yield f"  {'':<{LABEL_WIDTH}}  {side}  {plain(said)}"


def shortened(value: str) -> str:
    """Return a value with the first digits of a hash, which are enough to tell."""
    name, _, digits = value.partition(" ")
    return f"{name} {digits[:HASH_DIGITS]}..." if name == "sha256" else value


def p_value(value: float | None) -> str:
    """Return a p-value as it is printed; nothing where there is none."""
    if value is None:
        return "-"
    return "<0.0001" if value < 1e-4 else f"{value:.4f}"  # noqa: PLR2004 -- four digits


def percent(ratio: float | None) -> str:
    """Return a relative change as it is printed."""
    return "from nothing" if ratio is None else f"{100 * ratio:+.1f} %"


def time_of(ns: float) -> str:
    """Return a length of time with the unit that suits it."""
    size, unit = next((each for each in UNITS if ns >= each[0]), UNITS[-1])
    return f"{ns / size:.4g} {unit}"


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
