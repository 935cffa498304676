"""``coldtrace-capture``: commands, and what their ends mean to the shell."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from capture.cli import build_parser, record_options, say, say_error
from capture.errors import CaptureError
from capture.exit_code import ExitCode
from capture.leaks import LeakError, search_bundle
from capture.seal import seal
from capture.show import as_json, as_text, plain, result_line
from capture.site_names import read_site_names
from capture.spool import SpoolError
from capture.verify import read_inventory, verify_bundle

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    args = build_parser().parse_args(argv)
    commands = {
        "doctor": _doctor,
        "record": _record,
        "seal": _seal,
        "verify": _verify,
        "show": _show,
    }
    try:
        return commands[args.command](args)
    except CaptureError as error:
        say_error(error.message, error.hint)
        if isinstance(error, LeakError):
            return ExitCode.LEAK
        is_input = args.command == "seal" and isinstance(error, SpoolError)
        return ExitCode.UNREADABLE if is_input else ExitCode.FAILED
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has seen enough; the interpreter must not flush again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.DONE


def _doctor(args: argparse.Namespace) -> int:
    from capture.doctor import text  # noqa: PLC0415 see _record
    from capture.doctor.examination import Questions, examine  # noqa: PLC0415

    questions = Questions(
        pids=tuple(args.pid),
        cgroups=tuple(args.cgroup),
        libbpf=args.libbpf,
        out_dir=args.output,
    )
    report = examine(questions)
    shown = text.as_json(report) if args.format == "json" else text.as_text(report)
    sys.stdout.write(shown)
    return report.verdict.exit_code


def _record(args: argparse.Namespace) -> int:
    # Only here: the loaders are not needed, and may not load, where bundles are read.
    from capture.record import record  # noqa: PLC0415

    record(record_options(args))
    return ExitCode.DONE


def _seal(args: argparse.Namespace) -> int:
    show_progress = _progress if sys.stderr.isatty() else None
    bundle = seal(
        args.spool,
        args.output,
        keep_spool=args.keep_spool,
        force=args.force,
        progress=show_progress,
        mapping=args.mapping,
    )
    if show_progress:
        sys.stderr.write("\r\x1b[K")
    say(f"wrote {bundle}: {result_line(read_inventory(bundle))}")
    return ExitCode.DONE


def _progress(done: int, total: int) -> None:
    sys.stderr.write(f"\rsealing: {100 * done // max(total, 1)} %")
    sys.stderr.flush()


def _verify(args: argparse.Namespace) -> int:
    if args.mapping is not None and not args.leaks:
        raise CaptureError("--mapping is only for --leaks", "give both")
    results = [verify_bundle(path) for path in args.bundles]
    for found in results:
        for problem in found.problems:
            print(f"{found.path}: {plain(problem.message)}")
        if not found.problems:
            print(f"{found.path}: sound, {result_line(found)}")
    refused = sum(found.is_refused for found in results)
    damaged = sum(bool(found.problems) for found in results) - refused
    if refused:
        say_error(f"{refused} of {len(results)} bundles refused", "get a fresh copy")
        return ExitCode.UNREADABLE
    if damaged:
        say_error(
            f"{damaged} of {len(results)} bundles damaged",
            "what is sound still loads; get a fresh copy if there is one",
        )
        return ExitCode.DAMAGED
    return _search(args.bundles, args.mapping) if args.leaks else ExitCode.DONE


def _search(bundles: Sequence[Path], mapping: Path | None) -> int:
    """Search sound bundles for leaks."""
    if mapping is None:
        message = "--leaks needs the mapping of the pseudonyms"
        raise LeakError(message, "name it with --mapping; record tells where it is")
    names = read_site_names()
    count = 0
    for path in bundles:
        found = search_bundle(path, mapping, names)
        for leak in found.leaks:
            print(plain(f"{path}: {leak.found!r} of {leak.original!r} in {leak.place}"))
        if not found.leaks:
            print(f"{path}: no leak, {found.told}")
        count += len(found.leaks)
    if count:
        say_error(f"{count} leaks", "do not pass the bundle on")
        return ExitCode.LEAK
    return ExitCode.DONE


def _show(args: argparse.Namespace) -> int:
    found = read_inventory(args.bundle)
    if found.is_refused:
        for problem in found.problems:
            say_error(f"{found.path}: {plain(problem.message)}")
        return ExitCode.UNREADABLE
    text = as_json(found) if args.format == "json" else as_text(found)
    sys.stdout.write(text)
    return ExitCode.DONE


if __name__ == "__main__":
    sys.exit(main())
