"""A profile document against its type: every fault placed, then built into the type.

Called by `catalog`. `check` walks the nodes of a file beside the record that the document should
become; a document that extends another may leave keys out, and `merge` then takes them from there.
`build` makes the record from data that was checked. It knows no profile by name.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from msgspec import Struct, StructMeta
from msgspec.structs import fields
from pydantic.alias_generators import to_camel

from llmd_ctl.errors import closest
from llmd_ctl.profiles.figure import check_figure, scaled
from llmd_ctl.profiles.number import Cited, Dimension, Number, dimension, unknown, words
from llmd_ctl.spec.findings import Findings
from llmd_ctl.spec.kinds import ANY, LIST, MAP, NUMBER, SWITCH, TEXT, WHOLE, Inside, remedy
from llmd_ctl.spec.nodes import Document, Node, Path
from llmd_ctl.spec.source import dotted, short_name

T = TypeVar("T")
FACT = frozenset({"value", "source"})  # keys that only a whole fact has
KINDS = {str: TEXT, int: WHOLE, float: NUMBER, bool: SWITCH}


class Field(Struct, frozen=True):
    """One key of a document."""

    name: str
    key: str
    hint: Any
    required: bool
    nullable: bool  # null is "not known"


@cache
def fields_of(cls: Any) -> dict[str, Field]:
    """Return the keys of a record's document."""
    hints = get_type_hints(cls, include_extras=True)
    return {
        to_camel(f.name): Field(
            f.name,
            to_camel(f.name),
            _unwrapped(hints[f.name]),
            f.required,
            unknown(hints[f.name]) is not None,
        )
        for f in fields(cls)
    }


def _unwrapped(hint: Any) -> Any:
    """Strip `| None`, which may be marked `Unknown`; unions of scalars stay."""
    if unknown(hint) is not None:
        hint = get_args(hint)[0]
    if get_origin(hint) in (Union, types.UnionType):
        kinds = [arg for arg in get_args(hint) if arg is not type(None)]
        return kinds[0] if len(kinds) == 1 else tuple(kinds)
    return hint


def merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Lay one document over another. Maps merge key by key; facts, lists and scalars replace.

    A fact is a map with a value or a source: half of one would be cited by the other half's source.
    """
    out = dict(below)
    for key, value in above.items():
        under = out.get(key)
        out[key] = value
        if isinstance(value, Mapping) and isinstance(under, Mapping):
            out[key] = value if FACT & {*value, *under} else merge(under, value)
    return out


# --- checking ------------------------------------------------------------------------------------


class Checker:
    """Checks one document. With `partial`, keys may be missing: it extends another document."""

    def __init__(self, findings: Findings, document: Document, *, partial: bool) -> None:
        self.findings = findings
        self.document = document
        self.partial = partial
        self.extends = partial
        self.sound = True

    def check(self, cls: type, path: Path) -> bool:
        """Add a problem for each thing at `path` that `cls` does not take; True: there is none."""
        node = self.document.root.at(path)
        if node is not None:
            self._section(cls, node, path)
        return self.sound

    def say(self, code: str, message: str, path: Path, *, key: bool = False, **more: Any) -> None:
        """Add a problem at a path."""
        self.sound = False
        self.findings.add(code, message, self.document.mark(path, key=key), path, **more)

    def _section(self, cls: type, node: Node, path: Path) -> None:
        fields = fields_of(cls)
        if not isinstance(node.value, dict):
            required = tuple(f.key for f in fields.values() if f.required and not self.partial)
            self.wrong_kind(MAP, node, path, Inside(tuple(fields), required))
            return
        for key, child in node.value.items():
            if key in fields:
                if child.value is not None or not fields[key].nullable:
                    self._value(fields[key].hint, child, (*path, key))
            else:
                self.unknown(key, fields, path)
        for field in fields.values():
            if field.required and field.key not in node.value and not self.partial:
                message = f'the key "{field.key}" is missing in {dotted(path)}'
                hint = "Add it: a list replaces that of the other profile whole."
                self.say("LC2003", message, path, key=True, hint=hint if self.extends else None)

    def _value(self, hint: Any, node: Node, path: Path) -> None:
        figure = dimension(hint)
        origin = get_origin(hint)
        if figure is not None:
            check_figure(self, figure, node, path)
        elif isinstance(hint, StructMeta):
            self._section(hint, node, path)
        elif origin is Mapping:
            keys, items = get_args(hint)
            self._mapping(keys, _unwrapped(items), node, path)
        elif origin is tuple:
            self._items(_unwrapped(get_args(hint)[0]), node, path)
        elif origin is Literal or words(hint) is not None:
            self.word(words(hint) or get_args(hint), node, path)
        elif hint is not Any:
            self._scalar(hint, node, path)

    def _mapping(self, keys: Any, hint: Any, node: Node, path: Path) -> None:
        known = words(keys)
        if not isinstance(node.value, dict):
            self.wrong_kind(MAP, node, path, Inside(known or ()))
            return
        for key, child in node.value.items():
            if known is not None and key not in known:
                self.unknown(key, known, path)
            else:
                self._value(hint, child, (*path, key))

    def _items(self, hint: Any, node: Node, path: Path) -> None:
        if not isinstance(node.value, list):
            self.wrong_kind(LIST, node, path)
            return
        partial, self.partial = self.partial, False  # a list replaces another whole
        for index, child in enumerate(node.value):
            self._value(hint, child, (*path, index))
        self.partial = partial

    def _scalar(self, hint: Any, node: Node, path: Path) -> None:
        allowed = hint if isinstance(hint, tuple) else (hint,)
        if type(node.value) not in allowed:
            self.wrong_kind(" or ".join(KINDS[kind] for kind in allowed), node, path)

    def word(self, words: tuple[str, ...], node: Node, path: Path) -> None:
        """Add the problem of a word that is none of those there are."""
        if node.value not in words:
            found, name = node.describe().strip('"'), short_name(path)
            near = closest(found, words)
            hint = f"Write {near or 'one of the allowed words'} for {name}."
            self.say(
                "LC2004", f"unknown {name}: {found}", path, found=found, allowed=words, hint=hint
            )

    def unknown(self, key: str, allowed: Iterable[str], path: Path) -> None:
        """Add the problem of a key that does not exist."""
        message, known = f'unknown key "{key}" in {dotted(path) or "a profile"}', tuple(allowed)
        near = closest(key, known)
        hint = None if near is None else f"Write {near}, or remove the key."
        self.say("LC2002", message, (*path, key), key=True, found=key, allowed=known, hint=hint)

    def wrong_kind(self, wanted: str, node: Node, path: Path, inside: Inside = ANY) -> None:
        """Add the problem of a value that is not of the wanted kind."""
        lead = f"{path[-1]}:" if isinstance(path[-1], str) else "-"
        self.say(
            "LC2004", f"{dotted(path)} must be {wanted}", path,
            found=node.describe(), hint=remedy(wanted, lead, node, inside),
        )  # fmt: skip


# --- building ------------------------------------------------------------------------------------


def build(cls: type[T], data: Mapping[str, Any], origin: str) -> T:
    """Make a `cls` from checked data. A fact without a source is said to come from `origin`."""
    body: Any = cls
    if issubclass(cls, Cited):
        data = {"source": origin, **data}
    values = {
        field.name: _made(field.hint, data[field.key], origin)
        for field in fields_of(body).values()
        if field.key in data
    }
    return cls(**values)


def missing(cls: Any, data: Mapping[str, Any], above: str = "") -> Iterable[str]:
    """Yield the keys that a merged document still lacks."""
    for field in fields_of(cls).values():
        where = f"{above}{field.key}"
        value = data.get(field.key)
        if field.required and field.key not in data:
            yield where
        elif isinstance(field.hint, StructMeta) and isinstance(value, Mapping):
            yield from missing(field.hint, value, f"{where}.")
        elif get_origin(field.hint) is Mapping and isinstance(value, Mapping):
            item = get_args(field.hint)[1]
            if isinstance(item, StructMeta) and dimension(item) is None:
                for key, child in value.items():
                    yield from missing(item, child, f"{where}.{key}.")


def _made(hint: Any, value: Any, origin: str) -> Any:
    return None if value is None else _maker(hint)(value, origin)


@cache
def _maker(hint: Any) -> Callable[[Any, str], Any]:
    """Return what makes values of a type; a profile has thousands of values of few types."""
    figure = dimension(hint)
    if figure is not None:
        return partial(_number_of, figure)
    if isinstance(hint, StructMeta):
        kind: Any = hint
        return partial(build, kind)
    if get_origin(hint) is Mapping:
        item = get_args(hint)[1]
        return lambda value, origin: {k: _made(item, child, origin) for k, child in value.items()}
    if get_origin(hint) is tuple:
        item = get_args(hint)[0]
        return lambda value, origin: tuple(_made(item, child, origin) for child in value)
    return lambda value, _origin: value


def _number_of(figure: Dimension, data: Mapping[str, Any], origin: str) -> Number:
    value = data["value"]
    if value is not None:
        value = scaled(value, figure.units[data["unit"]] if figure.units else 1.0)
    return Number(
        value,
        data.get("source") or origin,
        data.get("confidence", "low"),
    )
