"""Put the rows that a model computed into its table.

Arrays are registered as they are (design: no pyarrow); a column with missing values is
a list with None in it.  A table's declared types decide, so a wrong one is an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import duckdb
    from numpy.typing import NDArray

    from workbench.store.case import Case


def replace_rows(
    case: Case, table: str, columns: Mapping[str, Sequence[Any] | NDArray[Any]]
) -> None:
    """Make `columns` the rows of the model's table, matched by name."""
    connection = case.connection
    connection.execute(f"delete from model.{table}")
    arrays = {
        name: values
        for name, values in columns.items()
        if isinstance(values, np.ndarray)
    }
    if len(arrays) == len(columns):
        _insert_arrays(connection, table, arrays)
    else:
        _insert_lists(connection, table, columns)


def _insert_arrays(
    connection: duckdb.DuckDBPyConnection,
    table: str,
    arrays: Mapping[str, NDArray[Any]],
) -> None:
    names = ", ".join(arrays)
    connection.register("model_rows", dict(arrays))
    connection.execute(
        f"insert into model.{table} ({names}) select {names} from model_rows"
    )
    connection.unregister("model_rows")


def _insert_lists(
    connection: duckdb.DuckDBPyConnection,
    table: str,
    columns: Mapping[str, Sequence[Any] | NDArray[Any]],
) -> None:
    """Insert all rows by one statement: one a row takes milliseconds each."""
    lists = [
        values.tolist() if isinstance(values, np.ndarray) else list(values)
        for values in columns.values()
    ]
    if any(lists):
        marks = ", ".join(["unnest(?)"] * len(columns))
        connection.execute(
            f"insert into model.{table} ({', '.join(columns)}) select {marks}", lists
        )
