"""What the rules of engines ask of a model: of which class it is, its heads, how it is stored.

Part of a `ModelShape`, made by `shape`. The words are those of the engines: `quantization` is the
method that a config.json names, and a model has one class, by the kind of its attention. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from llmd_ctl.profiles.attention import heads_of
from llmd_ctl.profiles.backend import ModelClass
from llmd_ctl.profiles.cache import CacheGroup
from llmd_ctl.profiles.config import Config
from llmd_ctl.profiles.layers import Mixer
from llmd_ctl.profiles.recipe import Recipe

# Keys that count layers which only speculative decoding loads.
DRAFTS = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules")
WHOLE_IMAGES = ("gemma3", "paligemma")
TOWERS = ("vision_config", "vision_encoder", "audio_config")


class Traits(Struct, frozen=True):
    """What rules ask of a model beside its numbers."""

    kind: ModelClass
    queries: tuple[int, ...]  # heads of attention, of each kind of layer
    head_sizes: tuple[int, ...]  # of keys, as kernels see them; a latent is one wide head
    quantization: str = ""  # the method of quantization_config; empty: weights are plain
    in_blocks: bool = False  # packed weights have a scale for each block of a matrix
    multimodal: bool = False
    images_see_whole: bool = False  # tokens of one image attend both ways
    drafts: bool = False  # it has layers that draft tokens


def traits_of(
    recipe: Recipe, whole: Config, mixers: Sequence[Mixer], cache: Sequence[CacheGroup]
) -> Traits:
    """Return the traits of a model."""
    packed = recipe.config.map("quantization_config") or recipe.config.map("compression_config")
    attention = str(recipe.traits.get("attention", ""))
    kinds = [kind for kind in dict.fromkeys(mixers) if kind in {"full", "window", "chunk"}]
    if attention:
        latent = recipe.config.maybe("kv_lora_rank") + recipe.config.maybe("qk_rope_head_dim")
        sizes: tuple[int, ...] = (latent or recipe.config.maybe("head_dim"),)
        queries: tuple[int, ...] = (recipe.config.count("num_attention_heads"),)
    else:
        heads = [heads_of(recipe, kind) for kind in kinds]
        sizes = tuple(dict.fromkeys(each.key_width for each in heads))
        queries = tuple(dict.fromkeys(each.queries for each in heads))
    return Traits(
        kind=_kind(recipe, attention, cache),
        queries=queries,
        head_sizes=sizes,
        quantization=str(packed.get("quant_method", "")).lower(),
        in_blocks=_in_blocks(packed),
        multimodal=any(whole.map(key) for key in TOWERS),
        images_see_whole=_images_see_whole(recipe, whole),
        drafts=any(recipe.config.maybe(key) for key in DRAFTS),
    )


def _in_blocks(packed: Mapping[str, Any]) -> bool:
    groups = packed.get("config_groups")
    listed = groups.values() if isinstance(groups, Mapping) else ()
    inner = [group.get("weights") for group in listed if isinstance(group, Mapping)]
    blocks = (each.get("block_structure") for each in inner if isinstance(each, Mapping))
    return bool(packed.get("weight_block_size")) or any(blocks)


def _images_see_whole(recipe: Recipe, whole: Config) -> bool:
    """As vLLM 0.32.0 tells it (transformers_utils/model_arch_config_convertor.py)."""
    if recipe.config.get("use_bidirectional_attention") == "vision":
        return True
    return whole.get("model_type") in WHOLE_IMAGES and bool(whole.map("vision_config"))


def _kind(recipe: Recipe, attention: str, cache: Sequence[CacheGroup]) -> ModelClass:
    if any(group.keep == "state" for group in cache):
        return "hybrid"
    if attention == "compressed":
        return "deepseek-v4"
    if attention == "latent":
        return "dsa" if any(group.what == "indexer" for group in cache) else "mla"
    return "sinks" if recipe.says("sinks") or recipe.says("windowSinks") else "dense"
