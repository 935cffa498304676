"""Give a recorded bundle a clock error that is known to the nanosecond.

Both hosts of the lab share a kernel, so their true clock difference is zero; this tool
moves one of them and says so in ``planted`` of the manifest.  A true instant t becomes

    t + offset + rate * (t - about) + A * sin(2 pi (t - about) / period)

with A chosen so that the wander's steepest slope is ``wander_ppb``.  As on a real host

* MONOTONIC and BOOTTIME carry all of it, in events, facts, manifest and clock readings;
* MONOTONIC_RAW has no wander, for wander is what NTP's slewing does to MONOTONIC;
* REALTIME and TAI have the drift and the wander, but not the offset: MONOTONIC differs
  between hosts by their boots, and REALTIME minus MONOTONIC stays constant.

Nothing else changes, and the ZIP is written by the rules of capture/BUNDLE.md.

    python -m tests.lab.plant_clock IN.bundle OUT.bundle --offset-ms 250 --rate-ppm 20
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import io
import json
import stat
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

BY = "tests.lab.plant_clock"
_SUMS = "SHA256SUMS"
_DATE = (1980, 1, 1, 0, 0, 0)

# Keys whose values are instants of MONOTONIC, in facts and in the manifest.
_INSTANTS = frozenset(
    {
        "destroyed_ns",
        "exit_ns",
        "first_ns",
        "from_ns",
        "last_ns",
        "lost_first_ns",
        "lost_last_ns",
        "seen_ns",
        "start_ns",
        "stop_ns",
        "to_ns",
    }
)
# Lengths that end with the row's own end, and totals that have no place in time.
_TAIL_LENGTHS = ("runq_latency_ns",)
_TOTALS = ("skipped_ns", "skipped_runnable_ns")


@dataclass(frozen=True, kw_only=True, slots=True)
class ClockError:
    """How a host's clock differs from the true one."""

    offset_ns: int = 0
    rate: float = 0.0
    wander_ppb: float = 0.0
    period_s: float = 60.0
    about_ns: int = 0

    def apply(self, instants: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return what this clock shows at these true instants."""
        return instants + self.offset_ns + self._drift(instants, self.wander_ppb)

    def at(self, instant_ns: int) -> int:
        """Return what this clock shows at one true instant."""
        return int(self.apply(np.array([instant_ns], dtype=np.int64))[0])

    def raw_at(self, instant_ns: int) -> int:
        """Return a MONOTONIC_RAW reading as this clock shows it: without wander."""
        drift = self._drift(np.array([instant_ns], dtype=np.int64), 0.0)
        return instant_ns + self.offset_ns + int(drift[0])

    def _drift(
        self, instants: NDArray[np.int64], wander_ppb: float
    ) -> NDArray[np.int64]:
        since = (instants - self.about_ns).astype(np.float64)
        turn = 2 * np.pi / (self.period_s * 1e9)
        wander = wander_ppb * 1e-9 / turn * np.sin(turn * since)
        return np.rint(self.rate * since + wander).astype(np.int64)


def plant_clock(source: Path, target: Path, error: ClockError) -> Path:
    """Write a copy of a bundle with a clock error planted in it.

    An ``about_ns`` of 0 stands for the start of the capture: there the error is the
    offset alone.

    Raises
    ------
    ValueError
        If the bundle has a planted clock already: two errors would be told as one.
    """
    with zipfile.ZipFile(source) as bundle:
        members = {info.filename: bundle.read(info) for info in bundle.infolist()}
    manifest = json.loads(members["manifest.json"])
    if manifest["planted"] is not None:
        raise ValueError(f"{source} has a planted clock already")
    if not error.about_ns:
        error = _about(error, manifest["capture"]["start_ns"])
    del members[_SUMS]
    planted = {name: _planted(name, members, error) for name in members}
    planted["manifest.json"] = _manifest(manifest, error)
    _write(target, planted)
    return target


def planted_in(bundle: Path) -> tuple[str, ClockError]:
    """Return the name of a bundle's host, and the clock error planted in it."""
    with zipfile.ZipFile(bundle) as opened:
        manifest = json.loads(opened.read("manifest.json"))
    planted = dict(manifest["planted"] or {})
    planted.pop("by", None)
    return manifest["host"]["host_name"], ClockError(**planted)


def _about(error: ClockError, about_ns: int) -> ClockError:
    return dataclasses.replace(error, about_ns=about_ns)


def _planted(name: str, members: dict[str, bytes], error: ClockError) -> bytes:
    data = members[name]
    if name == "clock.jsonl":
        return _json_lines(data, lambda row: _reading(row, error))
    if name.startswith("facts/"):
        return _json_lines(data, lambda row: _moved_instants(row, error))
    if name.startswith("events/"):
        return _column(name, members, error)
    return data


def _manifest(manifest: dict[str, Any], error: ClockError) -> bytes:
    manifest["capture"] = _moved_instants(manifest["capture"], error)
    streams = manifest["streams"].items()
    manifest["streams"] = {name: _moved_instants(one, error) for name, one in streams}
    manifest["planted"] = {
        "offset_ns": error.offset_ns,
        "rate": error.rate,
        "wander_ppb": error.wander_ppb,
        "period_s": error.period_s,
        "about_ns": error.about_ns,
        "by": BY,
    }
    return (json.dumps(manifest, indent=1, ensure_ascii=False) + "\n").encode()


def _moved_instants(row: dict[str, Any], error: ClockError) -> dict[str, Any]:
    return {
        key: error.at(value) if key in _INSTANTS and value is not None else value
        for key, value in row.items()
    }


def _reading(row: dict[str, Any], error: ClockError) -> dict[str, Any]:
    true_ns = row["monotonic_ns"]
    moved = dict(row)
    moved["monotonic_ns"] = error.at(true_ns)
    moved["monotonic_raw_ns"] = error.raw_at(row["monotonic_raw_ns"])
    moved["boottime_ns"] += error.at(true_ns) - true_ns
    for name in ("realtime_ns", "tai_ns"):
        moved[name] += error.at(true_ns) - true_ns - error.offset_ns
    return moved


def _json_lines(
    data: bytes, change: Callable[[dict[str, Any]], dict[str, Any]]
) -> bytes:
    rows = [change(json.loads(line)) for line in data.splitlines()]
    lines = (json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in rows)
    return "".join(f"{line}\n" for line in lines).encode()


def _column(name: str, members: dict[str, bytes], error: ClockError) -> bytes:
    folder, _, file = name.rpartition("/")
    column = file.removesuffix(".npy")

    def read(other: str) -> NDArray[np.int64]:
        return np.load(io.BytesIO(members[f"{folder}/{other}.npy"]))

    if column == "start_ns":
        return _npy(error.apply(read(column)))
    if column == "duration_ns":
        start = read("start_ns")
        end = start + read(column)
        return _npy(error.apply(end) - error.apply(start))
    if column in _TAIL_LENGTHS:
        end = read("start_ns") + read("duration_ns")
        return _npy(error.apply(end) - error.apply(end - read(column)))
    if column in _TOTALS:
        return _npy(np.rint(read(column) * (1.0 + error.rate)).astype(np.int64))
    return members[name]


def _npy(values: NDArray[np.int64]) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array(out, np.ascontiguousarray(values), version=(1, 0))
    return out.getvalue()


def _write(path: Path, members: dict[str, bytes]) -> None:
    sums = "".join(
        f"{hashlib.sha256(data).hexdigest()}  {name}\n"
        for name, data in members.items()
    )
    with zipfile.ZipFile(path, "x", zipfile.ZIP_DEFLATED) as bundle:
        for name, data in {**members, _SUMS: sums.encode()}.items():
            info = zipfile.ZipInfo(name, _DATE)
            info.create_system = 3
            info.external_attr = (stat.S_IFREG | 0o600) << 16
            bundle.writestr(info, data, zipfile.ZIP_DEFLATED, 1)
    path.chmod(0o600)


def main(arguments: Sequence[str] | None = None) -> int:
    """Plant a clock error from the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab.plant_clock")
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--offset-ms", type=float, default=0.0)
    parser.add_argument("--rate-ppm", type=float, default=0.0)
    parser.add_argument("--wander-ppb", type=float, default=0.0)
    parser.add_argument("--period-s", type=float, default=60.0)
    asked = parser.parse_args(arguments)
    error = ClockError(
        offset_ns=round(asked.offset_ms * 1e6),
        rate=asked.rate_ppm * 1e-6,
        wander_ppb=asked.wander_ppb,
        period_s=asked.period_s,
    )
    plant_clock(asked.source, asked.target, error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
