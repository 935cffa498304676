"""Claim: the recorder is one file, the same bytes wherever it was built, and all in it.

Two builds from two folders, under another mask, another day and another time zone; what
the bill of materials says is held against what the archive has.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from capture import __version__
from tests.capture.bpf_object import BpfObject, context_reads, read_object
from tests.capture.one_file import build

ROOT = Path(__file__).resolve().parents[2]
ENTRY = ROOT / ".ci" / "capture" / "entry.py"
BPF, BTF_MAGIC = 247, b"\x9f\xeb"
REGISTERS = {
    # Names by offset into struct pt_regs (arch/x86/include/asm/ptrace.h).
    "x86_64": (
        {112: "di", 104: "si", 96: "dx", 88: "cx", 72: "r8", 64: "r9", 152: "sp"}
        | {80: "ax"},
        {"uprobe/enter": "di si dx cx r8 r9 sp", "uretprobe/leave": "ax sp"},
    ),
    # struct user_pt_regs (arch/arm64/include/uapi/asm/ptrace.h); x30 is the caller.
    "aarch64": (
        {8 * number: f"x{number}" for number in range(31)} | {248: "sp"},
        {
            "uprobe/enter": "x0 x1 x2 x3 x4 x5 x6 x7 x30 sp",
            "uretprobe/leave": "x0 sp",
        },
    ),
}
SERIAL = r"urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
ON_X86_ONLY = {"waking_hot"}
OLD = """
import runpy, sys
sys.version_info = (3, 6, 8)
runpy.run_path(sys.argv[1], run_name="__main__")
"""

pytestmark = pytest.mark.slow


def content_of(pyz: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(pyz) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_two_builds_in_two_folders_are_the_same_bytes(
    built: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "a longer/way down"
    (elsewhere / "capture/bpf").mkdir(parents=True)
    (elsewhere / "capture/bpf/gone-x86_64.bpf.o").write_bytes(b"left over")

    again = build(elsewhere, 0o077, "Asia/Tokyo")

    names = ["capture.cdx.json", "capture.pyz", "capture.pyz.sha256"]
    assert sorted(path.name for path in again.iterdir()) == names
    assert [(again / n).read_bytes() for n in names] == [
        (built / n).read_bytes() for n in names
    ]


def test_its_members_are_sorted_and_have_one_date_and_one_mode(built: Path) -> None:
    with zipfile.ZipFile(built / "capture.pyz") as archive:
        members = archive.infolist()

    assert [m.filename for m in members] == sorted(m.filename for m in members)
    assert {m.date_time for m in members} == {(1980, 1, 1, 0, 0, 0)}
    assert {m.external_attr >> 16 for m in members} == {0o100644}


def test_no_path_of_the_build_is_in_it(built: Path) -> None:
    content = (built / "capture.pyz").read_bytes()

    assert str(built.parent).encode() not in content
    assert str(Path.home()).encode() + b"/" not in content


def test_its_check_sum_is_the_one_beside_it_and_the_one_it_tells(built: Path) -> None:
    digest = hashlib.sha256((built / "capture.pyz").read_bytes()).hexdigest()

    told = subprocess.check_output(
        [sys.executable, built / "capture.pyz", "--version"], text=True
    )

    assert (built / "capture.pyz.sha256").read_text() == f"{digest}  capture.pyz\n"
    assert told == f"coldtrace-capture {__version__} {digest}\n"


def test_it_reads_a_bundle_with_nothing_but_the_interpreter(
    built: Path, tmp_path: Path
) -> None:
    bundle = next((ROOT / "samples" / "late-rank").glob("*.bundle"))

    done = subprocess.run(
        [sys.executable, "-I", "-S", built / "capture.pyz", "verify", bundle],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert ": sound, " in done.stdout


def test_it_holds_each_object_for_both_architectures_with_its_source(
    built: Path,
) -> None:
    names = set(zipfile.ZipFile(built / "capture.pyz").namelist())
    programs = {path.name[:-6] for path in (ROOT / "capture/bpf").glob("*.bpf.c")}

    assert len(programs) >= 4
    for suffix in (".bpf.c", "-x86_64.bpf.o"):
        assert {f"capture/bpf/{program}{suffix}" for program in programs} <= names
    arm = {f"capture/bpf/{name}-aarch64.bpf.o" for name in programs - ON_X86_ONLY}
    assert arm <= names
    assert {"LICENSE", "__main__.py", "capture/README.md"} <= names
    assert not {name for name in names if name.endswith(".pyc")}


def test_the_bill_of_materials_names_every_file_with_its_hash(built: Path) -> None:
    bill: dict[str, Any] = json.loads((built / "capture.cdx.json").read_text())
    content = content_of(built / "capture.pyz")
    subject = bill["metadata"]["component"]

    files = {
        part["name"]: part["hashes"]
        for part in bill["components"]
        if part["type"] == "file"
    }

    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    assert re.fullmatch(
        r"urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", bill["serialNumber"]
    )
    assert subject["hashes"][0]["content"] in (built / "capture.pyz.sha256").read_text()
    assert files == {
        name: [{"alg": "SHA-256", "content": hashlib.sha256(data).hexdigest()}]
        for name, data in content.items()
    }


def test_the_bill_of_materials_names_compiler_headers_and_licences(built: Path) -> None:
    bill: dict[str, Any] = json.loads((built / "capture.cdx.json").read_text())
    parts = {part["bom-ref"]: part for part in bill["components"]}
    clang = subprocess.check_output(["clang-14", "--version"], text=True)

    assert f"clang version {parts['clang']['version']}" in clang
    assert parts["clang"]["scope"] == "excluded"
    assert re.fullmatch(r"\d+\.\d+", parts["libbpf-headers"]["version"])
    assert len(parts) == len(bill["components"])
    for name, part in parts.items():
        licence = part.get("licenses", [{}])[0].get("license")
        if name.endswith(".bpf.o"):
            assert licence == {"name": "Dual BSD/GPL"}
        elif part["type"] == "file":
            assert licence == {"id": "Apache-2.0"}


def test_an_old_python_can_parse_the_entry() -> None:
    tree = ast.parse(ENTRY.read_text(), feature_version=(3, 6))

    words = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert words == {"capture.__main__"}  # no __future__, which 3.6 does not know


def test_an_old_python_gets_a_sentence_and_no_traceback() -> None:
    done = subprocess.run(
        [sys.executable, "-c", OLD, ENTRY], capture_output=True, text=True, check=False
    )

    error, hint = done.stderr.splitlines()
    assert done.returncode == 1
    assert error.endswith("error: this is Python 3.6, and 3.9 or later is needed")
    assert hint.startswith("coldtrace-capture: hint: ")


def objects(built: Path, machine: str) -> dict[str, BpfObject]:
    tail = f"-{machine}.bpf.o"
    return {
        Path(name).name.replace(tail, ""): read_object(data)
        for name, data in content_of(built / "capture.pyz").items()
        if name.endswith(tail)
    }


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_every_object_is_bpf_with_programs_types_and_a_licence(
    built: Path, machine: str
) -> None:
    for held in objects(built, machine).values():
        assert (held.machine, held.is_64_little) == (BPF, True)
        assert held.programs()
        assert held.sections[".BTF"][:2] == BTF_MAGIC
        assert held.sections["license"] == b"Dual BSD/GPL\0"
        assert not {name for name in held.sections if name.startswith(".debug")}


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_kernel_fields_are_found_by_relocation_and_never_by_a_record_of_tracefs(
    built: Path, machine: str
) -> None:
    held = objects(built, machine)

    # A program on a classic tracepoint would read a record, whose header grows.
    sections = {name for each in held.values() for name in each.programs()}
    assert {name.split("/")[0] for name in sections} == {
        "tp_btf",
        "uprobe",
        "uretprobe",
    }
    for name in ("process", "off_cpu", "self_test"):
        assert held[name].relocation_bytes() > 0


@pytest.mark.parametrize("machine", sorted(REGISTERS))
@pytest.mark.parametrize("program", ["uprobe/enter", "uretprobe/leave"])
def test_arguments_are_read_where_the_architecture_keeps_registers(
    built: Path, machine: str, program: str
) -> None:
    places, wanted = REGISTERS[machine]
    code = objects(built, machine)["calls"].sections[program]

    read = {places.get(offset, f"+{offset}") for offset, _ in context_reads(code)}

    assert read == set(wanted[program].split())
