"""What a bundle holds, in words: the same bytes each time, in any folder, at any time.

Names come from a recorded host and are hostile text: control characters are shown as
escapes, so that none of them acts on the terminal.
"""

from __future__ import annotations

import json
import textwrap
from typing import TYPE_CHECKING, Any

from capture.show_cost import cost_lines, given_up, missed
from capture.silent_probes import silence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from capture.verify import Verified

_LABEL_WIDTH = 10
_NS_PER_S = 1_000_000_000


def plain(text: object) -> str:
    """Return text in which no control character acts."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in str(text).encode("utf-8", "backslashreplace").decode("utf-8")
    )


def as_text(found: Verified) -> str:
    """Return the inventory of a bundle for a reader."""
    lines = [plain(found.path.name), *_general(found), "", *_streams(found)]
    notes = [line for note in _notes(found) for line in _wrapped(note)]
    return "\n".join([*lines, *([""] if notes else []), *notes]) + "\n"


def as_json(found: Verified) -> str:
    """Return the inventory of a bundle for a program."""
    whole = {
        "name": found.path.name,
        "content_sha256": found.content_sha256,
        "problems": [problem._asdict() for problem in found.problems],
        "members": [
            {
                "name": member.name,
                "size_bytes": member.header.size,
                "packed_size_bytes": member.header.packed_size,
            }
            for member in found.members
        ],
        "manifest": found.manifest,
        "facts": {
            kind: rows
            for kind, rows in found.facts.items()
            if rows and kind not in ("probe", "library")
        },
    }
    return json.dumps(whole, indent=1, allow_nan=False) + "\n"


def result_line(found: Verified) -> str:
    """Return one line that says what a bundle holds."""
    manifest = _manifest(found)
    streams = manifest["streams"].items()
    parts = [f"{entry['row_count']} {plain(name)}" for name, entry in streams]
    parts.append(f"{sum(entry['lost_count'] for _, entry in streams)} lost")
    if manifest["capture"]["is_recovered"]:
        parts.append(f"recovered ({plain(manifest['capture']['stop_reason'])})")
    return ", ".join(parts)


def _manifest(found: Verified) -> dict[str, Any]:
    if found.manifest is None:
        raise ValueError("a refused bundle has no inventory")
    return found.manifest


def _wrapped(note: str) -> list[str]:
    """Return the lines of a note."""
    indent = "        "
    return textwrap.wrap(note, 80, initial_indent="  note: ", subsequent_indent=indent)


def _line(label: str, text: str) -> str:
    return f"  {label:<{_LABEL_WIDTH}}{text}"


def _made_by(manifest: dict[str, Any]) -> Iterator[str]:
    """Yield the format and what wrote it; an archive is known by its hash."""
    maker = manifest["created_by"]
    yield _line(
        "format",
        f"{manifest['format']} {manifest['version']}, by {plain(maker['name'])} "
        f"{plain(maker['version'])}",
    )
    if "sha256" in maker:
        yield _line("recorder", f"sha256 {plain(str(maker['sha256']))}")


def _redaction(manifest: dict[str, Any]) -> str:
    """Return what was taken out; older recorders know only names as they are."""
    if "redaction" not in manifest:
        return "none, names are as they are"
    about = manifest["redaction"]
    counts = [f"{name} {count}" for name, count in about["counts"].items()]
    head = f"{about['mode']}, rules {about['rules']}, key {about['key_id']}"
    return ", ".join([head, *counts])


def _general(found: Verified) -> Iterator[str]:
    """Yield what, where, when and how."""
    manifest = _manifest(found)
    host, capture = manifest["host"], manifest["capture"]
    seconds = (capture["stop_ns"] - capture["start_ns"]) / _NS_PER_S
    yield from _made_by(manifest)
    yield _line("redaction", plain(_redaction(manifest)))
    yield _line("content", f"sha256 {found.content_sha256 or 'unknown'}")
    yield _line(
        "host",
        f"{plain(host['host_name'])}, {plain(host['architecture'])}, "
        f"{host['cpu_count']} CPUs, Linux {plain(host['kernel_release'])}",
    )
    yield _line("boot", plain(host["boot_id"]))
    yield _line(
        "capture",
        f"{manifest['capture_id']}, {plain(capture['start_utc'])}, {seconds:.3f} s",
    )
    yield _line(
        "loader", f"{plain(capture['loader'])} ({plain(capture['loader_detail'])})"
    )
    yield _line("probes", f"{plain(capture['probe_set'])} set")
    yield _line("ended by", plain(capture["stop_reason"]))
    for label, text in cost_lines(found.facts, seconds):
        yield _line(label, plain(text))
    if capture["job_ids"]:
        yield _line("jobs", plain(", ".join(capture["job_ids"])))
    facts = [f"{plain(name)} {count}" for name, count in manifest["facts"].items()]
    yield _line("facts", ", ".join(facts))


def _streams(found: Verified) -> Iterator[str]:
    """Yield one line a stream."""
    packed: dict[str, int] = {}
    for member in found.members:
        parts = member.name.split("/")
        if parts[0] == "events" and len(parts) > 1:
            packed[parts[1]] = packed.get(parts[1], 0) + member.header.packed_size
    heads = f"{'rows':>11}{'open':>7}{'lost':>9}{'probes':>9}{'bytes':>13}"
    yield f"  {'stream':<12}{heads}"
    for name, entry in _manifest(found)["streams"].items():
        probes = f"{entry['attached_probe_count']}/{entry['asked_probe_count']}"
        yield (
            f"  {plain(name):<12}{entry['row_count']:>11}{entry['open_count']:>7}"
            f"{entry['lost_count']:>9}{probes:>9}{packed.get(name, 0):>13}"
        )


def _left_out(capture: dict[str, Any]) -> Iterator[str]:
    """Yield what is not there, and what carried a return probe."""
    for stream in capture.get("absent_streams", ()):
        yield f"no {plain(stream['name'])}: {plain(stream['reason'])}"
    why = capture.get("no_return_probes_reason")
    if why:
        yield f"no return probes, so calls have no duration: {plain(why)}"
    symbols = capture["return_probe_symbols"]
    if symbols:
        yield f"return probes on {plain(', '.join(symbols))}"


def _notes(found: Verified) -> Iterator[str]:
    """Yield what a reader has to know before believing the rest."""
    manifest = _manifest(found)
    capture = manifest["capture"]
    if capture["is_recovered"]:
        yield (
            f"recovered: {capture['torn_bytes']} bytes torn, "
            f"{capture.get('damaged_frame_count', 0)} frames damaged"
        )
    if manifest["planted"] is not None:
        yield f"not a plain recording: {plain(json.dumps(manifest['planted']))}"
    for told in (*given_up(found.facts, capture["start_ns"]), *missed(found.facts)):
        yield plain(told)
    silent = silence(found.facts.get("probe", []), found.facts.get("library", []))
    if silent is not None:
        yield plain(silent)
    for name, entry in manifest["streams"].items():
        for column in entry["missing_columns"]:
            yield (
                f"{plain(name)} has no {plain(column['name'])}: "
                f"{plain(column['reason'])}"
            )
    yield from _left_out(capture)
    for problem in found.problems:
        yield f"{plain(problem.message)}"
