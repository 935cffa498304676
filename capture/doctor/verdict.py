"""The end of the report: what can be recorded here, in one sentence and a number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from capture.doctor.row import MISSING, OK, PARTLY
from capture.exit_code import ExitCode
from capture.options import STREAMS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from capture.doctor.row import Row

_RANK = {OK: 0, PARTLY: 1, MISSING: 2}


@dataclass(frozen=True)
class Verdict:
    """What can be recorded: each stream's state, and of those not whole the reason."""

    states: dict[str, str]
    reasons: dict[str, str]

    @property
    def exit_code(self) -> ExitCode:
        """Return what doctor ends with."""
        if all(state == OK for state in self.states.values()):
            return ExitCode.DONE
        if all(state == MISSING for state in self.states.values()):
            return ExitCode.FACTS_ONLY
        return ExitCode.PART

    @property
    def sentence(self) -> str:
        """Return the verdict for a reader."""
        if self.exit_code is ExitCode.DONE:
            return "all can be recorded"
        if self.exit_code is ExitCode.FACTS_ONLY:
            return "facts and samples only: record --streams none"
        whole = [name for name, state in self.states.items() if state == OK]
        return f"part of it can be recorded; whole: {', '.join(whole) or 'none'}"

    def as_json(self) -> dict[str, Any]:
        """Return the verdict with its keys in a fixed order."""
        words = {
            ExitCode.DONE: "all",
            ExitCode.PART: "part",
            ExitCode.FACTS_ONLY: "facts_only",
        }
        return {
            "can_record": words[self.exit_code],
            "exit_code": int(self.exit_code),
            "sentence": self.sentence,
            "streams": {
                name: {"state": state, "reason": self.reasons.get(name)}
                for name, state in self.states.items()
            },
        }


def judge(rows: Iterable[Row]) -> Verdict:
    """Return the verdict that these rows amount to.

    A stream is as bad as its worst row.  Rows about single processes take a stream away
    only together: while one target can be recorded, it is recorded in part.
    """
    rows = list(rows)
    pids = {row.pid for row in rows if row.pid is not None}
    states = dict.fromkeys(STREAMS, OK)
    reasons: dict[str, str] = {}
    for stream in STREAMS:
        concerned = [row for row in rows if stream in row.streams]
        lost = {row.pid for row in concerned if row.state == MISSING}
        for row in sorted(concerned, key=lambda row: -_RANK.get(row.state, 0)):
            is_whole_loss = row.pid is None or lost >= pids
            state = row.state if is_whole_loss else PARTLY
            if _RANK.get(state, 0) > _RANK[states[stream]]:
                states[stream] = state
                reasons[stream] = _reason(row)
    return Verdict(states, reasons)


def _reason(row: Row) -> str:
    who = row.capability if row.pid is None else f"process {row.pid}"
    return f"{who}: {row.sentence}"
