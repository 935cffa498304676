"""Claim: a part that is muted is gone at once and whole, and nothing else with it.

A real library, process and loader; counts are primes and must match exactly.
"""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING

import pytest

from capture.layout import GPU_CALL, LAYOUTS
from capture.libraries import LibraryTable
from capture.loaders import LoaderSettings
from capture.loaders.core import CoreLoader
from capture.probes import plan
from tests.capture.live import changed_bytes
from tests.capture.loader_session import decode
from tests.capture.processes import make_library, make_user, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.bpf,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("gcc") is None, reason="no compiler here"),
]

LIBRARY = """
#include <unistd.h>
volatile int holds;
int cudaStreamSynchronize(void *stream) { return stream ? 1 : 0; }
int cudaEventQuery(void *event) { while (event && holds) usleep(1000); return 0; }
"""
USER = """
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

extern volatile int holds;
int cudaStreamSynchronize(void *stream);
int cudaEventQuery(void *event);

static void *wait(void *unused) { cudaEventQuery((void *)8); return unused; }

/* Commands by line: s N synchronisations, q N queries, w a query that lasts, r: it
 * ends. */
int main(void) {
  char line[64];
  pthread_t thread;
  puts("up"); fflush(stdout);
  while (fgets(line, sizeof line, stdin)) {
    int count = atoi(line + 1);
    if (line[0] == 's') while (count--) cudaStreamSynchronize(0);
    if (line[0] == 'q') while (count--) cudaEventQuery(0);
    if (line[0] == 'w') { holds = 1; pthread_create(&thread, 0, wait, 0); }
    if (line[0] == 'r') { holds = 0; pthread_join(thread, 0); }
    puts("ok"); fflush(stdout);
  }
  return 0;
}
"""
SYNC, QUERY = 130, 135
RINGS = dict.fromkeys((*LAYOUTS, "facts"), 1 << 20)


@pytest.fixture
def loader() -> Iterator[CoreLoader]:
    made = CoreLoader()
    made.load(
        LoaderSettings(
            streams=("gpu_call",),
            adopt_library_users=False,
            can_thin=True,
            ring_bytes=RINGS,
        )
    )
    yield made
    made.close()


def drained(loader: CoreLoader) -> list[int]:
    """Return the operations of what the kernel has recorded since the last time."""
    region = loader.rings()["gpu_call"].drain()
    rows = decode(GPU_CALL, region) if region is not None else []
    return [row["operation"] for row in rows]


def test_a_muted_part_leaves_no_record_and_an_open_call_still_ends(
    tmp_path: Path, loader: CoreLoader
) -> None:
    library = make_library(tmp_path, "libcudart.so.12", LIBRARY)
    table = LibraryTable([library])
    loader.attach(plan(table.libraries, "standard"))
    with running(make_user(tmp_path, library, USER)) as child:
        loader.add_target(child.pid)
        child.tell("s 5")
        child.tell("q 7")
        child.tell("w")
        time.sleep(0.1)
        before = drained(loader)

        muted = loader.mute("query")
        child.tell("q 11")
        child.tell("s 13")
        open_calls = decode(GPU_CALL, loader.in_flight(0).get("gpu_call", b""))
        held = changed_bytes(child.pid, library)
        child.tell("r")
        after = drained(loader)
        loader.in_flight(0)
        left = changed_bytes(child.pid, library)
        child.end()
    counters = loader.probe_counters()
    table.close()

    assert (before.count(SYNC), before.count(QUERY)) == (5, 7)
    assert muted == 1
    # The eleven are gone; the one that was open is not.
    assert (after.count(SYNC), after.count(QUERY)) == (13, 1)
    assert [row["operation"] for row in open_calls] == [QUERY]
    assert sum(counter.unmatched_return_count for counter in counters) == 0
    # A breakpoint stands in the file as long as a return probe needs it.
    assert (held, left) == (2, 1)
