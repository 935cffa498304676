"""What stands around the findings: bars, slowdown of the job, clocks, what is missing.

The slowdown of the job is the paper's, against even work of all ranks; that of a
finding is against ranks of the same role.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench.commands.clocks import drift, length
from workbench.commands.output import plain
from workbench.commands.verdict_frames import STRAGGLER, Verdict
from workbench.commands.verdict_layout import field, wrap

if TYPE_CHECKING:
    from collections.abc import Iterator

BAR_WIDTH = 36
"""Widest bar, beside short names of ranks and hosts."""
MAX_BARS = 40
MAX_PROBLEMS = 5
LEAST_SLOWDOWN = 1.05
"""Slowdown of a job from which on it is said."""

EVEN_WORK = "what-if, all ranks alike (S, M_W and M_S of the OSDI'25 straggler paper)"

SMALL_EXCESS = 0.05
"""Part of a rank's own time that fills the bars at the least."""


def bars(verdict: Verdict) -> Iterator[str]:
    """Return the ranks as bars: what each took beyond its role over all steps."""
    seen = verdict.ranks.filter(verdict.ranks["excess_ns"].is_not_null())
    if seen.is_empty():
        return
    shown = (
        seen.sort("excess_ns", descending=True).head(MAX_BARS).sort("job_id", "rank")
    )
    # what no finding would look at must not look large
    owns, excesses = seen["own_ns"].to_list(), seen["excess_ns"].to_list()
    largest = max(*excesses, SMALL_EXCESS * max(owns), 1)
    found = verdict.of(STRAGGLER, "found")
    accused = {(row["host_id"], row["rank"]) for row in found}
    hosts = {
        row["host_id"]: verdict.host_name(row["host_id"]) for row in seen.to_dicts()
    }
    names = [_rank_name(row) for row in shown.iter_rows(named=True)]
    width = min(max(len(name) for name in hosts.values()), 16)
    rank_width = min(max(map(len, names)), 24)
    room = BAR_WIDTH - max(0, width + rank_width - 15)
    steps = seen["step_count"].max()
    yield ""
    yield f"own time of each rank beyond its role, sum of {steps} steps"
    for row, rank in zip(shown.iter_rows(named=True), names, strict=True):
        filled = round(room * max(row["excess_ns"], 0) / largest)
        mark = ">" if (row["host_id"], row["rank"]) in accused else " "
        name = hosts[row["host_id"]][:width].ljust(width)
        bar = ("#" * filled).ljust(room)
        excess = f"{row['excess_ns'] / 1e9:+.3f} s"
        head = f"{mark} {rank[:rank_width]:<{rank_width}} {name}"
        yield f"{head}  {bar} {excess:>11}".rstrip()
    if seen.height > shown.height:
        yield f"  and {seen.height - shown.height} ranks with less"


def _rank_name(row: dict[str, Any]) -> str:
    return plain(row["rank_name"] or f"rank {row['rank']:<4}")


def jobs(verdict: Verdict) -> Iterator[str]:
    """Return how much slower each job ran than one of even work, and who owes it."""
    said = list(job_facts(verdict))
    if said:
        yield ""
        yield EVEN_WORK
        for job, lines in said:
            for number, line in enumerate(lines):
                yield from field("" if number else job, line)


def job_facts(verdict: Verdict) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Return each job that even work would make faster, and what is said of it."""
    names = {
        (row["job_id"], row["rank"]): row["rank_name"] or f"rank {row['rank']}"
        for row in verdict.ranks.iter_rows(named=True)
    }
    shown = verdict.jobs.filter(verdict.jobs["slowdown_ratio"] >= LEAST_SLOWDOWN)
    for row in shown.iter_rows(named=True):
        worst = ", ".join(names[row["job_id"], rank] for rank in row["worst_ranks"])
        owed = _part(row["worst_share_ratio"], worst)
        stage = _part(row["last_stage_share_ratio"], "the last stage")
        ratio = row["slowdown_ratio"]
        first = f"{ratio:.3f} times as long as with even work{owed}{stage}"
        yield row["job_id"], (first, *_between(verdict, row["job_id"]))


def _part(ratio: float | None, who: str) -> str:
    """Return whose part of the excess that is; nothing where there is none."""
    return "" if ratio is None else f"; {round(100 * ratio)} % of the excess is {who}"


def _between(verdict: Verdict, job_id: str) -> Iterator[str]:
    """Return whether the computations differ by rank or vary on every rank alike."""
    mine = verdict.variances.filter(job_id=job_id).head(1)
    for row in mine.iter_rows(named=True):
        yield (
            f"{row['operation']} of {row['role']}: {100 * row['between_ratio']:.1f} % "
            f"of its variance lies between ranks, the slowest takes "
            f"{row['largest_ratio']:.3f} times the median"
        )


def clocks(verdict: Verdict) -> Iterator[str]:
    """Return how each host's clock is known."""
    if verdict.clocks.is_empty():
        return
    yield ""
    yield "clocks, as the rendezvous prove them"
    for row in verdict.clocks.iter_rows(named=True):
        part = f" part {row['segment']}" if row["segment"] else ""
        yield from field(f"{row['host_name']}{part}", _clock(row))


def _clock(row: dict[str, Any]) -> str:
    """Return one host's clock in a sentence."""
    state, reason = row["state"], row["reason"]
    if state == "reference":
        return "the reference: cluster time is its own"
    if state in ("alone", "contradicted"):
        return f"{state}: {reason}"
    tail = "" if state == "proved" else f"; {state}: {reason}"
    return (
        f"offset {length(row['offset_middle_ns'], sign=True)} "
        f"+-{length(row['error_middle_ns'])} to {row['reference_name']} in the middle, "
        f"drift {drift(row)}, from "
        f"{row['constraint_count']:,} rendezvous{tail}"
    )


def gaps(verdict: Verdict) -> Iterator[str]:
    """Return what was checked, what the case does not hold, and what failed to load."""
    yield ""
    yield "checked"
    for (finding,), rows in verdict.findings.group_by("finding", maintain_order=True):
        counts = rows.group_by("verdict").len().sort("verdict").iter_rows()
        said = ", ".join(f"{count} {word.replace('_', ' ')}" for word, count in counts)
        yield from field(str(finding).removeprefix("finding_"), said)
    absent = list(missing(verdict))
    if absent:
        yield ""
        yield "not in this case"
        for line in absent:
            yield from wrap(line, indent="  ")
    if not verdict.problems.is_empty():
        yield ""
        yield "problems of the load"
        for row in verdict.problems.head(MAX_PROBLEMS).iter_rows(named=True):
            yield from wrap(f"{row['kind']}: {row['message']}", indent="  ")
        rest = verdict.problems.height - MAX_PROBLEMS
        if rest > 0:
            yield f"  and {rest} more in the view load_problem"


def missing(verdict: Verdict) -> Iterator[str]:
    """Return streams that were not observed, by reason, and ranks without a bundle."""
    hosts: dict[str, list[str]] = {}
    for row in verdict.coverage.iter_rows(named=True):
        hosts.setdefault(row["reason"], []).append(verdict.host_name(row["host_id"]))
    for reason, names in hosts.items():
        is_all = len(names) == verdict.hosts.height
        yield f"{reason} (on {'every host' if is_all else ', '.join(sorted(names))})"
    yield from (note for note in verdict.presence["note"] if note is not None)
