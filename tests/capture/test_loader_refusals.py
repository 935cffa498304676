"""A loader that cannot work says what is missing, and what it needs is small."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from capture import probes
from capture.libraries import LibraryTable
from capture.loaders import LoaderError, LoaderSettings
from capture.loaders.core import CoreLoader
from capture.loaders.kernel import COMMUNICATOR, COMMUNICATOR_KEY

SETTINGS = LoaderSettings(
    streams=("collective",), ring_bytes={"collective": 1 << 16, "facts": 1 << 16}
)
LOAD = """
import sys
sys.path.insert(0, sys.argv[1])
from capture.loaders import LoaderError, LoaderSettings
from capture.loaders.core import CoreLoader
loader = CoreLoader()
try:
    loader.load(LoaderSettings(streams=("collective", "off_cpu")))
except LoaderError as error:
    print(error.message, "|", error.hint)
else:
    print(loader.detail)
    loader.close()
"""


@pytest.mark.bpf
def test_without_privilege_the_capabilities_are_named(root: Path) -> None:
    if shutil.which("setpriv") is None:
        pytest.skip("needs setpriv")
    command = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--reuid=65534"]
    command += ["--clear-groups", "/usr/bin/python3", "-B", "-c", LOAD, str(root)]

    said = subprocess.check_output(command, text=True)

    assert said.startswith("cannot make BPF maps")
    assert "CAP_BPF" in said


@pytest.mark.bpf
def test_a_missing_libbpf_is_named() -> None:
    settings = LoaderSettings(streams=("collective",), libbpf=Path("/nowhere/libbpf"))

    with pytest.raises(LoaderError, match="cannot open /nowhere/libbpf") as caught:
        CoreLoader().load(settings)

    assert caught.value.hint is not None
    assert "--libbpf" in caught.value.hint


@pytest.mark.bpf
def test_objects_come_straight_from_a_zip(root: Path, tmp_path: Path) -> None:
    archive = tmp_path / "capture.zip"
    with zipfile.ZipFile(archive, "w") as target:
        for path in sorted((root / "capture").rglob("*")):
            if path.suffix in (".py", ".o", ".c", ".h"):
                target.write(path, path.relative_to(root))

    said = subprocess.check_output(
        [sys.executable, "-I", "-S", "-c", LOAD, str(archive)],
        text=True,
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"]},
    )

    assert said.startswith("libbpf ")


@pytest.mark.bpf
def test_a_world_that_was_met_before_it_was_known_is_corrected() -> None:
    loader = CoreLoader()
    loader.load(SETTINGS)
    pid, address, reference = 4_000_000, 0x7F00_0000_1000, 7

    assert loader.set_world(pid, address) is None
    loader._maps["communicators"].update(
        COMMUNICATOR_KEY.pack(address, pid, 0), COMMUNICATOR.pack(3, 0, reference, 1, 1)
    )
    fact = loader.set_world(pid, address)
    loader.close()

    assert fact is not None
    assert (fact["communicator_ref"], fact["how"]) == (reference, "world")
    assert (fact["kind"], fact["is_base_known"]) == ("mpi", True)


@pytest.mark.bpf
def test_an_offset_outside_of_the_file_is_refused_alone(tmp_path: Path) -> None:
    source = tmp_path / "lib.c"
    source.write_text(
        "int ncclAllReduce(void){return 1;} int ncclSend(void){return 2;}"
    )
    library = tmp_path / "libnccl.so.2"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
    table = LibraryTable([library])
    good, bad = probes.plan(table.libraries, "standard")
    bad = probes.ProbeSite(**{**vars(bad), "file_offset": 1 << 40})
    loader = CoreLoader()
    loader.load(SETTINGS)

    results = loader.attach([good, bad])
    loader.close()
    table.close()

    assert [result.is_attached for result in results] == [True, False]
    assert results[1].refused_reason
