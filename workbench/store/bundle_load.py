"""One bundle into the raw tables, inside a transaction of its caller.

Inflating, checking and hashing run in threads a few chunks ahead of the one that
inserts; nothing but those chunks is in memory, whatever the size of the bundle.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from workbench.bundle.facts import CLOCK_READING, FACTS, Key
from workbench.store import copies
from workbench.store.event_rows import (
    StreamTarget,
    insert_chunks,
    is_loadable,
    release,
    stream_target,
)
from workbench.store.fact_rows import insert_rows
from workbench.store.identity import ThreadIds, short_digest, short_hash
from workbench.store.overlap import remove_twice_recorded
from workbench.store.problems import LoadProblem
from workbench.store.raw_schema import EVENT_TABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from duckdb import DuckDBPyConnection

    from workbench.bundle.integrity import Damage
    from workbench.bundle.reader import BundleReader, Chunk

    Progress = Callable[[str, int, int], None]
    """Called with what is at work, how much of it is done and how much there is."""

_READ_AHEAD = 2
"""Chunks in memory beyond those being read; one is 20 to 30 MB."""

_CHUNKS_PER_INSERT = 4
"""A million rows: enough work for every core."""

_ORDERED_ROWS = 1_000_000
"""Up to here a bundle keeps its order: it loads in a second in any case."""


class BundleLoad:
    """One bundle on its way into the raw tables, inside one transaction."""

    def __init__(
        self, connection: DuckDBPyConnection, reader: BundleReader, content: str
    ) -> None:
        self.connection = connection
        self.reader = reader
        self.content = content
        self.bundle_id = short_digest(bytes.fromhex(content))
        self.host_id = short_hash(reader.manifest.host.boot_id)
        self.problems: list[LoadProblem] = []
        self.superseded: frozenset[int] = frozenset()
        self.row_count = 0

    def collision(self) -> LoadProblem | None:
        """Return a row if another host or bundle has the key of this one."""
        boot_id = self.reader.manifest.host.boot_id
        rows = self.connection.execute(
            "select host_id = $1 and boot_id <> $2 from raw.bundle"
            " where (host_id = $1 and boot_id <> $2) or bundle_id = $3",
            [self.host_id, boot_id, self.bundle_id],
        ).fetchall()
        if not rows:
            return None
        what = "host" if rows[0][0] else "bundle"
        message = f"another {what} of this case has the same key; load it into its own"
        return LoadProblem(
            kind="id_collision", message=message, path=str(self.reader.path)
        )

    def run(self, progress: Progress | None) -> None:
        """Load facts, then events, then what is known about the whole."""
        self._note(self.reader.damage)
        self._insert_bundle()
        threads = self._load_facts()
        targets = self._targets()
        damaged = self._load_events(targets, threads, progress)
        self._note(self.reader.check_rest())
        self._insert_streams(targets, damaged)
        self._settle_copies()
        self.problems += remove_twice_recorded(
            self.connection, self.bundle_id, self.host_id
        )

    def _note(self, damage: Iterable[Damage]) -> None:
        for item in damage:
            self._problem(item.kind, item.message, item.member)

    def _problem(self, kind: str, message: str, member: str | None = None) -> None:
        self.problems.append(
            LoadProblem(
                kind=kind,
                message=message,
                path=str(self.reader.path),
                member=member,
                bundle_id=self.bundle_id,
                host_id=self.host_id,
            )
        )

    def _load_facts(self) -> ThreadIds:
        for fact, keys in FACTS.items():
            if fact != "thread":
                table = self.reader.fact(fact)
                self._note(table.damage)
                self._insert(f"fact_{fact}", keys, table.rows)
        clock = self.reader.clock_readings()
        self._note(clock.damage)
        self._insert("clock_reading", CLOCK_READING, clock.rows)
        first = clock.rows[0] if clock.rows else {"boottime_ns": 0, "monotonic_ns": 0}
        return self._load_threads(first["boottime_ns"] - first["monotonic_ns"])

    def _load_threads(self, boottime_lead_ns: int) -> ThreadIds:
        table = self.reader.fact("thread")
        self._note(table.damage)
        named = [(row["tid"], row["start_ticks"]) for row in table.rows]
        known = self.connection.execute(
            "select distinct tid, start_ticks, thread_id from raw.fact_thread"
            " where host_id = ?",
            [self.host_id],
        ).fetchall()
        threads = ThreadIds(
            named,
            known={(tid, ticks): key for tid, ticks, key in known},
            ticks_per_second=self.reader.manifest.host.ticks_per_second,
            boottime_lead_ns=boottime_lead_ns,
        )
        ids = [threads.ids[pair] for pair in named]
        self._insert("fact_thread", FACTS["thread"], table.rows, ids)
        return threads

    def _insert(
        self,
        table: str,
        keys: tuple[Key, ...],
        rows: list[dict[str, Any]],
        thread_ids: list[int] | None = None,
    ) -> None:
        insert_rows(
            self.connection,
            table,
            keys,
            rows,
            bundle_id=self.bundle_id,
            host_id=self.host_id,
            thread_ids=thread_ids,
        )

    def _targets(self) -> dict[str, StreamTarget]:
        """Return the streams that can be loaded, and note the columns that cannot."""
        manifest = self.reader.manifest
        targets: dict[str, StreamTarget] = {}
        for stream in EVENT_TABLES:
            if stream in manifest.streams:
                target = stream_target(stream, manifest, self.bundle_id, self.host_id)
                targets[stream] = target
                for kind, column, message in target.faults:
                    self._problem(kind, message, column)
        return targets

    def _load_events(
        self,
        targets: dict[str, StreamTarget],
        threads: ThreadIds,
        progress: Progress | None,
    ) -> set[str]:
        """Insert every sound chunk and return the streams that lost one."""
        damaged: set[str] = set()
        streams = self.reader.manifest.streams
        total = sum(streams[stream].row_count for stream in targets)
        is_large = total > _ORDERED_ROWS
        order = "false" if is_large else "true"
        self.connection.execute(f"set preserve_insertion_order = {order}")
        for batch in self._batches([s for s in targets if is_loadable(targets[s])]):
            if self._load_batch(batch, targets[batch[0].stream], threads):
                damaged.add(batch[0].stream)
            if progress is not None:
                progress(self.reader.path.name, self.row_count, total)
        for target in targets.values():
            release(self.connection, target)
        self.connection.execute("reset preserve_insertion_order")
        self._note_odd_values(targets.values())
        return damaged | {s for s in targets if not is_loadable(targets[s])}

    def _load_batch(
        self, batch: list[Chunk], target: StreamTarget, threads: ThreadIds
    ) -> bool:
        """Insert the sound chunks of a batch and return whether one is damaged."""
        for chunk in batch:
            self._note(chunk.damage)
        sound = [chunk.columns for chunk in batch if chunk.columns is not None]
        if sound:
            self.row_count += insert_chunks(self.connection, target, sound, threads)
        return len(sound) < len(batch)

    def _batches(self, streams: list[str]) -> Iterator[list[Chunk]]:
        """Yield some chunks of one stream at a time, in order."""
        batch: list[Chunk] = []
        for chunk in self._chunks(streams):
            if batch and (
                batch[0].stream != chunk.stream or len(batch) == _CHUNKS_PER_INSERT
            ):
                yield batch
                batch = []
            batch.append(chunk)
        if batch:
            yield batch

    def _chunks(self, streams: list[str]) -> Iterator[Chunk]:
        """Yield chunks in order, read a few ahead by threads."""
        workers = os.cpu_count() or 1
        todo = deque(
            (stream, index)
            for stream in streams
            for index in range(len(self.reader.manifest.streams[stream].chunk_rows))
        )
        pending: deque[Future[Chunk]] = deque()
        with ThreadPoolExecutor(workers) as pool:
            while todo or pending:
                while todo and len(pending) < workers + _READ_AHEAD:
                    pending.append(pool.submit(self.reader.chunk, *todo.popleft()))
                yield pending.popleft().result()

    def _note_odd_values(self, targets: Iterable[StreamTarget]) -> None:
        for target in targets:
            if target.negative_count:
                self._problem(
                    "negative_duration",
                    f"stream {target.stream} has {target.negative_count} lengths "
                    "below 0, they are null",
                )
            if target.impossible_count:
                self._problem(
                    "impossible_time",
                    f"stream {target.stream} has {target.impossible_count} rows whose "
                    "start is no time, they are left out",
                )

    def _insert_bundle(self) -> None:
        manifest, reader = self.reader.manifest, self.reader
        host, capture = manifest.host, manifest.capture
        row = (
            self.bundle_id,
            self.host_id,
            str(reader.path),
            self.content,
            manifest.version,
            manifest.capture_id,
            host.boot_id,
            host.machine_id,
            host.host_name,
            host.architecture,
            host.kernel_release,
            host.cpu_count,
            capture.start_ns,
            capture.stop_ns,
            capture.start_utc,
            capture.loader,
            capture.loader_detail,
            capture.probe_set,
            capture.off_cpu_min_ns,
            capture.stop_reason,
            capture.is_recovered,
            capture.torn_bytes,
            reader.is_directory_missing,
            None if manifest.planted is None else json.dumps(manifest.planted),
        )
        self._append("bundle", row)

    def _insert_streams(
        self, targets: dict[str, StreamTarget], damaged: set[str]
    ) -> None:
        for stream, info in self.reader.manifest.streams.items():
            loaded = targets[stream].row_count if stream in targets else 0
            row = (
                self.bundle_id,
                self.host_id,
                stream,
                info.row_count,
                loaded,
                info.asked_probe_count,
                info.attached_probe_count,
                info.kind,
                info.hit_count,
                info.lost_count,
                info.lost_first_ns,
                info.lost_last_ns,
                info.from_ns,
                info.to_ns,
                info.open_count,
                sorted(info.missing_columns),
                stream in damaged,
                None,
            )
            self._append("bundle_stream", row)
        manifest = self.reader.manifest
        absent = manifest.capture.absent_streams
        for stream in sorted(absent.keys() - manifest.streams.keys()):
            self.connection.execute(
                "insert into raw.bundle_stream by name select ? as bundle_id,"
                " ? as host_id, ? as stream, ? as absent_reason,"
                " 0 as row_count, 0 as loaded_row_count, 0 as lost_count",
                (self.bundle_id, self.host_id, stream, absent[stream]),
            )

    def _append(self, table: str, row: tuple[object, ...]) -> None:
        marks = ", ".join("?" * len(row))
        self.connection.execute(f"insert into raw.{table} values ({marks})", row)

    def _settle_copies(self) -> None:
        """Give way to a sound copy of this capture, or take the place of damaged ones.

        Raises
        ------
        AlreadyLoadedError
            If this bundle brings nothing new.
        """
        manifest = self.reader.manifest
        others = copies.of_capture(
            self.connection, self.host_id, manifest.capture_id, self.bundle_id
        )
        if not any(problem.is_damage for problem in self.problems):
            damaged = [other for other in others if other.is_damaged]
            self.problems += copies.remove(
                self.connection, damaged, for_path=self.reader.path
            )
            self.superseded = frozenset(other.bundle_id for other in damaged)
            return
        content = self.reader.file_sha256()
        if content != self.content:
            copies.refuse_known(self.connection, content)
        copies.refuse_damaged_copy(others)
        bundle_id = short_digest(bytes.fromhex(content))
        copies.rename(self.connection, self.bundle_id, bundle_id, content)
        self.problems = [
            dataclasses.replace(problem, bundle_id=bundle_id)
            for problem in self.problems
        ]
        self.bundle_id = bundle_id
