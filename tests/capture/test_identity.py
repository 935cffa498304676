"""Claim: a communicator has the same name on every host, or none at all."""

from __future__ import annotations

from typing import Any

from capture.identity import (
    COLUMNS,
    child_mixes,
    id_mixes,
    mix,
    origin_text,
    resolve_origins,
    world_mixes,
)

WORLD = "1171bdb7b444b4fcea1b270e62113db4"
ROOT = "17e54db6017f2b3d8ce520410494594c"


def communicator(ref: int, **values: object) -> dict[str, Any]:
    row = {
        "communicator_ref": ref,
        "pid": 7,
        "kind": "mpi",
        "how": "split",
        "is_base_known": True,
        "first_ns": ref,
    }
    return {**row, **values}


def test_mix_follows_the_written_function_word_by_word() -> None:
    state = 0x243F6A8885A308D3
    for word in (3, 5):
        state ^= word
        state = state * 0x9E3779B97F4A7C15 % 2**64
        state ^= state >> 32

    assert mix((3, 5), 0x243F6A8885A308D3) == state


def test_vectors_of_the_format_hold() -> None:
    assert origin_text(id_mixes(bytes(range(128)))) == ROOT
    assert origin_text(world_mixes("pmix:1")) == WORLD
    assert origin_text(child_mixes((1, 2), 0, -1)) == "f3b65c0cba72707bb7dd18cfeb4c2b01"


def test_world_takes_its_name_from_the_job_and_children_from_their_parents() -> None:
    facts = [
        communicator(3, parent_ref=2, child_index=1, color=4),
        communicator(2, parent_ref=1, child_index=0, color=-1),
        communicator(1, how="world"),
    ]

    rows = resolve_origins(facts, {7: "pmix:1"})

    child = child_mixes(world_mixes("pmix:1"), 0, -1)
    grandchild = child_mixes(child, 1, 4)
    assert [row["origin"] for row in rows] == [
        origin_text(grandchild),
        origin_text(child),
        WORLD,
    ]
    assert all(tuple(row) == COLUMNS for row in rows)


def test_second_init_with_the_same_id_is_the_next_generation() -> None:
    mix1, mix2 = id_mixes(bytes(range(128)))
    root: dict[str, Any] = {"kind": "nccl", "how": "init", "mix1": mix1, "mix2": mix2}
    facts = [
        communicator(2, **root),
        communicator(1, **root),
        communicator(3, **{**root, "pid": 8}),
    ]

    rows = resolve_origins(facts, {})

    assert [(row["origin"], row["generation"]) for row in rows] == [
        (ROOT, 1),
        (ROOT, 0),
        (ROOT, 0),
    ]


def test_child_of_a_parent_seen_late_has_no_origin() -> None:
    facts = [
        communicator(1, how="world", is_base_known=False),
        communicator(2, parent_ref=1, child_index=0, color=0),
    ]

    rows = resolve_origins(facts, {7: "pmix:1"})

    assert [row["origin"] for row in rows] == [WORLD, None]


def test_missing_job_parent_or_index_gives_no_origin() -> None:
    facts = [
        communicator(1, how="world"),
        communicator(2, parent_ref=99, child_index=0),
        communicator(3, parent_ref=1),
        communicator(4, how="seen"),
    ]

    rows = resolve_origins(facts, {7: None})

    assert [row["origin"] for row in rows] == [None, None, None, None]
    assert [row["generation"] for row in rows] == [0, 0, 0, 0]


def test_parents_in_a_circle_end() -> None:
    facts = [
        communicator(1, parent_ref=2, child_index=0),
        communicator(2, parent_ref=1, child_index=0),
    ]

    assert [row["origin"] for row in resolve_origins(facts, {})] == [None, None]
