"""What may stand inside an engine's flag, and in a variable of its environment: types and limits.

Types of `kind: EngineProfile`; the tables beside the profile of vLLM are generated from its own
configuration classes. Rules ask `faults` and `Variable.takes`. It judges what is written, never
whether it is wise. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct, field

from llmd_ctl.profiles.accelerator import Scalar

WHOLE = re.compile(r"\s*[-+]?[0-9]+(\.0*)?\s*")  # as text too, as the engine reads it
DECIMAL = re.compile(r"\s*[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?\s*")
WHOLE_TEXT = re.compile(r"\s*[-+]?[0-9]+(_[0-9]+)*\s*")  # of a variable: as int() reads it
SWITCHES = frozenset("true false yes no on off t f y n 1 0".split())


Kind = Literal["int", "float", "bool", "str", "list", "map"]


class Inside(Struct, frozen=True):
    """A value: its type, choices and limits, and its keys where it is a map. Empty: anything."""

    type: Kind | None = None
    choices: tuple[Scalar, ...] = ()
    least: float | None = None
    above: float | None = None
    most: float | None = None
    below: float | None = None
    keys: Mapping[str, Inside] = field(default_factory=dict)

    @property
    def limits(self) -> tuple[str, ...]:
        """What would be right, in words."""
        named = (("at least", self.least), ("above", self.above))
        upper = (("at most", self.most), ("below", self.below))
        words = [f"{word} {number:g}" for word, number in (*named, *upper) if number is not None]
        if self.choices:
            return tuple(map(str, self.choices))
        return (", ".join(words),) if words else (WORDS[self.type],) if self.type else ()

    def takes(self, value: Any) -> bool:
        """Whether a value that is no map is right."""
        if value is None:
            return True
        if self.choices:
            return value in self.choices
        if self.type is not None and not _is_of(self.type, value):
            return False
        return not isinstance(value, int | float) or self._within(value)

    def _within(self, value: float) -> bool:
        return (
            (self.least is None or value >= self.least)
            and (self.above is None or value > self.above)
            and (self.most is None or value <= self.most)
            and (self.below is None or value < self.below)
        )


WORDS = {
    "int": "a whole number", "float": "a number", "bool": "true or false",
    "str": "text", "list": "a list", "map": "keys and values",
}  # fmt: skip


class Amiss(Struct, frozen=True):
    """One thing inside a flag that the engine refuses. `of`: what its keys may be, or its value."""

    path: str
    value: Any
    of: tuple[str, ...]
    unknown: bool  # a key that is not there


def faults(inside: Inside, value: Any, path: str = "") -> Iterator[Amiss]:
    """Yield what the engine refuses of a value."""
    if not isinstance(value, dict):
        if not inside.takes(value):
            yield Amiss(path, value, inside.limits, unknown=False)
        return
    if inside.choices or inside.type not in {None, "map"}:
        yield Amiss(path, value, inside.limits, unknown=False)
        return
    for key, child in value.items() if inside.keys else ():
        where = f"{path}.{key}" if path else str(key)
        if key not in inside.keys:
            yield Amiss(where, child, tuple(inside.keys), unknown=True)
        else:
            yield from faults(inside.keys[key], child, where)


class Variable(Struct, frozen=True):
    """A variable of the environment. Empty: any text."""

    type: Literal["int", "float"] | None = None
    choices: tuple[str, ...] = ()
    any_case: bool = False
    several: bool = False  # a list with commas

    @property
    def limits(self) -> tuple[str, ...]:
        """What would be right, in words."""
        return self.choices or ((WORDS[self.type],) if self.type else ())

    def takes(self, text: str) -> bool:
        """Whether the engine reads a value."""
        if self.type is not None:
            return (WHOLE_TEXT if self.type == "int" else DECIMAL).fullmatch(text) is not None
        words = [word.strip() for word in text.split(",") if word.strip()]
        return not self.choices or all(map(self._is_choice, words if self.several else [text]))

    def _is_choice(self, word: str) -> bool:
        if self.any_case:
            return word.lower() in {choice.lower() for choice in self.choices}
        return word in self.choices


def _is_of(kind: str, value: Any) -> bool:
    if kind == "list":
        return isinstance(value, list)
    if kind == "map":
        return isinstance(value, dict)
    if isinstance(value, list | dict):
        return False
    if kind == "str":
        return isinstance(value, str)
    if kind == "bool":
        return value in (0, 1) if not isinstance(value, str) else value.lower() in SWITCHES
    if isinstance(value, str):
        return (WHOLE if kind == "int" else DECIMAL).fullmatch(value) is not None
    return kind == "float" or float(value).is_integer()
