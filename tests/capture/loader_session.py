"""Run one loader around one driver, and print what the kernel told as JSON.

Run as a program of its own, because bcc is importable by the system's Python only and
the tests run in an environment: ``loader_session.py LOADER FOLDER WHAT SET STREAMS``.
"""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from capture.layout import LAYOUTS, RecordLayout
from capture.libraries import LibraryTable
from capture.loader_choice import make_loader
from capture.loaders import (
    FACT,
    Loader,
    LoaderSettings,
    bpf_syscall,
    core,
    decode_fact,
)
from capture.probes import plan
from capture.ring import Drainer, iter_records

LIBRARIES = ("libcuda.so.1", "libcudart.so.12", "libnccl.so.2")
RING_BYTES = dict.fromkeys((*LAYOUTS, "facts"), 4 << 20)


def decode(layout: RecordLayout, region: bytes | memoryview) -> list[dict[str, Any]]:
    """Return the records of a region as dictionaries."""
    rows = []
    for record in iter_records(region, layout.size):
        row: dict[str, Any] = {
            field.name: struct.unpack_from(f"<{field.code}", record, field.offset)[0]
            for field in layout.fields
        }
        for flags in layout.flags:
            for bit, name in enumerate(flags.names):
                row[name] = bool(record[flags.offset] >> bit & 1)
        rows.append(row)
    return rows


def main(name: str, folder: str, what: str, probe_set: str, streams: str) -> None:
    """Record the driver with a loader, and print the result."""
    if name == "core_perf":  # as on kernels before 6.6
        bpf_syscall.has_uprobe_multi = lambda: False
    if name == "core_of_task":  # as on kernels before 5.18
        core._SWITCHES = core._SWITCHES[::-1]
    loader = make_loader(name.partition("_")[0])
    loader.load(
        LoaderSettings(
            streams=tuple(streams.split(",")),
            nested_driver_calls=probe_set == "full",
            ring_bytes=RING_BYTES,
        )
    )
    try:
        print(json.dumps(session(loader, Path(folder), what, probe_set)))  # noqa: T201
    finally:
        loader.close()


def session(loader: Loader, folder: Path, what: str, probe_set: str) -> dict[str, Any]:
    """Return records, facts, counters and open calls of one run of the driver."""
    table = LibraryTable([folder / library for library in LIBRARIES])
    rings = loader.rings()
    sites = [s for s in plan(table.libraries, probe_set) if s.probe.stream in rings]
    attached = [*loader.attach(sites), *loader.attach_tracepoints()]
    facts_ring = rings.pop("facts")
    records: dict[str, list[dict[str, Any]]] = {stream: [] for stream in rings}

    def keep(stream: str, region: memoryview, _: int) -> None:
        records[stream] += decode(LAYOUTS[stream], region)

    drainer = Drainer(rings, keep)
    drainer.start()
    driver = subprocess.Popen(
        [folder / "driver", what],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    if not sites:  # no library call will make it a target
        loader.add_target(driver.pid)
    assert driver.stdin is not None
    assert driver.stdout is not None
    driver.stdin.write("go\n")
    driver.stdin.flush()
    driver.stdout.readline()
    time.sleep(0.3)  # so that the driver's wait for us is an absence in progress
    loader.quiesce()
    drainer.stop()
    in_flight = {
        stream: decode(LAYOUTS[stream], region)
        for stream, region in loader.in_flight(100_000_000).items()
    }
    if "off_cpu" in records:
        records["off_cpu"] += decode(LAYOUTS["off_cpu"], loader.last_totals())
    facts = []
    while (region := facts_ring.drain()) is not None:
        facts += [decode_fact(record) for record in iter_records(region, FACT.size)]
    counters = [
        {**vars(counter), "lost_count": counter.lost_count}
        for counter in loader.probe_counters()
    ]
    driver.communicate()
    table.close()
    return {
        "pid": driver.pid,
        "detail": loader.detail,
        "missing_columns": loader.missing_columns,
        "symbols": {site.probe_id: site.symbol for site in sites},
        "attached": [vars(result) for result in attached],
        "records": records,
        "in_flight": in_flight,
        "facts": facts,
        "counters": counters,
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
