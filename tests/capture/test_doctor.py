"""Claim: doctor's sentences are plain and its verdict follows from its rows.

Most hosts that doctor is for cannot be had here, so what it would say there is tested
on readings that are made up; that the readings are real ones is tested live.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from capture.doctor import privilege, text
from capture.doctor.examination import Report
from capture.doctor.row import CALL_STREAMS, MISSING, OK, PARTLY, STATES, UNKNOWN, Row
from capture.doctor.verdict import judge
from capture.options import STREAMS
from tests.capture.doctor_rows import every_row

ROOT = Path(__file__).resolve().parents[2]
WEAKENING = re.compile(
    r"setenforce|permissive mode|sysctl|lockdown=|aa-disable|aa-complain|--privileged|"
    r"seccomp[=:]unconfined|secure boot|mokutil|(disable|deactivate) |"
    r"(set|lower|turn|switch) (it|them|selinux|apparmor|lockdown)",
    re.IGNORECASE,
)
PART = "part of it can be recorded; "
SETTINGS = ("perf_event_paranoid", "unprivileged_bpf_disabled")


def row(state: str, *streams: str, pid: int | None = None, name: str = "thing") -> Row:
    return Row("kernel", name, state, f"{name} is {state}", "x", "do y", streams, pid)


def report(*rows: Row) -> Report:
    return Report(list(rows), privilege.capability_sets(has_multi=True), judge(rows))


@pytest.mark.parametrize("found", every_row(), ids=lambda found: found.sentence[:60])
def test_every_row_is_one_plain_sentence_in_a_known_state(found: Row) -> None:
    assert found.state in STATES
    assert found.needed_for
    assert found.sentence == found.sentence.strip()
    assert not found.sentence.endswith(".")
    assert set(found.streams) <= set(STREAMS)
    # What takes something away says what there is to do or to know.
    assert found.advice or not found.streams
    assert not found.streams or found.state in (PARTLY, MISSING)


def test_both_ends_of_every_check_are_among_the_rows() -> None:
    states: dict[str, set[str]] = {}
    for found in every_row():
        states.setdefault(found.capability, set()).add(found.state)

    only_informing = {"ptp", *SETTINGS}
    assert all(
        len(found) > 1 or name in only_informing or name in ("btf", "headers", "bcc")
        for name, found in states.items()
    ), states
    assert len(states) >= 25


def test_no_sentence_asks_a_site_to_weaken_its_policy() -> None:
    advice = [f"{found.sentence}. {found.advice}" for found in every_row()]
    sources = [
        path.read_text()
        for path in (ROOT / "capture").rglob("*.py")
        if path.name != "policy.py"
    ]

    assert [words for words in advice if WEAKENING.search(words)] == []
    # Nor any other message of the recorder: whole source files, comments included.
    told = re.compile(r"setenforce|sysctl -w|lockdown=none|--privileged|mokutil")
    assert [source[:80] for source in sources if told.search(source)] == []


def test_the_guard_against_weakening_would_notice() -> None:
    for words in (
        "setenforce 0",
        "sysctl kernel.perf_event_paranoid=-1",
        "disable SELinux",
        "run the container with --privileged",
        "set lockdown to none",
    ):
        assert WEAKENING.search(words), words


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_that_bind_others_only_are_explained_and_left_alone(name: str) -> None:
    found = [row for row in every_row() if row.capability == name]

    assert {row.state for row in found} == {OK}
    assert all("it binds users without CAP_" in row.sentence for row in found)


@pytest.mark.parametrize(
    ("rows", "code", "says"),
    [
        ((), 0, "all can be recorded"),
        ((row(UNKNOWN),), 0, "all can be recorded"),
        ((row(MISSING, "off_cpu"),), 1, PART),
        (
            (row(PARTLY, *CALL_STREAMS),),
            1,
            "part of it can be recorded; whole: off_cpu",
        ),
        ((row(PARTLY, *STREAMS),), 1, "part of it can be recorded; whole: none"),
        ((row(MISSING, *STREAMS),), 5, "facts and samples only: record --streams none"),
        ((row(MISSING, *STREAMS, pid=7), row(OK, pid=8)), 1, "part of it"),
        ((row(MISSING, *STREAMS, pid=7),), 5, "facts and samples only"),
    ],
)
def test_the_verdict_follows_from_the_rows(
    rows: tuple[Row, ...], code: int, says: str
) -> None:
    verdict = judge(rows)

    assert int(verdict.exit_code) == code
    assert verdict.sentence.startswith(says)


def test_the_worst_row_of_a_stream_is_its_reason() -> None:
    rows = (
        row(PARTLY, "off_cpu", name="lesser"),
        row(MISSING, "off_cpu", name="worse"),
    )

    verdict = judge(rows)

    assert verdict.states == {"collective": OK, "gpu_call": OK, "off_cpu": MISSING}
    assert verdict.reasons == {"off_cpu": "worse: worse is missing"}


def test_json_is_one_strict_object_with_stable_keys() -> None:
    def refuse(word: str) -> None:
        pytest.fail(f"{word} is no JSON")

    shown = text.as_json(report(row(MISSING, "off_cpu", pid=7), row(OK)))

    whole = json.loads(shown, parse_constant=refuse)
    assert list(whole) == ["created_by", "host", "verdict", "rows", "capability_sets"]
    assert list(whole["verdict"]) == [
        "can_record",
        "exit_code",
        "sentence",
        "streams",
    ]
    assert whole["verdict"]["streams"]["gpu_call"] == {"state": "ok", "reason": None}
    assert whole["rows"][0] == {
        "family": "kernel",
        "capability": "thing",
        "pid": 7,
        "state": "missing",
        "sentence": "thing is missing",
        "needed_for": "x",
        "advice": "do y",
        "streams": ["off_cpu"],
    }


def test_text_keeps_to_80_columns_and_ends_with_the_verdict() -> None:
    lines = text.as_text(report(*every_row())).splitlines()

    assert max(map(len, lines)) <= 80
    at = lines.index("verdict: facts and samples only: record --streams none")
    assert [line.split()[0] for line in lines[at + 1 :] if line[2] != " "] == [*STREAMS]


def test_control_characters_of_names_do_not_act() -> None:
    evil = "a\x1b[2Jb\u202ec\nd"
    found = Row(
        "target", "library", PARTLY, f"{evil} maps", evil, evil, ("off_cpu",), 7
    )

    shown = text.as_text(report(found))

    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "a\\x1b[2Jb\\u202ec\\nd maps" in shown


@pytest.mark.parametrize(
    ("has_multi", "programs"),
    [
        (True, [["CAP_BPF", "CAP_PERFMON"]]),
        (False, [["CAP_BPF", "CAP_PERFMON", "CAP_SYS_ADMIN"]]),
        (
            None,
            [
                ["CAP_BPF", "CAP_PERFMON"],
                ["CAP_BPF", "CAP_PERFMON", "CAP_SYS_ADMIN"],
            ],
        ),
    ],
)
def test_sets_are_those_of_this_kernel_with_and_without_other_users(
    *, has_multi: bool | None, programs: list[list[str]]
) -> None:
    others = ["CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH", "CAP_CHECKPOINT_RESTORE"]

    found = privilege.capability_sets(has_multi=has_multi)

    assert [list(one.capabilities) for one in found] == [
        wanted for own in programs for wanted in (own, [*own, *others])
    ]
    assert found[0].words().endswith("--bounding-set -all,+bpf,+perfmon") is (
        has_multi is not False
    )
