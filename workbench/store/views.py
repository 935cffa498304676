"""The view library: a folder of selects, their headers and how they hang together.

One file is one view is one bare select.  What a view reads comes from DuckDB's own
parse tree, so the order of creation is computed and a cycle cannot be written.  A model
(what SQL cannot compute) is a node of the same graph: it reads views and writes the
tables ``model.<name>``, each with a header file in ``sql/model``.

The folder of the library is ``workbench/sql`` in an installed wheel and the
repository's ``sql`` in a checkout, since an editable install cannot place files.  Views
of the user's own join it by `Library.extended`; `workbench.store.own_views` says which.
"""

from __future__ import annotations

import copy
import graphlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

import duckdb

from workbench.errors import ViewError
from workbench.store import materialize, models, verdict
from workbench.store.finding_schema import FILE_COLUMNS, FILE_GRAIN
from workbench.store.header import Column, ViewHeader, parse_header, split_file
from workbench.store.sql_tree import SqlTree, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from workbench.store.case import Case
    from workbench.store.models import ModelSpec

LAYERS = ("staging", "entity", "interval", "measure", "finding")
"""Folders in reading order: a view reads its own layer and those before it."""

ANSWER = "answer"
"""A layer of the user's own alone, above all others: it may read findings."""

OWN_LAYERS = (*LAYERS, ANSWER)
FOLDERS = (*LAYERS, "model", "macro")

STREAMS = ("collective", "gpu_call", "off_cpu")
"""Raw event tables whose coverage decides what may be claimed."""

MODEL_NODE = "model:"
"""What a model's name begins with among the nodes of the graph."""


@dataclass(frozen=True, kw_only=True, slots=True)
class View:
    """One file of the library: a view, or the header of a model's table."""

    name: str
    layer: str
    text: str
    body: str
    header: ViewHeader
    tree: SqlTree | None
    """What the select names; a model's table has no select."""

    is_own: bool
    path: Path | None
    """The file; the view ``finding`` is generated and has none."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the declared columns."""
        is_shared = self.header.has_shared_columns
        return FILE_COLUMNS if is_shared else self.header.columns

    @property
    def grain(self) -> tuple[str, ...]:
        """Return the columns that tell the rows apart."""
        is_shared = self.header.has_shared_columns and not self.header.grain
        return FILE_GRAIN if is_shared else self.header.grain


def library_folder() -> Path:
    """Return the folder of the library's own files."""
    package = Path(__file__).parents[1]
    inside = package / "sql"
    return inside if inside.is_dir() else package.parent / "sql"


class Library:
    """The views of a folder, in an order in which they can be created.

    Parameters
    ----------
    source
        Open case, or a bare connection.
    folder
        Folder of the library; `library_folder` if not given.
    specs
        Models by name; those registered if not given.

    Raises
    ------
    ViewError
        If a file cannot be read as a view, or views read each other in a circle.
    """

    def __init__(
        self,
        source: Case | duckdb.DuckDBPyConnection,
        folder: Path | None = None,
        *,
        specs: Mapping[str, ModelSpec] | None = None,
    ) -> None:
        self.ours: Self | None = None
        """This library without views of the user's own, if some joined it."""

        self.connection = _connection_of(source)
        self.folder = folder or library_folder()
        self.models = dict(models.registered() if specs is None else specs)
        self.macros = _read_macros(self.folder)
        self.views: dict[str, View] = {}
        _add(self.views, _read_files(self.connection, self.folder))
        _add(self.views, [generated_finding(self.connection, self.views)])
        self._writer = {
            table: spec for spec in self.models.values() for table in _tables(spec)
        }
        self.arrange()

    def arrange(self) -> None:
        """Find out anew what reads what, and the order that follows."""
        self._reads = {name: self._find_reads(name) for name in self._nodes()}
        self.order = self._sort()

    def extended(self, own: Iterable[View], *, findings: bool = True) -> Self:
        """Return this library with views of the user's own.

        Parameters
        ----------
        own
            Views whose names the library does not have.
        findings
            Whether the view ``finding`` speaks of findings among them too.

        Raises
        ------
        ViewError
            If a name is taken, or views read each other in a circle.
        """
        more = copy.copy(self)
        more.ours = self.without_own()
        more.views = dict(self.views)
        _add(more.views, own)
        if findings:
            del more.views[verdict.FINDING]
            _add(more.views, [generated_finding(self.connection, more.views)])
        more.arrange()
        return more

    def _nodes(self) -> list[str]:
        return [*self.views, *(f"{MODEL_NODE}{name}" for name in self.models)]

    def without_own(self) -> Self:
        """Return this library as it was before any view of the user's own joined it."""
        return self if self.ours is None else self.ours

    def _find_reads(self, node: str) -> frozenset[str]:
        if node.startswith(MODEL_NODE):
            return frozenset(self.models[node.removeprefix(MODEL_NODE)].reads)
        view = self.views[node]
        if view.tree is None:
            return frozenset()
        return view.tree.reads(self.macros, self.views)

    def reads(self, node: str) -> frozenset[str]:
        """Return the relations a view or a model reads, as they are written."""
        return self._reads[node]

    def read_by(self, name: str) -> list[str]:
        """Return the views and models that read a relation, sorted."""
        return sorted(node for node, reads in self._reads.items() if name in reads)

    def feeds(self, node: str) -> list[str]:
        """Return the nodes that must stand before this one, sorted."""
        feeding = {name for name in self._reads[node] if name in self.views}
        if node in self._writer:
            feeding.add(f"{MODEL_NODE}{self._writer[node].name}")
        return sorted(feeding)

    def _sort(self) -> tuple[str, ...]:
        graph = {node: self.feeds(node) for node in self._reads}
        try:
            return tuple(graphlib.TopologicalSorter(graph).static_order())
        except graphlib.CycleError as error:
            circle = " -> ".join(error.args[1])
            raise ViewError(
                f"views read each other in a circle: {circle}", view=error.args[1][0]
            ) from error

    def closure(self, nodes: Iterable[str]) -> list[str]:
        """Return these nodes and all that they stand on, in order of creation."""
        wanted: set[str] = set()
        stack = [node for node in nodes if node in self._reads]
        while stack:
            node = stack.pop()
            if node not in wanted:
                wanted.add(node)
                stack += self.feeds(node)
        return [node for node in self.order if node in wanted]

    def streams(self, node: str) -> frozenset[str]:
        """Return the raw event streams that a view's or a model's reads lead to."""
        raw = {
            name.removeprefix("raw.")
            for each in self.closure([node])
            for name in self._raw_reads(each)
        }
        return frozenset(raw & set(STREAMS))

    def _raw_reads(self, node: str) -> Iterator[str]:
        yield from (name for name in self._reads[node] if name.startswith("raw."))

    def layer_of(self, node: str) -> int:
        """Return the number of a node's layer; a model's is the highest it reads."""
        if node.startswith("raw."):
            return -1
        view = self.views.get(node)
        if view is not None and view.layer != "model":
            return OWN_LAYERS.index(view.layer)
        feeding = [self.layer_of(name) for name in self.feeds(node)]
        return max(feeding, default=-1)


def _add(known: dict[str, View], views: Iterable[View]) -> None:
    for view in views:
        key = f"model.{view.name}" if view.layer == "model" else view.name
        if key in known:
            raise ViewError(
                f"a second file for the view {key}: {view.path}",
                view=key,
                hint="give your own view a name that the library does not have",
            )
        known[key] = view


def _connection_of(
    source: Case | duckdb.DuckDBPyConnection,
) -> duckdb.DuckDBPyConnection:
    if isinstance(source, duckdb.DuckDBPyConnection):
        return source
    return source.connection


def build_library(case: Case, progress: Callable[[str], None] | None = None) -> Library:
    """Create every view and keep every kept one in a case that is open for writing.

    Only what is stale is made again; `progress` is told the name of each.

    Raises
    ------
    ViewError
        If a view of the library does not hold.
    """
    library = Library(case)
    materialize.build(library, case, progress)
    return library


def generated_finding(
    connection: duckdb.DuckDBPyConnection, views: Mapping[str, View]
) -> View:
    """Return the view ``finding``, made from the finding files and the coverage."""
    text = verdict.generate(views)
    return make_view(connection, "finding", "finding", text, is_own=False, path=None)


def make_view(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    layer: str,
    text: str,
    *,
    is_own: bool,
    path: Path | None,
) -> View:
    """Return a view read from the text of its file.

    Raises
    ------
    ViewError
        If the header or the select cannot be read.
    """
    lines, body = split_file(text)
    header = parse_header(text, view=name)
    if layer == "model":
        if body:
            raise ViewError(
                "the file of a model's table is a header only", view=name, line=1
            )
        tree = None
    else:
        tree = parse(connection, body, view=name, first_line=_body_line(lines, text))
    return View(
        name=name,
        layer=layer,
        text=text,
        body=body,
        header=header,
        tree=tree,
        is_own=is_own,
        path=path,
    )


def _body_line(header: list[str], text: str) -> int:
    """Return the line of the file on which its select begins."""
    below = text.splitlines()[len(header) :]
    blank = next((at for at, line in enumerate(below) if line.strip()), 0)
    return len(header) + blank + 1


def _read_files(connection: duckdb.DuckDBPyConnection, folder: Path) -> Iterator[View]:
    for path in sorted(folder.glob("*/*.sql")):
        layer = path.parent.name
        if layer == "macro":
            continue
        if layer not in FOLDERS:
            raise ViewError(
                f"unknown layer {layer!r} of {path}",
                view=path.stem,
                hint=f"the layers are {', '.join(LAYERS)}",
            )
        text = path.read_text(encoding="utf-8")
        yield make_view(connection, path.stem, layer, text, is_own=False, path=path)


def _read_macros(folder: Path) -> dict[str, str]:
    return {
        path.stem: path.read_text(encoding="utf-8")
        for path in sorted((folder / "macro").glob("*.sql"))
    }


def _tables(spec: ModelSpec) -> Iterator[str]:
    for table in spec.writes:
        yield table if table.startswith("model.") else f"model.{table}"
