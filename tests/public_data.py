"""Public traces with known answers, which lie beside the repository where they may.

They are not committed, for their licences differ.  ``COLDTRACE_PUBLIC_DATA`` names the
folder that holds them; else ``shared/data`` beside the checkout is looked at.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def public_data(name: str) -> Path:
    """Return a file of the public data, or skip the test where it is not there."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("COLDTRACE_PUBLIC_DATA", beside))
    if not (folder / name).is_file():
        pytest.skip(f"no public data {name}: COLDTRACE_PUBLIC_DATA names their folder")
    return folder / name
