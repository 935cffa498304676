"""The wheel works away from the checkout: installed alone, its demo run elsewhere."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel, built without asking any registry."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation"]
    subprocess.run([*build, "--outdir", folder, root], check=True, capture_output=True)
    return next(folder.glob("coldtrace-*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a fresh environment with the wheel that sees our dependencies only."""
    home = tmp_path_factory.mktemp("installed")
    venv.create(home, with_pip=True, symlinks=True)
    pip = [home / "bin/python", "-m", "pip", "--disable-pip-version-check", "install"]
    subprocess.run(
        [*pip, "--quiet", "--no-index", "--no-deps", wheel],
        check=True,
        capture_output=True,
    )
    # A path file is not read again inside a folder that a path file added, so the
    # editable install of this checkout stays out of sight.
    (site,) = home.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return home


def test_the_wheel_holds_the_view_library_and_one_small_sample(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        sizes = {info.filename: info.file_size for info in archive.infolist()}

    bundles = [name for name in sizes if name.endswith(".bundle")]
    assert "workbench/sql/finding/finding_straggler.sql" in sizes
    assert {Path(name).parent.as_posix() for name in bundles} == {
        "workbench/samples/late-rank"
    }
    assert sum(sizes[name] for name in bundles) <= 600_000


def test_the_wheel_carries_every_object_that_was_compiled(
    wheel: Path, root: Path
) -> None:
    compiled = {path.name for path in (root / "capture" / "bpf").glob("*.bpf.o")}
    if not compiled:
        pytest.skip("no CO-RE object was compiled here (no clang)")

    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()

    assert {f"capture/bpf/{name}" for name in compiled} <= set(names)


def test_an_installed_demo_names_the_rank_from_another_folder(
    installed: Path, tmp_path: Path
) -> None:
    done = subprocess.run(
        [installed / "bin/coldtrace", "demo"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "rank 5" in done.stdout.lower()


def test_an_installed_workbench_writes_its_notebooks(
    installed: Path, sample_case: Callable[[str], Path], tmp_path: Path
) -> None:
    command = [installed / "bin/coldtrace", "notebook", sample_case("late-rank")]
    subprocess.run(
        [*command, "--write-only", "-o", tmp_path / "mine"], cwd=tmp_path, check=True
    )

    assert (tmp_path / "mine" / "orientation.ipynb").is_file()
    (settings,) = installed.glob("lib/*/site-packages/workbench/ui/lab_settings/*")
    assert settings.name == "overrides.json"


def test_an_installed_recorder_explains_itself(installed: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [installed / "bin/coldtrace-capture", "record", "--help"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.count("coldtrace-capture record") >= 3
