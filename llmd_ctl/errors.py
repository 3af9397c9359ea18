"""Every error a user can meet: what it is, where it is, and what to do about it.

    LlmdError            1    a failure that has no class of its own
    ├── UsageError       64   the command line is wrong
    ├── SpecInvalid      65   a fleet file or a profile file is wrong
    ├── DoesNotFit       66   the plan cannot work, or a rule refuses it
    ├── TargetUnreachable 69  the place where things run does not answer
    ├── RolledBack       70   apply failed and the old revision serves again
    ├── ApplyFailed      71   apply failed and was not rolled back
    ├── Locked           75   another apply or controller holds the fleet
    └── Interrupted      130  ctrl-C

Every layer raises these and `cli` alone catches them. Nothing here prints, reads or exits.
The codes are one table, `codes.yaml` beside this file; a new code is one entry there.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, cached_property
from importlib import resources
from typing import Any, ClassVar, Literal, Self

from msgspec import Struct

Severity = Literal["error", "warning"]
ALLOWED_SHOWN = 16
FEW = 3  # so many more are shown rather than counted
TEXT_SHOWN = 200
LINE_SHOWN = 96
NUMBER = re.compile(r"[-+]?[0-9][0-9_,]*(\.[0-9]*)?([eE][-+]?[0-9]+)?")
# What is never broken: `commands`, "names", {maps}, and whatever else has no space in it.
WORDS = re.compile(r'(?:`[^`]*`|"[^"]*"|\{[^{}]*\}|\S)+')
PARTS = re.compile(r"(?<=[;|]) ")  # values are broken only where they were joined
ITEMS = re.compile(r"(?<=,) | (?=and [0-9]+ more )|(?<= more) ")
NEAR = 0.7  # below it, words that share only some letters are offered for each other


class CodeDoc(Struct, frozen=True):
    """What one code means, how its message may read, and what to do when a problem says no more."""

    meaning: str
    example: str
    hint: str


@cache
def codes() -> Mapping[str, CodeDoc]:
    """Return all codes. Read when the first error is told: most commands have none to tell."""
    import yaml

    text = resources.files("llmd_ctl").joinpath("codes.yaml").read_text("utf-8")
    table: dict[str, dict[str, str]] = yaml.CSafeLoader(text).get_single_data()
    return {code: CodeDoc(**entry) for code, entry in table.items()}


class Place(Struct, frozen=True):
    """A point in a file. Lines and columns count from 1, columns in characters.

    `path` is the key's path in the document, `text` the line itself and `length` the number of
    characters the caret underlines.
    """

    file: str
    line: int
    column: int
    path: str = ""
    text: str = ""
    length: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"

    def to_json(self) -> dict[str, Any]:
        """Return the published JSON form."""
        return {
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "path": self.path,
            "text": self.text,
            "length": self.length,
        }


class Problem(Struct, frozen=True, dict=True):
    """One thing that is wrong. A `hint` of None means the one in `codes`."""

    code: str
    message: str
    place: Place | None = None
    found: str | None = None
    allowed: tuple[str, ...] = ()
    hint: str | None = None
    severity: Severity = "error"

    @cached_property
    def suggestion(self) -> str | None:
        """The allowed word that what was found is most likely meant to be."""
        return None if self.found is None else closest(self.found, self.allowed)

    @property
    def remedy(self) -> str:
        """The hint to show: the problem's own, else the code's."""
        return self.hint if self.hint is not None else codes()[self.code].hint

    def to_json(self) -> dict[str, Any]:
        """Return the published JSON form."""
        return {
            "code": self.code,
            "severity": self.severity,
            "message": self.message,
            "place": None if self.place is None else self.place.to_json(),
            "found": self.found,
            "allowed": list(self.allowed),
            "didYouMean": self.suggestion,
            "hint": self.remedy,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote."""
        place = document["place"]
        return cls(
            code=document["code"],
            message=document["message"],
            place=None if place is None else Place(**place),
            found=document["found"],
            allowed=tuple(document["allowed"]),
            hint=document["hint"],
            severity=document["severity"],
        )


class LlmdError(Exception):
    """The root of the tree: one or more problems and the exit code they lead to."""

    exit_code: ClassVar[int] = 1

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(f"{p.code}: {p.message}" for p in self.problems))

    @classmethod
    def of(
        cls,
        code: str,
        message: str,
        *,
        place: Place | None = None,
        found: str | None = None,
        allowed: Sequence[str] = (),
        hint: str | None = None,
    ) -> Self:
        """Make the error for a single problem."""
        return cls([Problem(code, message, place, found, tuple(allowed), hint)])


class UsageError(LlmdError):
    """The command line is wrong."""

    exit_code = 64


class SpecInvalid(LlmdError):
    """A fleet file or a profile file is wrong."""

    exit_code = 65


class DoesNotFit(LlmdError):
    """The plan cannot work, or a rule refuses it."""

    exit_code = 66


class TargetUnreachable(LlmdError):
    """The place where things run does not answer."""

    exit_code = 69


class RolledBack(LlmdError):
    """Apply failed and the old revision serves again."""

    exit_code = 70


class ApplyFailed(LlmdError):
    """Apply failed and was not rolled back."""

    exit_code = 71


class Locked(LlmdError):
    """Another apply or controller holds the fleet."""

    exit_code = 75


class Interrupted(LlmdError):
    """The user stopped the command."""

    exit_code = 130


def closest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word nearest to `word`, or None when nothing is near.

    A number is no misspelling of another one, so it is near to nothing; a version may be. The end
    of a word stands for it: h100 for nvidia-h100.
    """
    if NUMBER.fullmatch(word):
        return None
    folded = {_bare(name): name for name in known}
    wanted = _bare(word[:TEXT_SHOWN])
    near = difflib.get_close_matches(wanted, folded, n=1, cutoff=NEAR)
    ends = [name for name in folded if len(wanted) > 1 and name.endswith(wanted)]
    best = folded[near[0]] if near else min((folded[name] for name in ends), key=len, default=None)
    return best if best != word else None


def nearest_first(word: str, known: Sequence[str]) -> Sequence[str]:
    """Return all known words: those with `word` in them or of its first part, then by spelling.

    The first part of an accelerator's name is its vendor, that of a model's its owner. Where
    nothing is near, the order stays.
    """
    wanted = _bare(word[:TEXT_SHOWN])
    first = re.split(r"[^a-z0-9]", word.casefold(), maxsplit=1)[0]
    pairs = difflib.SequenceMatcher(b=wanted, autojunk=False)

    def rank(name: str) -> tuple[bool, float]:
        folded = _bare(name)
        pairs.set_seq1(folded)
        kin = bool(first and name.casefold().startswith(first)) or bool(wanted and wanted in folded)
        return not kin, -pairs.ratio()

    ranks = {name: rank(name) for name in known}
    far = not ranks or min(ranks.values()) > (True, -NEAR)
    return known if far else sorted(known, key=ranks.__getitem__)


def _bare(word: str) -> str:
    return word.casefold().replace("_", "").replace("-", "")


def render_problem(
    problem: Problem, source_text: str | None = None, *, width: int | None = None
) -> str:
    """Write a problem for a person. The line shown is the place's own, else that of the source.

    Words are wrapped at `width`; what is to be copied, and the line of the file, stay whole.
    """
    head = f"{problem.severity}[{problem.code}]: "
    out = _folded(head, printable(problem.message), WORDS.findall, width, "  ")
    if problem.place is not None:
        out += _excerpt(problem.place, source_text)
    if problem.found is not None:
        out += _folded("  found: ", printable(problem.found), PARTS.split, width)
    if problem.allowed:
        out += _folded("  allowed: ", listing(problem.allowed, problem.found), ITEMS.split, width)
    if problem.suggestion is not None:
        out.append(f"  did you mean: {problem.suggestion}")
    if problem.remedy:
        out += _folded("  hint: ", printable(problem.remedy), WORDS.findall, width)
    return "\n".join(out)


def _folded(
    lead: str,
    text: str,
    split: Callable[[str], list[str]],
    width: int | None,
    indent: str | None = None,
) -> list[str]:
    """Return lines of whole words; those after the first begin under it, or at `indent`."""
    if width is None or _cells(lead + text) <= width:
        return [lead + text]
    below = " " * len(lead) if indent is None else indent
    first, *rest = split(text) or [text]
    lines = [lead + first]
    for word in rest:
        if _cells(lines[-1]) + 1 + _cells(word) > width:
            lines.append(below + word)
        else:
            lines[-1] += f" {word}"
    return lines


def _cells(text: str) -> int:
    """The columns that a text takes."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def printable(text: str, limit: int = TEXT_SHOWN * 4) -> str:
    """Return `text` cut to `limit`, with characters that would disturb a terminal spelled out."""
    shown = text if len(text) <= limit else f"{text[:limit]}…"
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in shown)


def listing(allowed: Sequence[str], found: str | None) -> str:
    """Write what is allowed; of a long list what is nearest, and where all of it is."""
    more = len(allowed) - ALLOWED_SHOWN
    if more <= FEW:
        return ", ".join(printable(word) for word in allowed)
    if found is not None:
        allowed = nearest_first(found, allowed)
    shown = ", ".join(printable(word) for word in allowed[:ALLOWED_SHOWN])
    return f"{shown} and {more} more (all of them: --output json)"


def _excerpt(place: Place, source_text: str | None) -> list[str]:
    """Return the arrow, the line and the caret; a long line is cut to a window round the caret."""
    arrow = f"  --> {printable(str(place))}"
    line = place.text
    if not line and source_text is not None:
        lines = source_text.splitlines()
        line = lines[place.line - 1] if place.line <= len(lines) else ""
    if not line:
        return [arrow]
    at = min(place.column - 1, len(line))
    start = 0 if at < LINE_SHOWN - 8 else at - LINE_SHOWN // 2
    window = line[start : start + LINE_SHOWN]
    lead, tail = "…" if start else "", "…" if start + LINE_SHOWN < len(line) else ""
    shown = lead + "".join(c if c.isprintable() else " " for c in window)
    at += len(lead) - start
    blank = "".join("  " if unicodedata.east_asian_width(c) in "WF" else " " for c in shown[:at])
    caret = "^" * max(1, min(place.length, len(shown) - at))
    number = str(place.line)
    gutter = " " * len(number)
    return [arrow, f" {gutter} |", f" {number} | {shown}{tail}", f" {gutter} | {blank}{caret}"]
