"""Problems of one plan, collected so that all are told at once, each placed in the fleet file.

Every rule of `plan` adds to it. A path is that of the fleet file, in YAML's keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from llmd_ctl.errors import DoesNotFit, Place, Problem, Severity, SpecInvalid, codes

Path = tuple[str | int, ...]
WRONG_WORDS = "LC20"  # codes of what is written wrongly, as against what cannot work


class Located(Protocol):
    """What knows where its values stand: a fleet file, or the words of a command line."""

    def place(self, path: Path, *, key: bool = False) -> Place:
        """The place of a value."""


class Report:
    """What is wrong, and what is to be warned of."""

    def __init__(self, loaded: Located) -> None:
        self._loaded = loaded
        self._problems: dict[Problem, None] = {}
        self._said: set[tuple[str, str]] = set()

    def add(
        self,
        code: str,
        message: str,
        path: Path,
        *,
        key: bool = False,
        found: str | None = None,
        allowed: Sequence[str] = (),
        hint: str | None = None,
        severity: Severity = "error",
    ) -> None:
        """Record a problem once, however often it is met; with `key`, at the key."""
        place = self._loaded.place(path, key=key)
        said = hint if hint is not None else codes()[code].hint  # so that JSON gives back the same
        problem = Problem(code, message, place, found, tuple(allowed), said, severity)
        self._problems.setdefault(problem)

    def warn(self, code: str, message: str, path: Path, *, hint: str | None = None) -> None:
        """Record what is carried out, but should be known."""
        self.add(code, message, path, hint=hint, severity="warning")

    def warn_once(self, code: str, message: str, path: Path) -> None:
        """Warn of what is the same wherever it is met, at the first place alone."""
        if (code, message) not in self._said:
            self._said.add((code, message))
            self.warn(code, message, path)

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """The warnings, in the order of the file."""
        return tuple(p for p in self._ordered() if p.severity == "warning")

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The errors, in the order of the file."""
        return tuple(p for p in self._ordered() if p.severity == "error")

    def raise_errors(self) -> None:
        """Raise all errors together: `SpecInvalid` when words are wrong, else `DoesNotFit`."""
        errors = self.errors
        if any(problem.code.startswith(WRONG_WORDS) for problem in errors):
            raise SpecInvalid(errors)
        if errors:
            raise DoesNotFit(errors)

    def _ordered(self) -> list[Problem]:
        return sorted(self._problems, key=_position)


def _position(problem: Problem) -> tuple[int, int]:
    return (problem.place.line, problem.place.column) if problem.place else (0, 0)
