"""A figure in words: in the unit that reads shortest, or what follows where it is not known.

Called by `leaves` and `ci/reference.py`. It rounds to six digits and computes nothing else. Pure.
"""

from __future__ import annotations

from llmd_ctl.cli.explain.page import Fact
from llmd_ctl.profiles.number import Dimension, Number

UNKNOWN = "not known"


def figure(name: str, number: Number, dimension: Dimension | None) -> Fact:
    """Make the fact of a figure; one that is null says what follows."""
    if number.value is None:
        effect = dimension.null if dimension is not None else None
        return Fact(name, UNKNOWN, None, number.source, number.confidence, effect or "")
    text = shortest(number.value, dimension)
    value = int(number.value) if number.value.is_integer() else number.value
    return Fact(name, text, value, number.source, number.confidence)


def shortest(value: float, dimension: Dimension | None) -> str:
    """Return a value in the unit that needs the fewest characters; the largest of those."""
    units = dimension.units if dimension is not None else {}
    shown = [
        (len(_number(value / size)), -size, f"{_number(value / size)} {unit}")
        for unit, size in units.items()
        if value / size >= 1
    ]
    if shown:
        return min(shown)[2]
    first = next(iter(units), "")
    return f"{_number(value)} {first}".rstrip()


def _number(value: float) -> str:
    return f"{int(value)}" if value.is_integer() and abs(value) < 1e12 else f"{value:.6g}"
