"""Print which parts of a tracepoint's record our programs read, as bcc compiled them.

Run by the distribution's own Python, which has bcc; nothing is attached.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from capture.loaders import LoaderSettings
from capture.loaders.bcc import BccLoader
from tests.capture.bpf_object import context_reads


def main(program: str) -> None:
    """Compile what watches the scheduler, and print the reads of one program."""
    bcc: Any = importlib.import_module("bcc")
    bcc.BPF._trace_autoload = lambda _: None
    loader = BccLoader()
    loader.load(LoaderSettings(streams=("off_cpu",)))
    code = loader._compiled.dump_func(program.encode())
    loader.close()
    print(json.dumps(sorted(set(context_reads(code)))))  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1])
