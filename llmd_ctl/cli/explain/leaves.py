"""Any profile as facts: every figure with its source and confidence, and what is not known.

Goes by the types of `profiles` and knows no field by name, so that what a profile gains is shown
without a change here. What is cited as one (an image, a backend) is one fact. Called by
`accelerator`, `engine` and `flag`. Pure.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from msgspec import Struct
from msgspec.structs import replace
from pydantic.alias_generators import to_camel

from llmd_ctl.cli.explain.figure import UNKNOWN, figure
from llmd_ctl.cli.explain.page import Fact, plain, said, words
from llmd_ctl.profiles.accelerator import EnvironmentSetting, ProfileSetting
from llmd_ctl.profiles.number import Cited, Number, dimension, unknown

CITATION = ("source", "confidence", "note")
EMPTY: tuple[Any, ...] = (None, "", (), False)


def leaves(value: Any, hint: Any, name: str) -> Iterator[Fact]:
    """Yield what stands at and below a value of a profile; `hint` is its type."""
    if isinstance(value, Number):
        yield figure(name, value, dimension(_real(hint)))
    elif isinstance(value, ProfileSetting):
        yield _setting(name, value)
    elif isinstance(value, EnvironmentSetting):
        yield said(name, value.value, note=value.reason)
    elif isinstance(value, Cited) and _is_flat(value):
        yield _joined(name, value)
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from leaves(each, _item(hint), _below(name, key))
    elif _is_record(value):
        yield from _record(value, name)
    elif isinstance(value, tuple) and value and _is_record(value[0]):
        for index, each in enumerate(value):
            own = getattr(each, "key", None) or getattr(each, "name", None) or index + 1
            below = _below(name, str(own))
            yield from [_joined(below, each)] if _is_flat(each) else _record(each, below)
    elif value not in EMPTY:
        yield said(name, value)


def unknowns(value: Any, hint: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path of everything that is null, and what follows from it."""
    effect = unknown(hint)
    if isinstance(value, Number):
        of = dimension(_real(hint))
        if value.value is None and of is not None and of.null:
            yield name, of.null
    elif value is None and effect:
        yield name, effect
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from unknowns(each, _item(hint), _below(name, key))
    elif _is_record(value):
        for key, each, of_each in _fields(value):
            yield from unknowns(each, of_each, _below(name, to_camel(key)))


def missing(value: Any, hint: Any) -> Iterator[Fact]:
    """Yield what is not known, those of one key together, and what follows."""
    found: dict[tuple[str, str], list[str]] = {}
    for name, effect in unknowns(value, hint):
        home, _, key = name.rpartition(".")
        found.setdefault((key, effect), []).append(home)
    for (key, effect), homes in found.items():
        where = [home for home in homes if home]
        yield Fact(key, f"of {_together(where)}" if where else UNKNOWN, where or None, note=effect)


def _together(paths: list[str]) -> str:
    """Return paths with what they share written once."""
    found: dict[str, list[str]] = {}
    for path in paths:
        home, _, key = path.partition(".") if path.count(".") < 2 else _split(path)
        found.setdefault(home, []).append(key)
    return "; ".join(f"{home} ({', '.join(keys)})" if any(keys) else home
                     for home, keys in found.items())  # fmt: skip


def _split(path: str) -> tuple[str, str, str]:
    """Return the first three keys of a path, and what is below."""
    first, second, third, *rest = path.split(".")
    return f"{first}.{second}.{third}", ".", ".".join(rest)


def _setting(name: str, setting: ProfileSetting) -> Fact:
    value = words(setting.value) if setting.multiple_of is None else (
        f"{words(setting.value)}, or another multiple of {setting.multiple_of}"
    )  # fmt: skip
    must = "must be so: " if setting.must else ""
    return Fact(name, value, setting.value, note=f"{must}{setting.reason}")


def _joined(name: str, record: Any) -> Fact:
    """One fact of a record in which nothing has a source of its own.

    Its first field is what it is about, and is not named where nothing else is said.
    """
    cited = record if isinstance(record, Cited) else Cited()
    first, *_ = names = [key for key, _, _ in _fields(record) if key not in CITATION]
    parts = {
        to_camel(key): each for key in names
        if (each := getattr(record, key)) not in EMPTY and each != {}
        and not name.endswith(str(each))
    }  # fmt: skip
    note = getattr(record, "note", "")
    confidence = cited.confidence if cited.source else ""
    name = name or to_camel(first)
    if not parts:
        lack = unknown(_hints(record.__class__)[first]) or ""
        return Fact(name, UNKNOWN, None, cited.source, confidence, note or lack)
    text = "; ".join(f"{key} {words(each)}" for key, each in parts.items())
    if list(parts) == [to_camel(first)]:
        text = words(parts[to_camel(first)])
    return Fact(name, text, plain(parts), cited.source, confidence, note)


def _record(record: Any, name: str) -> Iterator[Fact]:
    cited = record if isinstance(record, Cited) else None
    for key, each, hint in _fields(record):
        if cited is not None and key in CITATION and (key != "note" or not each):
            continue
        for fact in leaves(each, hint, _below(name, to_camel(key))):
            if cited is not None and not fact.source:
                yield replace(fact, source=cited.source, confidence=cited.confidence)
            else:
                yield fact


def _fields(record: Any) -> Iterator[tuple[str, Any, Any]]:
    hints = _hints(record.__class__)
    for name in record.__struct_fields__:
        yield name, getattr(record, name), hints[name]


@cache
def _hints(cls: Any) -> dict[str, Any]:
    return get_type_hints(cls, include_extras=True)


def _is_record(value: Any) -> bool:
    return isinstance(value, Struct) and not isinstance(value, Number)


def _is_flat(record: Any) -> bool:
    """Whether nothing in a record has parts or a source of its own."""
    return not any(
        _is_record(each) or isinstance(each, Number)
        or (isinstance(each, tuple) and any(_is_record(item) for item in each))
        or (isinstance(each, Mapping) and any(_is_record(item) for item in each.values()))
        for _, each, _ in _fields(record)
    )  # fmt: skip


def _real(hint: Any) -> Any:
    """Strip `| None`."""
    if get_origin(hint) in {Union, types.UnionType}:
        return next(arg for arg in get_args(hint) if arg is not type(None))
    return hint


def _item(hint: Any) -> Any:
    """Return the type of what a map or a tuple holds."""
    real = _real(hint)
    if get_origin(real) is Annotated:
        real = get_args(real)[0]
    args = [arg for arg in get_args(real) if arg is not Ellipsis]
    return args[-1] if args else None


def _below(name: str, key: str) -> str:
    return f"{name}.{key}" if name else key
