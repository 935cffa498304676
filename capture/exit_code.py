"""What the recorder's exit status says; the workbench uses the same numbers."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit status of every command."""

    DONE = 0
    """It was done, whatever was found."""

    FAILED = 1
    """It could not be done: nothing can be recorded here, the disk is full."""

    PART = FAILED
    """``doctor``: part of it can be recorded here."""

    USAGE = 2
    """The command line asks for something that there is not."""

    UNREADABLE = 3
    """An input is no spool or no bundle, or one that must not be believed."""

    DAMAGED = 4
    """A bundle was verified and part of it is damaged."""

    FACTS_ONLY = 5
    """``doctor``: no event stream can be recorded here, facts and samples can."""

    LEAK = 6
    """A bundle holds what redaction was to take out, or cannot be searched for it."""

    INTERRUPTED = 130
    """Interrupted; a recording that is interrupted ends by itself and is done."""
