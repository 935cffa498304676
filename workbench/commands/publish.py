"""Results appear under their name when they are whole, and over nothing else's.

What is written goes to a hidden name beside the result, which takes its name when the
body has ended without an error.
"""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

from workbench.commands.exit_code import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def new_file(path: Path, *, force: bool) -> Iterator[Path]:
    """Give the body a path to write, which becomes `path` when it has ended.

    Raises
    ------
    UsageError
        If `path` exists and `force` is not set, or it is no place for a file.
    """
    if path.is_dir():
        raise UsageError(f"{path} is a folder", hint="name a file")
    with _hidden(path, force=force) as hidden:
        yield hidden
        hidden.replace(path)


@contextmanager
def new_folder(path: Path, *, mark: str, force: bool) -> Iterator[Path]:
    """Give the body an empty folder to fill, which becomes `path` when it has ended.

    An empty folder may be in the way.  With `force` one that holds the file `mark` may,
    and is replaced: another's folder never is.

    Raises
    ------
    UsageError
        If something else is in the way.
    """
    is_empty = path.is_dir() and not any(path.iterdir())
    if path.exists() and not is_empty and force and not (path / mark).is_file():
        raise UsageError(
            f"{path} holds no {mark}, so it is not replaced", hint="name another folder"
        )
    with _hidden(path, force=force or is_empty) as hidden:
        hidden.mkdir()
        yield hidden
        old = hidden.with_name(f"{hidden.name}.old")
        if path.exists():
            path.replace(old)
        hidden.replace(path)
        shutil.rmtree(old, ignore_errors=True)


@contextmanager
def _hidden(path: Path, *, force: bool) -> Iterator[Path]:
    if path.exists() and not force:
        raise UsageError(f"{path} exists", hint="--force writes it anew")
    if not path.parent.is_dir():
        raise UsageError(f"{path.parent} is not a folder")
    hidden = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield hidden
    finally:
        if hidden.is_dir():
            shutil.rmtree(hidden)
        else:
            hidden.unlink(missing_ok=True)
