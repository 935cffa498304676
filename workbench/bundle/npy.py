"""Columns out of ``.npy`` bytes, by a parser that knows six dtypes and no pickle.

``numpy.load`` evaluates the header as a Python literal and can be asked to unpickle;
here the header must match one pattern, and its claim is compared with the bytes at hand
before an array is made over them (no copy).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

DTYPES = ("<i8", "<i4", "<i2", "|i1", "<u8", "|b1")
MAX_CHUNK_ROWS = 262_144
MAX_COLUMN_BYTES = MAX_CHUNK_ROWS * 8 + 4096
"""The largest member that a column can be, header included."""

_PREFIX = b"\x93NUMPY\x01\x00"
_HEADER = re.compile(
    rb"\{'descr': '(<i8|<i4|<i2|\|i1|<u8|\|b1)', 'fortran_order': False, "
    rb"'shape': \((\d{1,9}),\), ?\} *\n"
)


def parse_column(data: bytes) -> NDArray[Any] | None:
    """Return the one-dimensional array that `data` holds, None if it is no column."""
    start = len(_PREFIX) + 2
    if len(data) < start or not data.startswith(_PREFIX):
        return None
    end = start + int.from_bytes(data[start - 2 : start], "little")
    match = _HEADER.fullmatch(data, start, min(end, len(data)))
    if match is None or end > len(data):
        return None
    dtype = np.dtype(match[1].decode())
    rows = int(match[2])
    if len(data) - end != rows * dtype.itemsize:
        return None
    if dtype == np.bool_:
        # Any byte but 0 is true; numpy would keep the odd byte and sum it as such.
        return np.frombuffer(data, np.uint8, rows, end) != 0
    return np.frombuffer(data, dtype, rows, end)
