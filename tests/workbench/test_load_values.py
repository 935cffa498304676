"""The claim: extreme values and columns of one value arrive like any others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.builders import case
from tests.workbench.loading import load

if TYPE_CHECKING:
    from pathlib import Path


def test_a_column_of_one_value_arrives_like_any_other(tmp_path: Path) -> None:
    lowest = -(2**63)
    same = (
        case()
        .host("a")
        .events(
            "gpu_call",
            start_ns=[1, 2],
            tid=[7, 7],
            size_bytes=[lowest] * 2,
            operation=[-5] * 2,
            copy_kind=[-128] * 2,
            is_open=[True] * 2,
        )
    )
    made, _ = load(same.write(tmp_path))

    assert made.frame(
        "select start_ns, tid, size_bytes, operation, copy_kind, is_open, duration_ns"
        " from raw.gpu_call order by start_ns"
    ).rows() == [
        (start_ns, 7, lowest, "operation_-5", -128, True, None) for start_ns in (1, 2)
    ]


def test_a_value_that_varies_in_a_later_chunk_only_is_loaded(tmp_path: Path) -> None:
    sizes = [0] * 4 + [5, 6, 0, 0]
    host = (
        case()
        .host("a", chunk_rows=2)
        .events("gpu_call", start_ns=np.arange(8), tid=[7] * 8, size_bytes=sizes)
    )
    made, _ = load(host.write(tmp_path))

    loaded = made.frame("select size_bytes from raw.gpu_call order by start_ns")
    assert loaded["size_bytes"].to_list() == sizes


@pytest.mark.parametrize("other", [1, 2**15 - 1])
def test_the_highest_code_is_a_code(tmp_path: Path, other: int) -> None:
    host = case().host("a")
    host.events("gpu_call", start_ns=[1, 2], tid=[7, 7], operation=[2**15 - 1, other])
    host.events("off_cpu", start_ns=[1], tid=[7], off_state=[127])
    made, _ = load(host.write(tmp_path))

    first = made.frame("select operation from raw.gpu_call where start_ns = 1")
    assert first.item() == "operation_32767"
    assert made.frame("select off_state from raw.off_cpu").item() == "off_state_127"
