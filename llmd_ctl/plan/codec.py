"""Frozen records to camelCase JSON and back, by their type hints.

Called by `records`, and by `render` for sections of router.yaml that the plan has as they are. It
knows no record: what a field is, its annotation says. Reading is strict, so that a plan file that
was edited into nonsense is refused and not half understood.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from msgspec import Struct, StructMeta
from pydantic.alias_generators import to_camel

from llmd_ctl.errors import Problem, SpecInvalid

T = TypeVar("T")
LARGEST = 2**63 - 1
SCALARS = frozenset({str, int, float, bool, type(None)})
GUESS = "didYouMean"  # of a problem: it follows from the rest


class _WrongShapeError(Exception):
    """A value that its annotation does not allow; the text says where and what."""


def to_json(value: Any) -> Any:
    """Return `value` as JSON types. Keys of maps are the user's own and stay as they are."""
    if type(value) in SCALARS:  # most of a plan
        return value
    if isinstance(value, Problem):
        return value.to_json()
    if isinstance(value, Struct):
        return {key: to_json(getattr(value, name)) for name, key, _ in _fields(type(value))}
    if isinstance(value, Mapping):
        return {key: to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    return value


def from_json(cls: type[T], document: Any, schema: str) -> T:
    """Read a record of `cls` whose document says `schema`; raises `SpecInvalid`."""
    said = document.get("schema", "no schema") if isinstance(document, Mapping) else "no object"
    if said != schema:
        raise SpecInvalid.of("LC3001", "this is not a plan", found=str(said), allowed=(schema,))
    body = {key: item for key, item in document.items() if key != "schema"}
    try:
        record: T = _record(cls, body, "")
    except (_WrongShapeError, KeyError, TypeError) as error:
        raise SpecInvalid.of("LC3001", f"the plan cannot be read: {error}") from error
    return record


@cache
def _fields(cls: Any) -> tuple[tuple[str, str, Any], ...]:
    """Return name, JSON key and annotation of every field."""
    hints = get_type_hints(cls)
    return tuple((name, to_camel(name), hints[name]) for name in cls.__struct_fields__)


def _record(cls: Any, document: Any, at: str) -> Any:
    if not isinstance(document, Mapping):
        raise _WrongShapeError(f"{at or 'the document'} is no map")
    fields = _fields(cls)
    unknown = sorted(set(document) - {key for _, key, _ in fields})
    if unknown:
        raise _WrongShapeError(f"{at}.{unknown[0]} is not known")
    return cls(
        **{
            name: _value(hint, document[key], f"{at}.{key}")
            for name, key, hint in fields
            if key in document
        }
    )


def _value(hint: Any, value: Any, at: str) -> Any:
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any:
        return value
    if origin in (Union, types.UnionType):
        return _union(args, value, at)
    if origin is Literal:
        return _checked(value, value in args, at, hint)
    if origin is tuple:
        _checked(value, isinstance(value, list), at, "a list")
        return tuple(_value(args[0], item, f"{at}[{i}]") for i, item in enumerate(value))
    if origin is Mapping:
        _checked(value, isinstance(value, Mapping), at, "a map")
        return {key: _value(args[1], item, f"{at}.{key}") for key, item in value.items()}
    if hint is Problem:
        _checked(value, isinstance(value, Mapping), at, "a problem")
        return _record(Problem, {k: v for k, v in value.items() if k != GUESS}, at)
    if isinstance(hint, StructMeta):
        return _record(hint, value, at)
    return _scalar(hint, value, at)


def _union(args: tuple[Any, ...], value: Any, at: str) -> Any:
    if value is None and type(None) in args:
        return None
    kinds = [hint for hint in args if hint is not type(None)]
    if len(kinds) == 1:
        return _value(kinds[0], value, at)
    _finite(value, at)
    return _checked(value, type(value) in kinds, at, "text, a number, true or false")


def _scalar(hint: Any, value: Any, at: str) -> Any:
    _finite(value, at)
    if hint is float and type(value) is int:
        return float(value)
    return _checked(value, type(value) is hint, at, hint)


def _finite(value: Any, at: str) -> None:
    """JSON's numbers have no bounds; those of a plan go on to programs that have."""
    number = type(value) in {int, float}
    _checked(value, not number or abs(value) <= LARGEST, at, "an ordinary number")


def _checked(value: Any, allowed: object, at: str, wanted: Any) -> Any:
    if not allowed:
        raise _WrongShapeError(f"{at} is {value!r}, not {getattr(wanted, '__name__', wanted)}")
    return value
