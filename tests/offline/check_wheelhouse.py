"""Install a wheelhouse archive inside the trip-wire and use it: demo, notebooks.

Run as root: ``python -m tests.offline.check_wheelhouse dist/coldtrace-*.tar``.
Prints what the demo prints, then how many packets tried to leave loopback; exits 1 if
there was one.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from tests.offline.tripwire import Tripwire


def check(archive: Path) -> int:
    """Return 0 when everything worked and nothing left loopback."""
    with tempfile.TemporaryDirectory() as folder, Tripwire() as wire:
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
        (unpacked,) = Path(folder).iterdir()
        target = Path(folder) / "installed"
        subprocess.run([unpacked / "install.sh", target], check=True)
        coldtrace = target / "bin/coldtrace"
        subprocess.run([coldtrace, "demo"], check=True, cwd=folder)
        case = "coldtrace-demo/case.duckdb"
        subprocess.run(
            [coldtrace, "notebook", case, "--write-only"], check=True, cwd=folder
        )
    sys.stdout.write(f"packets past loopback: {len(wire.attempts)}\n")
    for attempt in sorted(set(wire.attempts)):
        sys.stdout.write(f"  {attempt}\n")
    return int(bool(wire.attempts))


if __name__ == "__main__":
    sys.exit(check(Path(sys.argv[1])))
