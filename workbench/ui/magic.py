"""A cell of SQL in a notebook: ``%%case``, on the case that the notebook has open.

::

    %load_ext workbench.ui.magic

    case = open_case("late.duckdb")

    %%case
    from step_work where rank = $rank order by step

    %%case base --to slowest
    from rank_summary order by own_ns desc limit 5

The word is the variable that holds the case, ``case`` if it is left out, so two open
cases can be asked in turn.  The rows are the cell's result, a polars frame; ``--to``
gives them to a variable as well.  A ``$name`` in the query has the value of the
variable of that name: it travels as a value and never as SQL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
from IPython.core.magic import Magics, cell_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring

from workbench.errors import QueryError
from workbench.store.ask import ask
from workbench.store.case import Case
from workbench.store.own_views import open_library

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl
    from IPython.core.interactiveshell import InteractiveShell

DEFAULT_NAME = "case"
"""Variable that is asked if a cell names none."""


@magics_class
class CaseMagics(Magics):
    """The cell magic ``%%case``."""

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell)
        self._variables: dict[str, Any] = shell.user_ns

    @magic_arguments()
    @argument(
        "name",
        nargs="?",
        default=DEFAULT_NAME,
        help=f"variable that holds the open case (default: {DEFAULT_NAME})",
    )
    @argument("--to", metavar="VARIABLE", help="variable that keeps the rows")
    @cell_magic("case")
    def query(self, line: str, cell: str) -> pl.DataFrame:
        """Run a cell of SQL on an open case and return its rows as a polars frame."""
        args = parse_argstring(self.query, line)
        variables = self._variables
        case = _case_of(args.name, variables)
        library = case.library or open_library(case)
        frame = ask(case, library, cell, _parameters(cell, variables))
        if args.to is not None:
            variables[args.to] = frame
        return frame


def _case_of(name: str, variables: Mapping[str, Any]) -> Case:
    case = variables.get(name)
    if isinstance(case, Case):
        return case
    raise QueryError(
        f"no open case is called {name}", hint=f'{name} = open_case("CASE.duckdb")'
    )


def _parameters(sql: str, variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the ``$name`` parameters of a query."""
    try:
        statements = duckdb.extract_statements(sql)
    except duckdb.Error:
        return {}  # whoever runs the query says what is wrong with it
    names = {name for each in statements for name in each.named_parameters}
    missing = sorted(name for name in names if name not in variables)
    if missing:
        raise QueryError(
            f"the query asks for ${missing[0]}, and there is no such variable"
        )
    return {name: variables[name] for name in sorted(names)}


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Answer ``%load_ext workbench.ui.magic``."""
    shell.register_magics(CaseMagics(shell))
