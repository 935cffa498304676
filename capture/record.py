"""One recording, from the first probe to the sealed bundle.

The main thread finds targets, attaches probes and writes facts; two more carry regions
from the rings to the spool (:mod:`capture.ring`).  Whatever takes time, such as hashing
a library of hundreds of megabytes, runs beside them.

Stopping keeps the order that costs nothing if it is cut short: programs are told to
return at once, rings are emptied, what was open is written, then the last facts and the
``end`` frame.  After that the spool is whole, and detaching, which can be slow, comes
last.  A recording that is killed at any moment leaves a spool that ``seal`` recovers.
"""

from __future__ import annotations

import os
import resource
import secrets
import signal
import sys
import threading
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from capture import installation
from capture.errors import CaptureError
from capture.host import read_host
from capture.ld_cache import known_libraries
from capture.leaks import LeakError
from capture.libraries import LibraryTable
from capture.loader_choice import open_loader
from capture.loaders.absent import why_absent
from capture.loaders.trial import try_return_probe
from capture.options import STREAMS
from capture.pseudonyms import mapping_of
from capture.recording import Recording
from capture.redaction import open_redaction
from capture.seal import seal
from capture.site_names import read_site_names
from capture.spool import SpoolWriter
from capture.syscalls import syscall_names
from capture.targets import TargetFinder

if TYPE_CHECKING:
    from pathlib import Path
    from types import FrameType

    from capture.loaders import Loader
    from capture.options import RecordOptions
    from capture.redaction import Redaction

_CALL_STREAMS = frozenset(("collective", "gpu_call"))
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class RecordResult:
    """What a recording left behind; ``spool`` is None once it was sealed and erased."""

    spool: Path | None
    bundle: Path | None
    stop_reason: str
    record_count: int
    lost_count: int


class StopFlag:
    """Set by SIGINT, SIGTERM and SIGHUP while it is entered.

    A plain attribute, not an Event: a handler that runs while the main thread holds an
    Event's lock would wait for itself.
    """

    def __init__(self) -> None:
        self.is_set = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> StopFlag:  # noqa: PYI034 typing.Self needs Python 3.11
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        self.is_set = True


def record(options: RecordOptions) -> RecordResult:
    """Record until asked to stop, and seal unless told not to.

    Raises
    ------
    CaptureError
        If nothing can be recorded here, with the reason and the next step.
    """
    if options.seal and not options.out_dir.is_dir():
        raise CaptureError(
            f"there is no folder {str(options.out_dir)!r} for the bundle",
            "create it first, or give another with -o",
        )
    redaction = _redaction(options)
    _raise_descriptor_limit()
    with StopFlag() as stop:
        libraries = LibraryTable(options.libraries)
        if not (options.pids or options.cgroups):
            for path in known_libraries():
                libraries.expect(path)
        try:
            finder = TargetFinder(options, libraries, (os.getpid(),), say)
            loader = open_loader(options, say)
            try:
                return _record(options, loader, finder, libraries, stop, redaction)
            finally:
                loader.close()
        finally:
            libraries.close()


def _record(  # noqa: PLR0917 - each is made before the loader is
    options: RecordOptions,
    loader: Loader,
    finder: TargetFinder,
    libraries: LibraryTable,
    stop: StopFlag,
    redaction: Redaction | None,
) -> RecordResult:
    """Record with a loader that is loaded."""
    host = read_host()
    refusal = _why_no_return_probes(options)
    if refusal is not None:
        options = replace(options, return_probes=False)
    header = spool_header(options, loader, host)
    header["capture"]["no_return_probes_reason"] = refusal
    shown = header if redaction is None else redaction.header(header)
    folder = options.spool or options.out_dir / spool_name(shown)
    spool = SpoolWriter(folder, header, redaction)
    recording = Recording(options, loader, finder, libraries, spool)
    try:
        reason = _run(recording, host, finder, folder, stop)
    except OSError as error:
        spool.close()
        raise CaptureError(
            f"the recording broke off: {error.strerror}",
            f"what it has can be had by: coldtrace-capture seal {folder}",
        ) from error
    except BaseException:
        spool.close()
        say(f"the recording broke off; what it has can be had by: seal {folder}")
        raise
    bundle = _seal(options, folder) if options.seal else None
    result = RecordResult(
        spool=folder if folder.exists() else None,
        bundle=bundle,
        stop_reason=reason,
        record_count=recording.record_count,
        lost_count=recording.lost_count,
    )
    _tell(result)
    return result


def _redaction(options: RecordOptions) -> Redaction | None:
    """Return what turns names into pseudonyms, where a site key is given."""
    if options.site_key is None:
        if options.mapping is not None:
            raise CaptureError("--mapping is only for --site-key", "give both")
        return None
    mapping = mapping_of(options.site_key, options.mapping)
    redaction = open_redaction(options.site_key, mapping, read_site_names())
    say(f"names become pseudonyms; what they stand for stays in {mapping}")
    return redaction


def _run(
    recording: Recording,
    host: dict[str, Any],
    finder: TargetFinder,
    folder: Path,
    stop: StopFlag,
) -> str:
    """Record until asked to stop, say what probes did not tell, and return why."""
    recording.start(host)
    refused = recording.refused()
    _note(refused)
    count = len(finder.targets)
    say(f"recording (PID {os.getpid()}): {_number(count, 'target')}, {folder}")
    reason = recording.run(lambda: stop.is_set)
    recording.finish(reason)
    if recording.refused() != refused:
        _note(recording.refused())
    _note(recording.silence())
    return reason


def _why_no_return_probes(options: RecordOptions) -> str | None:
    """Return why calls are recorded by their entry alone, if they are."""
    if not (_CALL_STREAMS & set(options.streams)):
        return None
    if not options.return_probes:
        return "not asked for (--no-return-probes)"
    refusal = try_return_probe()
    if refusal is not None:
        say(f"no return probes, so calls have no durations: {refusal}")
    return refusal


def spool_header(
    options: RecordOptions, loader: Loader, host: dict[str, Any]
) -> dict[str, Any]:
    """Return what ``header.json`` says of a recording that begins now."""
    missing = {
        stream: columns
        for stream, columns in loader.missing_columns.items()
        if stream in options.streams
    }
    return {
        "capture_id": secrets.token_hex(4),
        "version": 1,
        "created_by": installation.created_by(),
        "host": {name: value for name, value in host.items() if name != "os_name"},
        "capture": {
            "start_ns": time.monotonic_ns(),
            "start_utc": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "loader": loader.name,
            "loader_detail": loader.detail,
            "probe_set": options.probe_set,
            "off_cpu_min_ns": options.off_cpu_min_ns,
            **_budget(options),
            "absent_streams": [
                {"name": name, "reason": reason}
                for name, reason in why_absent(options.streams, STREAMS).items()
            ],
        },
        "streams": list(options.streams),
        "missing_columns": missing,
        "syscalls": syscall_names(host["architecture"]),
    }


def _budget(options: RecordOptions) -> dict[str, int]:
    limit = options.budget_ppm
    return {} if limit is None else {"budget_ppm": limit}


def spool_name(header: dict[str, Any]) -> str:
    """Return the folder name that a spool has unless told otherwise."""
    safe = "".join(c if c.isalnum() or c in "._-" else "_" for c in host_of(header))
    start = header["capture"]["start_utc"].replace("-", "").replace(":", "")
    return f"{safe}-{start}-{header['capture_id']}.spool"


def host_of(header: dict[str, Any]) -> str:
    """Return the host name in a spool's header."""
    return str(header["host"]["host_name"])


def say(text: str) -> None:
    """Tell the user something; stdout stays silent."""
    sys.stderr.write(f"coldtrace-capture: {text}\n")
    sys.stderr.flush()


def _seal(options: RecordOptions, folder: Path) -> Path:
    """Seal the spool; on failure it stays, and the message says how to go on."""
    try:
        mapping = options.site_key and mapping_of(options.site_key, options.mapping)
        return seal(
            folder, options.out_dir, keep_spool=options.keep_spool, mapping=mapping
        )
    except LeakError:
        say(f"recorded, but not sealed; the spool is kept: {folder}")
        raise
    except (CaptureError, OSError) as error:
        raise CaptureError(
            f"recorded, but not sealed: {error}",
            f"make room, then run: coldtrace-capture seal {folder}",
        ) from error


def _tell(result: RecordResult) -> None:
    """Print the one line of result."""
    what = _number(result.record_count, "record")
    lost = f", {result.lost_count} lost" if result.lost_count else ""
    where = result.bundle or result.spool
    say(f"wrote {where}: {what}{lost}, stopped by {result.stop_reason}")


def _note(told: str | None) -> None:
    if told is not None:
        say(f"note: {told}")


def _number(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _raise_descriptor_limit() -> None:
    """Allow as many open files as may be: perf events and libraries are files."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
