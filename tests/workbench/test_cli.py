"""The command speaks plainly, exits by contract, and loads only what it needs.

stdout is data, stderr is narration, an error is one line and a hint is another; words
that come from outside never act on the terminal.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from workbench import cli
from workbench.commands.exit_code import ExitCode, UsageError
from workbench.errors import BundleError, CaseError, ManifestError, ViewError

if TYPE_CHECKING:
    from collections.abc import Callable

    Failing = Callable[[BaseException], None]

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = cli.available()


def _python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Failing:
    """Return a function that makes the command ``views`` raise an error."""

    def fail_with(error: BaseException) -> None:
        def run(_args: object) -> int:
            raise error

        monkeypatch.setattr("workbench.commands.views.run", run)

    return fail_with


# Help


def test_the_help_lists_every_command_in_eighty_columns(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = cli.main(["--help"])

    out, err = capsys.readouterr()
    assert (code, err) == (0, "")
    assert all(f"    {name} " in out for name in COMMANDS)
    assert max(len(line) for line in out.splitlines()) <= 80


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_ends_with_three_examples(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = cli.main([name, "--help"])

    out, _ = capsys.readouterr()
    examples = out.rpartition("examples:\n")[2].splitlines()
    assert code == 0
    assert len(examples) == 3
    assert all("coldtrace " in line for line in examples)
    assert f"coldtrace {name}" in examples[0]
    assert max(len(line) for line in out.splitlines()) <= 80


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_read_from_source_is_that_of_the_module(name: str) -> None:
    module = import_module(cli.module_of(name))

    assert cli.help_of(name) == module.HELP
    assert name == module.NAME


def test_help_loads_no_database_and_no_command_draws() -> None:
    heavy = "{'altair', 'duckdb', 'polars', 'numpy'} & set(sys.modules)"
    helped = _python(
        "import sys; from workbench.cli import main; main(['--help']); "
        f"print({heavy}, file=sys.stderr)"
    )
    commands = "; ".join(f"import {cli.module_of(name)}" for name in COMMANDS)
    imported = _python(f"import sys; {commands}; print('altair' in sys.modules)")

    assert helped.stderr == "set()\n"
    assert imported.stdout == "False\n", imported.stderr


def test_the_version_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("coldtrace ")


# Errors and exit codes


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["divine"], "invalid choice: 'divine'"),
        (["views", "--sideways"], "unrecognized arguments: --sideways"),
        (["query"], "the following arguments are required: CASE"),
        (["query", "late.duckdb"], "a query is needed"),
        (["query", "late.duckdb", " ; "], "the query is empty"),
        (["views", "a", "b"], "one view at a time, not 2"),
    ],
)
def test_a_wrong_command_line_is_one_line_and_two(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = cli.main(words)

    out, err = capsys.readouterr()
    assert (code, out) == (ExitCode.USAGE, "")
    assert message in err.splitlines()[0]
    assert err.startswith("coldtrace: error: ")


def test_no_command_prints_the_help_and_is_a_usage_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main([]) == ExitCode.USAGE
    assert "commands:" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (UsageError("not so", hint="so"), 2, "error: not so\ncoldtrace: hint: so"),
        (BundleError("no bundle"), 3, "error: no bundle"),
        (CaseError("no case"), 3, "error: no case"),
        (ViewError("no view", view="v", line=3), 3, "error: v, line 3: no view"),
        (
            FileNotFoundError(2, "No such file or directory", "x"),
            3,
            "error: x: no such file or directory",
        ),
        (CaseError("\x1b[31mred"), 3, "error: \\x1b[31mred"),
        (
            ExceptionGroup(
                "two",
                [
                    ManifestError("bad", where="a", path=Path("x")),
                    ManifestError("worse", where="b"),
                ],
            ),
            3,
            "error: x: bad\ncoldtrace: error: worse",
        ),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_an_error_has_its_words_and_its_code(
    failing: Failing,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    code: int,
    said: str,
) -> None:
    failing(error)

    assert cli.main(["views"]) == code
    assert capsys.readouterr() == ("", f"coldtrace: {said}\n")


def test_a_fault_of_the_program_is_not_hidden(failing: Failing) -> None:
    failing(ZeroDivisionError("a bug"))

    with pytest.raises(ZeroDivisionError):
        cli.main(["views"])


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    read, written = os.pipe()
    os.close(read)
    with os.fdopen(written, "w") as pipe:
        done = subprocess.run(
            [sys.executable, "-m", "workbench.cli", "views", "--format", "jsonl"],
            cwd=ROOT,
            stdout=pipe,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )

    assert (done.returncode, done.stderr) == (0, "")
