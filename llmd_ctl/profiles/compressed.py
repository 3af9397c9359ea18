"""Attention over compressed tokens (DeepSeek V4): parts, and what its layers keep.

A layer of ratio r keeps one entry for r tokens, and all layers keep a window of plain tokens. While
an entry is being made, its tokens wait in a window of their own, in 32 bits. Layers of ratio 4 have
an index. Each device of tensor parallelism keeps all of it. Called by `shape`. Source: vLLM 0.32.0,
models/deepseek_v4/attention.py, compressor.py and nvidia/model.py. Pure.
"""

from __future__ import annotations

from collections import Counter

from llmd_ctl.profiles.cache import CacheGroup
from llmd_ctl.profiles.latent import index_bytes
from llmd_ctl.profiles.model import ConfigError
from llmd_ctl.profiles.part import Part
from llmd_ctl.profiles.recipe import Made, Recipe

ROW = {"fp8_ds_mla": 584}  # 448 of 8 bits, 64 of 16 bits, 8 of scale
OVERLAPPING = 4  # the ratio whose entries overlap, and which has an index
WAITING_BLOCK = {4: 4, 128: 8}  # tokens in a block of those that wait
WINDOW_BLOCK = 64


def compressed_attention(recipe: Recipe, layers: int) -> Made:
    """Return the parts and the cache of all layers."""
    ratios = _ratios(recipe, layers)
    parts = [*_attention(recipe, layers), *_connections(recipe, layers)]
    groups = [_window(recipe, layers)]
    for ratio, count in sorted(ratios.items()):
        made = _compressor(recipe, ratio, count)
        parts, groups = [*parts, *made[0]], [*groups, *made[1]]
    return parts, groups


def _ratios(recipe: Recipe, layers: int) -> Counter[int]:
    found = recipe.config.list("compress_ratios")
    if len(found) < layers:
        raise ConfigError("LC2033", "compress_ratios must speak of every layer")
    unknown = [ratio for ratio in found if ratio not in (0, 1, *WAITING_BLOCK)]
    if unknown:
        message = f"a layer that compresses {str(unknown[0])[:40]} tokens is not built yet"
        raise ConfigError("LC2031", message)
    return Counter(ratio for ratio in found[:layers] if ratio > 1)


def _attention(recipe: Recipe, layers: int) -> list[Part]:
    config, hidden = recipe.config, recipe.hidden
    heads, width = config.count("num_attention_heads"), config.count("head_dim")
    query, out, groups = (config.count(k) for k in ("q_lora_rank", "o_lora_rank", "o_groups"))
    split = recipe.matrices("attention").add(query, heads * width).add(heads * width, out)
    split.add(groups * out, hidden).plain(heads, 4)
    whole = recipe.matrices("attention").add(hidden, query + width).plain(query + width)
    return [split.part("attention", "even", layers), whole.part("latent", "none", layers)]


def _connections(recipe: Recipe, layers: int) -> list[Part]:
    """Hyper-connections: mixing weights of 32 bits around attention and feed-forward."""
    copies = recipe.config.maybe("hc_mult")
    mixing = (2 + copies) * copies
    each = recipe.matrices(None).plain(2 * (mixing * copies * recipe.hidden + mixing + 3), 4)
    table = recipe.config.count("vocab_size") * recipe.config.count("num_experts_per_tok")
    hashed = min(layers, recipe.config.maybe("num_hash_layers"))
    end = copies * copies * recipe.hidden + copies + 1 + table * hashed
    return [
        each.part("norms", "none", layers if copies else 0),
        Part("norms", end if copies else 0, 4 * end if copies else 0, "none", per_layer=False),
    ]


def _window(recipe: Recipe, layers: int) -> CacheGroup:
    config = recipe.config
    width = config.count("head_dim")
    return CacheGroup(
        keep="window", layers=layers, what="latent", width=width, packed=ROW,
        span=config.count("sliding_window"), block=WINDOW_BLOCK,
        flops=4 * config.count("num_attention_heads") * width,
    )  # fmt: skip


def _compressor(recipe: Recipe, ratio: int, layers: int) -> Made:
    config = recipe.config
    width, heads = config.count("head_dim"), config.count("num_attention_heads")
    indexed = ratio == OVERLAPPING
    kept = CacheGroup(
        keep="full", layers=layers, what="latent", width=width, packed=ROW, every=ratio,
        reads=config.count("index_topk") * ratio if indexed else 0, flops=4 * heads * width,
    )  # fmt: skip
    parts = [_compressing(recipe, ratio, width, layers)]
    groups = [kept, _waiting(ratio, width, layers)]
    if not indexed:
        return parts, groups
    count, index = config.count("index_n_heads"), config.count("index_head_dim")
    choosing = recipe.matrices("attention").add(config.count("q_lora_rank"), count * index)
    choosing.plain(recipe.hidden * count)
    keys = CacheGroup(
        keep="full", layers=layers, what="indexer", fixed=index_bytes(index),
        every=ratio, flops=2 * count * index,
    )  # fmt: skip
    parts += [
        choosing.part("indexer", "none", layers),
        _compressing(recipe, ratio, index, layers),
    ]
    return parts, [*groups, keys, _waiting(ratio, index, layers)]


def _copies(ratio: int) -> int:
    return 2 if ratio == OVERLAPPING else 1


def _compressing(recipe: Recipe, ratio: int, width: int, layers: int) -> Part:
    inner = _copies(ratio) * width
    made = recipe.matrices(None).add(recipe.hidden, inner, times=2).plain(width)
    return made.plain(ratio * inner, 4).part("latent", "none", layers)


def _waiting(ratio: int, width: int, layers: int) -> CacheGroup:
    """Values and scores of the tokens whose entry is not made yet, in 32 bits."""
    return CacheGroup(
        keep="window", layers=layers, what="compressor", fixed=2 * _copies(ratio) * width * 4,
        span=_copies(ratio) * ratio, block=WAITING_BLOCK[ratio],
    )  # fmt: skip
