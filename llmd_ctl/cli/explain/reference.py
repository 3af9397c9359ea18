"""What the annotated reference says of each key: the comment above it, without its default.

Called by `field`. The reference is read once; a section that several levels have is explained where
it first stands, and found by its type. It knows no key by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from pathlib import Path

from msgspec import Struct

from llmd_ctl.spec.compose import compose
from llmd_ctl.spec.findings import Findings
from llmd_ctl.spec.nodes import Document
from llmd_ctl.spec.shape import SECTIONS, SHAPE, pattern
from llmd_ctl.spec.source import SourceText

LAST = re.compile(r"\s*(?:(Required)|Default: (.+))\.$")
AS = re.compile(r"\b[Aa]s (spec\.[\w.\[\]]+\w)")
MORE = 20  # characters: a shorter comment explains nothing


class Explained(Struct, frozen=True):
    """A key in words. `default` is empty where it must be there; `like`: the key that it is as."""

    meaning: str
    default: str
    like: str = ""


def explained(path: str) -> Explained:
    """Return what the reference says of a key, wherever it says it."""
    home, _, key = path.rpartition(".")
    alike = [f"{other}.{key}" for other in _of_type(home)]
    said = next((_comments()[p] for p in (path, *alike) if len(_comments().get(p, "")) > MORE), "")
    last = LAST.search(said)
    like = AS.search(said)
    return Explained(
        LAST.sub("", said),
        (last[2] or "") if last is not None else "",
        like[1] if like is not None and like[1] in SHAPE else "",
    )


def _of_type(home: str) -> Iterator[str]:
    """The other places of the map at a path."""
    section = SECTIONS.get(home)
    return (path for path, each in SECTIONS.items() if each is section and section is not None)


@cache
def _comments() -> Mapping[str, str]:
    """The comment right above each key, where the key first stands on a line of its own."""
    text = (resources.files("llmd_ctl") / "spec" / "reference" / "fleet.yaml").read_text("utf-8")
    source = SourceText("fleet.yaml", text, Path())
    (document,) = compose(Findings(source))
    found: dict[str, str] = {}
    for path, _ in document.root.walk():
        if not isinstance(path[-1], int) and pattern(path) not in found:
            said = _above(document, source.lines, path)
            if said is not None:
                found[pattern(path)] = said
    return found


def _above(document: Document, lines: list[str], path: tuple[str | int, ...]) -> str | None:
    key = document.mark(path, key=True)
    if lines[key.line - 1][: key.column - 1].strip(" -"):
        return None  # inside braces
    said: list[str] = []
    at = key.line - 2
    while at >= 0 and lines[at].strip().startswith("#"):
        said.insert(0, lines[at].strip().lstrip("# "))
        at -= 1
    return " ".join(said)
