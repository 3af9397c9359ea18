"""The problems of one source, collected while it is read so that all are told at once.

`compose`, `checks` and `translate` add to it. A path that was complained about is remembered: what
follows from a fault (a missing value, a wrong kind) is then not told a second time.
"""

from __future__ import annotations

from collections.abc import Sequence

from llmd_ctl.errors import Problem
from llmd_ctl.spec.nodes import Node, Path
from llmd_ctl.spec.source import SourceText

MOST_PROBLEMS = 500


class Findings:
    """Problems with places in one source."""

    def __init__(self, source: SourceText) -> None:
        self.source = source
        self._problems: dict[tuple[str, int, int, str], Problem] = {}
        self._spoilt: set[tuple[int, int]] = set()
        self._silent: set[Path] = set()
        self._faults: set[Path] = set()

    def add(
        self,
        code: str,
        message: str,
        mark: Node,
        path: Path = (),
        *,
        found: str | None = None,
        allowed: Sequence[str] = (),
        hint: str | None = None,
    ) -> None:
        """Record a problem at a node; `path` also silences what follows from it.

        Without a path the fault is in the YAML itself, and its spot takes no other problem.
        """
        self.silence(path)
        self._faults.add(path)
        spot = (mark.line, mark.column)
        if not path:
            self._spoilt.add(spot)
        elif spot in self._spoilt:
            return
        place = self.source.place(*spot, path, mark.length)
        problem = Problem(code, message, place, found, tuple(allowed), hint)
        self._problems.setdefault((code, *spot, message), problem)

    def start_document(self) -> None:
        """Forget the paths of the document before: the next one has paths of its own."""
        self._silent.clear()
        self._faults.clear()

    def faults(self) -> frozenset[Path] | None:
        """What this document was complained about; None when the YAML itself is at fault."""
        return None if self._spoilt else frozenset(self._faults)

    def silence(self, path: Path) -> None:
        """Say no more about a path; the document as a whole cannot be silenced."""
        if path:
            self._silent.add(path)

    def is_silent(self, path: Path) -> bool:
        """Whether the path, or one it lies under, was complained about."""
        return any(path[:depth] in self._silent for depth in range(1, len(path) + 1))

    def is_spoilt(self, node: Node) -> bool:
        """Whether the YAML itself is at fault at a node, so that its value says nothing."""
        return (node.line, node.column) in self._spoilt

    def problems(self) -> list[Problem]:
        """Return what was found, in the order of the file; a flood is cut, and said to be."""
        ordered = sorted(self._problems.values(), key=_position)
        if len(ordered) <= MOST_PROBLEMS:
            return ordered
        rest = len(ordered) - MOST_PROBLEMS
        last = ordered[MOST_PROBLEMS].place
        return [
            *ordered[:MOST_PROBLEMS],
            Problem("LC1019", f"{rest} more problems are in this file", last),
        ]


def _position(problem: Problem) -> tuple[int, int, str]:
    place = problem.place
    return (place.line, place.column, problem.code) if place else (0, 0, problem.code)
