"""A chart as a small PNG: vl-convert draws it, its pixels are deflated again.

vl-convert writes almost uncompressed images; level 9 makes them about twenty times
smaller with the same pixels.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Any

import vl_convert

if TYPE_CHECKING:
    from collections.abc import Iterator

    import altair as alt

SIGNATURE = b"\x89PNG\r\n\x1a\n"


def to_png(chart: alt.Chart, *, scale: float = 2.0) -> bytes:
    """Return the chart as PNG bytes, on white, with nothing fetched."""
    return spec_to_png(chart.to_dict(), scale=scale)


def spec_to_png(spec: dict[str, Any], *, scale: float) -> bytes:
    """Return a chart's specification as PNG bytes, on white, with nothing fetched."""
    return draw({**spec, "background": "white"}, scale=scale)


def draw(spec: dict[str, Any], *, scale: float = 2.0) -> bytes:
    """Return a chart's specification as PNG bytes, on the ground that it names."""
    return squeeze(vl_convert.vegalite_to_png(spec, scale=scale))


def squeeze(png: bytes) -> bytes:
    """Return the same image with its pixels deflated at level 9."""
    pixels, out = b"", [SIGNATURE]
    for kind, data in _chunks(png):
        if kind == b"IDAT":
            pixels += data
            continue
        if kind == b"IEND":
            out.append(_chunk(b"IDAT", zlib.compress(zlib.decompress(pixels), 9)))
        out.append(_chunk(kind, data))
    return b"".join(out)


def _chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = len(SIGNATURE)
    while at < len(png):
        length, kind = struct.unpack_from(">I4s", png, at)
        yield kind, png[at + 8 : at + 8 + length]
        at += 12 + length


def _chunk(kind: bytes, data: bytes) -> bytes:
    check = zlib.crc32(kind + data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)
