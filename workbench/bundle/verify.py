"""Everything that is wrong with one bundle, without a case."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.bundle.facts import FACTS
from workbench.bundle.integrity import Damage
from workbench.bundle.reader import BundleReader
from workbench.errors import BundleError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@dataclass(frozen=True, kw_only=True, slots=True)
class Verification:
    """What the check of one bundle gave."""

    path: Path
    is_refused: bool
    """Whether nothing of it can be loaded."""
    damage: tuple[Damage, ...]
    host_name: str | None = None
    row_count: int = 0
    """Rows of all streams that can be loaded."""
    content_sha256: str | None = None


def verify_bundle(path: Path) -> Verification:
    """Return every fault of the bundle at `path`."""
    try:
        reader = BundleReader.open(path)
    except (BundleError, ExceptionGroup) as error:
        return Verification(path=path, is_refused=True, damage=refusals(error))
    with reader:
        return _verify(reader)


def refusals(error: BundleError | ExceptionGroup[Exception]) -> tuple[Damage, ...]:
    """Return why a bundle was refused, a row for each fault of its manifest."""
    errors: Sequence[Exception] = (
        [error] if isinstance(error, BundleError) else error.exceptions
    )
    return tuple(
        Damage(kind=each.kind, message=each.message)
        for each in errors
        if isinstance(each, BundleError)
    )


def _verify(reader: BundleReader) -> Verification:
    damage = list(reader.damage)
    damage += reader.clock_readings().damage
    for fact in FACTS:
        damage += reader.fact(fact).damage
    rows = 0
    for stream, info in reader.manifest.streams.items():
        for index, count in enumerate(info.chunk_rows):
            chunk = reader.chunk(stream, index)
            damage += chunk.damage
            rows += 0 if chunk.columns is None else count
    damage += reader.check_rest()
    return Verification(
        path=reader.path,
        is_refused=False,
        damage=tuple(damage),
        host_name=reader.manifest.host.host_name,
        row_count=rows,
        content_sha256=reader.sums_sha256,
    )
