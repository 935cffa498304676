"""Names of communicators that come out the same on every host of a job.

An origin is two 64-bit mixes, written as 32 hexadecimal digits.  The kernel computes
those of an NCCL id at the call (``mix`` here is the same function, for tests and for
everything that is derived later); worlds and children are derived when a spool is
sealed, because a parent's row may be written after its child's.  BUNDLE.md states the
function and its test vectors.

A child's origin rests on how many child-making calls on its parent came before.  Where
counting did not begin with the parent's creation (a late attach) that number means
nothing to another host, so the child has no origin rather than a wrong one.
"""

from __future__ import annotations

import hashlib
import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

SEEDS = (0x243F6A8885A308D3, 0x13198A2E03707344)
_MULTIPLIER = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1

COLUMNS = (
    "communicator_ref",
    "pid",
    "kind",
    "origin",
    "generation",
    "parent_ref",
    "child_index",
    "color",
    "key",
    "size",
    "rank",
    "how",
    "is_base_known",
    "first_ns",
    "destroyed_ns",
)

Mixes = tuple[int, int]


def mix(words: Iterable[int], seed: int) -> int:
    """Return the 64-bit mix of some 64-bit words, each taken modulo 2**64."""
    state = seed
    for word in words:
        state ^= word & _MASK
        state = state * _MULTIPLIER & _MASK
        state ^= state >> 32
    return state


def mixes(words: Sequence[int]) -> Mixes:
    """Return both mixes of some words."""
    return mix(words, SEEDS[0]), mix(words, SEEDS[1])


def id_mixes(unique_id: bytes) -> Mixes:
    """Return the mixes of a 128-byte NCCL id, as the kernel computes them."""
    return mixes(struct.unpack("<16Q", unique_id))


def world_mixes(job_id: str) -> Mixes:
    """Return the mixes of the MPI world of a job."""
    digest = hashlib.sha256(f"mpi-world:{job_id}".encode()).digest()
    return mixes(struct.unpack_from("<2Q", digest))


def child_mixes(parent: Mixes, child_index: int, color: int) -> Mixes:
    """Return the mixes of a communicator that was made from another."""
    return mixes((*parent, child_index, color))


def origin_text(pair: Mixes) -> str:
    """Return an origin as it stands in a bundle."""
    return f"{pair[0]:016x}{pair[1]:016x}"


def resolve_origins(
    communicators: Sequence[Mapping[str, Any]], job_ids: Mapping[int, str | None]
) -> list[dict[str, Any]]:
    """Return the communicator facts of a bundle, with origin and generation.

    Parameters
    ----------
    communicators
        Facts as ``record`` wrote them; ``mix1`` and ``mix2`` stand in those of NCCL
        roots, ``parent_ref``, ``child_index`` and ``color`` in those of children.
    job_ids
        Job of each process, for the worlds of MPI.

    Returns
    -------
    list
        One row for each given, in the same order, with exactly the keys of ``COLUMNS``.
    """
    by_ref = {row["communicator_ref"]: row for row in communicators}
    found: dict[int, Mixes | None] = {}
    for ref in by_ref:
        _resolve(ref, by_ref, job_ids, found)
    generations = _generations(communicators, found)
    resolved: list[dict[str, Any]] = []
    for row in communicators:
        pair = found[row["communicator_ref"]]
        whole = {name: row.get(name) for name in COLUMNS}
        whole["origin"] = None if pair is None else origin_text(pair)
        whole["generation"] = generations[row["communicator_ref"]]
        resolved.append(whole)
    return resolved


def _resolve(
    ref: int,
    by_ref: Mapping[int, Mapping[str, Any]],
    job_ids: Mapping[int, str | None],
    found: dict[int, Mixes | None],
) -> None:
    """Fill in a communicator and the parents it rests on, eldest first."""
    chain: list[int] = []
    current: int | None = ref
    # A damaged spool could hold a parent that descends from its child.
    while current is not None and current in by_ref:
        if current in found or current in chain:
            break
        chain.append(current)
        current = by_ref[current].get("parent_ref")
    for member in reversed(chain):
        row = by_ref[member]
        parent = row.get("parent_ref")
        found[member] = (
            _root(row, job_ids)
            if parent is None
            else _child(row, by_ref.get(parent), found.get(parent))
        )


def _root(row: Mapping[str, Any], job_ids: Mapping[int, str | None]) -> Mixes | None:
    """Return the mixes of a communicator without parent."""
    if row.get("mix1") is not None and row.get("mix2") is not None:
        return int(row["mix1"]), int(row["mix2"])
    job_id = job_ids.get(row["pid"])
    is_world = row.get("kind") == "mpi" and row.get("how") == "world"
    return world_mixes(job_id) if is_world and job_id else None


def _child(
    row: Mapping[str, Any], parent_row: Mapping[str, Any] | None, parent: Mixes | None
) -> Mixes | None:
    """Return the mixes of a communicator made from another, where they are known."""
    if parent is None or parent_row is None or row.get("child_index") is None:
        return None
    if not parent_row.get("is_base_known"):
        return None
    return child_mixes(parent, row["child_index"], row.get("color") or 0)


def _generations(
    communicators: Sequence[Mapping[str, Any]], found: Mapping[int, Mixes | None]
) -> dict[int, int]:
    """Return how many earlier ones of its process share each one's origin."""

    def age(row: Mapping[str, Any]) -> tuple[int, int]:
        return row.get("first_ns") or 0, row["communicator_ref"]

    seen: dict[tuple[int, Mixes | None], int] = {}
    generations: dict[int, int] = {}
    for row in sorted(communicators, key=age):
        pair = found[row["communicator_ref"]]
        place = (row["pid"], pair)
        earlier = seen.get(place, 0)
        generations[row["communicator_ref"]] = earlier if pair is not None else 0
        seen[place] = earlier + 1
    return generations
