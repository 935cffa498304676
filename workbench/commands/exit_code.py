"""Exit codes of ``coldtrace``, and which error gives which.

Exit codes are the contract of the command and not of the library, so errors do not
carry them: the one mapping stands here.
"""

from __future__ import annotations

from enum import IntEnum

from workbench.errors import QueryError, WorkbenchError


class ExitCode(IntEnum):
    """What the command says to a script."""

    OK = 0
    """Done, whatever was found."""

    GATE_FAILED = 1
    """A check that was asked for did not hold."""

    USAGE = 2
    """The command line, or a query on it, is wrong."""

    UNREADABLE = 3
    """An input cannot be read at all."""

    DAMAGED = 4
    """Loaded or verified, but not all of it was sound."""

    INTERRUPTED = 130
    """Stopped from the keyboard."""


class UsageError(WorkbenchError):
    """A command line that asks for something that cannot be."""


def exit_code_of(error: BaseException) -> ExitCode | None:
    """Return the exit code for an error; None if it is a fault of the program."""
    if isinstance(error, KeyboardInterrupt):
        return ExitCode.INTERRUPTED
    if isinstance(error, (UsageError, QueryError)):
        return ExitCode.USAGE
    if isinstance(error, (WorkbenchError, OSError)):
        return ExitCode.UNREADABLE
    if isinstance(error, ExceptionGroup):
        codes = {exit_code_of(each) for each in error.exceptions}
        return None if None in codes else ExitCode.UNREADABLE
    return None
