"""An explanation for people: sections of names and texts, wrapped where there is little room.

Called by `verb`. It formats what a page says and adds nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct
from rich.cells import cell_len
from rich.text import Text

from llmd_ctl.cli.explain.page import Effective, Fact, Page
from llmd_ctl.cli.table import Hanging

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType

WIDEST = 44  # of a name that others are lined up with
NARROWEST = 30  # of a text beside its name
INDENT = "  "


class Entry(Struct, frozen=True):
    """A text beside its name; below it where the name leaves too little room."""

    name: str
    text: Text
    width: int

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        """Rich asks for the lines."""
        label = f"{INDENT}{self.name}{' ' * (self.width - cell_len(self.name))}  "
        if cell_len(label) + NARROWEST <= options.max_width and cell_len(self.name) <= self.width:
            yield from Hanging(label, self.text).__rich_console__(console, options)
            return
        yield from Hanging(INDENT, Text(self.name)).__rich_console__(console, options)
        yield from Hanging(INDENT * 3, self.text).__rich_console__(console, options)


def explain_view(page: Page) -> Iterator[RenderableType]:
    """A page as people read it."""
    head = page.name if page.kind == "index" else f"{page.kind} {page.name}"
    yield Text(head, style="bold")
    yield Text(page.title)
    for section in page.sections:
        yield Text()
        yield Text(section.title, style="bold")
        width = _width([fact.name for fact in section.facts])
        yield from (Entry(fact.name, _told(fact), width) for fact in section.facts)
    yield from _effective(page)
    if page.see:
        yield Text()
        yield Text(f"See also: {', '.join(f'explain {each}' for each in page.see)}", style="dim")


def _effective(page: Page) -> Iterator[RenderableType]:
    if page.file is None or page.kind not in {"field", "flag"}:
        return
    yield Text()
    yield Text(f"in {page.file}", style="bold")
    if not page.effective:
        yield Text(f"{INDENT}nothing that it speaks of")
    several = len({each.name for each in page.effective}) > 1
    names = [_name(each, several=several) for each in page.effective]
    width = _width(names)
    for name, each in zip(names, page.effective, strict=True):
        yield Entry(name, _set(each), width)


def _name(each: Effective, *, several: bool) -> str:
    return f"{each.of} {each.name}" if several and not each.of.endswith(each.name) else each.of


def _set(each: Effective) -> Text:
    at = f", {each.place}" if each.place is not None else ""
    over = f"; over {', '.join(each.overruled)}" if each.overruled else ""
    return Text.assemble(each.text, (f"  by {each.set_by}{at}{over}", "dim"))


def _told(fact: Fact) -> Text:
    more = "; ".join(part for part in (fact.note, cited(fact)) if part)
    return Text.assemble(fact.text, (f"  ({more})" if more else "", "dim"))


def cited(fact: Fact) -> str:
    """Where a fact is from, and how far to trust it."""
    trust = f"{fact.confidence} confidence" if fact.confidence else ""
    return ": ".join(part for part in (trust, fact.source) if part)


def _width(names: list[str]) -> int:
    """How wide the names are that texts are lined up beside."""
    fitting = [cell_len(name) for name in names if cell_len(name) <= WIDEST]
    return max(fitting, default=0)
