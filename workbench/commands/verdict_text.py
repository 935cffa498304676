"""The verdict as text: who held the job up, why, how sure it is, what is not known.

One headline a person can repeat, then the evidence behind it, 80 columns wide.  Every
finding ends with the command that shows its rows.  Names and words that come from
bundles are hostile text: each goes through :func:`~workbench.commands.output.plain`.
"""

from __future__ import annotations

import shlex
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.commands.clocks import drift, length
from workbench.commands.output import PAGE_WIDTH, plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl

STRAGGLER = "finding_straggler"
BAR_WIDTH = 36
MAX_BARS = 40
LABEL = 12
MAX_PROBLEMS = 5
SMALL_EXCESS = 0.05
"""Part of a rank's own time that fills the bars at the least."""

MILLION = 1e6
SECOND = 1e9
ORDINALS = {1: "st", 2: "nd", 3: "rd"}

QUESTIONS = {
    STRAGGLER: "held the job up",
    "finding_run_queue": "waited for a CPU longer than its peers",
    "finding_blocked": "was blocked longer than its peers",
}
"""What a finding says of its subject, by name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """All that the text is made of, each a frame out of the case."""

    case_path: str
    findings: pl.DataFrame
    ranks: pl.DataFrame
    hosts: pl.DataFrame
    victims: pl.DataFrame
    causes: pl.DataFrame
    shares: pl.DataFrame
    clocks: pl.DataFrame
    coverage: pl.DataFrame
    presence: pl.DataFrame
    problems: pl.DataFrame

    def host_name(self, host_id: int | None) -> str:
        """Return the name of a host, harmless to a terminal."""
        names = dict(self.hosts.select("host_id", "host_name").iter_rows())
        return plain(str(names.get(host_id) or host_id))

    def of(self, finding: str, verdict: str) -> list[dict[str, Any]]:
        """Return the rows of a finding with that verdict."""
        chosen = self.findings.filter(finding=finding, verdict=verdict)
        return list(chosen.iter_rows(named=True))

    @property
    def found(self) -> list[dict[str, Any]]:
        """Return what was found, stragglers first."""
        rows = self.findings.filter(verdict="found").iter_rows(named=True)
        return sorted(rows, key=lambda row: row["finding"] != STRAGGLER)


def report(verdict: Verdict, *, top: int) -> Iterator[str]:
    """Return the lines of the verdict, with at most `top` findings shown whole."""
    yield from _wrap(_headline(verdict), indent="")
    if verdict.of(STRAGGLER, "found"):
        yield from _stragglers(verdict, top)
    else:
        yield from _without_straggler(verdict)
    yield from _others(verdict, top)
    yield from _bars(verdict)
    yield from _clocks(verdict)
    yield from _gaps(verdict)


def _headline(verdict: Verdict) -> str:
    found = verdict.of(STRAGGLER, "found")
    main = [row for row in found if row["step_count"] == _most_steps(found)]
    names = list(dict.fromkeys(str(row["subject_id"]) for row in main))
    if len(names) == 1:
        return _sentence(verdict, main[0])
    if names:
        return f"{len(names)} ranks held the job up: {', '.join(names)}"
    counts = _counts(verdict)
    if not counts:
        return "no rank is known in this case: nothing can be said of any"
    if counts.get("clear", 0) == sum(counts.values()):
        return "no rank held the job up"
    if counts.get("not_observed"):
        return "whether a rank held the job up cannot be seen in this capture"
    return "whether a rank held the job up cannot be decided from this capture"


def _most_steps(rows: list[dict[str, Any]]) -> int:
    """Return the steps of the whole run, or of the widest window with a late one."""
    return max(row["step_count"] for row in rows)


def _sentence(verdict: Verdict, row: dict[str, Any]) -> str:
    """Return who held the job up, by how much, how often, and who waited."""
    host = verdict.host_name(row["host_id"])
    waiting = _victims(verdict, row)
    tail = f", and {waiting} waited for it" if waiting else ""
    often = _often(row)
    return (
        f"rank {plain(row['subject_id'])} on {host} held the job up by "
        f"{_short(row['magnitude_ns'])} {often}{tail}"
    )


def _often(row: dict[str, Any]) -> str:
    affected, steps = row["affected_step_count"], row["step_count"]
    if affected == steps or row["period_steps"] == 1:
        return (
            f"at every one of {steps} steps" if affected == steps else "at every step"
        )
    if row["period_steps"]:
        return f"at each {_ordinal(row['period_steps'])} step"
    return f"in {affected} of {steps} steps"


def _victims(verdict: Verdict, row: dict[str, Any]) -> str:
    waiting = verdict.victims.filter(rank=row["rank"])
    count = waiting["victim_rank"].n_unique()
    others = verdict.ranks.height - 1
    if not count:
        return ""
    if count == others:
        return f"all {count} other ranks" if count > 1 else "the other rank"
    return f"{count} of {others} other ranks"


def _stragglers(verdict: Verdict, top: int) -> Iterator[str]:
    rows = verdict.of(STRAGGLER, "found")
    for row in rows[:top]:
        yield ""
        if len(rows) > 1:
            yield from _wrap(_sentence(verdict, row), indent="")
        yield from _facts(verdict, row)
    if len(rows) > top:
        yield ""
        yield f"{len(rows) - top} more found; --top {len(rows)} shows them"


def _facts(verdict: Verdict, row: dict[str, Any]) -> Iterator[str]:
    """Return the paragraph of one finding."""
    if row["finding"] == STRAGGLER:
        yield from _field(
            "late",
            f"{_short(row['magnitude_ns'])} in {row['affected_step_count']} of "
            f"{row['step_count']} steps; the job took "
            f"{row['slowdown_ratio']:.2f} times as long as if no rank were late",
        )
    yield from _field("cause", _cause(verdict, row))
    yield from _field("confidence", row["confidence"])
    for label, name in (
        ("for", "evidence_for"),
        ("against", "evidence_against"),
        ("not checked", "not_checked"),
    ):
        lines = row[name] or (["nothing"] if name == "evidence_against" else [])
        for number, line in enumerate(lines):
            yield from _field("" if number else label, line)
    if row["next_step"]:
        yield from _field("next", row["next_step"])
    yield from _rows(verdict, row)


def _cause(verdict: Verdict, row: dict[str, Any]) -> str:
    known = {each["code"]: each["meaning"] for each in verdict.causes.to_dicts()}
    code = row["cause"]
    if code is None:
        return "none shown"
    meaning = known.get(code, "not in the view cause")
    share = _share(verdict, row)
    return f"{code}: {meaning}" + (
        f", {100 * share:.0f} % of its excess" if share else ""
    )


def _share(verdict: Verdict, row: dict[str, Any]) -> float | None:
    """Return the part of a straggler's excess that its cause makes up."""
    if row["finding"] != STRAGGLER or row["cause"] == "not_determined":
        return None
    shares = verdict.shares.filter(rank=row["rank"], cause=row["cause"])["share_ratio"]
    return shares.max() if shares.len() else None  # pyright: ignore[reportReturnType]


def _rows(verdict: Verdict, row: dict[str, Any]) -> Iterator[str]:
    """Return the command that shows a finding's rows, to be pasted as it is."""
    where = " and ".join(row["evidence_keys"])
    sql = f"from {row['evidence_view']}" + (f" where {where}" if where else "")
    path = shlex.quote(plain(verdict.case_path))
    yield f"  {'rows':<{LABEL}}  coldtrace query {path} \\"
    yield f"{' ' * (LABEL + 6)}{_quoted(plain(sql))}"


def _quoted(sql: str) -> str:
    return f'"{sql}"' if not set(sql) & set('"$`\\!') else shlex.quote(sql)


def _others(verdict: Verdict, top: int) -> Iterator[str]:
    """Return the findings beside the straggler: rows of their own, said in short."""
    rows = [row for row in verdict.found if row["finding"] != STRAGGLER]
    accused = {row["subject_id"] for row in verdict.of(STRAGGLER, "found")}
    for row in rows[:top]:
        yield ""
        who = f"{row['subject_kind']} {row['subject_id']}"
        says = QUESTIONS.get(row["finding"], row["finding"])
        host = verdict.host_name(row["host_id"])
        yield from _wrap(f"{plain(who)} on {host} {says} ({row['finding']})", indent="")
        if row["subject_id"] in accused:
            yield from _field("for", "; ".join(row["evidence_for"]))
            yield from _rows(verdict, row)
        else:
            yield from _facts(verdict, row)
    if len(rows) > top:
        yield ""
        yield f"{len(rows) - top} more found; --top {len(rows)} shows them"


def _without_straggler(verdict: Verdict) -> Iterator[str]:
    """Return what was asked, of how many ranks, and what the answers were."""
    yield ""
    steps = verdict.ranks["step_count"].max() or 0
    yield from _field(
        "looked at",
        f"{_many(verdict.ranks.height, 'rank')} on "
        f"{_many(verdict.hosts.height, 'host')}, {steps} steps",
    )
    for verdict_word in ("not_decidable", "not_observed"):
        rows = verdict.of(STRAGGLER, verdict_word)
        reasons = [line for row in rows for line in _reasons(row)]
        for number, reason in enumerate(dict.fromkeys(reasons)):
            yield from _field("" if number else verdict_word.replace("_", " "), reason)


def _reasons(row: dict[str, Any]) -> list[str]:
    return row["evidence_against"] or row["not_checked"]


def _counts(verdict: Verdict) -> dict[str, int]:
    rows = verdict.findings.filter(finding=STRAGGLER)
    return dict(rows.group_by("verdict").len().iter_rows())


def _bars(verdict: Verdict) -> Iterator[str]:
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
    accused = {row["subject_id"] for row in verdict.of(STRAGGLER, "found")}
    hosts = {
        row["host_id"]: verdict.host_name(row["host_id"]) for row in seen.to_dicts()
    }
    width = min(max(len(name) for name in hosts.values()), 16)
    steps = seen["step_count"].max()
    yield ""
    yield f"own time of each rank beyond its role, sum of {steps} steps"
    for row in shown.iter_rows(named=True):
        filled = round(BAR_WIDTH * max(row["excess_ns"], 0) / largest)
        mark = ">" if str(row["rank"]) in accused else " "
        name = hosts[row["host_id"]][:width].ljust(width)
        bar = ("#" * filled).ljust(BAR_WIDTH)
        excess = f"{row['excess_ns'] / 1e9:+.3f} s"
        yield f"{mark} rank {row['rank']:<4} {name}  {bar} {excess:>11}".rstrip()
    if seen.height > shown.height:
        yield f"  and {seen.height - shown.height} ranks with less"


def _clocks(verdict: Verdict) -> Iterator[str]:
    if verdict.clocks.is_empty():
        return
    yield ""
    yield "clocks, as the rendezvous prove them"
    for row in verdict.clocks.iter_rows(named=True):
        part = f" part {row['segment']}" if row["segment"] else ""
        yield from _field(f"{row['host_name']}{part}", _clock(row))


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


def _gaps(verdict: Verdict) -> Iterator[str]:
    """Return what was checked, what the case does not hold, and what failed to load."""
    yield ""
    yield "checked"
    for (finding,), rows in verdict.findings.group_by("finding", maintain_order=True):
        counts = rows.group_by("verdict").len().sort("verdict").iter_rows()
        said = ", ".join(f"{count} {word.replace('_', ' ')}" for word, count in counts)
        yield from _field(str(finding).removeprefix("finding_"), said)
    missing = list(_missing(verdict))
    if missing:
        yield ""
        yield "not in this case"
        for line in missing:
            yield from _wrap(line, indent="  ")
    if not verdict.problems.is_empty():
        yield ""
        yield "problems of the load"
        for row in verdict.problems.head(MAX_PROBLEMS).iter_rows(named=True):
            yield from _wrap(f"{row['kind']}: {row['message']}", indent="  ")
        rest = verdict.problems.height - MAX_PROBLEMS
        if rest > 0:
            yield f"  and {rest} more in the view load_problem"


def _missing(verdict: Verdict) -> Iterator[str]:
    """Return streams that were not observed, by reason, and ranks without a bundle."""
    hosts: dict[str, list[str]] = {}
    for row in verdict.coverage.iter_rows(named=True):
        hosts.setdefault(row["reason"], []).append(verdict.host_name(row["host_id"]))
    for reason, names in hosts.items():
        is_all = len(names) == verdict.hosts.height
        yield f"{reason} (on {'every host' if is_all else ', '.join(sorted(names))})"
    yield from (note for note in verdict.presence["note"] if note is not None)


def _field(label: str, text: str) -> list[str]:
    """Return a labelled paragraph; long labels stand on the first line as they are."""
    head = plain(label)
    space = max(LABEL, len(head))
    return textwrap.wrap(
        plain(text),
        PAGE_WIDTH,
        initial_indent=f"  {head:<{space}}  ",
        subsequent_indent=" " * (LABEL + 4),
        break_on_hyphens=False,
        break_long_words=False,
    )


def _wrap(text: str, *, indent: str) -> list[str]:
    return textwrap.wrap(
        plain(text),
        PAGE_WIDTH,
        initial_indent=indent,
        subsequent_indent=indent,
        break_on_hyphens=False,
    )


def _short(nanoseconds: int) -> str:
    """Return a length of time in words that can be said."""
    if nanoseconds >= SECOND:
        return f"{nanoseconds / SECOND:.2f} s"
    if nanoseconds >= 10 * MILLION:
        return f"{nanoseconds / MILLION:.0f} ms"
    return f"{nanoseconds / MILLION:.2f} ms"


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _ordinal(number: int) -> str:
    is_teen = number // 10 % 10 == 1
    return f"{number}{'th' if is_teen else ORDINALS.get(number % 10, 'th')}"
