"""The call that ends a step, named by a user instead of sought by the step model.

The choice is a row of the case, so that all who open it see the same steps, and the
stamps of what stands on it make exactly that stale.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.errors import CaseError

if TYPE_CHECKING:
    from workbench.store.case import Case

NONE = "none"
"""What takes a marker away."""

CALLED = """
    select distinct communicator_id
    from collective_span
    where
        operation = $operation and communicator_id is not null
        and operation not in ('send', 'recv') and collective_seq is not null
        and starts_with(communicator_id, $communicator)
"""

OPERATIONS = """
    select distinct operation
    from collective_span
    where collective_seq is not null and operation not in ('send', 'recv')
    order by operation
"""


def choose(case: Case, marker: str) -> None:
    """Store the marker of a case that is open for writing; its views are built after.

    Parameters
    ----------
    marker
        OPERATION or OPERATION:COMMUNICATOR, the latter an id or how one begins; or
        ``none``.

    Raises
    ------
    CaseError
        If nobody made such a call, or it is not clear on which communicator.
    """
    operation, _, communicator = marker.partition(":")
    rows = [] if marker == NONE else [_resolved(case, operation, communicator)]
    case.connection.execute("delete from raw.step_marker")
    for row in rows:
        case.connection.execute("insert into raw.step_marker values (?, ?)", row)


def _resolved(case: Case, operation: str, communicator: str) -> list[str | None]:
    asked = {"operation": operation, "communicator": communicator}
    found = case.frame(CALLED, asked)["communicator_id"].to_list()
    if not found:
        known = ", ".join(case.frame(OPERATIONS)["operation"])
        on = f" on a communicator {communicator}" if communicator else ""
        raise CaseError(
            f"no numbered call {operation}{on} in this case",
            hint=f"the operations are {known}" if known else None,
        )
    if communicator and len(found) > 1:
        raise CaseError(
            f"{len(found)} communicators begin with {communicator}",
            hint=f"two of them are {' and '.join(sorted(found)[:2])}",
        )
    return [operation, found[0] if communicator else None]
