"""One recording from the first probe to the sealed bundle."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from capture.options import RecordOptions


@dataclass(frozen=True)
class RecordResult:
    """What a recording left behind."""

    spool: Optional[Path]
    bundle: Optional[Path]
    stop_reason: str
    record_count: int
    lost_count: int


def record(options: RecordOptions) -> RecordResult:
    """Record until asked to stop, and seal unless told not to.

    Raises
    ------
    CaptureError
        If nothing can be recorded here, with the reason and the next step.
    """
    raise NotImplementedError(options)
