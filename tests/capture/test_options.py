"""Claim: durations and streams are understood exactly or refused in words."""

from __future__ import annotations

import pytest

from capture.errors import CaptureError
from capture.options import RecordOptions, parse_duration, parse_streams


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("100us", 100_000),
        ("1.5s", 1_500_000_000),
        ("250 ms", 250_000_000),
        ("7ns", 7),
        ("10m", 600_000_000_000),
        ("2H", 7_200_000_000_000),
    ],
)
def test_lengths_of_time_carry_their_unit(text: str, ns: int) -> None:
    assert parse_duration(text) == ns


@pytest.mark.parametrize("text", ["30", "", "s", "-1s", "1 day", "0s", "1e3s", "nan s"])
def test_other_lengths_of_time_are_refused(text: str) -> None:
    with pytest.raises(CaptureError):
        parse_duration(text)


def test_streams_come_in_the_order_of_the_format() -> None:
    assert parse_streams("off_cpu, collective") == ("collective", "off_cpu")
    assert parse_streams("gpu_call,gpu_call") == ("gpu_call",)


@pytest.mark.parametrize("text", ["", ",", "collective,cpu"])
def test_unknown_streams_are_refused_with_the_choice(text: str) -> None:
    with pytest.raises(CaptureError) as caught:
        parse_streams(text)

    assert caught.value.hint == (
        "choose from collective, gpu_call, off_cpu, or none alone"
    )


def test_no_stream_is_asked_for_in_a_word() -> None:
    assert parse_streams("none") == ()

    with pytest.raises(CaptureError, match="unknown stream: 'none'"):
        parse_streams("none,off_cpu")


def test_defaults_record_everything_of_library_users() -> None:
    options = RecordOptions()

    assert options.streams == ("collective", "gpu_call", "off_cpu")
    assert not options.pids
    assert not options.cgroups
