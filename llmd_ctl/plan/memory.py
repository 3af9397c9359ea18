"""What a model takes of one device: bytes of weights and of activations; bytes of a KV entry.

What a request keeps in all is put together in `kept`. Called by `fit`, `kept` and `facts`. Pure.
"""

from __future__ import annotations

import math

from llmd_ctl.plan.records import Parallel
from llmd_ctl.profiles.cache import CacheGroup
from llmd_ctl.profiles.part import Part
from llmd_ctl.profiles.shape import DTYPE_BYTES, ModelShape

LOGIT_BYTES = 4  # logits are computed in fp32
# What engines call a KV dtype, and what it is.
KV_FORMATS = {
    "float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "bf16": "bf16",
    "fp8": "fp8", "fp8_e4m3": "fp8", "fp8_e5m2": "fp8", "fp8_inc": "fp8",
    "fp8_ds_mla": "fp8_ds_mla", "nvfp4_ds_mla": "nvfp4_ds_mla",
}  # fmt: skip
ELEMENT_BYTES = {**DTYPE_BYTES, "fp8": 1}
PACKED = "fp8_ds_mla"  # how an index and latents of 8 bits are kept together


def kv_format(shape: ModelShape, asked: str) -> str | None:
    """What a KV entry is made of; None for a dtype whose layout is not known of this model."""
    packed = {name for group in shape.cache for name in group.packed}
    if asked == "auto":
        compressed = any(group.every > 1 for group in shape.cache)
        return PACKED if compressed else shape.dtype  # compressed entries are packed by default
    found = KV_FORMATS.get(asked)
    if found == "fp8" and PACKED in packed:
        return PACKED
    return found if found in ELEMENT_BYTES or found in packed else None


def entry_bytes(group: CacheGroup, tensor: int, form: str) -> int:
    """Bytes that one layer of a group keeps of one token on one device."""
    if group.fixed:
        return group.fixed
    if form in group.packed:
        return group.packed[form]
    return heads_per_device(group.heads, tensor) * group.width * ELEMENT_BYTES[form]


def heads_per_device(heads: int, tensor: int) -> int:
    """KV heads that one device holds; above one per device they are replicated."""
    return max(1, heads // tensor)


def part_bytes(part: Part, tensor: int, ranks: int) -> float:
    """Bytes of a part on one device, over all stages. Data-parallel ranks share the experts."""
    if part.split == "none":
        return part.weight_bytes
    if part.split == "expert":
        return part.weight_bytes / (tensor * ranks)  # whole experts, or a slice of each
    if part.split == "kv":
        return part.weight_bytes * heads_per_device(part.kv_heads, tensor) / part.kv_heads
    return part.weight_bytes / tensor


def weight_bytes(shape: ModelShape, parallel: Parallel) -> int:
    """Bytes of weights on the device of the largest stage, with what is copied of them."""
    stage = math.ceil(shape.layers / parallel.pipeline) / shape.layers
    held = [
        (p, part_bytes(p, parallel.tensor, parallel.data) + p.copied_bytes / parallel.tensor)
        for p in shape.parts
    ]
    layers = sum(size for part, size in held if part.per_layer)
    once = [size for part, size in held if not part.per_layer]
    # The first stage embeds and the last one has the head; a single stage has both.
    ends = sum(once) if parallel.pipeline == 1 else max(once)
    return math.ceil(round(layers * stage + ends, 3))  # sums of fractions are not exact


def activation_bytes(shape: ModelShape, tensor: int, tokens: int, sequences: int) -> int:
    """Peak bytes of activations: a step's hidden states and widest layer, and all logits."""
    widest = 2 * shape.hidden + 2 * math.ceil(shape.intermediate / tensor)
    logits = sequences * shape.vocabulary * LOGIT_BYTES
    return tokens * widest * DTYPE_BYTES[shape.dtype] + logits
