"""Claim: a wider header of tracepoint records does not shift what the recorder reads.

Some kernels (RHEL 9) put a field more in front of every record; a program with fixed
offsets then reads nonsense and says nothing.  The core loader reads no such record: see
test_one_file.  bcc takes the fields from the ``format`` file, so here that file is
replaced, in a mount namespace of its own, and the program that comes out is applied to
a raw record of either kind.
"""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

FORMAT = Path("/sys/kernel/tracing/events/sched/sched_switch/format")
FIELDS = {
    # What the two formats say: offset and size of each field of the event.
    "plain": {
        "char prev_comm[16]": (8, 16),
        "pid_t prev_pid": (24, 4),
        "int prev_prio": (28, 4),
        "long prev_state": (32, 8),
        "char next_comm[16]": (40, 16),
        "pid_t next_pid": (56, 4),
        "int next_prio": (60, 4),
    },
    "wider": {
        "char prev_comm[16]": (12, 16),
        "pid_t prev_pid": (28, 4),
        "int prev_prio": (32, 4),
        "long prev_state": (40, 8),
        "char next_comm[16]": (48, 16),
        "pid_t next_pid": (64, 4),
        "int next_prio": (68, 4),
    },
}
HEADER = {
    "unsigned short common_type": (0, 2),
    "unsigned char common_flags": (2, 1),
    "unsigned char common_preempt_count": (3, 1),
    "int common_pid": (4, 4),
}
# python3 (4242), which sleeps, is followed by kworker/3:1 (77).
RECORDS = {
    "plain": "3d01000092100000707974686f6e330000000000000000009210000078000000"
    "01000000000000006b776f726b65722f333a3100000000004d00000078000000",
    "wider": "3d0100009210000000000000707974686f6e3300000000000000000092100000"
    "780000000000000001000000000000006b776f726b65722f333a310000000000"
    "4d00000078000000",
}
SESSION = Path(__file__).with_name("tracepoint_session.py")
INSIDE = f'mount --bind "$1" {FORMAT} && exec /usr/bin/python3 -B {SESSION} "$2"'

pytestmark = [pytest.mark.bpf, pytest.mark.slow]


def has_bcc() -> bool:
    command = ["/usr/bin/python3", "-c", "import bcc"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def format_text(kind: str) -> str:
    extra = {"unsigned char common_preempt_lazy_count": (8, 1)}
    header = HEADER if kind == "plain" else {**HEADER, **extra}
    lines = ["name: sched_switch", "ID: 317", "format:"]
    lines += [
        f"\tfield:{name};\toffset:{offset};\tsize:{size};\tsigned:1;"
        for name, (offset, size) in {**header, **FIELDS[kind]}.items()
    ]
    return "\n".join([*lines, "", 'print fmt: ""', ""])


@pytest.mark.parametrize("kind", ["plain", "wider"])
def test_a_switch_is_decoded_by_the_kernels_own_format(
    tmp_path: Path, kind: str
) -> None:
    if shutil.which("unshare") is None or not FORMAT.exists() or not has_bcc():
        pytest.skip("needs unshare, tracefs and bcc")
    said = tmp_path / "format"
    said.write_text(format_text(kind))
    record = bytes.fromhex(RECORDS[kind])
    command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", INSIDE]

    told = subprocess.check_output(
        [*command, "sh", said, "tracepoint__sched__sched_switch"], text=True
    )
    reads = [(offset, code) for offset, code in json.loads(told)]
    values = [
        struct.unpack_from(f"<{code}", record, offset)[0] for offset, code in reads
    ]

    fields = FIELDS[kind]
    assert reads == [
        (fields["pid_t prev_pid"][0], "I"),
        (fields["long prev_state"][0], "Q"),
        (fields["pid_t next_pid"][0], "I"),
    ]
    assert values == [4242, 1, 77]
