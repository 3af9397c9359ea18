"""Bytes that one weight of a large matrix takes, by the `quantization_config` of a config.json.

Called by `shape`. Embeddings, norms, routers and biases stay as they are; only linear layers are
packed. A method whose packing is not known is refused with the way out: the bytes as a figure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from llmd_ctl.profiles.model import ConfigError

SCALE_BYTES = 2  # of a group's scale, as a 16-bit float
MXFP4_BYTES = 17 / 32  # 32 weights of 4 bits share a scale of 8 bits (OCP Microscaling format)


@dataclass(frozen=True)
class Linear:
    """How the weights of linear layers, and those of experts, are stored."""

    dtype: str
    bytes: float
    expert_bytes: float


def linear_weights(packed: Mapping[str, Any], plain_bytes: int, dtype: str) -> Linear:
    """Return how linear layers are stored; `packed` is empty where weights are plain."""
    if not packed:
        return Linear(dtype, plain_bytes, plain_bytes)
    method = str(packed.get("quant_method", "")).lower()
    if method == "mxfp4":
        return Linear("mxfp4", plain_bytes, MXFP4_BYTES)
    if method == "fp8":
        return _even("fp8", 1 + _block_scale(packed.get("weight_block_size")))
    if method in {"gptq", "awq"}:
        bits, group = _whole(packed, "bits"), _whole(packed, "group_size")
        return _even(f"int{bits}", bits / 8 + (SCALE_BYTES + bits / 8) / group)
    if method == "compressed-tensors":
        return _compressed(packed)
    raise _not_yet(method)


def _even(dtype: str, per_weight: float) -> Linear:
    return Linear(dtype, per_weight, per_weight)


def _block_scale(block: Any) -> float:
    """Return the bytes per weight of scales, one 32-bit float for each block of a matrix."""
    known = isinstance(block, list) and len(block) == 2 and all(_positive(side) for side in block)
    return 4 / (block[0] * block[1]) if known else 0.0


def _compressed(packed: Mapping[str, Any]) -> Linear:
    found = packed.get("config_groups")
    groups = list(found.values()) if isinstance(found, Mapping) else []
    weights = [group.get("weights") for group in groups if isinstance(group, Mapping)]
    if len(weights) != 1 or not isinstance(weights[0], Mapping):
        raise _not_yet("compressed-tensors with several groups")
    bits = _whole(weights[0], "num_bits")
    kind = "fp8" if weights[0].get("type") == "float" and bits == 8 else f"int{bits}"
    group = weights[0].get("group_size")
    scale = (
        SCALE_BYTES / group if isinstance(group, int) and group > 0 else 0.0
    )  # else one scale a channel
    return _even(kind, bits / 8 + scale)


def _whole(packed: Mapping[str, Any], key: str) -> int:
    value: Any = packed.get(key)
    if not _positive(value):
        raise _not_yet(f"{packed.get('quant_method', 'a method')} without a positive {key}")
    return int(value)


def _positive(value: Any) -> bool:
    return type(value) is int and value > 0


def _not_yet(what: str) -> ConfigError:
    return ConfigError(
        "LC2031",
        f"how much weights quantised by {what or 'an unnamed method'} take is not built yet",
        found=what,
        hint="Give a ModelProfile with weightBytes, the size of the model's weight files.",
    )
