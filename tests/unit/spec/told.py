"""What a problem told: the shapes of the fixtures, and what the caret underlines."""

from __future__ import annotations

from collections.abc import Callable

from llmd_ctl.errors import Problem
from llmd_ctl.spec import LoadedFleet

Load = Callable[[str], list[LoadedFleet]]
Complain = Callable[[str], list[Problem]]


def caret(problem: Problem) -> str:
    """Return the text the caret underlines."""
    place = problem.place
    assert place is not None
    return place.text[place.column - 1 : place.column - 1 + place.length]
