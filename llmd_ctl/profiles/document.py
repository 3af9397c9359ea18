"""A profile document against its type: every fault placed, then built into the type.

Called by `catalog`. `check` walks the nodes of a file beside the dataclass that the document should
become; a document that extends another may leave keys out, and `merge` then takes them from there.
`build` makes the dataclass from data that was checked. It knows no profile by name.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from pydantic.alias_generators import to_camel

from llmd_ctl.profiles.number import Cited, Dimension, Number, dimension, unknown, words
from llmd_ctl.spec.findings import Findings
from llmd_ctl.spec.nodes import Document, Node, Path
from llmd_ctl.spec.source import dotted

T = TypeVar("T")
NUMBER_KEYS = ("value", "unit", "source", "confidence")
FACT = frozenset({"value", "source"})  # keys that only a whole fact has
KINDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


@dataclass(frozen=True)
class Field:
    """One key of a document."""

    name: str
    key: str
    hint: Any
    required: bool
    nullable: bool  # null is "not known"


@cache
def fields_of(cls: Any) -> dict[str, Field]:
    """Return the keys of a dataclass's document."""
    hints = get_type_hints(cls, include_extras=True)
    return {
        to_camel(f.name): Field(
            f.name,
            to_camel(f.name),
            _unwrapped(hints[f.name]),
            f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING,
            unknown(hints[f.name]) is not None,
        )
        for f in dataclasses.fields(cls)
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
        if not isinstance(node.value, dict):
            self._kind("a map", node, path)
            return
        fields = fields_of(cls)
        for key, child in node.value.items():
            if key in fields:
                if child.value is not None or not fields[key].nullable:
                    self._value(fields[key].hint, child, (*path, key))
            else:
                self._unknown(key, fields, path)
        for field in fields.values():
            if field.required and field.key not in node.value and not self.partial:
                message = f'the key "{field.key}" is missing in {dotted(path)}'
                self.say("LC2003", message, path, key=True)

    def _value(self, hint: Any, node: Node, path: Path) -> None:
        figure = dimension(hint)
        origin = get_origin(hint)
        if figure is not None:
            self._number(figure, node, path)
        elif dataclasses.is_dataclass(hint) and isinstance(hint, type):
            self._section(hint, node, path)
        elif origin is Mapping:
            keys, items = get_args(hint)
            self._mapping(keys, _unwrapped(items), node, path)
        elif origin is tuple:
            self._items(_unwrapped(get_args(hint)[0]), node, path)
        elif origin is Literal or words(hint) is not None:
            self._word(words(hint) or get_args(hint), node, path)
        elif hint is not Any:
            self._scalar(hint, node, path)

    def _mapping(self, keys: Any, hint: Any, node: Node, path: Path) -> None:
        if not isinstance(node.value, dict):
            self._kind("a map", node, path)
            return
        known = words(keys)
        for key, child in node.value.items():
            if known is not None and key not in known:
                self._unknown(key, known, path)
            else:
                self._value(hint, child, (*path, key))

    def _items(self, hint: Any, node: Node, path: Path) -> None:
        if not isinstance(node.value, list):
            self._kind("a list", node, path)
            return
        partial, self.partial = self.partial, False  # a list replaces another whole
        for index, child in enumerate(node.value):
            self._value(hint, child, (*path, index))
        self.partial = partial

    def _scalar(self, hint: Any, node: Node, path: Path) -> None:
        allowed = hint if isinstance(hint, tuple) else (hint,)
        if type(node.value) not in allowed:
            self._kind(" or ".join(KINDS[kind] for kind in allowed), node, path)

    def _word(self, words: tuple[str, ...], node: Node, path: Path) -> None:
        if node.value not in words:
            message = f"{dotted(path[-1:])} has a value that is not known"
            self.say("LC2004", message, path, found=node.describe().strip('"'), allowed=words)

    def _unknown(self, key: str, allowed: Iterable[str], path: Path) -> None:
        message = f'unknown key "{key}" in {dotted(path) or "a profile"}'
        self.say("LC2002", message, (*path, key), key=True, found=key, allowed=tuple(allowed))

    def _kind(self, wanted: str, node: Node, path: Path) -> None:
        self.say("LC2004", f"{dotted(path)} must be {wanted}", path, found=node.describe())

    # A figure: {value, unit, source, confidence}

    def _number(self, figure: Dimension, node: Node, path: Path) -> None:
        if not isinstance(node.value, dict):
            unit = f", unit: {next(iter(figure.units))}" if figure.units else ""
            hint = f"Write {{value: {node.written or '…'}{unit}, source: …, confidence: low}}."
            message = f"{dotted(path)} must be a figure with its source"
            self.say("LC2005", message, path, found=node.describe(), hint=hint)
            return
        for key in node.value:
            if key not in NUMBER_KEYS:
                self._unknown(key, NUMBER_KEYS, path)
        for key in ("source", "unit"):
            child = node.get(key)
            if child is not None and not isinstance(child.value, str):
                self._kind("text", child, (*path, key))
        confidence = node.get("confidence")
        if confidence is not None:
            self._word(("high", "medium", "low"), confidence, (*path, "confidence"))
        self._figure(figure, node, path)

    def _figure(self, figure: Dimension, node: Node, path: Path) -> None:
        value, at = node.get("value"), (*path, "value")
        if value is None:
            self.say("LC2003", f'the key "value" is missing in {dotted(path)}', path)
            return
        if value.value is None:
            if figure.null is None:
                self.say("LC2005", f"{dotted(path)} must be known", at, found="nothing")
            return
        number = value.value
        if isinstance(number, bool) or not isinstance(number, int | float):
            self._kind("a number", value, at)
            return
        factor = self._unit(figure, node, path)
        if factor is not None and not (_finite(number) and figure.allows(_scaled(number, factor))):
            message = f"{dotted(path)} is no possible {figure.name}"
            self.say("LC2006", message, at, found=value.describe(), allowed=(figure.range,))

    def _unit(self, figure: Dimension, node: Node, path: Path) -> float | None:
        """Return what the value is multiplied by; None when that cannot be told."""
        unit = node.text("unit")
        allowed = tuple(figure.units)
        if unit is None and not allowed:
            return 1.0
        if unit is None:
            message = f"{dotted(path)} does not say its unit"
            self.say("LC2005", message, path, allowed=allowed, hint="Add unit: beside value:.")
            return None
        if unit not in figure.units:
            message = f"a {figure.name} is not measured in {unit}"
            self.say("LC2005", message, (*path, "unit"), found=unit, allowed=allowed)
            return None
        return figure.units[unit]


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
        elif dataclasses.is_dataclass(field.hint) and isinstance(value, Mapping):
            yield from missing(field.hint, value, f"{where}.")
        elif get_origin(field.hint) is Mapping and isinstance(value, Mapping):
            item = get_args(field.hint)[1]
            if dataclasses.is_dataclass(item) and dimension(item) is None:
                for key, child in value.items():
                    yield from missing(item, child, f"{where}.{key}.")


def _made(hint: Any, value: Any, origin: str) -> Any:
    if value is None:
        return None
    figure = dimension(hint)
    if figure is not None:
        return _number_of(figure, value, origin)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return build(hint, value, origin)
    if get_origin(hint) is Mapping:
        item = get_args(hint)[1]
        return {key: _made(item, child, origin) for key, child in value.items()}
    if get_origin(hint) is tuple:
        item = get_args(hint)[0]
        return tuple(_made(item, child, origin) for child in value)
    return value


def _number_of(figure: Dimension, data: Mapping[str, Any], origin: str) -> Number:
    value = data["value"]
    factor = figure.units[data["unit"]] if figure.units else 1.0
    return Number(
        None if value is None else _scaled(value, factor),
        data.get("source") or origin,
        data.get("confidence", "low"),
    )


def _finite(number: float) -> bool:
    """Whether a number can be computed with; whole numbers have no bound in YAML."""
    return abs(number) < 1e300


def _scaled(value: float, factor: float) -> float:
    """Multiply; a whole number of bytes stays whole whatever it was written in."""
    scaled = value * factor
    nearest = round(scaled) if abs(scaled) < 2**53 else scaled
    return float(nearest) if abs(scaled - nearest) < 1e-6 * max(1.0, abs(scaled)) else scaled
