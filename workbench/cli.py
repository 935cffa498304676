"""``coldtrace``: finds the command, runs it, and turns its errors into words and codes.

A command is a module of ``workbench.commands`` with ``NAME``, ``HELP``, ``EXAMPLES``,
``configure`` and ``run``.  Only the module that is asked for is imported: the help of
the others is read from their source without running it, so that ``coldtrace --help``
answers at once and no command loads what only another draws with.

stdout is data, stderr is narration: one plain line for an error, one for a hint.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import io
import keyword
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, Protocol, cast

import workbench
from workbench.commands.exit_code import ExitCode, exit_code_of
from workbench.commands.output import PAGE_WIDTH, narrate
from workbench.errors import BundleError, WorkbenchError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

COMMANDS = (
    "demo",
    "diagnose",
    "load",
    "import",
    "verify",
    "clocks",
    "views",
    "query",
    "compare",
    "report",
    "export",
    "notebook",
)
"""Commands in the order of the help."""

DESCRIPTION = "Find the rank that holds the others up, and why, from recorded bundles."
EPILOG = """\
examples:
  coldtrace demo
  coldtrace diagnose hosta.bundle hostb.bundle
  coldtrace COMMAND --help

exit: 0 done, whatever was found; 1 a check failed; 2 usage; 3 unreadable input;
4 loaded or verified with damage; 130 interrupted
"""


class Command(Protocol):
    """What a module of ``workbench.commands`` offers."""

    NAME: str
    HELP: str
    EXAMPLES: tuple[str, ...]

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the command."""
        ...

    def run(self, args: argparse.Namespace) -> int:
        """Run the command and return its exit code."""
        ...


class Parser(argparse.ArgumentParser):
    """A parser that speaks like the rest of the command and is 80 columns wide."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(
            *args,  # pyright: ignore[reportArgumentType]
            formatter_class=_formatter,
            **kwargs,
        )

    def error(self, message: str) -> NoReturn:
        """Say what is wrong in one line, and stop."""
        narrate(message, kind="error")
        narrate(f"see {self.prog} --help", kind="hint")
        sys.exit(ExitCode.USAGE)


class _Version(argparse.Action):
    """Looks the version up when it is asked for, which takes longer than all help."""

    def __call__(
        self, parser: argparse.ArgumentParser, *_args: object, **_more: object
    ) -> None:
        sys.stdout.write(f"coldtrace {workbench.__version__}\n")
        parser.exit()


def _formatter(prog: str) -> argparse.HelpFormatter:
    return argparse.RawDescriptionHelpFormatter(prog, width=PAGE_WIDTH)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    logging.basicConfig(format="coldtrace: note: %(message)s", level=logging.WARNING)
    try:
        code = _dispatch(words)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read the rows has seen enough, as `head` has; say nothing at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.OK
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else ExitCode.OK
    except (Exception, KeyboardInterrupt) as error:
        code = exit_code_of(error)
        if code is None:
            raise
        report(error)
    return code


def _dispatch(words: Sequence[str]) -> int:
    chosen = next((word for word in words if not word.startswith("-")), None)
    parser = build_parser(chosen)
    args = parser.parse_args(words)
    if args.command is None:
        parser.print_help()
        return ExitCode.USAGE
    return cast("Command", args.module).run(args)


def build_parser(chosen: str | None) -> argparse.ArgumentParser:
    """Return the parser of all commands, whole for the chosen one only."""
    parser = Parser(prog="coldtrace", description=DESCRIPTION, epilog=EPILOG)
    parser.add_argument("--version", action=_Version, nargs=0, help="say the version")
    commands = parser.add_subparsers(
        dest="command", metavar="COMMAND", title="commands", parser_class=Parser
    )
    for name in available():
        if name != chosen:
            commands.add_parser(name, help=help_of(name), add_help=False)
            continue
        module = cast("Command", importlib.import_module(module_of(name)))
        examples = "\n".join(f"  {example}" for example in module.EXAMPLES)
        command = commands.add_parser(
            name,
            help=module.HELP,
            description=f"{module.HELP[:1].upper()}{module.HELP[1:]}.",
            epilog=f"examples:\n{examples}",
        )
        command.set_defaults(module=module)
        module.configure(command)
    return parser


def available() -> list[str]:
    """Return the commands that this build has, in the order of the help."""
    return [name for name in COMMANDS if _source(name).is_file()]


def module_of(name: str) -> str:
    """Return the module of a command: ``import_`` where Python keeps the word."""
    return f"workbench.commands.{name}{'_' if keyword.iskeyword(name) else ''}"


def _source(name: str) -> Path:
    file = module_of(name).rpartition(".")[2]
    return Path(__file__).with_name("commands") / f"{file}.py"


def help_of(name: str) -> str:
    """Return the one line of help of a command, without importing it."""
    tree = ast.parse(_source(name).read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and _assigns(node.targets, "HELP"):
            return str(ast.literal_eval(node.value))
    return ""


def _assigns(targets: Iterable[ast.expr], name: str) -> bool:
    return any(isinstance(each, ast.Name) and each.id == name for each in targets)


def report(error: BaseException) -> None:
    """Say what went wrong, one line an error, then the hint."""
    if isinstance(error, ExceptionGroup):
        for each in error.exceptions:
            report(each)
        return
    if isinstance(error, KeyboardInterrupt):
        narrate("interrupted")
        return
    narrate(_words(error), kind="error")
    if isinstance(error, WorkbenchError) and error.hint:
        narrate(error.hint, kind="hint")


def _words(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        place = f"{error.filename}: " if error.filename else ""
        return f"{place}{error.strerror.lower()}"
    if isinstance(error, BundleError) and error.path is not None:
        return f"{error.path}: {error}"
    return str(error)


if __name__ == "__main__":
    sys.exit(main())
