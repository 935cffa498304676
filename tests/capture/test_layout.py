"""The layouts in Python are those of the header that the kernel programs include."""

from __future__ import annotations

import json
import struct
import subprocess
from typing import TYPE_CHECKING

import pytest

from capture import probes
from capture.layout import LAYOUTS
from capture.loaders import FACT, counters, kernel

if TYPE_CHECKING:
    from pathlib import Path

_SIZES = {
    "struct fact": FACT.size,
    "struct control": kernel.CONTROL.size,
    "struct probe_count": counters.COUNT.size,
    "struct probe_row": probes.ROW.size,
    "struct call_key": kernel.CALL_KEY.size,
    "struct call": kernel.CALL_SIZE,
    "struct communicator_key": kernel.COMMUNICATOR_KEY.size,
    "struct communicator": kernel.COMMUNICATOR.size,
    "struct absence": kernel.ABSENCE_SIZE,
    "struct thread_state": kernel.MAPS["threads"][2],
    "struct process_state": kernel.MAPS["processes"][2],
    "struct pair_key": kernel.MAPS["pair_calls"][1],
}
_OFFSETS = {
    ("struct call", "stream"): kernel.CALL_STREAM,
    ("struct call", "is_silent"): kernel.CALL_IS_SILENT,
    ("struct absence", "is_away"): kernel.ABSENCE_IS_AWAY,
}
_FACT_FIELDS = (
    "time_ns",
    "mix1",
    "mix2",
    "kind",
    "pid",
    "tid",
    "ref",
    "parent",
    "child_index",
    "color",
    "key",
    "size",
    "rank",
    "how",
    "vendor",
    "flags",
)
_ENUMS = {
    **{f"IS_{m.name}": m.value for m in probes.Meaning if m.name != "CALL"},
    "IS_CALL": 0,
    "FACT_COMMUNICATOR": 1,
    "FACT_THREAD": 7,
    "HOW_SEEN": 1,
    "HOW_SPLIT_TYPE": 10,
    "ARG_SIZE": 0,
    "ARG_SLOTS": 13,
    "F_BASE_KNOWN": 64,
}
_PREFIXES = {"collective": "C", "gpu_call": "G", "off_cpu": "O"}


def _expressions() -> dict[str, str]:
    """Return what to print, by a name of ours."""
    found = {f"size {name}": f"sizeof({name})" for name in _SIZES}
    for struct_name, field in _OFFSETS:
        found[f"at {struct_name} {field}"] = f"offsetof({struct_name}, {field})"
    for field in _FACT_FIELDS:
        found[f"fact {field}"] = f"offsetof(struct fact, {field})"
    for name in _ENUMS:
        found[f"enum {name}"] = f"(int)({name})"
    for stream, layout in LAYOUTS.items():
        kind = f"struct {stream}_record"
        found[f"{stream} size"] = f"sizeof({kind})"
        for field in layout.fields:
            found[f"{stream} {field.name}"] = f"offsetof({kind}, {field.name})"
            found[f"{stream} {field.name} width"] = (
                f"sizeof((({kind} *)0)->{field.name})"
            )
        for number, flags in enumerate(layout.flags):
            name = "flags2" if number else "flags"
            found[f"{stream} flags {flags.offset}"] = f"offsetof({kind}, {name})"
        prefix = _PREFIXES[stream]
        found[f"{stream} is_open"] = f"{prefix}_IS_OPEN"
        found[f"{stream} has_duration"] = f"{prefix}_HAS_DURATION"
    return found


@pytest.fixture(scope="module")
def compiled(root: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """Return the numbers that a C compiler gives to all of them."""
    folder = tmp_path_factory.mktemp("layout")
    types = "".join(
        f"typedef {c} {name};\n"
        for name, c in (
            ("u8", "unsigned char"),
            ("s8", "signed char"),
            ("u16", "unsigned short"),
            ("s16", "short"),
            ("u32", "unsigned int"),
            ("s32", "int"),
            ("u64", "unsigned long long"),
            ("s64", "long long"),
        )
    )
    lines = "".join(
        f'printf("%s\\"{name}\\": %ld", n++ ? ", " : "", (long)({expression}));\n'
        for name, expression in _expressions().items()
    )
    source = folder / "layout.c"
    source.write_text(
        f'#include <stdio.h>\n#include <stddef.h>\n{types}#include "record.h"\n'
        f'int main(void) {{ int n = 0; printf("{{");\n{lines}printf("}}"); }}\n'
    )
    program = folder / "layout"
    subprocess.run(
        ["gcc", f"-I{root / 'capture/bpf'}", "-o", program, source], check=True
    )
    return json.loads(subprocess.check_output([program]))


@pytest.mark.parametrize("stream", LAYOUTS)
def test_columns_stand_where_the_kernel_writes_them(
    compiled: dict[str, int], stream: str
) -> None:
    layout = LAYOUTS[stream]

    assert compiled[f"{stream} size"] == layout.size
    for field in layout.fields:
        assert compiled[f"{stream} {field.name}"] == field.offset, field.name
        width = struct.calcsize(field.code)
        assert compiled[f"{stream} {field.name} width"] == width, field.name
    for flags in layout.flags:
        assert compiled[f"{stream} flags {flags.offset}"] == flags.offset


@pytest.mark.parametrize("stream", LAYOUTS)
def test_records_can_be_cut_into_columns(stream: str) -> None:
    layout = LAYOUTS[stream]

    assert layout.size % 8 == 0
    for field in layout.fields:
        assert field.offset % struct.calcsize(field.code) == 0, field.name
    names = LAYOUTS[stream].flags[0].names
    assert names.index("is_open") == 1
    assert names.index("has_duration_ns") == 0


@pytest.mark.parametrize("name", _SIZES)
def test_values_of_maps_have_the_size_python_reads(
    compiled: dict[str, int], name: str
) -> None:
    assert compiled[f"size {name}"] == _SIZES[name]


def test_fields_that_python_picks_out_are_where_it_looks(
    compiled: dict[str, int],
) -> None:
    for (struct_name, field), offset in _OFFSETS.items():
        assert compiled[f"at {struct_name} {field}"] == offset
    for stream in LAYOUTS:
        assert compiled[f"{stream} is_open"] == 1 << 1
        assert compiled[f"{stream} has_duration"] == 1 << 0


def test_facts_are_unpacked_as_they_are_packed(compiled: dict[str, int]) -> None:
    offset, places = 0, []
    for code in FACT.format.strip("<").replace("4x", ""):
        if code.isdigit():
            continue
        places.append(offset)
        offset += struct.calcsize(code)
    # "QQQIiiiiiiiiiBBH" has no gaps before its padding.
    assert [compiled[f"fact {field}"] for field in _FACT_FIELDS] == places


@pytest.mark.parametrize("name", _ENUMS)
def test_numbers_that_both_sides_use_agree(compiled: dict[str, int], name: str) -> None:
    assert compiled[f"enum {name}"] == _ENUMS[name]
