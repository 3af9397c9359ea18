"""What is under way, on stderr: one live line on a terminal, plain lines everywhere else.

Used by verbs that wait. `update` is replaced by the next one; `done` stays. It draws nothing until
it is entered, leaves the terminal as it was, and never writes on stdout.
"""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Self

from llmd_ctl.cli import output

if TYPE_CHECKING:
    from rich.status import Status


class Progress:
    """A context manager; the verbs say what happens, it says so to the person."""

    def __init__(self) -> None:
        self._live: Status | None = None
        self._last = ""

    def __enter__(self) -> Self:
        if output.is_terminal():
            self._live = output.make_console(sys.stderr).status("")
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def update(self, text: str, *, passing: bool = False) -> None:
        """Say what is happening now. A `passing` text is for live terminals only."""
        if self._live is not None:
            from rich.markup import escape

            self._live.update(escape(text))
        elif text != self._last and not passing:
            output.note(text)
        self._last = text

    def done(self, text: str) -> None:
        """Say what has happened; the line stays."""
        if self._live is not None:
            self._live.console.print(f"[green]✓[/green] {text}", markup=True, highlight=False)
        else:
            output.note(text)
        self._last = ""
