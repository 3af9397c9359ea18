"""A figure of a profile, {value, unit, source, confidence}, against its dimension.

Called by `document` for every figure of a user's file. Each fault is placed, and its hint writes
the figure as it should be, with what was written of it. It knows no figure by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from llmd_ctl.profiles.number import RANK, Dimension
from llmd_ctl.spec.kinds import TEXT
from llmd_ctl.spec.nodes import Node, Path
from llmd_ctl.spec.source import dotted

if TYPE_CHECKING:
    from llmd_ctl.profiles.document import Checker

KEYS = ("value", "unit", "source", "confidence")


def check_figure(checker: Checker, figure: Dimension, node: Node, path: Path) -> None:
    """Add a problem for each thing that makes the value at `path` no such figure."""
    _Figure(checker, figure, node, path).check()


def scaled(value: float, factor: float) -> float:
    """Multiply; a whole number of bytes stays whole whatever it was written in."""
    product = value * factor
    nearest = round(product) if abs(product) < 2**53 else product
    return float(nearest) if abs(product - nearest) < 1e-6 * max(1.0, abs(product)) else product


class _Figure(Struct, frozen=True):
    checker: Checker
    figure: Dimension
    node: Node
    path: Path

    def check(self) -> None:
        if not isinstance(self.node.value, dict):
            message = f"{dotted(self.path)} must be a figure with its source"
            self._say("LC2005", message, self.path, self.node)
            return
        for key in self.node.value:
            if key not in KEYS:
                self.checker.unknown(key, KEYS, self.path)
        for key in ("source", "unit"):
            child = self.node.get(key)
            if child is not None and not isinstance(child.value, str):
                self.checker.wrong_kind(TEXT, child, (*self.path, key))
        confidence = self.node.get("confidence")
        if confidence is not None:
            self.checker.word(tuple(RANK), confidence, (*self.path, "confidence"))
        self._check_value(self.node.get("value"))

    def _check_value(self, value: Node | None) -> None:
        name, at = dotted(self.path), (*self.path, "value")
        if value is None:
            self._say("LC2003", f'the key "value" is missing in {name}', self.path)
        elif value.value is None:
            if self.figure.null is None:
                self._say("LC2005", f"{name} must be known", at, value)
        elif isinstance(value.value, bool) or not isinstance(value.value, int | float):
            self._say("LC2004", f"{dotted(at)} must be a number", at, value)
        else:
            factor = self._factor(value)
            if factor is not None and not self._is_possible(value.value, factor):
                self.checker.say(
                    "LC2006", f"{name} is no possible {self.figure.name}", at,
                    found=value.describe(), allowed=(self.figure.range,),
                )  # fmt: skip

    def _is_possible(self, number: float, factor: float) -> bool:
        """Whole numbers have no bound in YAML: one that cannot be computed with is none."""
        return abs(number) < 1e300 and self.figure.allows(scaled(number, factor))

    def _factor(self, value: Node) -> float | None:
        """Return what the value is multiplied by; None when that cannot be told."""
        units = self.figure.units
        unit = self.node.text("unit")
        if unit is None:
            if units:
                message = f"{dotted(self.path)} does not say its unit"
                self._say("LC2005", message, self.path, value)
            return None if units else 1.0
        if unit not in units:
            message = f"a {self.figure.name} is not measured in {unit}"
            self._say("LC2005", message, (*self.path, "unit"), value, unit)
        return units.get(unit)

    def _say(
        self, code: str, message: str, at: Path, node: Node | None = None, unit: str = ""
    ) -> None:
        """Add a problem whose hint writes the figure with the number and unit that were said."""
        written = node.written if node is not None and node.value is not None else ""
        known = self.figure.written(str(self.path[-1]), f"{written} {unit}")
        found = unit or (None if node is None else node.describe())
        self.checker.say(
            code, message, at,
            found=found, allowed=tuple(self.figure.units), hint=f"Write {known}.",
        )  # fmt: skip
