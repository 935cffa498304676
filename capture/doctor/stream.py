"""Which streams can be recorded: their programs are loaded, and taken out again.

What a loader needs (types, a libbpf that reads them, or headers and a compiler) is told
by rows of its own; whether it works is decided by loading.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from capture.doctor.row import MISSING, OK, UNKNOWN, Row
from capture.loaders import LoaderError, LoaderSettings
from capture.loaders.libbpf import NotPermittedError, choose
from capture.options import STREAMS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from capture.loaders import Loader

    Maker = Callable[[], Loader]

FAMILY = "stream"
_RING_BYTES = 1 << 16
_PYTHONS = ("/usr/bin/python3", "/usr/libexec/platform-python")
_IMPORT_S = 20
_SAY_VERSION = "import bcc; print(getattr(bcc, '__version__', 'unknown'), bcc.__file__)"


@dataclass(frozen=True)
class Loaded:
    """What became of loading the programs of one stream."""

    stream: str
    loader: str | None
    detail: str
    missing_columns: tuple[str, ...] = ()


def libbpf_row(asked: Path | None) -> Row:
    """Return the first libbpf that reads this kernel's types, by its self-test."""
    needed_for = "loader core"
    try:
        library = choose(asked)
    except NotPermittedError as error:
        sentence = f"one reads this kernel's types, but {error.message}"
        return Row("kernel", "libbpf", UNKNOWN, sentence, needed_for, error.hint)
    except LoaderError as error:
        sentence = error.message
        return Row("kernel", "libbpf", MISSING, sentence, needed_for, error.hint)
    sentence = f"{library} reads this kernel's types: a program of ours loaded"
    return Row("kernel", "libbpf", OK, sentence, needed_for)


def bcc_row(pythons: Sequence[str] = _PYTHONS) -> Row:
    """Return which Python here can import bcc, each asked in a process of its own."""
    found: list[str] = []
    for path in dict.fromkeys((*pythons, sys.executable)):
        version = _bcc_of(path)
        if version is not None:
            found.append(f"{path} (bcc {version})")
    if found:
        sentence = f"bcc can be imported by {', '.join(found)}"
        return Row("kernel", "bcc", OK, sentence, "loader bcc")
    return Row(
        "kernel",
        "bcc",
        MISSING,
        "no Python here can import bcc, the distribution's package",
        "loader bcc",
        "nothing, as loader core needs none",
    )


def _bcc_of(python: str) -> str | None:
    try:
        done = subprocess.run(
            [python, "-I", "-c", _SAY_VERSION],
            capture_output=True,
            text=True,
            check=True,
            timeout=_IMPORT_S,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.split()[0]


def try_streams(libbpf: Path | None, makers: Sequence[Maker]) -> list[Loaded]:
    """Load the programs of all streams at once, else one stream after another.

    Parameters
    ----------
    libbpf
        The one to use, None for the host's or a carried one.
    makers
        The loaders, in order of preference.
    """
    settings = LoaderSettings(
        streams=STREAMS,
        adopt_library_users=False,
        ring_bytes=dict.fromkeys((*STREAMS, "facts"), _RING_BYTES),
        libbpf=libbpf,
    )
    together = _try(settings, makers[:1])
    if together[0].loader is not None:
        return together
    return [
        loaded
        for stream in STREAMS
        for loaded in _try(replace(settings, streams=(stream,)), makers)
    ]


def _try(settings: LoaderSettings, makers: Sequence[Maker]) -> list[Loaded]:
    """Return what the first loader that works makes of these streams."""
    reasons: list[str] = []
    for make in makers:
        try:
            return _load(make(), settings)
        except LoaderError as error:  # noqa: PERF203 two loaders at the most
            reasons.append(error.message)
    reason = "; ".join(dict.fromkeys(reasons))
    return [Loaded(stream, None, reason) for stream in settings.streams]


def _load(loader: Loader, settings: LoaderSettings) -> list[Loaded]:
    """Load, attach what watches the scheduler, and take everything out again."""
    try:
        loader.load(settings)
        refused = {
            result.stream: f"tracepoint {result.symbol}: {result.refused_reason}"
            for result in loader.attach_tracepoints()
            if not result.is_attached
        }
        return [
            Loaded(
                stream,
                None if stream in refused else loader.name,
                refused.get(stream, loader.detail),
                tuple(loader.missing_columns.get(stream, ())),
            )
            for stream in settings.streams
        ]
    finally:
        loader.close()


def stream_row(loaded: Loaded) -> Row:
    """Judge one stream."""
    if loaded.loader is None:
        return Row(
            FAMILY,
            loaded.stream,
            MISSING,
            f"its programs cannot be loaded: {loaded.detail}",
            f"stream {loaded.stream}",
            "see above what is missing",
            (loaded.stream,),
        )
    without = ", ".join(loaded.missing_columns)
    return Row(
        FAMILY,
        loaded.stream,
        OK,
        f"its programs load (loader {loaded.loader}: {loaded.detail})"
        + (f"; without the column {without}" if without else ""),
        f"stream {loaded.stream}",
    )
