"""A root file system with a Python, a libc, and nothing that a recorder might lean on.

Made from this host by copies and read-only bind mounts in a mount namespace that one
waiting process holds: when it ends, every mount is gone.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

TOOLS = ("unshare", "nsenter", "mount", "chroot", "ldd")
PYTHON = Path("/usr/bin/python3").resolve()
_LIBRARY = re.compile(r"(/\S+) \(0x")
_HOLD = """
set -e
for folder in /sys /proc /dev; do mount --bind $folder $1$folder; done
mount --bind -o ro $2 $1$2
echo ready
exec cat
"""


class BareRoot:
    """One such root; ``path`` is its folder as the host sees it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._holder = 0

    def take(self, file: Path, folder: str) -> str:
        """Copy a file of this host into a folder, and return its path inside."""
        into = self.path / folder.lstrip("/")
        into.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, into / file.name)
        return f"{folder}/{file.name}"

    def take_libraries_of(self, file: Path) -> None:
        """Copy the system's libraries that a file is linked to."""
        told = subprocess.check_output(["ldd", file], text=True)
        for library in map(Path, _LIBRARY.findall(told)):
            if library.parts[1].startswith("lib"):
                self.take(library, str(library.parent))

    @contextmanager
    def mounted(self) -> Iterator[BareRoot]:
        """Hold the mounts."""
        standard_library = f"/usr/lib/{PYTHON.name}"
        for folder in ("sys", "proc", "dev", "tmp", standard_library):
            (self.path / folder.lstrip("/")).mkdir(parents=True, exist_ok=True)
        command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", _HOLD]
        with subprocess.Popen(
            [*command, "sh", str(self.path), standard_library],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as holder:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "ready\n"
            self._holder = holder.pid
            try:
                yield self
            finally:
                holder.kill()

    def start(self, *words: object, **options: Any) -> subprocess.Popen[str]:  # noqa: ANN401
        """Start a program in there, with an environment of its own."""
        chroot = shutil.which("chroot") or "chroot"  # its search path is not ours
        inside = ["nsenter", f"--mount=/proc/{self._holder}/ns/mnt", chroot]
        command = [*inside, str(self.path), *map(str, words)]
        options = {"env": {"PATH": "/usr/bin"}, **options}
        return subprocess.Popen(command, text=True, **options)

    def run(self, *words: object) -> subprocess.CompletedProcess[str]:
        """Run a program in there to its end."""
        pipe = subprocess.PIPE
        with self.start(*words, stdout=pipe, stderr=pipe) as process:
            out, err = process.communicate(timeout=60)
        return subprocess.CompletedProcess(str(words), process.returncode, out, err)


def make_bare_root(path: Path) -> BareRoot:
    """Return a root with the distribution's Python and what that loads."""
    root = BareRoot(path)
    root.take(PYTHON, "/usr/bin")
    (path / "usr/bin/python3").symlink_to(PYTHON.name)
    folder = Path(f"/usr/lib/{PYTHON.name}/lib-dynload")
    for file in (PYTHON, next(folder.glob("_ctypes.*"))):
        root.take_libraries_of(file)
    return root
