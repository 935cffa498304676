"""The recorder as a command, run to its end, by root or by a user with few rights."""

from __future__ import annotations

import os
import subprocess
import tempfile
import zipfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.capture.live import PYTHON, ROOT, Bundle

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

NOBODY = 65_534
PATCHED = "import sys; sys.path.insert(0, sys.argv.pop(1))\n{patch}\n"
MAIN = "import sys\nfrom capture.__main__ import main\nsys.exit(main())\n"


def as_user(uid: int, capabilities: Iterable[str] = ()) -> list[str]:
    """Return the words before a command that give it exactly these capabilities."""
    names = [f"+{name.lower().removeprefix('cap_')}" for name in capabilities]
    held = ",".join(["-all", *names])
    who = [f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
    sets = [f"--{kind}={held}" for kind in ("inh-caps", "ambient-caps", "bounding-set")]
    return ["setpriv", *who, *sets]


class Recorder:
    """The recorder as an archive in a folder that every user may pass."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._archive = folder / "capture.zip"
        with zipfile.ZipFile(self._archive, "w") as archive:
            for path in sorted((ROOT / "capture").rglob("*")):
                if path.suffix in (".py", ".o", ".c", ".h"):
                    archive.write(path, path.relative_to(ROOT))
            archive.writestr("__main__.py", MAIN)

    def folder_of(self, uid: int) -> Path:
        """Return a new folder that a user alone may enter."""
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        os.chown(folder, uid, uid)
        return folder

    def command(
        self, *words: object, before: Iterable[str] = (), patch: str = ""
    ) -> list[str]:
        """Return the command line of the recorder, after a patch of its code if any."""
        source = ["-c", PATCHED.format(patch=patch) + MAIN] if patch else []
        python = [*before, PYTHON, "-I", "-B", *source]
        return [*python, str(self._archive), *map(str, words)]

    def run(
        self, *words: object, before: Iterable[str] = (), patch: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run the recorder to its end."""
        return subprocess.run(
            self.command(*words, before=before, patch=patch),
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )


@contextmanager
def recorder_for_all() -> Iterator[Recorder]:
    """Yield a recorder that every user can run."""
    with tempfile.TemporaryDirectory(prefix="coldtrace-test-") as name:
        Path(name).chmod(0o755)
        yield Recorder(Path(name))


def bundle_content(
    folder: Path,
) -> tuple[dict[str, Any], dict[str, list[dict[str, Any]]]]:
    """Return manifest and facts of the one bundle of a folder."""
    bundle = Bundle(folder)
    bundle.close()
    return bundle.manifest, bundle.facts
