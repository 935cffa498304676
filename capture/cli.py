"""The command line: what can be asked for, with three examples a command.

stdout is data, stderr is narration.  Every line on stderr begins with the program's
name, an error may be followed by a hint, and nothing is overwritten without --force.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from capture import installation
from capture.errors import CaptureError
from capture.exit_code import ExitCode
from capture.options import (
    LOADERS,
    NO_STREAM,
    PROBE_SETS,
    STREAMS,
    RecordOptions,
    parse_duration,
    parse_percent,
    parse_ring_size,
    parse_streams,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

PROGRAM = "coldtrace-capture"

_RECORD_EXAMPLES = """\
examples:
  coldtrace-capture record --duration 30s
      every process that uses a known library, for half a minute
  coldtrace-capture record --cgroup /sys/fs/cgroup/job_4711 --until-exit
      all of one job, until it is over
  coldtrace-capture record --site-key site.key --streams collective,off_cpu
      two streams, with pseudonyms for all that names the site
"""
_DOCTOR_EXAMPLES = """\
examples:
  coldtrace-capture doctor
      what can be recorded here, and which capabilities that takes
  coldtrace-capture doctor --pid 4711 --libbpf /mnt/usb/libbpf.so.1
      the same for one process, with a libbpf that was carried in
  coldtrace-capture doctor --format json > doctor.json
      for a program; exit status 0: all, 1: part, 5: facts and samples only
"""
_SEAL_EXAMPLES = """\
examples:
  coldtrace-capture seal hosta-20261130T200000Z-c01d7ace.spool
      what a recording left that was killed or told not to seal
  coldtrace-capture seal /var/tmp/c01d7ace.spool -o /mnt/usb
      the bundle goes elsewhere
  coldtrace-capture seal c01d7ace.spool --keep-spool
      the spool stays after the bundle has been verified
"""
_VERIFY_EXAMPLES = """\
examples:
  coldtrace-capture verify hosta-20261130T200000Z-c01d7ace.bundle
      one bundle, after it has been carried somewhere
  coldtrace-capture verify /mnt/usb/*.bundle
      many; the exit status is 3 if one is refused, else 4 if one is damaged
  coldtrace-capture verify --leaks --mapping site.key.mapping.jsonl *.bundle
      search them, unpacked too, for every name that a pseudonym stands for
"""
_SHOW_EXAMPLES = """\
examples:
  coldtrace-capture show hosta-20261130T200000Z-c01d7ace.bundle
      what is inside, for a reader
  coldtrace-capture show hosta-20261130T200000Z-c01d7ace.bundle --format json
      the same and the whole manifest, for a program
  diff <(coldtrace-capture show a.bundle) <(coldtrace-capture show b.bundle)
      the same bundle always gives the same bytes
"""


class Parser(argparse.ArgumentParser):
    """A parser whose errors look like every other error of the program."""

    def error(self, message: str) -> NoReturn:
        """Print the error and a hint, and exit."""
        say_error(message, f"{self.prog} --help")
        self.exit(ExitCode.USAGE)


def say(text: str) -> None:
    """Tell the user something; stdout stays silent."""
    print(f"{PROGRAM}: {text}", file=sys.stderr, flush=True)


def say_error(message: str, hint: str | None = None) -> None:
    """Tell the user what is wrong, and the one thing to do next."""
    say(f"error: {message}")
    if hint:
        say(f"hint: {hint}")


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = Parser(
        prog=PROGRAM,
        description="Record what this host's kernel saw of a GPU job, to one file.",
        formatter_class=_formatter,
    )
    parser.add_argument("--version", action="version", version=_version())
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_doctor(commands)
    _add_record(commands)
    _add_seal(commands)
    _add_verify(commands)
    _add_show(commands)
    return parser


def _version() -> str:
    """Return name and version, and the hash of the archive that this runs from."""
    words = installation.created_by()
    return " ".join([words.pop("name"), words.pop("version"), *words.values()])


def record_options(args: argparse.Namespace) -> RecordOptions:
    """Return the options of ``record`` from its arguments."""
    return RecordOptions(
        out_dir=args.output,
        pids=tuple(args.pid),
        cgroups=tuple(args.cgroup),
        libraries=tuple(args.library),
        streams=args.streams,
        probe_set=args.set,
        loader=args.loader,
        off_cpu_min_ns=args.off_cpu_min,
        duration_ns=args.duration,
        until_exit=args.until_exit,
        budget_ppm=args.budget,
        ring_bytes=args.ring_size,
        return_probes=not args.no_return_probes,
        libbpf=args.libbpf,
        seal=not args.no_seal,
        spool=args.spool,
        keep_spool=args.keep_spool,
        site_key=args.site_key,
        mapping=args.mapping,
    )


def _formatter(prog: str) -> argparse.RawDescriptionHelpFormatter:
    return argparse.RawDescriptionHelpFormatter(prog, width=80)


def _asked(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return a parser of one argument whose error argparse shows in full."""

    def parse_argument(text: str) -> Any:  # noqa: ANN401 - argparse takes any type
        try:
            return parse(text)
        except CaptureError as error:
            hint = f" ({error.hint})" if error.hint else ""
            raise argparse.ArgumentTypeError(f"{error.message}{hint}") from error

    return parse_argument


def _command(commands: Any, name: str, summary: str, epilog: str) -> Parser:  # noqa: ANN401 - argparse hides the type
    parser: Parser = commands.add_parser(
        name,
        help=summary,
        description=summary,
        epilog=epilog,
        formatter_class=_formatter,
    )
    return parser


def _add_doctor(commands: Any) -> None:  # noqa: ANN401 - argparse hides the type
    parser = _command(
        commands, "doctor", "say what can be recorded here", _DOCTOR_EXAMPLES
    )
    _many(parser, "--pid", int, "PID", "a process to look at")
    _many(parser, "--cgroup", Path, "PATH", "a control group to look at")
    parser.add_argument(
        "--libbpf",
        type=Path,
        metavar="PATH",
        help="libbpf to use instead of the host's",
    )
    _output(parser)
    parser.add_argument(
        "--format", choices=("text", "json"), default="text", help="(%(default)s)"
    )


def _add_record(commands: Any) -> None:  # noqa: ANN401 - argparse hides the type
    parser = _command(
        commands, "record", "record this host until stopped", _RECORD_EXAMPLES
    )
    target = parser.add_argument_group(
        "what to record", "without any: every process that uses a known library"
    )
    _many(target, "--pid", int, "PID", "a process and what it forks")
    _many(target, "--cgroup", Path, "PATH", "every process in a control group")
    _many(target, "--library", Path, "PATH", "a library that is not found by itself")
    target.add_argument(
        "--streams",
        type=_asked(parse_streams),
        default=STREAMS,
        metavar="NAMES",
        help=f"comma-separated, of {', '.join(STREAMS)}; {NO_STREAM}: facts alone, "
        "without eBPF (default: all)",
    )
    target.add_argument(
        "--set", choices=PROBE_SETS, default="standard", help="probes (%(default)s)"
    )
    target.add_argument(
        "--off-cpu-min",
        type=_asked(parse_duration),
        default="100us",
        metavar="TIME",
        help="shortest absence with a record of its own (%(default)s)",
    )
    _add_record_manner(parser)
    _add_record_end(parser)
    _add_record_privacy(parser)


def _add_record_manner(parser: argparse.ArgumentParser) -> None:
    manner = parser.add_argument_group("how to record")
    manner.add_argument(
        "--loader", choices=LOADERS, default="auto", help="loader (%(default)s)"
    )
    manner.add_argument(
        "--libbpf",
        type=Path,
        metavar="PATH",
        help="libbpf to use instead of the host's",
    )
    manner.add_argument(
        "--budget",
        type=_asked(parse_percent),
        metavar="PERCENT",
        help="most it may cost, of one CPU; thins by named steps, then stops",
    )
    manner.add_argument(
        "--ring-size",
        type=_asked(parse_ring_size),
        metavar="SIZE",
        help="of each ring for events (default: 64M, collective 8M)",
    )
    manner.add_argument(
        "--no-return-probes",
        action="store_true",
        help="entries only: for programs that no return probe may touch",
    )


def _add_record_end(parser: argparse.ArgumentParser) -> None:
    end = parser.add_argument_group("when to stop, and where the result goes")
    end.add_argument(
        "--duration",
        type=_asked(parse_duration),
        metavar="TIME",
        help="stop after this time (default: at SIGINT or SIGTERM)",
    )
    end.add_argument(
        "--until-exit", action="store_true", help="stop when all targets are gone"
    )
    _output(end)
    end.add_argument(
        "--spool", type=Path, metavar="DIR", help="spool folder; it must not exist"
    )
    end.add_argument("--no-seal", action="store_true", help="leave the spool as it is")
    end.add_argument(
        "--keep-spool", action="store_true", help="keep the spool after sealing"
    )


def _add_record_privacy(parser: argparse.ArgumentParser) -> None:
    privacy = parser.add_argument_group("what may leave the site")
    privacy.add_argument(
        "--site-key",
        type=Path,
        metavar="FILE",
        help="pseudonyms by this key for names, paths and addresses, before anything "
        "is written; (umask 077; head -c 32 /dev/urandom > FILE) makes one",
    )
    _mapping(
        privacy,
        "what the pseudonyms stand for; it stays with the site (default: beside the "
        "key, with .mapping.jsonl after its name)",
    )


def _mapping(group: Any, text: str) -> None:  # noqa: ANN401 - argparse hides the type
    group.add_argument("--mapping", type=Path, metavar="FILE", help=text)


def _add_seal(commands: Any) -> None:  # noqa: ANN401 - argparse hides the type
    parser = _command(commands, "seal", "make a spool into a bundle", _SEAL_EXAMPLES)
    parser.add_argument("spool", type=Path, metavar="SPOOL", help="folder of a spool")
    _output(parser)
    parser.add_argument(
        "--keep-spool", action="store_true", help="keep the spool after verifying"
    )
    parser.add_argument(
        "--force", action="store_true", help="replace a bundle of the same name"
    )
    _mapping(parser, "of a spool with pseudonyms: the bundle is searched for leaks")


def _add_verify(commands: Any) -> None:  # noqa: ANN401 - argparse hides the type
    parser = _command(
        commands, "verify", "check every byte of bundles", _VERIFY_EXAMPLES
    )
    parser.add_argument(
        "bundles", type=Path, nargs="+", metavar="BUNDLE", help="a bundle"
    )
    parser.add_argument(
        "--leaks",
        action="store_true",
        help="search for names of this host and of the mapping; exit status 6 if one "
        "is found, or cannot be searched for",
    )
    _mapping(parser, "what the pseudonyms stand for; --leaks needs it")


def _add_show(commands: Any) -> None:  # noqa: ANN401 - argparse hides the type
    parser = _command(commands, "show", "say what is in a bundle", _SHOW_EXAMPLES)
    parser.add_argument("bundle", type=Path, metavar="BUNDLE", help="a bundle")
    parser.add_argument(
        "--format", choices=("text", "json"), default="text", help="(%(default)s)"
    )


def _many(
    group: Any,  # noqa: ANN401 - argparse hides the type
    name: str,
    kind: Callable[[str], Any],
    metavar: str,
    text: str,
) -> None:
    group.add_argument(
        name,
        type=kind,
        action="append",
        default=[],
        metavar=metavar,
        help=f"{text}; may be repeated",
    )


def _output(parser: Any) -> None:  # noqa: ANN401 - argparse hides the type
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path(),
        metavar="DIR",
        help="folder for the bundle (default: this one)",
    )
