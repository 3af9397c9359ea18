"""Kubernetes objects to YAML: one way for all of them, byte-stable.

Used by every module here. An object is a record with the fields of the kind, in snake_case;
None and empty are left out, but for fields that are `KEPT`, where empty says something. Text
is quoted wherever any reader of YAML could take it for something else: Kubernetes reads by the
rules of YAML 1.1, where `y` and `1e3` are no text. It knows no kind.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, ClassVar

import yaml
from msgspec import Struct, field

from llmd_ctl.render.blocks import Blocks

PLAIN = re.compile(r"(?:--)?[A-Za-z/](?:[A-Za-z0-9 _./@-]|:(?! ))*(?<![ :])")
WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
WIDE = 1_000_000  # no line is broken: a reader of differences sees whole values
CAPITALS = {"hostIpc": "hostIPC", "clusterIp": "clusterIP"}


class Meta(Struct, frozen=True):
    """Who an object is. The namespace is that of whoever applies it."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


class Object(Struct, frozen=True):
    """What every object of a cluster has."""

    API: ClassVar[str]
    KIND: ClassVar[str]

    metadata: Meta


def to_document(one: Object) -> dict[str, Any]:
    """An object as its document."""
    return {"apiVersion": one.API, "kind": one.KIND, **_fields(one)}


def to_yaml(documents: Iterable[Mapping[str, Any]]) -> str:
    """The documents of one file."""
    return "---\n".join(map(dumped, documents))


def texts(document: Any) -> list[str]:
    """Every text of a document, keys too."""
    found: list[str] = []
    _gather(document, found)
    return found


def _gather(value: Any, found: list[str]) -> None:
    if isinstance(value, str):
        found.append(value)
    elif isinstance(value, dict):
        for key, item in value.items():
            found.append(key)
            _gather(item, found)
    elif isinstance(value, list):
        for item in value:
            _gather(item, found)


def dumped(document: Any) -> str:
    """One document's text."""
    return BLOCKS.text(document)


def quantity(count: int) -> str:
    """Bytes in the largest unit that says them whole."""
    for unit, size in (("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)):
        if count and count % size == 0:
            return f"{count // size}{unit}"
    return str(count)


def cores(count: float) -> str:
    """Cores, in thousandths where they are not whole."""
    return str(int(count)) if count == int(count) else f"{round(count * 1000)}m"


class _Dumper(yaml.CSafeDumper):
    """The safe one, that quotes text by the rule above, and writes what is there twice twice."""

    def ignore_aliases(self, _data: Any) -> bool:
        """Whether labels that stand in several places are written in each: always."""
        return True


def _text(dumper: Any, value: str) -> Any:
    style = None
    if "\n" in value:
        style = "|"
    elif not PLAIN.fullmatch(value) or value.lower() in WORDS:
        style = '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)
BLOCKS = Blocks(_Dumper, WIDE, aliases=False)


def _fields(record: Any) -> dict[str, Any]:
    found, kind = {}, record.__class__
    for name, key, is_kept in _keys(kind):
        value = getattr(record, name)
        if value is None:
            continue
        document = _value(value)
        if is_kept or document not in ({}, []):
            found[key] = document
    return found


@cache
def _keys(kind: Any) -> tuple[tuple[str, str, bool], ...]:
    """The fields of a kind of object: name, key, and whether it is written when empty."""
    kept: frozenset[str] = getattr(kind, "KEPT", frozenset())
    return tuple((name, _camel(name), name in kept) for name in kind.__struct_fields__)


def _value(value: Any) -> Any:
    if isinstance(value, str | int | float):
        return value
    if isinstance(value, Struct):
        return _fields(value)
    if isinstance(value, Mapping):
        return {key: _value(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_value(item) for item in value]
    return value


def _camel(name: str) -> str:
    first, *rest = name.rstrip("_").split("_")
    camel = first + "".join(word.capitalize() for word in rest)
    return CAPITALS.get(camel, camel)
