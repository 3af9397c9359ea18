"""The facts of one replica, as they go down to Rust.

Filled in by `plan` from profiles, read by `llmd-perf` and everything on it. The fields are
those of `ReplicaFacts` in the crate `llmd-types` (a test holds the two together); in JSON
they are camelCase. "Device" is one GPU, chip or card: tensor parallelism N has N of them.
No formula stands here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache, cached_property
from typing import Any, Literal, Self

from msgspec import Struct

Confidence = Literal["high", "medium", "low"]


class ReplicaFacts(Struct, frozen=True, kw_only=True, dict=True):
    """Everything `llmd-perf` needs to know of one replica."""

    speed: float
    """Simulation only: engine time over wall time. 1 is real speed, 0.1 ten times slower."""

    weight_bytes: float
    """Bytes of weights that one device reads in every step (experts apart)."""
    expert_bytes: float = 0.0
    """Bytes of all experts' weights on one device; 0 for a dense model."""
    experts: int = 0
    """Experts in a layer; 0 for a dense model."""
    experts_per_token: int = 0
    """Experts that one token visits in a layer."""
    flops_per_token: float
    """FLOPs of matrix multiplication for one token on one device."""
    attention_flops_per_pair: float
    """FLOPs for one query-key pair on one device, over the layers of full attention."""
    window_attention_flops_per_pair: float = 0.0
    """The same over the layers of sliding-window attention."""
    window_tokens: int = 0
    """The sliding window in tokens; 0 where the model has none."""
    kv_bytes_per_token: float
    """KV bytes that one device reads in a step for each token of context (full attention)."""
    window_kv_bytes_per_token: float = 0.0
    """The same for each token inside the sliding window."""

    weight_bandwidth: float
    """Achieved bytes/s when a device reads weights."""
    kv_bandwidth: float
    """Achieved bytes/s when a device reads KV."""
    gemm_flops: float
    """Achieved FLOP/s of large matrix multiplications on a device."""
    gemm_half_tokens: float
    """Tokens in a step at which half of `gemm_flops` is reached."""
    attention_flops: float
    """Achieved FLOP/s of prefill attention on a device."""

    step_us: float
    """Fixed microseconds a step costs (engine CPU, launches, floors of collectives)."""
    sequence_us: float
    """Microseconds a step costs more for each sequence in it."""
    token_us: float
    """Microseconds a step costs more for each token in it (bytes of collectives)."""
    request_us: float
    """Microseconds between a request's arrival and its first step (HTTP, tokenizer)."""

    max_batched_tokens: int
    """Most tokens that one step takes in."""
    max_sequences: int
    """Most sequences in one step."""
    kv_tokens: int
    """Tokens of KV space in the whole replica."""
    block_size: int
    """Tokens in a block of KV."""
    max_model_len: int
    """Longest prompt plus answer."""
    prefix_caching: bool
    """Whether finished prefixes stay in the KV space to be found again."""

    confidence: Confidence
    """How far to trust the speeds; it bounds what the scheduler may learn against them."""
    price_per_hour: float | None = None
    """Price of the whole replica for an hour, where one is known."""

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form that plans, router.yaml and engine.json carry."""
        return {key: getattr(self, name) for key, name in _names().items()}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote; an unknown or missing key is a ValueError."""
        names = _names()
        unknown = sorted(document.keys() - names.keys())
        if unknown:
            raise ValueError(f"replica facts: unknown key {unknown[0]!r}")
        try:
            return cls(**{names[key]: value for key, value in document.items()})
        except TypeError as error:
            raise ValueError(f"replica facts: {error}") from error

    @cached_property
    def json_text(self) -> str:
        """The JSON form as text, made once."""
        return json.dumps(self.to_json())


@cache
def _names() -> Mapping[str, str]:
    """The fields' names by their keys in JSON. All are scalars: there is nothing to copy."""
    return {_camel(name): name for name in ReplicaFacts.__struct_fields__}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
