"""Members of a made bundle: what follows from the events that a builder was given."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.bundle_writer import (
    chunk_members,
    full_columns,
    json_lines,
    spec_columns,
    with_sums,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tests.builders import HostBuilder

SECOND = 1_000_000_000
STREAMS = ("collective", "gpu_call", "off_cpu")
OFF_STATES = ("running", "sleep", "disk", "stopped", "dead")
REALTIME_BASE_NS = 1_796_000_000 * SECOND
MAX_READINGS = 10_000
UNSYNCHRONISED = 64


class MadeBundle:
    """A host's facts, manifest and columns."""

    def __init__(self, host: HostBuilder) -> None:
        self.host = host
        self.columns = {stream: self._columns(stream) for stream in host.streams}
        self._number_probes()
        filled = [c for c in self.columns.values() if len(c["start_ns"])]
        ends = [
            c["start_ns"] + np.where(c["has_duration_ns"], c["duration_ns"], 0)
            for c in filled
        ]
        first = min((int(c["start_ns"].min()) for c in filled), default=SECOND)
        last = max((int(end.max()) for end in ends), default=first)
        begin, stop = (None if t is None else host.clock(t) for t in host.window)
        self.start_ns = max(0, first - SECOND) if begin is None else begin
        self.stop_ns = last + SECOND if stop is None else stop

    def members(self) -> dict[str, bytes]:
        """Return every member, manifest first and check sums last."""
        facts = {name: rows for name, rows in self._facts().items() if rows}
        streams: dict[str, Any] = {}
        chunks: dict[str, bytes] = {}
        for stream, columns in self.columns.items():
            gone = self._gone(stream)
            shown = {name: array for name, array in columns.items() if name not in gone}
            members, sizes = chunk_members(stream, shown, self.host.chunk_rows)
            chunks |= members
            streams[stream] = self._stream(stream, columns, sizes)
        manifest = self._manifest(streams, facts)
        result = {"manifest.json": json.dumps(manifest, indent=1).encode()}
        result["clock.jsonl"] = json_lines(self._clock_readings())
        for name, rows in facts.items():
            result[f"facts/{name}.jsonl"] = json_lines(rows)
        return with_sums(result | chunks)

    def _columns(self, stream: str) -> dict[str, NDArray[Any]]:
        """Return every column of a stream: single events first, then those in bulk."""
        parts = []
        rows = self.host.rows[stream]
        if rows:
            names = {name for row in rows for name in row}
            given = {
                name: np.array([row.get(name) or 0 for row in rows]) for name in names
            }
            part = full_columns(stream, given, len(rows))
            for column in spec_columns(stream):
                if column.valid_by is not None:
                    covered = [
                        c.name
                        for c in spec_columns(stream)
                        if c.valid_by == column.valid_by
                    ]
                    part[column.valid_by] = np.array(
                        [any(row.get(c) is not None for c in covered) for row in rows]
                    )
            parts.append(part)
        parts += [
            full_columns(stream, given, len(given["start_ns"]))
            for given in self.host.bulk[stream]
        ]
        if not parts:
            return full_columns(stream, {}, 0)
        return {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}

    def _number_probes(self) -> None:
        """Point each call at the probe of its operation."""
        names = self.host.names["operations"]
        for row in self._probes():
            columns = self.columns[row["stream"]]
            if "probe_id" in columns and row["operation"] in names:
                is_of = columns["operation"] == names[row["operation"]]
                is_bare = columns["probe_id"] == 0
                columns["probe_id"][is_of & is_bare] = row["probe_id"]

    def _gone(self, stream: str) -> set[str]:
        """Return the columns that were not recorded and companions of none that was."""
        gone = set(self.host.without_columns.get(stream, ()))
        for companion in {c.valid_by for c in spec_columns(stream)} - {None}:
            users = {c.name for c in spec_columns(stream) if c.valid_by == companion}
            if users <= gone:
                gone.add(str(companion))
        return gone

    def _stream(
        self, stream: str, columns: dict[str, NDArray[Any]], sizes: list[int]
    ) -> dict[str, Any]:
        starts = columns["start_ns"]
        asked = [stream for row in self._probes() if row["stream"] == stream]
        gone = self._gone(stream)
        entry = {
            "row_count": len(starts),
            "chunk_rows": sizes,
            "columns": [
                c.as_manifest() for c in spec_columns(stream) if c.name not in gone
            ],
            "missing_columns": [
                {"name": name, "reason": "this loader cannot read it"}
                for name in self.host.without_columns.get(stream, ())
            ],
            "kind": "tracepoint" if stream == "off_cpu" else "uprobe",
            "asked_probe_count": len(asked),
            "attached_probe_count": len(asked),
            "hit_count": len(starts),
            "lost_count": 0,
            "lost_first_ns": None,
            "lost_last_ns": None,
            "from_ns": int(starts.min()) if len(starts) else None,
            "to_ns": int(starts.max()) if len(starts) else None,
            "open_count": int(columns["is_open"].sum()),
        }
        return {**entry, **self.host.stream_facts.get(stream, {})}

    def _manifest(
        self, streams: dict[str, Any], facts: dict[str, list[dict[str, Any]]]
    ) -> dict[str, Any]:
        names = self.host.names
        job = self.host.job_id
        manifest: dict[str, Any] = {
            "format": "coldtrace-bundle",
            "version": 1,
            "capture_id": hashlib.sha256(self.host.name.encode()).hexdigest()[:8],
            "created_by": {"name": "coldtrace-tests", "version": "1"},
            "host": {
                **self._host_fact(),
                "machine_id": self._host_fact()["machine_id"],
            },
            "capture": self._capture() | {"job_ids": [] if job is None else [job]},
            "streams": streams,
            "operations": {str(c): name for name, c in names["operations"].items()},
            "off_states": list(OFF_STATES),
            "syscalls": {str(c): name for name, c in names["syscalls"].items()},
            "facts": {name: len(rows) for name, rows in facts.items()},
            "planted": None,
        }
        del manifest["host"]["os_name"]
        for key, value in self.host.changes.items():
            holder = next((h for h in ("capture", "host") if key in manifest[h]), None)
            (manifest if holder is None else manifest[holder])[key] = value
        return manifest

    def _host_fact(self) -> dict[str, Any]:
        name = self.host.name
        row = {
            "boot_id": self.host.boot_id,
            "machine_id": hashlib.sha256(f"{name}.machine".encode()).hexdigest()[:32],
            "host_name": name,
            "architecture": "x86_64",
            "kernel_release": "6.18.0",
            "os_name": "Debian 12",
            "cpu_count": 2,
            "page_size_bytes": 4096,
            "ticks_per_second": 100,
        }
        return row | {k: v for k, v in self.host.changes.items() if k in row}

    def _capture(self) -> dict[str, Any]:
        utc = datetime.fromtimestamp(
            (REALTIME_BASE_NS + self.start_ns - self.host.offset_ns) // SECOND, UTC
        )
        return {
            "start_ns": self.start_ns,
            "stop_ns": self.stop_ns,
            "start_utc": utc.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "loader": "core",
            "loader_detail": "made by a test",
            "probe_set": "standard",
            "off_cpu_min_ns": 100_000,
            "stop_reason": "signal",
            "is_recovered": False,
            "torn_bytes": 0,
            "return_probe_symbols": [],
            "absent_streams": [],
        }

    def _facts(self) -> dict[str, list[dict[str, Any]]]:
        given = self.host.facts
        return {
            "host": [self._host_fact()],
            "process": [self._seen(row) for row in given["process"]],
            "thread": [self._seen(row) for row in given["thread"]],
            "library": given["library"],
            "mapping": given["mapping"],
            "rank": [self._rank(row) for row in given["rank"]],
            "communicator": self._communicators() + given["communicator"],
            "probe": given["probe"] or self._probes(),
            "loss": given["loss"],
            "config": given["config"],
            "budget_step": given["budget_step"],
        }

    def _seen(self, row: dict[str, Any]) -> dict[str, Any]:
        seen = self.start_ns if row["first_ns"] is None else row["first_ns"]
        return row | {"first_ns": seen}

    def _rank(self, row: dict[str, Any]) -> dict[str, Any]:
        ranks = {
            r["rank"]
            for host in self.host.case.hosts.values()
            for r in host.facts["rank"]
        }
        size = max(ranks) + 1 if row["world_size"] is None else row["world_size"]
        return row | {"world_size": size}

    def _communicators(self) -> list[dict[str, Any]]:
        case = self.host.case
        ranks = {
            thread.pid: thread.rank_number
            for thread in self.host.threads.values()
            if thread.rank_number is not None
        }
        rows = []
        for (label, pid), ref in self.host.refs.items():
            members = sorted(case.members[label])
            rank = ranks.get(pid)
            row = {
                "communicator_ref": ref,
                "pid": pid,
                "kind": "mpi",
                "origin": hashlib.sha256(label.encode()).hexdigest()[:32],
                "generation": 0,
                "parent_ref": None,
                "child_index": None,
                "color": None,
                "key": None,
                "size": len(members),
                "rank": members.index(rank) if rank in members else None,
                "how": "world",
                "is_base_known": True,
                "first_ns": self.start_ns,
                "destroyed_ns": None,
            }
            rows.append(row | case.communicators.get(label, {}))
        return rows

    def _probes(self) -> list[dict[str, Any]]:
        """Return a probe for each operation seen, and one for each stream without."""
        rows: list[dict[str, Any]] = []
        names = {code: name for name, code in self.host.names["operations"].items()}
        for stream, columns in self.columns.items():
            codes = np.zeros(0) if stream == "off_cpu" else columns["operation"]
            default = "switch" if stream == "off_cpu" else "none_called"
            found = [names.get(int(code), "launch") for code in np.unique(codes)]
            for operation in found or [default]:
                rows.append(self._probe(len(rows) + 1, stream, operation))
        return rows

    def _probe(self, probe_id: int, stream: str, operation: str) -> dict[str, Any]:
        vendor = {"collective": "mpi", "gpu_call": "nvidia"}.get(stream, "kernel")
        return {
            "probe_id": probe_id,
            "stream": stream,
            "operation": operation,
            "vendor": vendor,
            "layer": 0,
            "library_ref": None,
            "symbol": operation,
            "file_offset": None,
            "has_return": operation != "launch",
            "is_asked": True,
            "is_attached": True,
            "refused_reason": None,
            "hit_count": len(self.columns[stream]["start_ns"]),
            "lost_count": 0,
            "lost_first_ns": None,
            "lost_last_ns": None,
            "unmatched_return_count": 0,
            "aliases": [],
        }

    def _clock_readings(self) -> list[dict[str, Any]]:
        """Return a reading a second, first at the start and last at the stop."""
        step = max(SECOND, (self.stop_ns - self.start_ns) // MAX_READINGS)
        times = [*range(self.start_ns, self.stop_ns, step), self.stop_ns]
        change = self.host.reading or dict
        return [change(self._reading(time)) for time in times]

    def _reading(self, host_ns: int) -> dict[str, Any]:
        true_ns = round((host_ns - self.host.offset_ns) / (1 + self.host.rate))
        return {
            "monotonic_ns": host_ns,
            "monotonic_raw_ns": host_ns,
            "boottime_ns": host_ns,
            "realtime_ns": REALTIME_BASE_NS + true_ns,
            "tai_ns": REALTIME_BASE_NS + true_ns + 37 * SECOND,
            "bracket_ns": 400,
            "adjtime_frequency_ppb": 0,
            "adjtime_tick": 10_000,
            "adjtime_status": UNSYNCHRONISED,
            "adjtime_maxerror_us": 1_000,
            "adjtime_esterror_us": 100,
        }
