"""One line of the doctor's report, and the words for its state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

OK, PARTLY, MISSING, UNKNOWN = "ok", "partly", "missing", "unknown"
STATES = (OK, PARTLY, MISSING, UNKNOWN)

CALL_STREAMS = ("collective", "gpu_call")


@dataclass(frozen=True)
class Row:
    """What one check found.

    ``streams`` are those that suffer: a ``missing`` row keeps them from being recorded,
    a ``partly`` row from being recorded whole.  A row without streams informs.
    """

    family: str
    capability: str
    state: str
    sentence: str
    needed_for: str
    advice: str | None = None
    streams: tuple[str, ...] = ()
    pid: int | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the row with its keys in a fixed order."""
        return {
            "family": self.family,
            "capability": self.capability,
            "pid": self.pid,
            "state": self.state,
            "sentence": self.sentence,
            "needed_for": self.needed_for,
            "advice": self.advice,
            "streams": list(self.streams),
        }
