"""The lateness map says what its frame holds, and its PNG is small but the same."""

from __future__ import annotations

import struct
import zlib

import polars as pl
import pytest

from workbench.charts import png
from workbench.charts.lateness import LATENESS_SCHEMA, lateness_map


@pytest.fixture
def frame() -> pl.DataFrame:
    """Return three ranks over five steps; rank 2 is late at step 3."""
    rows = [
        (r, s, 290.0 if (r, s) == (2, 3) else 0.5) for r in range(3) for s in range(5)
    ]
    return pl.DataFrame(rows, schema=LATENESS_SCHEMA, orient="row")


def test_the_map_has_ranks_down_steps_across_and_excess_as_colour(
    frame: pl.DataFrame,
) -> None:
    chart = lateness_map(
        frame, title="Rank 2 holds the job up", subtitle="once"
    ).to_dict()

    encoding = chart["encoding"]
    assert encoding["y"]["field"] == "rank"
    assert encoding["y"]["sort"] == "ascending"
    assert encoding["x"]["field"] == "step"
    assert encoding["color"]["field"] == "excess_ms"
    assert encoding["color"]["title"].endswith("(ms)")
    assert chart["title"]["text"] == "Rank 2 holds the job up"


def test_every_cell_of_the_frame_reaches_the_chart(frame: pl.DataFrame) -> None:
    chart = lateness_map(frame, title="t", subtitle="s").to_dict()

    (rows,) = chart["datasets"].values()
    assert {(row["rank"], row["step"]): row["excess_ms"] for row in rows} == {
        (rank, step): excess for rank, step, excess in frame.iter_rows()
    }


def _image(data: bytes) -> tuple[bytes, bytes]:
    """Return the header chunk and the unpacked pixels of a PNG."""
    chunks = list(png._chunks(data))
    for kind, body in chunks:
        stored = struct.pack(">I", zlib.crc32(kind + body))
        assert kind + body + stored in data
    pixels = b"".join(body for kind, body in chunks if kind == b"IDAT")
    return dict(chunks)[b"IHDR"], zlib.decompress(pixels)


def test_squeezing_keeps_every_pixel_and_saves_bytes(
    frame: pl.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[bytes] = []
    squeeze = png._squeeze
    monkeypatch.setattr(
        png, "_squeeze", lambda data: drawn.append(data) or squeeze(data)
    )

    small = png.to_png(lateness_map(frame, title="t", subtitle="s"))

    assert _image(small) == _image(drawn[0])
    assert len(small) < len(drawn[0]) / 2
