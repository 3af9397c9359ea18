"""Tables that fit: no line is wider than what it is written on, and nothing is cut.

Called by the views of plan, status and demo. Columns that find no room leave the table, the least
important one first, and stand named under each row. It decides no width: rich says what there is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from rich.cells import cell_len
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType

GAP = "  "
MARGIN = " "
UNDER = "     "


class Column(Struct, frozen=True):
    """One column. `leaves`: when there is no room, the highest goes first; 0 stays."""

    name: str
    leaves: int = 0
    right: bool = False


class Sheet:
    """A table of one line a row; what has no room there stands under its row."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._columns = tuple(columns)
        self._rows: list[tuple[Text, ...]] = []

    def add(self, *cells: str | Text) -> None:
        """Add a row, a cell for each column."""
        self._rows.append(tuple(Text(cell) if isinstance(cell, str) else cell for cell in cells))

    @property
    def is_empty(self) -> bool:
        """Whether it has no row."""
        return not self._rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        """Rich asks for the lines."""
        widths = self._widths()
        kept = self._kept(widths, options.max_width)
        names = tuple(Text(column.name, style="bold") for column in self._columns)
        rule = sum(widths[i] + len(GAP) for i in kept) - len(GAP)
        yield Text()
        yield self._line(names, kept, widths)
        yield Text(MARGIN + "─" * min(rule, options.max_width - len(MARGIN)))
        for row in self._rows:
            yield self._line(row, kept, widths)
            yield from self._under(row, kept).__rich_console__(console, options)
        yield Text()

    def _widths(self) -> list[int]:
        return [
            max([cell_len(column.name), *(row[i].cell_len for row in self._rows)])
            for i, column in enumerate(self._columns)
        ]

    def _kept(self, widths: Sequence[int], room: int) -> list[int]:
        """The columns that stay in the table, by number."""
        kept = list(range(len(widths)))
        while sum(widths[i] + len(GAP) for i in kept) > room:
            least = max(kept, key=lambda i: self._columns[i].leaves)
            if self._columns[least].leaves == 0:
                break
            kept.remove(least)
        return kept

    def _line(self, cells: Sequence[Text], kept: Sequence[int], widths: Sequence[int]) -> Text:
        line = Text(MARGIN)
        for i in kept:
            pad = " " * (widths[i] - cells[i].cell_len)
            parts = (pad, cells[i]) if self._columns[i].right else (cells[i], pad)
            line = Text.assemble(line, *parts, GAP)
        line.rstrip()
        return line

    def _under(self, row: Sequence[Text], kept: Sequence[int]) -> Hanging:
        said = [
            Text.assemble(column.name, " ", row[i])
            for i, column in enumerate(self._columns)
            if i not in kept and row[i].plain
        ]
        return Hanging(UNDER, Text(" · ").join(said))


class Hanging(Struct, frozen=True):
    """Text after a label; where it takes several lines, all of them begin where it began."""

    label: str
    text: Text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        """Rich asks for the lines; there is none without text."""
        if not self.text.plain:
            return
        room = max(1, options.max_width - cell_len(self.label))
        for number, line in enumerate(self.text.wrap(console, room, overflow="fold")):
            line.rstrip()
            yield Text(self.label if number == 0 else " " * cell_len(self.label)) + line


class Either(Struct, frozen=True):
    """`wide` where there is room for it, else `narrow`."""

    wide: RenderableType
    narrow: tuple[RenderableType, ...]

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        """Rich asks what to draw."""
        if console.measure(self.wide, options=options.update(max_width=1 << 16)).maximum <= (
            options.max_width
        ):
            yield self.wide
        else:
            yield from self.narrow
