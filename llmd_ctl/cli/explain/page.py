"""What an explanation says: frozen records, and the published document of them.

Made by the modules beside this one, written by `view` and by `ci/reference.py`. One shape serves
every kind: sections of facts, each with its source where it has one. It computes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

if TYPE_CHECKING:
    from llmd_ctl.errors import Place

Kind = Literal["index", "field", "flag", "accelerator", "engine", "model", "rule", "error"]
SCHEMA = "llmd-ctl/explain/v1"


class Fact(Struct, frozen=True):
    """One thing that is known. `value` is for programs, `text` for people; null is not known."""

    name: str
    text: str
    value: Any = None
    source: str = ""
    confidence: str = ""
    note: str = ""  # why, or what follows from it


class Section(Struct, frozen=True):
    """Facts that belong together."""

    title: str
    facts: tuple[Fact, ...]


class Effective(Struct, frozen=True):
    """What holds in a fleet: of a variant (`chat/h100`) or of a key, and who set it."""

    of: str
    name: str
    text: str
    value: Any
    set_by: str
    overruled: tuple[str, ...] = ()  # who said something else, and what
    place: Place | None = None  # where it is written; None: in no file


class Page(Struct, frozen=True):
    """An explanation. `see`: words that `explain` knows more of."""

    kind: Kind
    name: str
    title: str
    sections: tuple[Section, ...] = ()
    effective: tuple[Effective, ...] = ()
    file: str | None = None  # the fleet that `effective` is of
    see: tuple[str, ...] = ()


def said(name: str, value: Any, *, note: str = "", source: str = "") -> Fact:
    """Make the fact of a plain value."""
    return Fact(name, words(value), plain(value), source=source, note=note)


def section(title: str, facts: Iterable[Fact]) -> tuple[Section, ...]:
    """Return the section, or nothing where there is no fact."""
    found = tuple(facts)
    return (Section(title, found),) if found else ()


def words(value: Any) -> str:
    """Return a value as people read it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={words(each)}" for key, each in value.items()) or "empty"
    if isinstance(value, list | tuple):
        texts = [words(each) for each in value]
        return ("; " if any(", " in text for text in texts) else ", ").join(texts) or "empty"
    return "none" if value is None else str(value)


def plain(value: Any) -> Any:
    """Return a value as JSON has it."""
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value


def document(page: Page) -> dict[str, Any]:
    """Return the published document."""
    return {
        "schema": SCHEMA,
        "kind": page.kind,
        "name": page.name,
        "title": page.title,
        "sections": [
            {"title": each.title, "facts": [_fact(fact) for fact in each.facts]}
            for each in page.sections
        ],
        "file": page.file,
        "effective": [_effective(each) for each in page.effective],
        "see": list(page.see),
    }


def _fact(fact: Fact) -> dict[str, Any]:
    return {
        "name": fact.name,
        "text": fact.text,
        "value": fact.value,
        "source": fact.source or None,
        "confidence": fact.confidence or None,
        "note": fact.note or None,
    }


def _effective(each: Effective) -> dict[str, Any]:
    return {
        "of": each.of,
        "name": each.name,
        "text": each.text,
        "value": each.value,
        "setBy": each.set_by,
        "overruled": list(each.overruled),
        "place": None if each.place is None else each.place.to_json(),
    }
