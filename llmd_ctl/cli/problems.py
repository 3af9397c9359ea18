"""Problems for people, on stderr: in the order of the files, apart from each other, counted.

Called by `validate` and by `boundary`, and by the verbs for warnings. How one reads is `errors`';
what neighbours would all be told to do is told once, below them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from llmd_ctl.cli import output

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from llmd_ctl.errors import Problem


NO_NAME = "LC1040"


def in_order(problems: Iterable[Problem]) -> list[Problem]:
    """Return the problems by file and line, each once; what has no place comes first."""
    once = dict.fromkeys(problems)
    return sorted(once, key=_position)


def _position(problem: Problem) -> tuple[str, int, int]:
    place = problem.place
    return (place.file, place.line, place.column) if place is not None else ("", 0, 0)


def informed(problems: Iterable[Problem]) -> list[Problem]:
    """Return the problems; where an accelerator's name is none, with the names that are near."""
    return [_with_names(problem) for problem in problems]


def _with_names(problem: Problem) -> Problem:
    place = problem.place
    if problem.code != NO_NAME or place is None or not place.path.endswith(".accelerator"):
        return problem
    from msgspec.structs import replace

    from llmd_ctl.profiles import Catalog
    from llmd_ctl.profiles.likely import told

    names, hint = told(problem.found or "", Catalog.load().names("AcceleratorProfile"))
    return replace(problem, allowed=names, hint=hint or problem.hint)


def tell(problems: Sequence[Problem], *, counted: bool = False) -> None:
    """Write the problems with a line between them, and how many there are where that is asked."""
    from llmd_ctl.errors import render_problem

    width = output.prose_width() if problems else None
    texts = [render_problem(problem, width=width) for problem in _hints_once(problems)]
    if counted and problems:
        texts.append(count(problems))
    if texts:
        output.note("\n\n".join(texts))


def _hints_once(problems: Sequence[Problem]) -> Iterator[Problem]:
    """Of neighbours with one code and one remedy only the last tells it."""
    for at, one in enumerate(problems, 1):
        after = problems[at : at + 1]
        is_told_below = any((one.code, one.remedy) == (p.code, p.remedy) for p in after)
        yield replace(one, hint="") if is_told_below else one


def count(problems: Sequence[Problem]) -> str:
    """How many there are of which kind, in how many files."""
    errors = sum(problem.severity == "error" for problem in problems)
    kinds = ((errors, "error"), (len(problems) - errors, "warning"))
    told = ", ".join(_number(number, what) for number, what in kinds if number)
    files = len({problem.place.file for problem in problems if problem.place is not None})
    return f"{told} in {_number(files, 'file')}" if files else told


def _number(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
