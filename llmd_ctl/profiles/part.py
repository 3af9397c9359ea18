"""Weights that are split alike over devices, and how matrices add up to them.

`shape` puts a model together from these; `plan.memory` divides them. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from llmd_ctl.profiles.quantization import Linear

# How tensor parallelism splits a part: evenly over devices, by whole KV heads, by experts, or not.
Split = Literal["even", "kv", "expert", "none"]


@dataclass(frozen=True)
class Part:
    """Weights that are split alike. `per_layer`: spread over the layers, else there once."""

    name: Literal["embedding", "head", "attention", "kv", "mlp", "experts", "router", "norms"]
    parameters: int
    weight_bytes: float
    split: Split
    per_layer: bool = True


class Matrices:
    """Adds up matrices of one part of one layer: parameters, and bytes as they are stored."""

    def __init__(self, linear: Linear, plain: int, *, expert: bool = False) -> None:
        self.bytes_per_weight = linear.expert_bytes if expert else linear.bytes
        self.plain_bytes = plain
        self.parameters = 0
        self.bytes = 0.0

    def add(self, inputs: int, outputs: int, *, bias: bool, times: int = 1) -> Matrices:
        """Add `times` matrices of that size, packed as the model packs them, and their biases."""
        self.parameters += inputs * outputs * times
        self.bytes += inputs * outputs * times * self.bytes_per_weight
        return self.plain(outputs * times if bias else 0)

    def plain(self, parameters: int) -> Matrices:
        """Add parameters that are never quantised."""
        self.parameters += parameters
        self.bytes += parameters * self.plain_bytes
        return self

    def part(self, name: Any, split: Split, times: int) -> Part:
        """Return the part of `times` layers or experts that are all alike."""
        return Part(name, self.parameters * times, self.bytes * times, split)


def scaled(part: Part, scale: float) -> Part:
    """Return a part whose bytes are `scale` times as many."""
    return replace(part, weight_bytes=part.weight_bytes * scale)
