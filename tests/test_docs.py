"""The manuals tell the truth: transcripts are what is printed, commands have help."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

COMMANDS = (
    "demo",
    "diagnose",
    "load",
    "import",
    "verify",
    "clocks",
    "views",
    "query",
    "report",
    "export",
    "notebook",
)
RECORDER_COMMANDS = ("record", "seal", "verify", "show")
LINK = re.compile(r"\]\(([^)#:]+)\)")


def _run(module: str, *arguments: str, folder: Path | None = None) -> str:
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _block(text: str, command: str) -> str:
    """Return what a fenced transcript shows under its command."""
    found = re.search(
        rf"```console\n\$ {re.escape(command)}\n(.*?)```", text, re.DOTALL
    )
    assert found is not None, f"no transcript of {command}"
    return found[1]


@pytest.mark.slow
def test_the_transcript_in_the_readme_is_what_the_demo_prints(
    root: Path, tmp_path: Path
) -> None:
    shown = _block((root / "README.md").read_text(), "make demo")

    assert shown == _run("workbench.cli", "demo", folder=tmp_path)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_stands_in_the_readme_and_gives_three_examples(
    root: Path, command: str
) -> None:
    readme = (root / "README.md").read_text()

    assert f"coldtrace {command}" in readme
    examples = _run("workbench.cli", command, "--help").partition("examples:")[2]
    assert examples.count("coldtrace ") >= 3


@pytest.mark.parametrize("command", RECORDER_COMMANDS)
def test_every_recorder_command_stands_in_its_manual_and_gives_three_examples(
    root: Path, command: str
) -> None:
    manual = (root / "capture" / "README.md").read_text()

    assert f"coldtrace-capture {command}" in manual or f"capture {command}" in manual
    examples = _run("capture", command, "--help").partition("examples:")[2]
    assert examples.count("coldtrace-capture ") >= 3


def test_every_link_in_a_manual_leads_somewhere(root: Path) -> None:
    manuals = [
        *root.glob("*.md"),
        *(path for path in root.glob("*/*.md") if not path.parts[-2].startswith(".")),
    ]

    broken = [
        f"{manual.relative_to(root)}: {target}"
        for manual in manuals
        for target in LINK.findall(manual.read_text())
        if not (manual.parent / target).exists()
    ]

    assert len(manuals) > 5
    assert broken == []
