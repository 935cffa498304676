"""Facts and clock readings into their tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.store.raw_schema import fact_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duckdb import DuckDBPyConnection
    from numpy.typing import NDArray

    from workbench.bundle.facts import Key

_ROWS = "_rows"
_DTYPES = {"INTEGER": np.int32, "BIGINT": np.int64, "BOOLEAN": np.bool_}


def insert_rows(
    connection: DuckDBPyConnection,
    table: str,
    keys: Sequence[Key],
    rows: list[dict[str, Any]],
    *,
    bundle_id: int,
    host_id: int,
    thread_ids: list[int] | None = None,
) -> None:
    """Append rows to ``raw.<table>``, with the key of each row's thread if given."""
    if not rows:
        return
    data = {key.name: _array(fact_type(key), rows, key.name) for key in keys}
    names = [f'"{key.name}"::{fact_type(key)}' for key in keys]
    if thread_ids is not None:
        data["thread_id"] = np.array(thread_ids, np.int32)
        names.insert(0, "thread_id")
    connection.register(_ROWS, data)
    try:
        connection.execute(
            f"insert into raw.{table} "
            f"select $bundle_id, $host_id, {', '.join(names)} from {_ROWS}",
            {"bundle_id": bundle_id, "host_id": host_id},
        )
    finally:
        connection.unregister(_ROWS)


def _array(sql_type: str, rows: list[dict[str, Any]], name: str) -> NDArray[Any]:
    """Return one key of all rows; None becomes NULL."""
    values = [row[name] for row in rows]
    dtype = _DTYPES.get(sql_type)
    if dtype is None:
        array = np.empty(len(values), object)
        array[:] = values
        return array
    is_null = [value is None for value in values]
    filled = [0 if value is None else value for value in values]
    return np.ma.masked_array(np.array(filled, dtype), is_null)
