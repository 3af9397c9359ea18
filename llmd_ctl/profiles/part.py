"""Weights that are split alike over devices, and how matrices add up to them.

`shape` puts a model together from these; `plan.memory` divides them. Pure.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

# How tensor parallelism splits a part: evenly over devices, by whole KV heads, by experts, or not.
Split = Literal["even", "kv", "expert", "none"]
Name = Literal[
    "embedding", "head", "attention", "kv", "latent", "mixer", "indexer", "mlp", "shared",
    "experts", "router", "norms", "tower",
]  # fmt: skip


class Part(Struct, frozen=True):
    """Weights that are split alike. `per_layer`: spread over the layers, else there once."""

    name: Name
    parameters: int
    weight_bytes: float
    split: Split
    per_layer: bool = True
    kv_heads: int = 0  # those that a part of split "kv" is made of
    copied_bytes: float = 0.0  # that an engine makes of it at its start, and keeps besides


class Matrices:
    """Adds up matrices of one part of one layer: parameters, and bytes as they are stored."""

    def __init__(self, bytes_per_weight: float, plain: int) -> None:
        self.bytes_per_weight = bytes_per_weight
        self.plain_bytes = plain
        self.parameters = 0
        self.bytes = 0.0

    def add(self, inputs: int, outputs: int, *, bias: bool = False, times: int = 1) -> Matrices:
        """Add `times` matrices of that size, packed as the model packs them, and their biases."""
        self.parameters += inputs * outputs * times
        self.bytes += inputs * outputs * times * self.bytes_per_weight
        return self.plain(outputs * times if bias else 0)

    def plain(self, parameters: int, size: int = 0) -> Matrices:
        """Add parameters that are never quantised; `size`: bytes of each, where not the model's."""
        self.parameters += parameters
        self.bytes += parameters * (size or self.plain_bytes)
        return self

    def part(self, name: Name, split: Split, times: int, *, kv_heads: int = 0) -> Part:
        """Return the part of `times` layers or experts that are all alike."""
        return Part(name, self.parameters * times, self.bytes * times, split, kv_heads=kv_heads)


def scaled(part: Part, scale: float) -> Part:
    """Return a part whose bytes are `scale` times as many."""
    return replace(part, weight_bytes=part.weight_bytes * scale)
