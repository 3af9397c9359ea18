"""The page of a key of the fleet file: what it means, its type and default, and where it counts.

Called by `ask` and `ci/reference.py`. Words come from the annotated reference, all else from the
types, the table of what is not built yet and the table of what targets can carry out. Pure.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from llmd_ctl.cli.explain.asked import Asked
from llmd_ctl.cli.explain.gaps import gaps_of
from llmd_ctl.cli.explain.page import Fact, Page, said, section
from llmd_ctl.cli.explain.reference import explained
from llmd_ctl.spec import fields
from llmd_ctl.spec.not_yet import NOT_YET, NOT_YET_WORDS
from llmd_ctl.spec.section import Section
from llmd_ctl.spec.shape import SHAPE, FieldShape

# Kinds that stand in YAML otherwise than in the types.
WRITTEN = (
    (fields.Microseconds, "a duration"),
    (fields.Milliseconds, "a duration"),
    (fields.MillisecondsOrNone, "a duration"),
    (fields.Bytes, "a size"),
    (fields.ArgValue, "text, a number, true or false"),
)
MANY = {"a map": "maps", "text": "texts", "a word": "words"}
KINDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


def field_page(asked: Asked) -> Page:
    """Explain a key."""
    if not asked.is_built:
        return _later(asked)
    shape = SHAPE[asked.path]
    doc = explained(asked.path)
    return Page(
        "field",
        asked.name,
        meaning_of(asked.path),
        (
            *section("field", _facts(shape)),
            *section("keys", _keys(asked.path)),
            *section("not everywhere", _gaps(asked.path)),
        ),
        see=(doc.like,) if doc.like else (),
    )


def meaning_of(path: str) -> str:
    """Return what a key means, without its words, which are told apart."""
    words, meaning = ", ".join(SHAPE[path].words), explained(path).meaning
    for lead in ("One of", "Some of"):
        meaning = meaning.replace(f" {lead}: {words}.", "") if words else meaning
    return meaning


def _later(asked: Asked) -> Page:
    home, _, key = asked.path.rpartition(".")
    facts = [said("not built yet", "using it is an error (LC1050), so that it is never ignored")]
    return Page("field", asked.path, NOT_YET[home][key], section("field", facts))


def _facts(shape: FieldShape) -> Iterator[Fact]:
    yield said("type", kind_of(shape.info.annotation, tuple(shape.info.metadata)))
    if shape.words:
        yield said("allowed", shape.words)
    elif shape.range:
        yield said("allowed", shape.range)
    for word, meaning in NOT_YET_WORDS.get(shape.path, {}).items():
        yield said(word, f"not built yet: {meaning}")
    yield default_of(shape)
    doc = explained(shape.path)
    if doc.like:
        yield said(doc.like, meaning_of(doc.like))


def default_of(shape: FieldShape) -> Fact:
    """Make the fact of what holds where a key is left out."""
    if shape.info.is_required():
        often = "May be left out" in explained(shape.path).meaning
        return Fact("default", "none" if often else "none: it must be there", None)
    default = shape.default
    if isinstance(default, str | int | float):
        return said("default", default)
    value = default.model_dump(mode="json", by_alias=True) if _is_section(default) else default
    return Fact("default", explained(shape.path).default, value)


def _is_section(value: Any) -> bool:
    return isinstance(value, Section)


def _keys(path: str) -> Iterator[Fact]:
    for child in children(path):
        yield said(child.rpartition(".")[2], meaning_of(child))


def children(path: str) -> tuple[str, ...]:
    """Return the keys of the map, or of each item of the list, at a path."""
    homes = (path, f"{path}[]")
    return tuple(each for each in SHAPE if each.rpartition(".")[0] in homes)


def _gaps(path: str) -> Iterator[Fact]:
    for at in gaps_of(path):
        word = f"{at.word} is " if at.word else ""
        verdict = "refused (LC3050)" if at.gap.verdict == "refused" else "warned of (LC3051)"
        yield Fact(at.where, f"{word}{verdict}", at.gap.verdict, note=at.gap.why)


def kind_of(annotation: Any, marks: tuple[Any, ...] = ()) -> str:
    """Return what a key holds, in words, from its type."""
    for known, words in WRITTEN:
        if annotation == known or (marks and Annotated[(annotation, *marks)] == known):
            return words
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return kind_of(args[0])
    if origin in {Union, types.UnionType}:
        return kind_of(next(arg for arg in args if arg is not type(None)))
    if origin is Literal:
        return "a word"
    if origin is list:
        return f"a list of {MANY[kind_of(args[0])]}"
    if origin is dict or (isinstance(annotation, type) and issubclass(annotation, Section)):
        return "a map"
    return KINDS[annotation]
