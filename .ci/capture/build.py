#!/usr/bin/env python3
"""Write ``dist/capture.pyz``, its check sum and its bill of materials.

The same sources, compiler and libbpf headers give the same bytes in any folder, on any
day: members are sorted, stored without compressing (what a zlib makes of them depends
on its version), and have one date and one mode.  Objects are compiled anew each time,
so that the compiler which the bill of materials names is the one that made them.

Any Python from 3.9 on, clang and libbpf's headers; nothing is fetched.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import uuid
import zipfile
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parents[2]
BPF = ROOT / "capture" / "bpf"
SUFFIXES = {".py", ".c", ".h", ".md"}
FIRST_LINE = b"#!/usr/bin/python3 -I\n"
"""The distribution's own Python, since only that has bcc; -I: nothing from the user's
environment or folders gets into a program that runs with privilege."""

_DATE = (1980, 1, 1, 0, 0, 0)
_UNIX, _MODE = 3, 0o100644 << 16
_APACHE = [{"license": {"id": "Apache-2.0"}}]
_KERNEL = [{"license": {"name": "Dual BSD/GPL"}}]
_LIBBPF = [{"expression": "LGPL-2.1-only OR BSD-2-Clause"}]


def main() -> None:
    """Build, and say what was written."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "dist", metavar="DIR")
    folder: Path = parser.parse_args().output
    tools = compile_objects()
    members = read_members()
    content = archive(members)
    digest = hashlib.sha256(content).hexdigest()
    folder.mkdir(parents=True, exist_ok=True)
    pyz = folder / "capture.pyz"
    pyz.write_bytes(content)
    pyz.chmod(0o755)
    pyz.with_suffix(".pyz.sha256").write_text(f"{digest}  {pyz.name}\n")
    bill = json.dumps(bill_of_materials(members, digest, tools), indent=1)
    pyz.with_suffix(".cdx.json").write_text(f"{bill}\n")
    say(f"wrote {pyz}: {len(members)} files, {len(content) >> 10} KiB, sha256 {digest}")


def compile_objects() -> dict[str, str]:
    """Compile the objects of both architectures, and return what did: name, version."""
    make = ["make", "--silent", "--no-print-directory", "-C", str(BPF)]
    try:
        subprocess.run([*make, "--always-make", f"-j{os.cpu_count()}"], check=True)
        told = subprocess.run(
            [*make, "tools"], check=True, stdout=subprocess.PIPE, text=True
        ).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        fail(f"cannot compile the objects: {error}")
    versions = dict(line.split(" ", 1) for line in told.splitlines())
    if not {"clang", "libbpf"} <= versions.keys():
        fail("clang or libbpf's headers (0.7 or later) do not tell their version")
    return versions


def read_members() -> dict[str, bytes]:
    """Return the files of the archive by name, in order."""
    paths = [path for path in (ROOT / "capture").rglob("*") if is_member(path)]
    members = {path.relative_to(ROOT).as_posix(): path.read_bytes() for path in paths}
    members["LICENSE"] = (ROOT / "LICENSE").read_bytes()
    members["__main__.py"] = Path(__file__).with_name("entry.py").read_bytes()
    return dict(sorted(members.items()))


def is_member(path: Path) -> bool:
    """Return whether a file belongs to the recorder."""
    if path.name.endswith(".bpf.o"):  # one whose source is gone would be a stranger
        return path.with_name(f"{path.name.rpartition('-')[0]}.bpf.c").exists()
    return path.suffix in SUFFIXES or path.name == "Makefile"


def archive(members: dict[str, bytes]) -> bytes:
    """Return the program: a first line for the shell, then a ZIP."""
    target = io.BytesIO()
    target.write(FIRST_LINE)
    with zipfile.ZipFile(target, "a") as written:
        for name, content in members.items():
            info = zipfile.ZipInfo(name, _DATE)
            info.create_system, info.external_attr = _UNIX, _MODE
            written.writestr(info, content)
    return target.getvalue()


def bill_of_materials(
    members: dict[str, bytes], digest: str, tools: dict[str, str]
) -> dict[str, Any]:
    """Return a CycloneDX 1.5 document, the same for the same archive."""
    subject = {
        "type": "application",
        "bom-ref": "capture.pyz",
        "name": "coldtrace-capture",
        "version": version(),
        "hashes": [{"alg": "SHA-256", "content": digest}],
        "licenses": _APACHE,
    }
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.UUID(digest[:32], version=5)}",
        "version": 1,
        "metadata": {"lifecycles": [{"phase": "build"}], "component": subject},
        "components": [
            *made_with(tools),
            *(file_component(name, content) for name, content in members.items()),
        ],
    }


def made_with(tools: dict[str, str]) -> list[dict[str, Any]]:
    """Return what the objects were made with; of it only the headers are inside."""
    clang = {
        "type": "application",
        "bom-ref": "clang",
        "name": "clang",
        "version": tools["clang"],
        "scope": "excluded",
        "description": "compiled the objects; not in the archive",
    }
    headers = {
        "type": "library",
        "bom-ref": "libbpf-headers",
        "name": "libbpf",
        "version": tools["libbpf"],
        "scope": "required",
        "description": "inline functions of its headers are compiled into the objects",
        "licenses": _LIBBPF,
    }
    return [clang, headers]


def file_component(name: str, content: bytes) -> dict[str, Any]:
    """Return one file of the archive."""
    return {
        "type": "file",
        "bom-ref": name,
        "name": name,
        "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(content).hexdigest()}],
        "licenses": _KERNEL if name.endswith(".bpf.o") else _APACHE,
    }


def version() -> str:
    """Return the version that the recorder says it has."""
    text = (ROOT / "capture" / "__init__.py").read_text()
    match = re.search(r'__version__ = "([^"]+)"', text)
    if match is None:
        raise ValueError("capture/__init__.py has no __version__")
    return match[1]


def fail(message: str) -> NoReturn:
    """Say what is wrong and what it needs, and exit."""
    say(f"error: {message}")
    say("hint: install clang, llvm and libbpf's headers, or set CLANG and STRIP")
    sys.exit(1)


def say(text: str) -> None:
    """Tell the user something; stdout stays silent."""
    sys.stderr.write(f"coldtrace: {text}\n")


if __name__ == "__main__":
    main()
