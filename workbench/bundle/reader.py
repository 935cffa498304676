"""Rows out of one bundle: a stream chunk by chunk as numpy, small tables as dicts.

Reading is positioned (``pread``), inflating and hashing release the interpreter, and no
state is shared but the set of names read, so chunks can be read by several threads.
What is damaged comes back as :class:`Damage` beside what is sound; only a bundle of
which nothing can be trusted raises.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from workbench.bundle.container import Container, read_container
from workbench.bundle.facts import CLOCK_READING, FACTS, parse_lines
from workbench.bundle.integrity import (
    SUMS,
    Damage,
    check_sum,
    inflate,
    parse_sums,
)
from workbench.bundle.manifest import Manifest, parse_manifest
from workbench.bundle.npy import MAX_COLUMN_BYTES, parse_column
from workbench.errors import BundleError, IntegrityError

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from numpy.typing import NDArray

_MIB = 1024 * 1024
_MAX_MANIFEST_BYTES = 64 * _MIB
_MAX_TABLE_BYTES = 256 * _MIB
"""Bounds of what is unpacked at once; a recording of a day stays far below them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Chunk:
    """One chunk of a stream: its columns, or None and what is wrong with it."""

    stream: str
    index: int
    columns: dict[str, NDArray[Any]] | None
    damage: tuple[Damage, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """Sound rows of a JSON-lines member, and what is wrong with the others."""

    rows: list[dict[str, Any]]
    damage: tuple[Damage, ...] = ()


@dataclass(kw_only=True)
class BundleReader:
    """An open bundle whose container and manifest are sound."""

    path: Path
    descriptor: int
    container: Container
    manifest: Manifest
    sums: dict[str, str] | None
    sums_sha256: str | None
    damage: list[Damage]
    read_names: set[str] = field(default_factory=lambda: {"manifest.json", SUMS})

    @classmethod
    def open(cls, path: Path) -> Self:
        """Return a reader of the bundle at `path`.

        Raises
        ------
        BundleError
            If nothing of it can be loaded; several faults of a manifest come as an
            ``ExceptionGroup``.
        """
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise BundleError(f"cannot read: {error.strerror}", path=path) from error
        try:
            return cls._open(path, descriptor)
        except OSError as error:
            os.close(descriptor)
            raise BundleError(f"cannot read: {error.strerror}", path=path) from error
        except BaseException:
            os.close(descriptor)
            raise

    @classmethod
    def _open(cls, path: Path, descriptor: int) -> Self:
        container = read_container(descriptor, path)
        sums, sums_sha256, damage = _read_sums(descriptor, container)
        damage[:0] = _torn(container)
        manifest = _read_manifest(path, descriptor, container, sums)
        reader = cls(
            path=path,
            descriptor=descriptor,
            container=container,
            manifest=manifest,
            sums=sums,
            sums_sha256=sums_sha256,
            damage=damage,
        )
        reader.damage += reader.unlisted_damage()
        return reader

    def close(self) -> None:
        """Close the file."""
        os.close(self.descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def is_directory_missing(self) -> bool:
        """Return whether the members were found by walking a torn file."""
        return self.container.is_directory_missing

    def unlisted_damage(self) -> list[Damage]:
        """Return a row for each member that ``SHA256SUMS`` lists and nobody finds."""
        return [
            Damage(
                kind="bad_checksum",
                message=f"{name} is listed in {SUMS} but missing",
                member=name,
            )
            for name in self.sums or {}
            if name not in self.container.members
        ]

    def file_sha256(self) -> str:
        """Return the hash of the whole file."""
        digest = hashlib.sha256()
        with self.path.open("rb") as file:
            while block := file.read(_MIB):
                digest.update(block)
        return digest.hexdigest()

    def member(self, name: str, limit: int = _MAX_TABLE_BYTES) -> bytes:
        """Return the checked content of a member.

        Raises
        ------
        IntegrityError
            If it is not what its header or ``SHA256SUMS`` says.
        KeyError
            If there is none of that name.
        """
        self.read_names.add(name)
        return _read(self.descriptor, self.container, name, limit, self.sums)

    def fact(self, name: str) -> Table:
        """Return the rows of ``facts/<name>.jsonl``."""
        expected = self.manifest.facts.get(name, 0)
        member = f"facts/{name}.jsonl"
        if member not in self.container.members and not expected:
            return Table(rows=[])
        return self._table(member, FACTS[name], expected)

    def clock_readings(self) -> Table:
        """Return the rows of ``clock.jsonl``."""
        return self._table("clock.jsonl", CLOCK_READING, None)

    def _table(self, member: str, keys: Any, expected: int | None) -> Table:  # noqa: ANN401
        if member not in self.container.members:
            missing = f"{member} is missing"
            damage = (Damage(kind="bad_fact", message=missing, member=member),)
            return Table(rows=[], damage=damage)
        try:
            data = self.member(member)
        except IntegrityError as error:
            return Table(rows=[], damage=(damage_of(error),))
        lines = parse_lines(member, data, keys)
        faults = list(lines.faults)
        if expected is not None and expected != lines.line_count:
            faults.append(
                f"{member} has {lines.line_count} rows, the manifest says {expected}"
            )
        damage = tuple(
            Damage(kind="bad_fact", message=fault, member=member) for fault in faults
        )
        return Table(rows=lines.rows, damage=damage)

    def chunk(self, stream: str, index: int) -> Chunk:
        """Return one chunk of a stream with every column that the manifest names."""
        info = self.manifest.streams[stream]
        columns: dict[str, NDArray[Any]] = {}
        damage: list[Damage] = []
        for column in info.columns:
            name = f"events/{stream}/{index:06d}/{column.name}.npy"
            try:
                columns[column.name] = self._column(
                    name, column.dtype, info.chunk_rows[index]
                )
            except IntegrityError as error:
                damage.append(damage_of(error))
        return Chunk(
            stream=stream,
            index=index,
            columns=None if damage else columns,
            damage=tuple(damage),
        )

    def _column(self, name: str, dtype: str, rows: int) -> NDArray[Any]:
        if name not in self.container.members:
            raise IntegrityError(f"{name} is missing", kind="missing_column", file=name)
        array = parse_column(self.member(name, MAX_COLUMN_BYTES))
        if array is None:
            fault = f"{name} is not a column of NumPy format 1.0"
        elif _code(array) != dtype:
            fault = f"{name} has dtype {_code(array)}, the manifest says {dtype}"
        elif len(array) != rows:
            fault = f"{name} has {len(array)} rows, the manifest says {rows}"
        else:
            return array
        raise IntegrityError(fault, kind="bad_column", file=name)

    def check_rest(self) -> list[Damage]:
        """Return the damage of the members that nobody has read yet.

        They are of streams and facts that this version does not know; they are evidence
        all the same.
        """
        damage: list[Damage] = []
        for name in self.container.members:
            if name not in self.read_names:
                try:
                    self.member(name)
                except IntegrityError as error:
                    damage.append(damage_of(error))
        return damage


def damage_of(error: IntegrityError) -> Damage:
    """Return an error of one member as a row."""
    return Damage(kind=error.kind, message=error.message, member=error.file)


def _code(array: NDArray[Any]) -> str:
    code = array.dtype.str
    return code if code[0] != "=" else f"<{code[1:]}"


def _read(
    descriptor: int,
    container: Container,
    name: str,
    limit: int,
    sums: dict[str, str] | None,
) -> bytes:
    member = container.members[name]
    packed = os.pread(
        descriptor, min(member.compressed_size, 2 * limit), member.data_offset
    )
    data = inflate(member, packed, limit)
    if sums is not None:
        check_sum(name, data, sums)
    return data


def _read_sums(
    descriptor: int, container: Container
) -> tuple[dict[str, str] | None, str | None, list[Damage]]:
    """Return the listed sums, the hash of their list and what is wrong with it."""
    if SUMS not in container.members:
        message = f"{SUMS} is missing"
        return None, None, [Damage(kind="bad_checksum", message=message, member=SUMS)]
    try:
        data = _read(descriptor, container, SUMS, _MAX_TABLE_BYTES, None)
    except IntegrityError as error:
        return None, None, [damage_of(error)]
    sums, damage = parse_sums(data)
    return sums, hashlib.sha256(data).hexdigest(), damage


def _torn(container: Container) -> list[Damage]:
    if not container.is_directory_missing:
        return []
    count = len(container.members)
    damage = [
        Damage(
            kind="truncated",
            message=f"truncated: no central directory, {count} whole members found "
            "by their local headers",
        )
    ]
    if container.torn_member is not None:
        message = f"truncated: {container.torn_member} is not whole"
        damage.append(
            Damage(kind="truncated", message=message, member=container.torn_member)
        )
    return damage


def _read_manifest(
    path: Path, descriptor: int, container: Container, sums: dict[str, str] | None
) -> Manifest:
    name = "manifest.json"
    if name not in container.members:
        raise BundleError(
            f"truncated: {name} is not whole", path=path, kind="truncated"
        )
    try:
        data = _read(descriptor, container, name, _MAX_MANIFEST_BYTES, sums)
    except IntegrityError as error:
        is_listed = not error.message.startswith(("SHA-256", name))
        error.path = path
        error.kind = "bad_manifest" if is_listed else "bad_checksum"
        raise
    return parse_manifest(data, path)
