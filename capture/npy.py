"""NumPy files of format 1.0 with one dimension, without NumPy.

The layout is part of BUNDLE.md (section Container): NumPy's own writer gives the same
bytes, which a test checks, so a bundle does not show which of the two wrote it.
"""

from __future__ import annotations

import re
import struct

MAGIC = b"\x93NUMPY\x01\x00"
ALIGNMENT = 64
DTYPE_SIZES = {"<i8": 8, "<i4": 4, "<i2": 2, "|i1": 1, "<u8": 8, "|b1": 1}

_HEADER = re.compile(
    rb"\{'descr': '([<|][iub][1248])', 'fortran_order': False, "
    rb"'shape': \((\d{1,18}),\), \} *\n"
)


def npy_header(dtype: str, rows: int) -> bytes:
    """Return the bytes before the data of a column."""
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': ({rows},), }}"
    # The shape is written with room to grow, as NumPy does for files it appends to.
    text += " " * (21 - len(str(rows)))
    unpadded = len(MAGIC) + 2 + len(text) + 1
    text += " " * (-unpadded % ALIGNMENT) + "\n"
    return MAGIC + struct.pack("<H", len(text)) + text.encode("ascii")


def parse_npy(data: bytes, length: int) -> tuple[str, int] | None:
    """Return dtype and rows of a column, or nothing if it is not as BUNDLE.md says.

    Parameters
    ----------
    data
        Beginning of the file; the header must be in it.
    length
        Bytes of the whole file.
    """
    if not data.startswith(MAGIC) or len(data) < len(MAGIC) + 2:
        return None
    (header_length,) = struct.unpack_from("<H", data, len(MAGIC))
    start = len(MAGIC) + 2 + header_length
    match = _HEADER.fullmatch(data[len(MAGIC) + 2 : start])
    if match is None or start % ALIGNMENT:
        return None
    dtype, rows = match[1].decode(), int(match[2])
    if dtype not in DTYPE_SIZES or length - start != rows * DTYPE_SIZES[dtype]:
        return None
    return dtype, rows
