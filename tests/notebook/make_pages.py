"""Write ``notebooks/<name>.md`` and its pictures again: ``make pages``.

A code host shows Markdown with pictures, few show notebooks.  Each source is run on the
sample with a late rank, in a kernel of its own, and written by nbconvert.  Never its
HTML: that page loads scripts from elsewhere.
"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

from nbconvert import MarkdownExporter
from traitlets.config import Config

import workbench.analysis  # noqa: F401 - registers the models
from tests.notebook.running import run_notebooks
from workbench.store.case import Case
from workbench.store.load import load_bundles
from workbench.ui.writing import notebook_of, source_folder, sources

SAMPLE = Path(__file__).parents[2] / "samples" / "late-rank"

TEMPLATE = """\
{%- extends 'markdown/index.md.j2' -%}
{% block data_text scoped %}

{{ output.data['text/plain'] }}

{% endblock %}
"""
"""Frames come as Markdown tables, which an indent would turn into code."""

TABLES = {
    "POLARS_FMT_TABLE_FORMATTING": "ASCII_MARKDOWN",
    "POLARS_FMT_TABLE_HIDE_DATAFRAME_SHAPE_INFORMATION": "1",
    "POLARS_FMT_TABLE_HIDE_COLUMN_DATA_TYPES": "1",
    "POLARS_FMT_TABLE_HIDE_COLUMN_SEPARATOR": "1",
    "POLARS_FMT_MAX_COLS": "-1",
    "POLARS_TABLE_WIDTH": "2000",
    "POLARS_FMT_STR_LEN": "200",
}


def page_of(source: Path, case: Path) -> tuple[str, dict[str, bytes]]:
    """Return a run notebook as Markdown, and its pictures by name."""
    notebook = notebook_of(source, "case.duckdb")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "case.duckdb").symlink_to(case)
        run_notebooks({source.stem: notebook}, Path(folder), TABLES)
    notebook.metadata["language_info"] = {"name": "python"}
    config = Config(
        NbConvertBase={"display_data_priority": ["image/png", "text/plain"]}
    )
    exporter = MarkdownExporter(raw_template=TEMPLATE, config=config)
    names = {
        "unique_key": source.stem,
        "output_files_dir": "img",
        "metadata": {"name": source.stem},
    }
    text, resources = exporter.from_notebook_node(notebook, resources=names)
    note = f"<!-- Made from {source.name} by `make pages`; edit that. -->"
    text = re.sub(r"\n(?:[ ]*\n)+", "\n\n", text)
    return f"{note}\n\n{text.strip()}\n", resources["outputs"]


def main() -> None:
    """Write every page again."""
    folder = source_folder()
    (folder / "img").mkdir(exist_ok=True)
    for old in (folder / "img").glob("*.png"):
        old.unlink()
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["COLDTRACE_VIEWS"] = str(Path(scratch) / "views")
        case = Path(scratch) / "case.duckdb"
        with Case.create(case) as made:
            load_bundles(made, sorted(SAMPLE.glob("*.bundle")))
        for source in sources():
            text, pictures = page_of(source, case)
            source.with_suffix(".md").write_text(text, encoding="utf-8")
            for name, picture in pictures.items():
                (folder / name).write_bytes(picture)


if __name__ == "__main__":
    main()
