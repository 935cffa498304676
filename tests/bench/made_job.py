"""Spools of a made job with the shape of an eBPF recording: known, by the real writer.

Every host runs ``RANKS_PER_HOST`` ranks; a step of 300 ms has 1,200 slots of 250 us,
twelve kinds in turn: eight launches, a copy with its driver twin, an absence from the
CPU, a synchronisation with its driver twin and an absence inside, and a collective at
every 72nd slot.  Collectives obey causality: nobody leaves before the last has come.
Rank 5 of the whole job comes 20 ms late at each 14th step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from capture.layout import LAYOUTS, RecordLayout

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

RANKS_PER_HOST = 4
SLOT_NS = 250_000
SLOTS = 1_200
STEP_NS = SLOT_NS * SLOTS
LATE_RANK, LATE_EVERY, LATE_NS = 5, 14, 20_000_000
COLLECTIVE_EVERY = 72
FIRST_NS = 1_000_000_000_000
SYSCALL_POLL, SYSCALL_FUTEX = 7, 202

NUMPY_CODES = {"q": "i8", "Q": "u8", "i": "i4", "I": "u4", "h": "i2", "b": "i1"}


def record_dtype(layout: RecordLayout) -> np.dtype[Any]:
    """Return the numpy form of a ring record with its 8-byte header."""
    names = ["ring_length"]
    formats, offsets = ["<u4"], [0]
    for field in layout.fields:
        names.append(field.name)
        formats.append("<" + NUMPY_CODES[field.code])
        offsets.append(field.offset + 8)
    for number, flags in enumerate(layout.flags):
        names.append(f"flags{number}")
        formats.append("u1")
        offsets.append(flags.offset + 8)
    return np.dtype(
        {
            "names": names,
            "formats": formats,
            "offsets": offsets,
            "itemsize": layout.stride,
        }
    )


def flag_bits(layout: RecordLayout, number: int, *names: str) -> int:
    """Return the flags byte with these bits set."""
    return sum(1 << layout.flags[number].names.index(name) for name in names)


@dataclass(frozen=True, kw_only=True)
class MadeJob:
    """Size of the job; equal sizes give equal bytes."""

    hosts: int
    steps: int
    seed: int = 7

    @property
    def ranks(self) -> int:
        """Return the number of ranks."""
        return self.hosts * RANKS_PER_HOST

    def collective_times(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return arrival and completion [rank, step, collective], in true time."""
        rng = np.random.default_rng(self.seed)
        slots = np.arange(COLLECTIVE_EVERY - 1, SLOTS, COLLECTIVE_EVERY)
        shape = (self.ranks, self.steps, len(slots))
        grid = np.arange(self.steps)[:, None] * STEP_NS + slots * SLOT_NS
        arrival = FIRST_NS + grid[None] + rng.integers(0, 60_000, shape)
        late = np.arange(self.steps) % LATE_EVERY == LATE_EVERY - 1
        if self.ranks > LATE_RANK:
            arrival[LATE_RANK, late, 0] += LATE_NS
        leave = arrival.max(axis=0) + rng.integers(20_000, 60_000, shape)
        return arrival, leave

    def host_streams(self, host: int) -> Iterator[tuple[str, NDArray[Any]]]:
        """Yield (stream, ring records) of one host, rank after rank."""
        arrival, leave = self.collective_times()
        for local in range(RANKS_PER_HOST):
            rank = host * RANKS_PER_HOST + local
            yield "collective", self._collectives(rank, arrival[rank], leave[rank])
            yield "gpu_call", self._gpu_calls(rank)
            yield "off_cpu", self._off_cpu(rank, arrival[rank], leave[rank])

    def _slots(self, rank: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return each slot's start [step, slot], and noise below 100,000 ns."""
        rng = np.random.default_rng((self.seed, rank))
        start = FIRST_NS + np.arange(self.steps * SLOTS) * SLOT_NS
        start += rng.integers(0, 20_000, len(start))
        shape = (self.steps, SLOTS)
        return start.reshape(shape), rng.integers(0, 100_000, shape)

    def _collectives(
        self, rank: int, arrival: NDArray[np.int64], leave: NDArray[np.int64]
    ) -> NDArray[Any]:
        rows = _rows("collective", arrival.size, rank)
        layout = LAYOUTS["collective"]
        rows["start_ns"] = arrival.ravel()
        rows["duration_ns"] = (leave - arrival).ravel()
        rows["collective_seq"] = np.arange(arrival.size)
        # Buckets differ in size, as a framework's do: by that a step is recognised.
        buckets = np.arange(arrival.shape[1])
        rows["element_count"] = np.tile((1 << 20) + 4096 * buckets, len(arrival))
        rows["communicator_ref"] = rank % RANKS_PER_HOST + 1
        rows["operation"] = 1
        rows["probe_id"] = 1
        rows["flags0"] = flag_bits(
            layout, 0, "has_duration_ns", "has_collective_seq", "is_base_known"
        )
        rows["flags1"] = flag_bits(
            layout, 1, "has_communicator_ref", "has_element_count", "has_return_code"
        )
        return rows

    def _gpu_calls(self, rank: int) -> NDArray[Any]:
        start, noise = self._slots(rank)
        turn = np.arange(SLOTS) % 12
        parts = [_calls(rank, start[:, turn < 8], None, 100, probe=2)]
        for slot, operation, probe, length, inner, inner_length in (
            (8, 111, 3, 60_000, 3_000, 50_000),
            (10, 130, 5, 60_000, 2_000, 57_000),
        ):
            at, more = start[:, turn == slot], noise[:, turn == slot]
            twin = at + inner
            parts += [
                _calls(rank, at, length + more, operation, probe=probe),
                _calls(
                    rank,
                    twin,
                    inner_length + more,
                    operation,
                    probe=probe + 1,
                    depth=1,
                ),
            ]
        # Concatenation would promote to a packed dtype, and the gaps are the layout.
        rows = np.concatenate(parts, dtype=record_dtype(LAYOUTS["gpu_call"]))
        # A ring holds records in the order in which calls end.
        return rows[np.argsort(rows["start_ns"] + rows["duration_ns"], kind="stable")]

    def _off_cpu(
        self, rank: int, arrival: NDArray[np.int64], leave: NDArray[np.int64]
    ) -> NDArray[Any]:
        start, noise = self._slots(rank)
        turn = np.arange(SLOTS) % 12
        inside = np.maximum(leave - arrival - 10_000, 1_000)
        begin = np.concatenate(
            [
                start[:, turn == 9].ravel(),
                start[:, turn == 10].ravel() + 5_000,
                arrival.ravel() + 4_000,
            ]
        )
        length = np.concatenate(
            [
                (20_000 + noise[:, turn == 9]).ravel(),
                (50_000 + noise[:, turn == 10]).ravel(),
                inside.ravel(),
            ]
        )
        rows = _rows("off_cpu", len(begin), rank)
        rows["start_ns"] = begin
        rows["duration_ns"] = length
        rows["runq_latency_ns"] = length // 16
        rows["cpu"] = rank % RANKS_PER_HOST
        rows["off_state"] = 1
        rows["syscall"] = np.where(length % 2, SYSCALL_FUTEX, SYSCALL_POLL)
        rows["flags0"] = flag_bits(
            LAYOUTS["off_cpu"],
            0,
            "has_duration_ns",
            "has_runq_latency_ns",
            "has_syscall",
        )
        rows["flags1"] = flag_bits(LAYOUTS["off_cpu"], 1, "has_is_iowait")
        return rows[np.argsort(rows["start_ns"], kind="stable")]


def pid_of(rank: int) -> int:
    """Return the process id of a rank; its only thread has the same number."""
    return 4_000 + rank


def _rows(stream: str, count: int, rank: int) -> NDArray[Any]:
    layout = LAYOUTS[stream]
    rows = np.zeros(count, record_dtype(layout))
    rows["ring_length"] = layout.size
    rows["pid"] = rows["tid"] = pid_of(rank)
    return rows


def _calls(
    rank: int,
    start: NDArray[np.int64],
    length: NDArray[np.int64] | None,
    operation: int,
    *,
    probe: int,
    depth: int = 0,
) -> NDArray[Any]:
    layout = LAYOUTS["gpu_call"]
    rows = _rows("gpu_call", start.size, rank)
    rows["start_ns"] = start.ravel()
    rows["operation"] = operation
    rows["probe_id"] = probe
    rows["depth"] = depth
    rows["layer"] = 1 - depth
    rows["stream_handle"] = 0x7F0000001000
    bits = ["has_stream_handle"]
    if length is not None:
        rows["duration_ns"] = length.ravel()
        bits += ["has_duration_ns", "has_return_code"]
    rows["flags0"] = flag_bits(layout, 0, *bits)
    return rows
