"""The report: one content, three forms (a page, Markdown, JSON).

``content`` says what a report is made of and knows no form; the three forms know no
case.  Everything that is text in it may come from a bundle and is text in every form.
"""

from __future__ import annotations
