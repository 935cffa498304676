"""The verdict as text: who held the job up, why, how sure it is, what is not known.

One headline a person can repeat, then the evidence behind it, 80 columns wide.  Every
finding ends with the command that shows its rows.  Names and words that come from
bundles are hostile text: each goes through :func:`~workbench.commands.output.plain`.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from workbench.commands.output import plain
from workbench.commands.verdict_context import bars, clocks, gaps, jobs
from workbench.commands.verdict_frames import STRAGGLER, Verdict
from workbench.commands.verdict_layout import LABEL, field, many, ordinal, short, wrap

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_VICTIMS = 12
"""Ranks that wait for a straggler and are named."""

HANG = "finding_hang"

QUESTIONS = {
    STRAGGLER: "held the job up",
    "finding_run_queue": "waited for a CPU longer than its peers",
    "finding_blocked": "was blocked longer than its peers",
    HANG: "never came to the call in which others wait",
    "finding_desync": "has members that make different calls",
    "finding_rotation": "has a late rank at most steps, and always another one",
    "finding_role_imbalance": "gives one role more work than the others",
}
"""What a finding says of its subject, by name."""


def report(verdict: Verdict, *, top: int) -> Iterator[str]:
    """Return the lines of the verdict, with at most `top` findings shown whole."""
    yield from wrap(headline(verdict), indent="")
    if verdict.of(STRAGGLER, "found"):
        yield from _stragglers(verdict, top)
    else:
        yield from _without_straggler(verdict)
    yield from _others(verdict, top)
    yield from bars(verdict)
    yield from jobs(verdict)
    yield from clocks(verdict)
    yield from gaps(verdict)


def headline(verdict: Verdict) -> str:
    """Return the verdict in one sentence; a job that hangs has no other."""
    hung = verdict.of(HANG, "found")
    if hung:
        return _hang(verdict, hung)
    found = verdict.of(STRAGGLER, "found")
    main = [row for row in found if row["step_count"] == _most_steps(found)]
    names = list(dict.fromkeys(str(row["subject_id"]) for row in main))
    if len(names) == 1:
        return sentence(verdict, main[0])
    if names:
        return f"{len(names)} ranks held the job up: {', '.join(names)}"
    return _nobody(_counts(verdict))


def _nobody(counts: dict[str, int]) -> str:
    """Return why no rank is named, from the count of each verdict."""
    if not counts:
        return "no rank is known in this case: nothing can be said of any"
    if counts.get("clear", 0) == sum(counts.values()):
        return "no rank held the job up"
    if counts.get("not_observed"):
        return "whether a rank held the job up cannot be seen in this capture"
    return "whether a rank held the job up cannot be decided from this capture"


def _hang(verdict: Verdict, rows: list[dict[str, Any]]) -> str:
    """Return whom stuck calls wait for; who waits stands in the evidence."""
    names = [
        f"rank {plain(row['subject_id'])} on {verdict.host_name(row['host_id'])}"
        for row in rows
    ]
    if len(names) == 1:
        return f"{names[0]} never came to the call in which others wait"
    return f"calls are stuck and wait for {', '.join(names[:-1])} and {names[-1]}"


def _most_steps(rows: list[dict[str, Any]]) -> int:
    """Return the steps of the whole run, or of the widest window with a late one."""
    return max(row["step_count"] for row in rows)


def sentence(verdict: Verdict, row: dict[str, Any]) -> str:
    """Return who held the job up, by how much, how often, and who waited."""
    host = verdict.host_name(row["host_id"])
    waiting = victims(verdict, row)
    tail = f", and {waiting} waited for it" if waiting else ""
    when = often(row)
    return (
        f"rank {plain(row['subject_id'])} on {host} held the job up by "
        f"{short(row['magnitude_ns'])} {when}{tail}"
    )


def often(row: dict[str, Any]) -> str:
    """Return in which steps it happens, in words."""
    affected, steps = row["affected_step_count"], row["step_count"]
    if affected == steps or row["period_steps"] == 1:
        return (
            f"at every one of {steps} steps" if affected == steps else "at every step"
        )
    if row["period_steps"]:
        return f"at each {ordinal(row['period_steps'])} step"
    return f"in {affected} of {steps} steps"


def victims(verdict: Verdict, row: dict[str, Any]) -> str:
    """Return who waited, in words; nothing where that is not known."""
    count = len(_waiting(verdict, row))
    others = verdict.ranks.filter(job_id=verdict.job_of(row)).height - 1
    if not count:
        return ""
    if count == others:
        return f"all {count} other ranks" if count > 1 else "the other rank"
    return f"{count} of {others} other ranks"


def _waiting(verdict: Verdict, row: dict[str, Any]) -> list[str]:
    """Return who waits for a straggler, the longest first."""
    mine = verdict.victims.filter(job_id=verdict.job_of(row), rank=row["rank"])
    return mine["subject_id"].unique(maintain_order=True).to_list()


def _stragglers(verdict: Verdict, top: int) -> Iterator[str]:
    rows = verdict.of(STRAGGLER, "found")
    for row in rows[:top]:
        yield ""
        if len(rows) > 1:
            yield from wrap(sentence(verdict, row), indent="")
        yield from _facts(verdict, row)
    if len(rows) > top:
        yield ""
        yield f"{len(rows) - top} more found; --top {len(rows)} shows them"


def _facts(verdict: Verdict, row: dict[str, Any]) -> Iterator[str]:
    """Return the paragraph of one finding."""
    if row["finding"] == STRAGGLER:
        yield from field(
            "late",
            f"{short(row['magnitude_ns'])} in {row['affected_step_count']} of "
            f"{row['step_count']} steps; the job took "
            f"{row['slowdown_ratio']:.2f} times as long as if no rank were late",
        )
        yield from field("victims", named_victims(verdict, row))
    yield from field("cause", cause(verdict, row))
    yield from field("confidence", row["confidence"])
    for label, name in (
        ("for", "evidence_for"),
        ("against", "evidence_against"),
        ("not checked", "not_checked"),
    ):
        lines = row[name] or (["nothing"] if name == "evidence_against" else [])
        for number, line in enumerate(lines):
            yield from field("" if number else label, line)
    if row["next_step"]:
        yield from field("next", row["next_step"])
    yield from _rows(verdict, row)


def named_victims(verdict: Verdict, row: dict[str, Any]) -> str:
    """Return the names of who waited; nothing where it was simply everybody."""
    waiting = _waiting(verdict, row)
    if len(waiting) == verdict.ranks.filter(job_id=verdict.job_of(row)).height - 1:
        return ""
    more = len(waiting) - MAX_VICTIMS
    named = ", ".join(waiting[:MAX_VICTIMS])
    return named + (f" and {more} more" if more > 0 else "")


def cause(verdict: Verdict, row: dict[str, Any]) -> str:
    """Return the cause with its code and its part of the excess."""
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
    path = shlex.quote(plain(verdict.case_path))
    yield f"  {'rows':<{LABEL}}  coldtrace query {path} \\"
    yield f"{' ' * (LABEL + 6)}{quoted(plain(evidence_query(row)))}"


def evidence_query(row: dict[str, Any]) -> str:
    """Return the query that shows a finding's rows."""
    where = " and ".join(row["evidence_keys"])
    return f"from {row['evidence_view']}" + (f" where {where}" if where else "")


def quoted(sql: str) -> str:
    """Return a query as one word of a shell, in double quotes where that will do."""
    return f'"{sql}"' if not set(sql) & set('"$`\\!') else shlex.quote(sql)


def _others(verdict: Verdict, top: int) -> Iterator[str]:
    """Return the findings beside the straggler: rows of their own, said in short."""
    rows = [row for row in verdict.found if row["finding"] != STRAGGLER]
    accused = {row["subject_id"] for row in verdict.of(STRAGGLER, "found")}
    for row in rows[:top]:
        yield ""
        said = other_sentence(verdict, row)
        yield from wrap(f"{said} ({row['finding']})", indent="")
        if row["subject_id"] in accused:
            yield from field("for", "; ".join(row["evidence_for"]))
            yield from _rows(verdict, row)
        else:
            yield from _facts(verdict, row)
    if len(rows) > top:
        yield ""
        yield f"{len(rows) - top} more found; --top {len(rows)} shows them"


def other_sentence(verdict: Verdict, row: dict[str, Any]) -> str:
    """Return what a finding beside the straggler says of its subject."""
    says = QUESTIONS.get(row["finding"], row["finding"])
    on = "" if row["host_id"] is None else f" on {verdict.host_name(row['host_id'])}"
    return f"{plain(row['subject_kind'])} {plain(row['subject_id'])}{on} {says}"


def _without_straggler(verdict: Verdict) -> Iterator[str]:
    """Return what was asked, of how many ranks, and what the answers were."""
    yield ""
    steps = verdict.ranks["step_count"].max() or 0
    yield from field(
        "looked at",
        f"{many(verdict.ranks.height, 'rank')} on "
        f"{many(verdict.hosts.height, 'host')}, {steps} steps",
    )
    for verdict_word in ("not_decidable", "not_observed"):
        rows = verdict.of(STRAGGLER, verdict_word)
        reasons = [line for row in rows for line in _reasons(row)]
        for number, reason in enumerate(dict.fromkeys(reasons)):
            yield from field("" if number else verdict_word.replace("_", " "), reason)


def _reasons(row: dict[str, Any]) -> list[str]:
    return row["evidence_against"] or row["not_checked"]


def _counts(verdict: Verdict) -> dict[str, int]:
    rows = verdict.findings.filter(finding=STRAGGLER)
    return dict(rows.group_by("verdict").len().iter_rows())
