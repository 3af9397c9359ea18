"""Attention with keys and values of their own heads: parts, and what their layers keep.

One kind of layer at a time (full, window, chunk): a family may have other heads and widths in each
kind, keys wider than values, keys that are the values too, a gate, sinks, or an index that chooses
what a query reads. Called by `shape`. Pure.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from llmd_ctl.profiles.cache import CacheGroup
from llmd_ctl.profiles.layers import CHUNK, Mixer
from llmd_ctl.profiles.model import ConfigError
from llmd_ctl.profiles.recipe import Made, Recipe


class Heads(Struct, frozen=True):
    """The heads of one kind of layer."""

    queries: int
    keys: int
    key_width: int
    value_width: int


def heads_of(recipe: Recipe, kind: Mixer) -> Heads:
    """Return the heads of a kind: those of the model, but for what the family says of the kind."""
    config = recipe.config
    own: dict[str, Any] = recipe.traits.get(f"{kind}Heads", {})

    def value(name: str, key: str, default: int | None) -> int:
        said = config.get(own[name]) if name in own else None
        return config.count(key, default) if said is None else config.count(own[name])

    queries = value("heads", "num_attention_heads", None)
    width = value("width", "head_dim", max(1, recipe.hidden // queries))
    heads = Heads(
        queries=queries,
        keys=value("kvHeads", recipe.key("kvHeads", "num_key_value_heads"), queries),
        key_width=width,
        value_width=value("valueWidth", "v_head_dim", width),
    )
    if heads.queries % heads.keys:
        raise ConfigError(
            "LC2033",
            f"num_key_value_heads {heads.keys} does not divide num_attention_heads {queries}",
        )
    return heads


def attention(recipe: Recipe, kind: Mixer, layers: int) -> Made:
    """Return the parts and the cache of `layers` layers of a kind."""
    heads = heads_of(recipe, kind)
    group = CacheGroup(
        keep="window" if kind == "window" else "chunk" if kind == "chunk" else "full",
        layers=layers,
        what="attention",
        heads=heads.keys,
        width=heads.key_width + heads.value_width,
        span=_span(recipe, kind),
        flops=2 * heads.queries * (heads.key_width + heads.value_width),
    )
    query, keys = _matrices(recipe, kind, heads)
    parts = [
        query.part("attention", "even", layers),
        keys.part("kv", "kv", layers, kv_heads=heads.keys),
    ]
    return parts, [group]


def _matrices(recipe: Recipe, kind: Mixer, heads: Heads) -> Any:
    hidden, biased = recipe.hidden, recipe.says("qkvBias")
    query, key = heads.queries * heads.key_width, heads.keys * heads.key_width
    first = recipe.matrices("attention")
    first.add(hidden, query, bias=biased, times=2 if recipe.says("outputGate") else 1)
    first.add(heads.queries * heads.value_width, hidden, bias=recipe.says("outputBias"))
    first.add(hidden, heads.queries if recipe.says("headGate") else 0)
    sinks = recipe.says("sinks") or (kind == "window" and recipe.says("windowSinks"))
    first.plain(heads.queries if sinks else 0)
    second = recipe.matrices("attention").add(hidden, key, bias=biased)
    if not (kind == "full" and recipe.says("keysAreValues")):
        second.add(hidden, heads.keys * heads.value_width, bias=biased)
    return first, second


def head_norms(recipe: Recipe, kind: Mixer) -> int:
    """Return the parameters of norms on queries and keys in one layer."""
    heads = heads_of(recipe, kind)
    if recipe.says("qkNormAllHeads"):
        return (heads.queries + heads.keys) * heads.key_width
    return 2 * heads.key_width if recipe.says("qkNorm") else 0


def _span(recipe: Recipe, kind: Mixer) -> int:
    if kind == "window":
        return recipe.config.count(recipe.key("windowTokens", "sliding_window"))
    return recipe.config.count(CHUNK) if kind == "chunk" else 0


# --- an index that chooses blocks of keys ---


def block_index(recipe: Recipe, layers: int) -> Made:
    """Return the index of layers that read only the best blocks of keys (MiniMax M3).

    Source: vLLM 0.32.0, models/minimax_m3/common/indexer.py: one key of 16 bits a token and layer.
    """
    config = recipe.config.inner("sparse_attention_config")
    width, heads = config.count("sparse_index_dim"), config.count("sparse_num_index_heads")
    index = recipe.matrices("attention").add(recipe.hidden, (heads + 1) * width)
    index.plain(2 * width)
    kept = CacheGroup(
        keep="full", layers=layers, what="indexer", fixed=2 * width, flops=2 * heads * width
    )
    return [index.part("indexer", "none", layers)], [kept]
