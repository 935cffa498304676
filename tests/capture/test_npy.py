"""Columns are the NumPy files that NumPy itself would write."""

from __future__ import annotations

import io

import numpy as np
import pytest

from capture.npy import DTYPE_SIZES, npy_header, parse_npy


@pytest.mark.parametrize("dtype", DTYPE_SIZES)
@pytest.mark.parametrize("rows", [0, 1, 97, 262_144])
def test_header_is_byte_for_byte_that_of_numpy(dtype: str, rows: int) -> None:
    target = io.BytesIO()
    column = np.zeros(rows, dtype)

    np.lib.format.write_array(target, column, version=(1, 0))

    whole = npy_header(dtype, rows) + column.tobytes()
    assert whole == target.getvalue()
    assert parse_npy(whole, len(whole)) == (dtype, rows)


@pytest.mark.parametrize(
    "column",
    [
        np.zeros((2, 2), "<i8"),
        np.zeros(2, ">i8"),
        np.zeros(2, "<f8"),
        np.zeros(2, "<u2"),
    ],
    ids=["two dimensions", "big-endian", "float", "unsigned"],
)
def test_other_arrays_are_no_columns(column: np.ndarray) -> None:
    target = io.BytesIO()

    np.lib.format.write_array(target, column, version=(1, 0))

    assert parse_npy(target.getvalue(), len(target.getvalue())) is None
