"""What one device keeps for requests: bytes a token, and bytes a request whatever its length.

The rules are those of vLLM 0.32.0 (v1/kv_cache_interface.py, v1/core/kv_cache_utils.py and
`_align_hybrid_block_size` of platforms/interface.py). Its blocks are all of one size: kinds of
layers are cut into groups of equally many layers, the last one filled up, and a state takes a whole
block, which is made long enough for it. Groups of compressed attention are packed by another rule;
what that leaves empty is not counted. Called by `fit` and `facts`. Pure.
"""

from __future__ import annotations

import math
import sys
from collections import Counter

from msgspec import Struct

from llmd_ctl.plan.memory import entry_bytes
from llmd_ctl.profiles.cache import CacheGroup
from llmd_ctl.profiles.shape import ModelShape

NEARLY_ALIKE = 1.5  # kinds whose counts differ less are filled up to the larger one
LEAST_BLOCK = 16  # tokens; every attention backend takes a multiple of it
LEAST_LATENT_BLOCK = 128  # where latents stand beside states
STATES_WITH_PREFIXES = 2  # blocks of state a request holds where prefixes are kept (mode align)


class Kept(Struct, frozen=True):
    """Bytes on one device."""

    token: float  # for each token of context
    near_token: float  # for each token that windows and chunks hold
    near_request: float  # of windows and chunks of one request at rest
    state_request: float  # of one request
    block_size: int  # tokens of a block, as the engine makes it
    state_block: float = 0.0  # one state in all layers; kept for each cached block of a prefix


class Keeping(Struct, frozen=True):
    """How an engine keeps it."""

    tensor: int
    form: str  # of KV entries, as `memory.kv_format` says
    block_size: int
    max_model_len: int
    stages: int = 1
    prefixes: bool = False  # whether prefixes stay to be found again
    windows_whole: bool = False  # windows keep what they have left behind


def kept(shape: ModelShape, how: Keeping) -> Kept:
    """Return what the device of the largest stage keeps; `stages` 1: all layers."""
    padded = _padded(shape.cache) if _paged(how) else {}
    block = _block(shape, how)
    largest = max((_entry(g, how) for g in shape.cache if g.what in _MAIN), default=0)
    token = near = near_request = state = state_block = 0.0
    for group in shape.cache:
        layers = math.ceil(round(group.layers * padded.get(group.keep, 1.0), 6) / how.stages)
        entry = _entry(group, how)
        if group.state is not None:
            page = max(group.state.bytes(how.tensor), block * largest if _paged(how) else 0)
            state_block += layers * page
            state += layers * page * (STATES_WITH_PREFIXES if how.prefixes else 1)
        elif group.keep == "full" or how.windows_whole:
            token += layers * entry / group.every
        else:
            entry, own = _own_block(group, entry, largest, block)
            near += layers * entry
            near_request += layers * entry * _near_tokens(group, own, how.max_model_len)
    return Kept(token, near, near_request, state, block, state_block)


def most_requests(shape: ModelShape, how: Keeping, free_bytes: int) -> int:
    """Return how many requests, however short, find room: a state and one block for each."""
    if all(group.state is None for group in shape.cache):
        return sys.maxsize
    keep = kept(shape, how)
    if not keep.state_block:
        return sys.maxsize
    return max(1, int(free_bytes // (keep.state_block + keep.block_size * keep.token)))


_MAIN = ("attention", "latent")


def _entry(group: CacheGroup, how: Keeping) -> int:
    return 0 if group.state is not None else entry_bytes(group, how.tensor, how.form)


def _paged(how: Keeping) -> bool:
    return how.block_size > 1


def _block(shape: ModelShape, how: Keeping) -> int:
    """Tokens of a block: as told, or as long as a state needs."""
    states = [g.state.bytes(how.tensor) for g in shape.cache if g.state is not None]
    if not states or not _paged(how):
        return how.block_size
    entries = [_entry(g, how) for g in shape.cache if g.keep == "full" and g.what in _MAIN]
    if not entries:
        return how.block_size
    latent = any(group.what == "latent" for group in shape.cache)
    step = max(LEAST_LATENT_BLOCK if latent else LEAST_BLOCK, how.block_size)
    return max(how.block_size, step * math.ceil(max(states) / (step * max(entries))))


def _padded(cache: tuple[CacheGroup, ...]) -> dict[str, float]:
    """Return by how much the layers of a kind grow, where kinds share blocks of one size."""
    if len({group.keep for group in cache}) < 2:
        return {}
    counts: Counter[str] = Counter()
    for group in cache:
        if group.what in _MAIN or group.state is not None:
            counts[group.keep] += group.layers
    if len(counts) < 2 or any(group.every > 1 for group in cache):
        return {}
    least, most = min(counts.values()), max(counts.values())
    size = most if most < NEARLY_ALIKE * least else least
    return {keep: size * math.ceil(count / size) / count for keep, count in counts.items()}


def _own_block(group: CacheGroup, entry: int, largest: int, block: int) -> tuple[int, int]:
    """Return the bytes of an entry and the tokens of a block, made as large as the largest."""
    if group.block:
        return entry, group.block
    if not entry or largest % entry:
        return max(entry, largest), block
    return entry, block * (largest // entry)


def _near_tokens(group: CacheGroup, block: int, longest: int) -> int:
    """Tokens of a window or chunk that a request holds at rest, in whole blocks."""
    blocks = math.ceil(min(group.span, longest) / block)
    # A window may begin within a block; a chunk begins with one.
    return (blocks + (1 if group.keep == "window" else 0)) * block
