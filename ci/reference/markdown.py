"""How the pages are written: wrapped paragraphs, items and narrow tables.

Called by the modules beside it. No line is wider than what the whole project keeps to; a table that
cannot be is an error, so that its columns are chosen anew.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence

WIDTH = 100
HEAD = "<!-- Written by `python -m ci.reference`. Do not edit. -->\n\n"
# What Markdown would read as more than text, outside of `code`; inside of a word _ is none of it.
SPECIAL = re.compile(r"([*<|]|(?<!\w)_|_(?!\w))")


def page(title: str, *parts: str) -> str:
    """Return a whole page."""
    return f"{HEAD}# {title}\n\n" + "\n\n".join(part.strip("\n") for part in parts) + "\n"


def heading(text: str, level: int = 2) -> str:
    """Return a heading."""
    return f"{'#' * level} {text}"


def paragraph(text: str) -> str:
    """Return a wrapped paragraph."""
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)


def item(text: str) -> str:
    """Return an item of a list, wrapped below its dash."""
    return textwrap.fill(
        text, WIDTH, initial_indent="- ", subsequent_indent="  ",
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def items(texts: Iterable[str]) -> str:
    """Return a list."""
    return "\n".join(item(text) for text in texts)


def plain(text: str) -> str:
    """Return text that is no Markdown, as such; what stands in backticks stays code."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else SPECIAL.sub(r"\\\1", part) for part in parts)


def code(text: str) -> str:
    """Return a block of code."""
    return "\n".join(f"    {line}".rstrip() for line in text.strip("\n").splitlines())


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table. Raises `ValueError` where a row is too wide to read."""
    lines = [f"| {' | '.join(head)} |", f"|{'|'.join('---' for _ in head)}|"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    wide = next((line for line in lines if len(line) > WIDTH), None)
    if wide is not None:
        raise ValueError(f"a row of {len(wide)} columns: {wide}")
    return "\n".join(lines)


def anchor(title: str) -> str:
    """Return what a heading is linked by, as code hosts make it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
