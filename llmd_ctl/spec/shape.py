"""The types of `fleet`, asked by path: which keys, which words, which default.

`translate` asks it for what is allowed, and the reference test for what must be written down. It is
worked out from the types once, so nothing about a field is said twice. A path here has no indices:
`spec.models[].variants[].replicas`.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from msgspec import Struct
from pydantic.fields import FieldInfo

from llmd_ctl.spec.fleet import Fleet
from llmd_ctl.spec.section import Section


class FieldShape(Struct, frozen=True):
    """One key of the format. `words`: what it, or each of its items, allows, if that is closed."""

    path: str
    info: FieldInfo
    words: tuple[str, ...]
    section: type[Section] | None
    """The map under the key, or of each item of the list under it."""

    @property
    def default(self) -> Any:
        """What holds when the key is left out."""
        return self.info.get_default(call_default_factory=True)

    @property
    def range(self) -> str:
        """The least and the most that a number may be; empty for what is no number."""
        marks = list(_marks(self.info.annotation, self.info.metadata))
        least, most = (
            next((str(getattr(mark, bound)) for mark in marks if hasattr(mark, bound)), "")
            for bound in ("ge", "le")
        )
        return f"{least} to {most}" if least and most else ""


def pattern(path: Iterable[str | int]) -> str:
    """Return a path without its indices."""
    out = ""
    for step in path:
        out += "[]" if isinstance(step, int) else f".{step}" if out else step
    return out


def keys_of(section: type[Section]) -> tuple[str, ...]:
    """Return the keys a map takes, in the order of the types."""
    return tuple(info.alias or name for name, info in section.model_fields.items())


def required_of(section: type[Section]) -> tuple[str, ...]:
    """Return the keys that a map must have."""
    fields = section.model_fields.items()
    return tuple(info.alias or name for name, info in fields if info.is_required())


def keys_at(path: str) -> tuple[str, ...]:
    """Return the keys of the map at a path; none when no map of ours is there."""
    section = Fleet if path == "" else SECTIONS.get(path)
    return keys_of(section) if section else ()


def _unwrap(annotation: Any) -> Any:
    """Strip Annotated and `| None`."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _unwrap(get_args(annotation)[0])
    if origin in {Union, types.UnionType}:
        real = [arg for arg in get_args(annotation) if arg is not type(None)]
        return _unwrap(real[0]) if len(real) == 1 else annotation
    return annotation


def _marks(annotation: Any, metadata: Iterable[Any]) -> Iterator[Any]:
    """Yield what a type is annotated with, also inside of `| None`."""
    for mark in metadata:
        yield mark
        if isinstance(mark, FieldInfo):
            yield from mark.metadata
    if get_origin(annotation) is Annotated:
        inner, *more = get_args(annotation)
        yield from _marks(inner, more)
    elif get_origin(annotation) in {Union, types.UnionType}:
        for part in get_args(annotation):
            yield from _marks(part, ())


def _section_in(annotation: Any) -> type[Section] | None:
    inner = _unwrap(annotation)
    if get_origin(inner) is list:
        inner = _unwrap(get_args(inner)[0])
    return inner if isinstance(inner, type) and issubclass(inner, Section) else None


def _fields(section: type[Section], above: str) -> Iterator[FieldShape]:
    for name, info in section.model_fields.items():
        key = info.alias or name
        path = f"{above}.{key}" if above else key
        inner = _unwrap(info.annotation)
        words = _words(inner)
        below = _section_in(info.annotation)
        yield FieldShape(path, info, words, below)
        if below is not None:
            yield from _fields(below, _inside(path, inner))


def _words(annotation: Any) -> tuple[str, ...]:
    """The words of a closed list, or of each item of a list of them."""
    item = _unwrap(get_args(annotation)[0]) if get_origin(annotation) is list else annotation
    return get_args(item) if get_origin(item) is Literal else ()


def _inside(path: str, annotation: Any) -> str:
    return f"{path}[]" if get_origin(annotation) is list else path


def _sections() -> dict[str, type[Section]]:
    found: dict[str, type[Section]] = {}
    for field in SHAPE.values():
        if field.section is not None:
            found[field.path] = found[f"{field.path}[]"] = field.section
    return found


def _homes() -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for path in SHAPE:
        home, _, key = path.rpartition(".")
        found[key] = (*found.get(key, ()), home)
    return found


SHAPE: dict[str, FieldShape] = {field.path: field for field in _fields(Fleet, "")}
SECTIONS: dict[str, type[Section]] = _sections()
HOMES: dict[str, tuple[str, ...]] = _homes()
"""By key: the maps in which it stands."""
