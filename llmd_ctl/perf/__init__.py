"""How fast one replica is: the Python face of the crate `llmd-perf`.

Called by `plan`, which fills in `ReplicaFacts` from profiles. Every formula is in Rust, where
the router and the simulated engine use the same ones; this package converts and nothing else.
Times are microseconds, rates are tokens or requests a second, and all of them already include
`speed`, the factor by which a simulated replica is slowed down.

- `facts`: the record that goes down to Rust
- here: one function for each formula; facts that no replica can have are a `ValueError`
"""

from __future__ import annotations

from msgspec import Struct

from llmd_ctl import _native
from llmd_ctl.perf.facts import Confidence, ReplicaFacts

__all__ = [
    "Capacity",
    "Confidence",
    "ReplicaFacts",
    "capacity",
    "check",
    "itl_us",
    "prefill_tokens_per_second",
    "prefill_us",
    "request_us",
]


class Capacity(Struct, frozen=True):
    """What a replica whose slots are always taken carries, under one kind of request.

    `batch` sequences decode at once with `itl_us` microseconds between two tokens. The prefill
    rate is that of an otherwise idle replica, the decode rate that of `batch` with no prompts
    beside it; requests and tokens a second are of both together. All zero: none fits.
    """

    batch: int
    itl_us: float
    prefill_tokens_per_second: float
    decode_tokens_per_second: float
    requests_per_second: float
    tokens_per_second: float


def check(facts: ReplicaFacts) -> None:
    """Raise ValueError, with the fact's name, for what no replica can have."""
    _native.check_facts(facts.json_text)


def capacity(
    facts: ReplicaFacts, prompt_tokens: int, output_tokens: int, itl_us_max: float | None = None
) -> Capacity:
    """Return the steady state under requests of that size.

    `itl_us_max` is the promised time between tokens; it limits the batch, though never below 1.
    """
    return Capacity(**_native.capacity(facts.json_text, prompt_tokens, output_tokens, itl_us_max))


def itl_us(facts: ReplicaFacts, batch: int, context_tokens: int) -> float:
    """Return the time between two tokens of `batch` sequences with that context in all."""
    return _native.itl_us(facts.json_text, batch, context_tokens)


def prefill_us(
    facts: ReplicaFacts, tokens: int, past: int = 0, batch: int = 0, context_tokens: int = 0
) -> float:
    """Return the time to compute `tokens` prompt tokens behind `past` cached ones.

    `batch` sequences with `context_tokens` of context in all decode beside it.
    """
    return _native.prefill_us(facts.json_text, tokens, past, batch, context_tokens)


def prefill_tokens_per_second(
    facts: ReplicaFacts, batch: int = 0, context_tokens: int = 0
) -> float:
    """Return the rate of fresh prompts in full chunks, beside a batch that decodes."""
    return _native.prefill_tokens_per_second(facts.json_text, batch, context_tokens)


def request_us(facts: ReplicaFacts) -> float:
    """Return the time between a request's arrival and the first step that can hold it."""
    return _native.request_us(facts.json_text)
