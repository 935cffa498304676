"""The maps that both loaders share, and all that is done through them.

Sizes and layouts are those of ``bpf/record.h``; a test compiles it and compares.  What
is left to a loader is in the last methods of :class:`KernelSide`.
"""

from __future__ import annotations

import os
import resource
import struct
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from capture import ring
from capture.layout import LAYOUTS, OFF_CPU
from capture.loaders import FACT, AttachResult, LoaderError, read_fact, run_time
from capture.loaders.bpf_syscall import (
    MAP_ARRAY,
    MAP_HASH,
    MAP_PERCPU_ARRAY,
    MAP_RING,
    Map,
)
from capture.loaders.counters import (
    COUNT,
    FACTS_ROW,
    OFF_CPU_ROW,
    read_counter,
)
from capture.probes import LAUNCHES, ROW_IS_MUTE, pack_row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from capture.loaders import LoaderSettings, ProbeCounter
    from capture.probes import ProbeSite

CONTROL = struct.Struct("<QQIIIIII")
CALL_KEY = struct.Struct("<QII")
COMMUNICATOR_KEY = struct.Struct("<QII")
COMMUNICATOR = struct.Struct("<QQiII4x")
PID = struct.Struct("<I")
CALL_SIZE, CALL_STREAM, CALL_IS_SILENT = 168, 160, 162
ABSENCE_SIZE, ABSENCE_IS_AWAY = 112, 104

MAPS = {
    "control": (MAP_ARRAY, 4, CONTROL.size, 1),
    "next_ref": (MAP_ARRAY, 4, 8, 1),
    "targets": (MAP_HASH, 4, 4, 16_384),
    "probe_rows": (MAP_ARRAY, 4, 64, 1_024),
    "probe_counts": (MAP_PERCPU_ARRAY, 4, COUNT.size, 1_024),
    "threads": (MAP_HASH, 4, 24, 65_536),
    "processes": (MAP_HASH, 4, 464, 4_096),
    "blank_process": (MAP_ARRAY, 4, 464, 1),
    "calls": (MAP_HASH, CALL_KEY.size, CALL_SIZE, 16_384),
    "communicators": (MAP_HASH, COMMUNICATOR_KEY.size, COMMUNICATOR.size, 16_384),
    "pair_calls": (MAP_HASH, 16, 8, 65_536),
    "worlds": (MAP_HASH, 4, 8, 4_096),
    "absences": (MAP_HASH, 4, ABSENCE_SIZE, 32_768),
}
"""kind, key size, value size, entries.  Plain hash maps: an LRU map forgets calls that
are still open, in silence."""

_COLLECTIVE, _GPU_CALL = 1, 2
_STREAMS = {_COLLECTIVE: "collective", _GPU_CALL: "gpu_call"}
_FLAGS_AT = {"collective": 87, "gpu_call": 66}
_IS_OPEN, _IS_TOTALS_ONLY = 1 << 1, 1 << 7
_SKIPPED_AT, _SKIPPED_COUNT_AT, _OFF_FLAGS_AT = 24, 72, 81


@dataclass(frozen=True)
class HeldProbes:
    """Probes that go when one descriptor is closed."""

    probe_ids: frozenset[int]
    is_return: bool
    close: Callable[[], None]


class KernelSide:
    """Maps, targets, counters and rings: a loader without its programs."""

    name = ""

    def __init__(self) -> None:
        self.detail = ""
        self.missing_columns: dict[str, dict[str, str]] = {}
        self._maps: dict[str, Map] = {}
        self._rings: dict[str, ring.Ring] = {}
        self._sites: dict[int, ProbeSite] = {}
        self._is_quiet = False
        self._held: list[HeldProbes] = []
        self._muted: set[int] = set()

    def load(self, settings: LoaderSettings) -> None:
        """Make the maps and load the programs.

        Raises
        ------
        LoaderError
            If the kernel refuses, with what it needs.
        """
        self._settings = settings
        # Before 5.11 maps count against this limit.
        try:
            _, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
            resource.setrlimit(resource.RLIMIT_MEMLOCK, (hard, hard))
        except (OSError, ValueError):
            pass
        try:
            self._make_maps(settings)
        except OSError as error:
            raise LoaderError(
                f"cannot make BPF maps: {error.strerror}",
                "run as root, or with CAP_BPF and CAP_PERFMON",
            ) from error
        try:
            self._load_programs(settings)
        except OSError as error:
            self.close()
            raise LoaderError(f"cannot load BPF programs: {error}") from error
        except LoaderError:
            self.close()
            raise
        self._write_control()

    def _make_maps(self, settings: LoaderSettings) -> None:
        for name, (kind, key_size, value_size, entries) in MAPS.items():
            self._maps[name] = Map(name, kind, key_size, value_size, entries)
        sizes = {stream: LAYOUTS[stream].size for stream in LAYOUTS}
        for stream, size in {**sizes, "facts": FACT.size}.items():
            is_asked = stream in settings.streams or stream == "facts"
            # Every program names its ring, so one that is not asked for is small.
            asked = settings.ring_bytes[stream] if is_asked else 1 << 16
            ring_map = Map(f"ring_{stream}", MAP_RING, 0, 0, asked)
            self._maps[ring_map.name] = ring_map
            if is_asked:
                self._rings[stream] = ring.Ring(ring_map.fd, asked, size)

    def _write_control(self) -> None:
        settings = self._settings
        value = CONTROL.pack(
            settings.off_cpu_min_ns,
            settings.force_totals_ns,
            self._is_quiet,
            settings.own_pid,
            settings.follow_fork,
            settings.adopt_library_users,
            settings.nested_driver_calls,
            0,
        )
        self._maps["control"].update(PID.pack(0), value)

    def add_target(self, pid: int) -> None:
        """Record this process from now on."""
        self._maps["targets"].update(PID.pack(pid), PID.pack(1))

    def remove_target(self, pid: int) -> None:
        """Stop recording this process."""
        self._maps["targets"].delete(PID.pack(pid))

    def set_world(self, pid: int, address: int) -> dict[str, object] | None:
        """Tell where ``MPI_COMM_WORLD`` of a process is; see :class:`Loader`."""
        self._maps["worlds"].update(PID.pack(pid), struct.pack("<Q", address))
        key = COMMUNICATOR_KEY.pack(address, pid, 0)
        value = self._maps["communicators"].lookup(key)
        if value is None:
            return None
        _, _, reference, is_base_known, vendor = COMMUNICATOR.unpack(value)
        flags = 64 if is_base_known else 0
        now = time.monotonic_ns()
        row = (now, 0, 0, 1, pid, 0, reference, 0, 0, 0, 0, 0, 0, 2, vendor, flags)
        return read_fact(row)

    def attach(self, sites: Sequence[ProbeSite]) -> list[AttachResult]:
        """Attach library probes, all those that can be."""
        for site in sites:
            if site.probe_id >= FACTS_ROW:
                raise LoaderError(f"more than {FACTS_ROW} probes")
            self._write_row(site, is_mute=False)
        refusals = self._attach_probes(sites)
        results: list[AttachResult] = []
        for site in sites:
            reason = refusals.get(site.probe_id)
            if reason is None:
                self._sites[site.probe_id] = site
            results.append(
                AttachResult(
                    site.probe_id,
                    site.probe.stream,
                    site.symbol,
                    is_attached=reason is None,
                    refused_reason=reason,
                )
            )
        self._leave_launches_to_the_driver()
        return results

    def mute(self, part: str) -> int:
        """Record no more calls of one part, and return how many probes that concerns.

        Only entries go at once.  A call that is open keeps its return probe, else it
        would look like one that never returned.
        """
        mute = {i for i, site in self._sites.items() if site.probe.part == part}
        mute -= self._muted
        for probe_id in mute:
            self._write_row(self._sites[probe_id], is_mute=True)
        self._muted |= mute
        self._release(lambda held: held.probe_ids <= mute and not held.is_return)
        return len(mute)

    def set_off_cpu_min(self, off_cpu_min_ns: int) -> None:
        """Set the shortest absence with a record of its own."""
        self._settings = replace(self._settings, off_cpu_min_ns=off_cpu_min_ns)
        self._write_control()

    def _write_row(self, site: ProbeSite, *, is_mute: bool) -> None:
        row = bytearray(pack_row(site))
        if is_mute:
            row[6] |= ROW_IS_MUTE
        self._maps["probe_rows"].update(PID.pack(site.probe_id), bytes(row))

    def _leave_launches_to_the_driver(self) -> None:
        """Take the probes off the runtime's launches once the driver is probed.

        A launch is recorded by entry alone, so one layer cannot see that it is inside
        of another; and the runtime maps the driver late, at its first call.
        """
        if self._settings.nested_driver_calls:
            return
        launches = [s for s in self._sites.values() if s.probe.operation in LAUNCHES]
        if any(site.probe.layer == 0 for site in launches):
            mute = {site.probe_id for site in launches if site.probe.layer == 1}
            for probe_id in mute:
                self._write_row(self._sites[probe_id], is_mute=True)
            self._release(lambda held: held.probe_ids <= mute)

    def _release(self, is_over: Callable[[HeldProbes], bool]) -> None:
        """Detach held probes."""
        for held in [held for held in self._held if is_over(held)]:
            self._held.remove(held)
            held.close()

    def rings(self) -> dict[str, ring.Ring]:
        """Return the mapped ring of each asked stream, and ``facts``."""
        return dict(self._rings)

    def in_flight(self, older_than_ns: int) -> dict[str, bytes]:
        """Return calls and absences not yet over, as ring-shaped records by stream."""
        until = time.monotonic_ns() - older_than_ns
        found: dict[str, list[bytes]] = {}
        for stream, record in self._open_calls(until):
            found.setdefault(stream, []).append(record)
        if "off_cpu" in self._settings.streams:
            found["off_cpu"] = list(self._open_absences(until))
        return {name: ring.ring_shaped(rows) for name, rows in found.items() if rows}

    def _open_calls(self, until: int) -> Iterator[tuple[str, bytes]]:
        """Yield the open calls; those of threads that ended are forgotten here."""
        # In this order: a thread that starts meanwhile must not look dead.
        calls = self._maps["calls"].entries()
        self._drop_returns({CALL_KEY.unpack(key)[2] for key, _ in calls})
        alive = {key for key, _ in self._maps["threads"].entries()}
        for key, value in calls:
            _, tid, _ = CALL_KEY.unpack(key)
            if PID.pack(tid) not in alive:
                self._maps["calls"].delete(key)
                continue
            stream = _STREAMS[value[CALL_STREAM]]
            start_ns = int.from_bytes(value[:8], "little")
            if value[CALL_IS_SILENT] or start_ns > until:
                continue
            record = bytearray(value[: LAYOUTS[stream].size])
            record[_FLAGS_AT[stream]] |= _IS_OPEN
            yield stream, bytes(record)

    def _drop_returns(self, open_ids: set[int]) -> None:
        """Take the return probes off muted calls, once none of them is open."""
        idle = self._muted - open_ids
        if idle:
            self._release(lambda held: held.probe_ids <= idle)

    def _open_absences(self, until: int) -> Iterator[bytes]:
        """Yield threads that are off the CPU.

        Totals of short absences stay in the kernel while it may still write them into
        a record of its own: they come with these only once it is quiet.
        """
        for record, is_away in self._absences():
            if is_away and int.from_bytes(record[:8], "little") <= until:
                if not self._is_quiet:
                    record[_SKIPPED_AT : _SKIPPED_AT + 16] = bytes(16)
                    record[_SKIPPED_COUNT_AT : _SKIPPED_COUNT_AT + 4] = bytes(4)
                record[_OFF_FLAGS_AT] |= _IS_OPEN
                yield bytes(record)

    def last_totals(self) -> bytes:
        """Return the totals of short absences that no record carries."""
        if "off_cpu" not in self._settings.streams:
            return b""
        rows: list[bytes] = []
        for record, is_away in self._absences():
            if not is_away and any(record[_SKIPPED_COUNT_AT : _SKIPPED_COUNT_AT + 4]):
                record[:8] = time.monotonic_ns().to_bytes(8, "little")
                record[8:_SKIPPED_AT] = bytes(_SKIPPED_AT - 8)
                record[_OFF_FLAGS_AT : _OFF_FLAGS_AT + 2] = bytes((_IS_TOTALS_ONLY, 0))
                rows.append(bytes(record))
        return ring.ring_shaped(rows)

    def _absences(self) -> Iterator[tuple[bytearray, bool]]:
        """Yield the record of each thread of a target, and whether it is away."""
        targets = {key for key, _ in self._maps["targets"].entries()}
        for _, value in self._maps["absences"].entries():
            record = bytearray(value[: OFF_CPU.size])
            if bytes(record[40:44]) in targets:
                yield record, bool(value[ABSENCE_IS_AWAY])

    def probe_counters(self) -> list[ProbeCounter]:
        """Return what the kernel counted so far."""
        rows: list[tuple[int, int | None, str]] = [
            (i, i, site.probe.stream) for i, site in self._sites.items()
        ]
        if "off_cpu" in self._settings.streams:
            rows.append((OFF_CPU_ROW, None, "off_cpu"))
        rows.append((FACTS_ROW, None, "facts"))
        found = [read_counter(self._maps["probe_counts"], *row) for row in rows]
        return [counter for counter in found if counter is not None]

    def program_runs(self) -> dict[str, run_time.ProgramRuns]:
        """Return runs and run time of the programs so far, by name."""
        return run_time.program_runs(self._programs())

    def count_run_time(self) -> int:
        """Let the kernel count run time; see :func:`run_time.count_run_time`."""
        return run_time.count_run_time()

    def quiesce(self) -> None:
        """Make every program return at once."""
        self._is_quiet = True
        self._write_control()

    def close(self) -> None:
        """Detach and unload everything."""
        self._release(lambda _: True)
        self._unload()
        for mapped in self._rings.values():
            mapped.close()
        for kernel_map in self._maps.values():
            kernel_map.close()
        self._rings.clear()
        self._maps.clear()

    # What a loader does in its own way.

    def _load_programs(self, settings: LoaderSettings) -> None:
        raise NotImplementedError

    def _attach_probes(self, sites: Sequence[ProbeSite]) -> dict[int, str]:
        """Attach sites and return why some were refused, by probe id."""
        raise NotImplementedError

    def _programs(self) -> Iterator[tuple[str, int]]:
        """Yield name and descriptor of each program."""
        raise NotImplementedError

    def _unload(self) -> None:
        raise NotImplementedError


def words(error: OSError) -> str:
    """Return an error of the kernel as a reason."""
    return error.strerror or os.strerror(error.errno or 0)
