"""What a recording cost and gave up, in words, from the facts of its bundle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

Row = dict[str, Any]
Facts = dict[str, list[Row]]

_NS_PER_S = 1_000_000_000
_MB = 1_000_000


def cost_lines(facts: Facts, seconds: float) -> Iterator[tuple[str, str]]:
    """Yield label and text of what the recording cost.

    Parameters
    ----------
    facts
        Rows by kind.
    seconds
        Length of the recording.
    """
    for row in facts.get("cost", []):
        user, system = row["user_ns"] / _NS_PER_S, row["system_ns"] / _NS_PER_S
        yield "cost", f"{user:.2f} s user, {system:.2f} s system time of the recorder"
        own, whole = row["rss_without_rings_bytes"], row["rss_bytes"]
        memory = f"{own / _MB:.1f} MB, {whole / _MB:.1f} MB with its rings"
        yield "memory", f"{memory}; {row['spool_bytes'] / _MB:.1f} MB spooled"
    rings = [
        f"{row['stream']} {100 * row['most_used_bytes'] / row['size_bytes']:.2f} %"
        for row in facts.get("ring", [])
    ]
    if rings:
        yield "ring fill", f"at most {', '.join(rings)}"
    yield from _programs(facts.get("program", []), seconds)


def _programs(programs: list[Row], seconds: float) -> Iterator[tuple[str, str]]:
    known = [row for row in programs if row["window_ns"] and row["run_ns"] is not None]
    if known:
        share = sum(row["run_ns"] / row["window_ns"] for row in known)
        window = max(row["window_ns"] for row in known) / _NS_PER_S
        sampled = f"sampled for {window:.1f} s of {seconds:.1f}"
        yield "programs", f"{100 * share:.2f} % of a CPU, {sampled}"
    elif programs:
        yield "programs", "run time unknown: not counted, or not allowed to be"


def given_up(facts: Facts, start_ns: int) -> Iterator[str]:
    """Yield a sentence for each thing that was given up to stay within the budget."""
    for row in facts.get("budget_step", []):
        at = (row["time_ns"] - start_ns) / _NS_PER_S
        stream = f"{row['stream']}: " if row["stream"] else ""
        yield (
            f"from {at:.1f} s on, {stream}{row['effect']} ({row['step']}): it cost "
            f"{row['share_ppm'] / 1e4:.2f} % of a CPU, the budget is "
            f"{row['budget_ppm'] / 1e4:g} %"
        )


def missed(facts: Facts) -> Iterator[str]:
    """Yield a sentence for each program that the kernel did not always run."""
    for row in facts.get("program", []):
        if row["missed_count"]:
            yield (
                f"the kernel left out {row['missed_count']} runs of {row['program']}, "
                "which was running on that CPU already"
            )
