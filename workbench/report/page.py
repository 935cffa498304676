"""The report as one page that needs nothing else and runs nothing that is not ours.

Its content policy forbids every request, and every script but those whose hash it
names; without ``--interactive`` that is none.  Text goes through the template's
escaping; only our own style, our own scripts and what vl-convert drew do not.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from importlib import resources
from typing import TYPE_CHECKING, Any

import jinja2
import vl_convert

from workbench.report.figures import INK, draw, specification
from workbench.store.plain_text import plain

if TYPE_CHECKING:
    from workbench.report.content import Block, Report

PACKAGE = "workbench.report"


def render(report: Report, *, interactive: bool = False) -> str:
    """Return the page; with `interactive`, figures that scripts make live."""
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        finalize=_plain,
    )
    scripts = _scripts() if interactive else []
    return environment.from_string(_file("page.html.j2")).render(
        report=report,
        policy=_policy(scripts),
        style=_file("page.css"),
        kind_of=kind_of,
        pictures={figure.name: draw(figure) for figure in report.figures},
        specifications=_specifications(report) if interactive else "",
        scripts=scripts,
    )


def kind_of(block: Block) -> str:
    """Return the word for a kind of block."""
    return type(block).__name__.lower()


def _plain(value: Any) -> Any:  # noqa: ANN401 -- whatever a template puts out
    """Return text without characters that turn what follows, such as direction."""
    if isinstance(value, str) and not hasattr(value, "__html__"):
        return "\n".join(map(plain, value.split("\n")))
    return value


def _file(name: str) -> str:
    return resources.files(PACKAGE).joinpath(name).read_text(encoding="utf-8")


def _scripts() -> list[str]:
    bundle = vl_convert.javascript_bundle()  # pyright: ignore[reportCallIssue]
    return [bundle.replace("</script", r"<\/script"), _file("page.js")]


def _policy(scripts: list[str]) -> str:
    digests = (hashlib.sha256(script.encode()).digest() for script in scripts)
    hashes = [f"'sha256-{base64.b64encode(each).decode()}'" for each in digests]
    allowed = " ".join(hashes) or "'none'"
    return (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
        f"script-src {allowed}; base-uri 'none'; form-action 'none'"
    )


def _specifications(report: Report) -> str:
    """Return the charts as JSON in which no name can end the element it stands in."""
    specs = {figure.name: specification(figure, ink=INK) for figure in report.figures}
    text = json.dumps(specs, ensure_ascii=True, allow_nan=False)
    return re.sub("[<>&]", lambda found: f"\\u{ord(found[0]):04x}", text)
