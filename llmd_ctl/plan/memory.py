"""What a model takes of one device: bytes of weights, of KV for a token, of activations.

The formulas follow vLLM's `v1/kv_cache_interface.py`. Called by `fit` and `facts`. Pure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from llmd_ctl.plan.records import Parallel
from llmd_ctl.profiles.part import Part
from llmd_ctl.profiles.shape import DTYPE_BYTES, ModelShape

LOGIT_BYTES = 4  # logits are computed in fp32
KV_DTYPE_BYTES = {
    "float32": 4, "float16": 2, "bfloat16": 2,
    "fp8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1, "fp8_inc": 1,
}  # fmt: skip


@dataclass(frozen=True)
class KvBytes:
    """KV bytes on one device for each token of context."""

    full: float  # over layers that see the whole context
    window: float  # over sliding-window layers, for tokens inside the window


def kv_heads_per_device(shape: ModelShape, tensor: int) -> int:
    """KV heads that one device holds; above one per device they are replicated."""
    return max(1, shape.kv_heads // tensor)


def kv_element_bytes(shape: ModelShape, kv_dtype: str) -> int | None:
    """Bytes of one KV element; None for a dtype whose layout is not known here."""
    if kv_dtype == "auto":
        return DTYPE_BYTES[shape.dtype]
    return KV_DTYPE_BYTES.get(kv_dtype)


def kv_bytes(shape: ModelShape, parallel: Parallel, element_bytes: int, *, stages: int) -> KvBytes:
    """KV bytes a token. `stages`: cut into that many, the largest one; 1: over all layers."""
    heads = kv_heads_per_device(shape, parallel.tensor)
    layer = heads * 2 * shape.head_dim * element_bytes
    full, window = (math.ceil(n / stages) for n in (shape.full_layers, shape.window_layers))
    return KvBytes(full * layer, window * layer)


def window_tokens_per_request(shape: ModelShape, block_size: int) -> int:
    """Tokens of window KV that one request holds: its window in whole blocks, and one more."""
    if not shape.window_layers:
        return 0
    return (math.ceil(shape.window / block_size) + 1) * block_size


def part_bytes(part: Part, shape: ModelShape, tensor: int) -> float:
    """Bytes of a part on one device, over all stages."""
    if part.split == "none":
        return part.weight_bytes
    if part.split == "kv":
        return part.weight_bytes * kv_heads_per_device(shape, tensor) / shape.kv_heads
    return part.weight_bytes / tensor


def weight_bytes(shape: ModelShape, parallel: Parallel) -> int:
    """Bytes of weights on the device of the largest stage."""
    stage = math.ceil(shape.layers / parallel.pipeline) / shape.layers
    layers = sum(part_bytes(p, shape, parallel.tensor) for p in shape.parts if p.per_layer)
    once = [part_bytes(p, shape, parallel.tensor) for p in shape.parts if not p.per_layer]
    # The first stage embeds and the last one has the head; a single stage has both.
    ends = sum(once) if parallel.pipeline == 1 else max(once)
    return math.ceil(round(layers * stage + ends, 3))  # sums of fractions are not exact


def activation_bytes(shape: ModelShape, tensor: int, tokens: int, sequences: int) -> int:
    """Peak bytes of activations: a step's hidden states and widest layer, and all logits."""
    widest = 2 * shape.hidden + 2 * math.ceil(shape.intermediate / tensor)
    logits = sequences * shape.vocabulary * LOGIT_BYTES
    return tokens * widest * DTYPE_BYTES[shape.dtype] + logits
