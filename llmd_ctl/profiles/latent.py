"""Multi-head latent attention, and the index that chooses what a query reads of it (DSA).

Every layer keeps one latent for each token instead of keys and values; each device of tensor
parallelism has it whole. Called by `shape`. Source: vLLM 0.32.0, models/deepseek_v2.py and
layers/attention/mla_attention.py. Pure.
"""

from __future__ import annotations

from msgspec.structs import replace

from llmd_ctl.profiles.cache import CacheGroup
from llmd_ctl.profiles.layers import Mixer
from llmd_ctl.profiles.model import ConfigError
from llmd_ctl.profiles.recipe import Made, Recipe

# Bytes of a token where latent, positions and scales are packed into one row (flashmla_sparse.py).
PACKED = {"fp8_ds_mla": 656, "nvfp4_ds_mla": 352}
PACKED_WIDTH = 576  # the row is made for this latent alone
INDEX_SCALE_BYTES = 4  # of each 128 elements of 8 bits


def latent_attention(recipe: Recipe, layers: int, index_layers: int) -> Made:
    """Return the parts and the cache of `layers` layers, `index_layers` of which own an index."""
    config, hidden = recipe.config, recipe.hidden
    heads = config.count("num_attention_heads")
    rank, rope = config.count("kv_lora_rank"), config.count("qk_rope_head_dim")
    nope, value = config.count("qk_nope_head_dim"), config.count("v_head_dim")
    query = config.maybe("q_lora_rank")
    split, whole = recipe.matrices("attention"), recipe.matrices("attention")
    split.add(query or hidden, heads * (nope + rope))
    split.add(rank, heads * (nope + value)).add(heads * value, hidden)
    split.add(hidden, heads * value if recipe.says("latentGate") else 0)
    whole.add(hidden, query).add(hidden, rank + rope).plain(query + rank)
    kept = CacheGroup(
        keep="full",
        layers=layers,
        what="latent",
        width=rank + rope,
        packed=PACKED if index_layers and rank + rope == PACKED_WIDTH else {},
        reads=config.count("index_topk") if index_layers else 0,
        flops=2 * heads * (nope + rope + value),
    )
    # Decoding works with this matrix in another order, unpacked (`W_UK_T` and `W_UV`).
    copied = layers * rank * heads * (nope + value) * recipe.plain
    parts = [
        replace(split.part("attention", "even", layers), copied_bytes=copied),
        whole.part("latent", "none", layers),
    ]
    if not index_layers:
        return parts, [kept]
    index_parts, index_kept = _index(recipe, index_layers, query)
    return [*parts, *index_parts], [kept, *index_kept]


def _index(recipe: Recipe, layers: int, query: int) -> Made:
    config = recipe.config
    heads, width = config.count("index_n_heads"), config.count("index_head_dim")
    index = recipe.matrices("attention").add(query or recipe.hidden, heads * width)
    index.add(recipe.hidden, width).plain(recipe.hidden * heads + 2 * width)
    kept = CacheGroup(
        keep="full", layers=layers, what="indexer",
        fixed=index_bytes(width), flops=2 * heads * width,
    )  # fmt: skip
    return [index.part("indexer", "none", layers)], [kept]


def index_bytes(width: int) -> int:
    """Bytes of one key of an index: 8 bits an element, and its scales."""
    return width + width // 128 * INDEX_SCALE_BYTES


def index_layers_of(recipe: Recipe, mixers: list[Mixer]) -> int:
    """Return how many of the layers that attend own an index; the others share it."""
    attending = [n for n, kind in enumerate(mixers) if kind == "full"]
    if not recipe.config.maybe("index_topk"):
        return 0
    types = recipe.config.list("indexer_types")
    if not types:
        if recipe.config.get("index_topk_pattern") or recipe.config.maybe("index_topk_freq") > 1:
            raise ConfigError("LC2031", "an index shared without indexer_types is not built yet")
        return len(attending)
    if len(types) < len(mixers):
        raise ConfigError("LC2033", "indexer_types must speak of every layer")
    owners = len([n for n in attending if types[n] == "full"])
    if not owners:
        raise ConfigError("LC2033", "no layer of indexer_types owns an index")
    return owners
