"""The keys of every kind of fact and of a clock reading (BUNDLE.md, section Facts).

Seal writes facts with these keys in this order, a key that was never seen as null, and
verify checks against them.  A key that is not listed is kept and written after them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

Row = dict[str, Any]


@dataclass(frozen=True)
class FactKey:
    """One key of a fact: its JSON type, and whether its value may be null."""

    name: str
    type_name: str
    nullable: bool
    optional: bool = False
    """Added after the first bundles: may be absent, which says as much as null."""
    redaction: str | None = None
    """What a text holds, for :mod:`capture.redaction`; None: nothing of it may stay."""

    @property
    def mark(self) -> str:
        """Return what follows the name in BUNDLE.md."""
        return "*" if self.optional else "?" if self.nullable else ""


def _keys(text: str, type_name: str) -> list[FactKey]:
    return [
        FactKey(name.rstrip("?*"), type_name, name[-1] in "?*", name[-1] == "*")
        for name in text.split()
    ]


def _fact(order: str, redaction: str = "", **by_type: str) -> tuple[FactKey, ...]:
    """Return the keys in ``order``, their types from the lists by type.

    ``redaction`` holds words such as ``path:path``: a text column and what it holds.
    """
    known = {
        key.name: key for kind, text in by_type.items() for key in _keys(text, kind)
    }
    for word in redaction.split():
        name, _, kind = word.partition(":")
        known[name] = replace(known[name], redaction=kind)
    return tuple(known[name] for name in order.split())


FACTS: dict[str, tuple[FactKey, ...]] = {
    "host": _fact(
        "boot_id machine_id host_name architecture kernel_release os_name cpu_count "
        "page_size_bytes ticks_per_second",
        redaction="boot_id:boot machine_id:machine host_name:host "
        "architecture:kept kernel_release:words os_name:words",
        string="boot_id machine_id? host_name architecture kernel_release os_name?",
        integer="cpu_count page_size_bytes ticks_per_second",
    ),
    "process": _fact(
        "pid start_ticks pid_namespace parent_pid process_name target_reason first_ns "
        "exit_ns job_id cgroup",
        redaction="process_name:name target_reason:kept job_id:job cgroup:group",
        integer="pid start_ticks pid_namespace? parent_pid? first_ns exit_ns?",
        string="process_name target_reason job_id? cgroup?",
    ),
    "thread": _fact(
        "pid tid start_ticks thread_name first_ns state_at_start",
        redaction="thread_name:name state_at_start:kept",
        integer="pid tid start_ticks first_ns",
        string="thread_name state_at_start?",
    ),
    "library": _fact(
        "library_ref device inode build_id sha256 path kind",
        redaction="build_id:hex sha256:hex path:path kind:kept",
        integer="library_ref device inode",
        string="build_id? sha256? path kind",
    ),
    "mapping": _fact(
        "pid library_ref start_address end_address file_offset seen_ns",
        redaction="start_address:hex end_address:hex",
        integer="pid library_ref file_offset seen_ns",
        string="start_address end_address",
    ),
    "rank": _fact(
        "pid start_ticks rank local_rank world_size source job_id",
        redaction="source:kept job_id:job",
        integer="pid start_ticks rank local_rank? world_size?",
        string="source job_id?",
    ),
    "communicator": _fact(
        "communicator_ref pid kind origin generation parent_ref child_index color key "
        "size rank how is_base_known first_ns destroyed_ns",
        redaction="kind:kept origin:hex how:kept",
        integer="communicator_ref pid generation parent_ref? child_index? color? key? "
        "size? rank? first_ns destroyed_ns?",
        string="kind origin? how",
        boolean="is_base_known",
    ),
    "probe": _fact(
        "probe_id stream operation vendor layer library_ref symbol file_offset "
        "has_return is_asked is_attached refused_reason hit_count lost_count "
        "lost_first_ns lost_last_ns unmatched_return_count aliases",
        redaction="stream:kept operation:kept vendor:kept symbol:kept "
        "refused_reason:message aliases:kept",
        integer="probe_id layer library_ref? file_offset? hit_count lost_count "
        "lost_first_ns? lost_last_ns? unmatched_return_count",
        string="stream operation vendor symbol refused_reason?",
        boolean="has_return is_asked is_attached",
        array="aliases",
    ),
    "loss": _fact(
        "stream probe_id cpu reason lost_count first_ns last_ns",
        redaction="stream:kept reason:kept",
        integer="probe_id? cpu* lost_count first_ns? last_ns?",
        string="stream reason",
    ),
    "cost": _fact(
        "time_ns user_ns system_ns drain_ns write_ns rss_bytes "
        "rss_without_rings_bytes spool_bytes",
        integer="time_ns user_ns system_ns drain_ns? write_ns? rss_bytes "
        "rss_without_rings_bytes spool_bytes",
    ),
    "ring": _fact(
        "stream size_bytes most_used_bytes",
        redaction="stream:kept",
        string="stream",
        integer="size_bytes most_used_bytes",
    ),
    "program": _fact(
        "program window_ns run_ns run_count missed_count",
        redaction="program:kept",
        string="program",
        integer="window_ns run_ns? run_count? missed_count",
    ),
    "config": _fact(
        "scope pid key value source",
        redaction="scope:kept key:kept value:words source:kept",
        string="scope key value source",
        integer="pid?",
    ),
    "budget_step": _fact(
        "time_ns step stream effect share_ppm budget_ppm",
        redaction="step:kept stream:kept effect:message",
        integer="time_ns share_ppm budget_ppm",
        string="step stream? effect",
    ),
}

CLOCK = _fact(
    "monotonic_ns monotonic_raw_ns boottime_ns realtime_ns tai_ns bracket_ns "
    "adjtime_frequency_ppb adjtime_tick adjtime_status adjtime_maxerror_us "
    "adjtime_esterror_us",
    integer="monotonic_ns monotonic_raw_ns boottime_ns realtime_ns tai_ns bracket_ns "
    "adjtime_frequency_ppb adjtime_tick adjtime_status adjtime_maxerror_us "
    "adjtime_esterror_us",
)

FACT_KEYS: dict[str, tuple[str, ...]] = {
    "host": (),
    "process": ("pid", "start_ticks"),
    "thread": ("tid", "start_ticks"),
    "library": ("library_ref",),
    "mapping": ("pid", "start_address", "library_ref"),
    "rank": ("pid", "start_ticks"),
    "communicator": ("communicator_ref",),
    "probe": ("probe_id",),
    "loss": ("stream", "probe_id", "cpu", "reason"),
    "cost": (),
    "ring": ("stream",),
    "program": ("program",),
    "config": ("scope", "pid", "key"),
    "budget_step": ("time_ns",),
}
"""What tells two rows of a kind apart."""


def whole_row(kind: str, row: Row) -> Row:
    """Return a fact with every key of its kind, in order, and then the others."""
    keys = [key.name for key in FACTS.get(kind, ())]
    known = {name: row.get(name) for name in keys}
    return {**known, **{name: row[name] for name in row if name not in known}}
