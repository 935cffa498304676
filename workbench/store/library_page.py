"""``sql/README.md``: the library as a page to read, made from the headers.

A drawing of the layers, an index that says what a row of each view is, then every view
with its grain, what it stands on, what stands on it, and its columns with their units.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from workbench.store.catalogue import facts_of, key_of, public_views

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from workbench.store.views import Library, View

WIDTH = 88
TITLES = {
    "staging": ("Staging", "one raw table each, renamed and decoded"),
    "entity": ("Entities", "the things of a case"),
    "interval": ("Intervals", "one span a row, host time"),
    "measure": ("Measures", "one row a subject and step or collective"),
    "finding": ("Findings", "verdicts, all with one schema"),
    "model": ("Models", "tables that Python computes"),
}
LINKED = ("reads", "read by")

HEAD = """\
# The view library

Every question this project answers is a view, one file each, one bare select each.
Paste a file into any DuckDB shell on a case and it runs.

```
coldtrace views                            # what there is
coldtrace views step_work                  # one view: what a row is, columns, select
coldtrace query late.duckdb "from step_work where rank = 5 order by step"
```

This page is made from the headers of the files by `coldtrace views --write`;
`coldtrace views --check` fails when it is not current, and when a header does not tell
the truth about its select.
"""

LAYERS_HEAD = """\
## Layers

A view reads its own layer and those above it here. Models are computed in Python
between them. Below measure everything is in host time (`start_ns`, CLOCK_MONOTONIC of
that host); `ts_ns` is cluster time and always has its error beside it.
"""

OWN = """\
## Views of your own

`coldtrace views new NAME` begins one, `case.save_view(name, sql, doc)` in a notebook
saves a query as one. They lie in `~/.config/coldtrace/views` (or `$COLDTRACE_VIEWS`),
in folders named like the layers and one more, `answer`, for what reads findings; a
site's folder is named by `--library DIR`. They appear in every case and are never
written into one. They obey the rules of the library. One that does not is left out,
with its file, line and reason, and costs only itself and what reads it. None replaces a
view of the library: one with such a name is loaded with `_own` behind it.
`coldtrace views export` and `import` hand them on as a folder or a ZIP.
"""


def readme(library: Library) -> str:
    """Return the text of ``sql/README.md`` for the library's own views."""
    views = [view for view in public_views(library) if not view.is_own]
    by_layer = {
        layer: [view for view in views if view.layer == layer] for layer in TITLES
    }
    shown = {layer: members for layer, members in by_layer.items() if members}
    parts = [HEAD, LAYERS_HEAD, _drawing(shown), OWN, "## Index\n"]
    parts += [_index(layer, members) for layer, members in shown.items()]
    links = {key_of(view) for view in views}
    for layer, members in shown.items():
        title, meaning = TITLES[layer]
        parts.append(f"## {title}: {meaning}\n")
        parts += [_view(library, view, links) for view in members]
    if library.macros:
        parts.append("## Macros\n")
        parts += [_macro(*item) for item in library.macros.items()]
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


def is_readme_current(library: Library, path: Path) -> bool:
    """Return whether the README on disk is the one the headers make."""
    return path.is_file() and path.read_text(encoding="utf-8") == readme(library)


def _drawing(by_layer: dict[str, list[View]]) -> str:
    """Return the layers as boxes, raw tables on top."""
    rows = [("raw", "as recorded: raw.<stream>, raw.fact_<name>, never edited")]
    rows += [
        (layer, f"{TITLES[layer][1]} ({_count(members)})")
        for layer, members in by_layer.items()
        if layer != "model"
    ]
    width = max(len(text) for _, text in rows)
    line = f"+{'-' * (width + 15)}+"
    lines = [line]
    for layer, text in rows:
        lines += [f"| {layer:<11} {text:<{width}}  |", line]
    if "model" in by_layer:
        at = next(n for n, text in enumerate(lines) if text.startswith("| interval"))
        note = f"  <-> model.*: {_count(by_layer['model'])} by Python"
        lines[at] += note
    return "```\n" + "\n".join(lines) + "\n```\n"


def _count(members: list[View]) -> str:
    return f"{len(members)} {'table' if members[0].layer == 'model' else 'view'}" + (
        "" if len(members) == 1 else "s"
    )


def _index(layer: str, members: list[View]) -> str:
    title, _ = TITLES[layer]
    lines = [f"| {title} | a row is |", "|---|---|"]
    lines += [
        f"| {_link(key_of(view))} | {_cell(view.header.purpose)} |" for view in members
    ]
    return "\n".join(lines) + "\n"


def _link(key: str) -> str:
    return f"[{key}](#{key.replace('.', '')})"


def _view(library: Library, view: View, links: set[str]) -> str:
    header = view.header
    lines = [f"### {key_of(view)}", "", header.purpose]
    if header.notes:
        lines += ["", *textwrap.wrap(header.notes, WIDTH)]
    lines.append("")
    for name, text in facts_of(library, view):
        if name in LINKED:
            names = (_link(n) if n in links else n for n in text.split(", "))
            lines.append(f"- {name}: {', '.join(names)}")
        else:
            lines.append(f"- {name}: {text}")
    lines.append("")
    if header.has_shared_columns:
        lines.append(f"Columns: those of every finding; see {_link('finding')}.")
    else:
        lines += _columns(view)
    return "\n".join(lines) + "\n"


def _columns(view: View) -> Iterator[str]:
    yield "| column | type | unit | meaning |"
    yield "|---|---|---|---|"
    for each in view.columns:
        unit = f" {each.unit} |" if each.unit else " |"
        yield f"| `{each.name}` | {each.type} |{unit} {_cell(each.meaning)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def _macro(name: str, text: str) -> str:
    comment = [line[2:].strip() for line in text.splitlines() if line.startswith("--")]
    return f"### {name}\n\n" + "\n".join(comment) + "\n"
