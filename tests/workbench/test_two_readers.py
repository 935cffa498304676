"""The claim: the recorder's reader and the workbench's say the same of any damage.

They were written apart, against BUNDLE.md; where one of them misreads that page, they
differ here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from capture.verify import verify_bundle as verify_as_recorder
from tests.builders import case
from workbench.bundle.verify import verify_bundle as verify_as_workbench

if TYPE_CHECKING:
    from pathlib import Path

STRIDE = 13
UNUSED = [
    "stream_handle",
    "caller_library_ref",
    "caller_offset",
    "child_ref",
    "return_code",
    "data_type",
    "peer_rank",
    "group_seq",
    "group_depth",
    "element_count",
    "collective_seq",
    "communicator_ref",
]


@pytest.fixture
def sound(tmp_path: Path) -> Path:
    host = case().host(
        "a",
        streams=["collective"],
        chunk_rows=2,
        without_columns={"collective": UNUSED},
    )
    for number in range(4):
        host.rank(0).collective(
            start_ns=1_000 * number, duration_ns=7, communicator=None
        )
    return host.write(tmp_path)


def agreed(path: Path) -> list[tuple[str, str]]:
    """Return what both say is wrong, after checking that they say the same."""
    one, other = verify_as_recorder(path), verify_as_workbench(path)
    said = sorted((each.kind, each.message) for each in one.problems)
    assert said == sorted((each.kind, each.message) for each in other.damage)
    assert one.is_refused == other.is_refused
    assert other.is_refused or one.content_sha256 == other.content_sha256
    return said


def test_a_bundle_that_no_code_of_the_recorder_wrote_is_sound_to_both(
    sound: Path,
) -> None:
    assert agreed(sound) == []


def test_a_flipped_byte(sound: Path, tmp_path: Path) -> None:
    data = sound.read_bytes()
    flipped = tmp_path / "flipped.bundle"
    kinds: set[str] = set()

    for place in range(0, len(data), STRIDE):
        changed = bytearray(data)
        changed[place] ^= 0xFF
        flipped.write_bytes(changed)
        kinds |= {kind for kind, _ in agreed(flipped)}

    assert {"bad_checksum", "bad_manifest", "directory_mismatch"} <= kinds


def test_a_cut(sound: Path, tmp_path: Path) -> None:
    data = sound.read_bytes()
    cut = tmp_path / "cut.bundle"

    for length in range(0, len(data), STRIDE):
        cut.write_bytes(data[:length])
        assert agreed(cut)[0][0] in {"not_a_zip", "truncated", "bad_checksum"}
