"""A model's config.json as numbers: parameters part by part, and what it keeps for each request.

Called by `plan`. What differs between families is data (`models/families.yaml`); what kinds of
layers are made of stands in `attention`, `latent`, `compressed`, `recurrent` and `feed_forward`. A
model with a kind that is not known is refused: numbers computed as if it were another kind would be
wrong. Pure: it gets the content of a config.json and reads no file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from llmd_ctl.profiles.attention import Heads, attention, block_index, head_norms, heads_of
from llmd_ctl.profiles.cache import CacheGroup
from llmd_ctl.profiles.compressed import compressed_attention
from llmd_ctl.profiles.config import Config, told
from llmd_ctl.profiles.context_length import max_positions, rope_of
from llmd_ctl.profiles.feed_forward import Feeds, feed_forward
from llmd_ctl.profiles.latent import index_layers_of, latent_attention
from llmd_ctl.profiles.layers import Mixer, layers_of, roles_of
from llmd_ctl.profiles.model import ConfigError
from llmd_ctl.profiles.part import Part, scaled
from llmd_ctl.profiles.quantization import packing_of, with_experts
from llmd_ctl.profiles.recipe import Made, Recipe, Sayings
from llmd_ctl.profiles.recurrent import recurrent
from llmd_ctl.profiles.tower import tower
from llmd_ctl.profiles.traits import DRAFTS, Traits, traits_of

DTYPES = {
    "float32": "fp32", "float": "fp32", "bfloat16": "bf16", "float16": "fp16", "half": "fp16",
}  # fmt: skip
DTYPE_BYTES = {"fp32": 4, "bf16": 2, "fp16": 2}
TEXT = "text_config"
RESIDUAL_NORMS = 4  # a norm and a row of weights, around mixing and around feeding forward


class ModelShape(Struct, frozen=True):
    """What the formulas of a plan need to know of a model."""

    family: str
    layers: int
    hidden: int
    intermediate: int  # width of the widest feed-forward layer that one token passes
    dense_width: int  # of feed-forward layers that are no experts; 0: there are none
    heads: tuple[int, ...]  # of attention, and of states: each must divide evenly
    kv_heads: tuple[int, ...]  # of each kind of layer that has keys of its own
    vocabulary: int
    positions: int  # max_position_embeddings as the config says it
    max_positions: int  # the longest context, with rope scaling where vLLM counts it
    rope_type: str  # "default" without rope scaling
    experts: int
    experts_per_token: int
    dtype: str  # bf16, fp16 or fp32: what is computed with, and the KV where nothing is said
    weight_dtype: str  # of the large matrices; also fp8, int8, int4, mxfp4, nvfp4
    parts: tuple[Part, ...]
    cache: tuple[CacheGroup, ...]
    traits: Traits
    notes: tuple[str, ...] = ()  # what is not counted, or only nearly

    @property
    def parameters(self) -> int:
        """All parameters."""
        return sum(part.parameters for part in self.parts)

    @property
    def weight_bytes(self) -> float:
        """The bytes of all weights."""
        return sum(part.weight_bytes for part in self.parts)

    @property
    def window_layers(self) -> int:
        """Layers of attention that see only a window or a chunk."""
        near = (g for g in self.cache if g.keep in {"window", "chunk"} and g.what == "attention")
        return sum(group.layers for group in near)

    @property
    def full_layers(self) -> int:
        """Layers of attention that see the whole context."""
        whole = (g for g in self.cache if g.keep == "full" and g.what in {"attention", "latent"})
        return sum(group.layers for group in whole)

    @property
    def window(self) -> int:
        """The widest window or chunk in tokens; 0 without one."""
        return max((group.span for group in self.cache), default=0)


def read_shape(
    config: Mapping[str, Any],
    families: Mapping[str, Any],
    *,
    dtype: str | None = None,
    weight_bytes: float | None = None,
) -> ModelShape:
    """Return the shape of a model. `dtype` and `weight_bytes` overrule what the config says."""
    shape = _Reader(config, families, dtype).shape()
    if weight_bytes is None:
        return shape
    scale = weight_bytes / shape.weight_bytes
    return replace(shape, parts=tuple(scaled(part, scale) for part in shape.parts))


class _Reader:
    def __init__(
        self, config: Mapping[str, Any], families: Mapping[str, Any], dtype: str | None
    ) -> None:
        self.whole = Config(config)
        text = self.whole.map(TEXT)
        self.config = Config({**_shared(config), **text} if text else config)
        self.family = self._family(families["families"])
        traits = families["families"][self.family]
        if isinstance(traits, str):
            traits = families["families"][traits]
        self._refuse_special(families["special"], traits.get("knows", ()))
        self.dtype = dtype or self._dtype()
        plain = DTYPE_BYTES[self.dtype]
        self.mixers, self.kinds = layers_of(Sayings(self.config, traits))
        packed = self.config.map("quantization_config") or self.config.map("compression_config")
        layers = roles_of(self.mixers, self.kinds)
        packing = packing_of(packed, plain, self.dtype, layers, traits.get("names", {}))
        packing = with_experts(packing, self.config.get("expert_dtype"))
        hidden = self.config.count("hidden_size")
        self.recipe = Recipe(self.config, traits, packing, plain, hidden)

    def shape(self) -> ModelShape:
        config, recipe = self.config, self.recipe
        mixers = self.mixers
        mixing, cache = self._mixing(mixers)
        feeds = feed_forward(recipe, self.kinds)
        tower_parts, notes = tower(recipe, self.whole)
        rope = rope_of(config, self.family)
        return ModelShape(
            family=self.family,
            layers=len(mixers),
            hidden=recipe.hidden,
            intermediate=feeds.widest,
            dense_width=feeds.dense_width,
            heads=self._heads(mixers, cache),
            kv_heads=tuple(dict.fromkeys(g.heads for g in cache if g.what == "attention")),
            vocabulary=config.count("vocab_size"),
            positions=config.count("max_position_embeddings"),
            max_positions=max_positions(config, self.family),
            rope_type=rope[0],
            experts=feeds.experts,
            experts_per_token=feeds.active,
            dtype=self.dtype,
            weight_dtype=recipe.packing.dtype,
            parts=(*self._ends(), *mixing, *self._norms(mixers, feeds), *feeds.parts, *tower_parts),
            cache=tuple(cache),
            traits=traits_of(recipe, self.whole, mixers, cache),
            notes=(*notes, *self._drafts(), *_copies(mixing)),
        )

    # --- kinds of model ---

    def _refuse_special(self, special: Mapping[str, str], known: Sequence[str]) -> None:
        """A key that marks another kind of model must mean something to the family."""
        for key, what in special.items():
            if key not in known and self.config.get(key) not in (None, False, 0, {}, []):
                raise ConfigError(
                    "LC2031",
                    f"the model has {what} ({key}), which is not built yet of {self.family}",
                    found=key,
                    hint="Serve it with an engine that runs already (endpoint), or wait for it.",
                )

    def _family(self, families: Mapping[str, Any]) -> str:
        both = [self.config.get("model_type"), self.whole.get("model_type")]
        asked = [family for family in both if family is not None]
        for family in asked:
            if isinstance(family, str) and family in families:
                return family
        if not asked:
            message = "the model's config does not say its model_type"
            hint = "Check that its config.json is whole, and is that of the model itself."
            raise ConfigError("LC2032", message, found="nothing", hint=hint)
        raise ConfigError(
            "LC2032",
            f"the model family {told(asked[0])} is not known",
            found=told(asked[0]).strip('"'),
            allowed=sorted(families),
            hint="If it is built like a known family, give a ModelProfile whose config says "
            "model_type of that family.",
        )

    def _dtype(self) -> str:
        written = str(self.config.get("dtype") or self.config.get("torch_dtype") or "bfloat16")
        name = written.removeprefix("torch.")
        if name not in DTYPES:
            message = "the dtype of the model's config is not known"
            raise ConfigError("LC2033", message, found=written, allowed=tuple(DTYPES))
        return DTYPES[name]

    # --- parts ---

    def _mixing(self, mixers: list[Mixer]) -> Made:
        """Return the parts and the cache of all that mixes tokens, kind by kind."""
        recipe, counts = self.recipe, Counter(mixers)
        if recipe.traits.get("attention") == "compressed":
            return compressed_attention(recipe, len(mixers))
        parts: list[Part] = []
        cache: list[CacheGroup] = []
        for kind, count in counts.items():
            if kind == "none":
                continue
            if kind == "linear":
                made = recurrent(recipe, count)
            elif recipe.traits.get("attention") == "latent":
                made = latent_attention(recipe, count, index_layers_of(recipe, mixers))
            else:
                made = attention(recipe, kind, count)
            parts, cache = [*parts, *made[0]], [*cache, *made[1]]
        if recipe.says("blockIndex"):
            return self._with_block_index(parts, cache)
        return parts, cache

    def _with_block_index(self, parts: list[Part], cache: list[CacheGroup]) -> Made:
        sparse = self.config.inner("sparse_attention_config")
        marks = sparse.list("sparse_attention_freq")
        owners = sum(mark == 1 for mark in marks)
        made = block_index(self.recipe, owners)
        chosen = sparse.count("sparse_topk_blocks") * sparse.count("sparse_block_size")
        whole = cache[0]
        if owners > whole.layers:
            raise ConfigError("LC2033", "sparse_attention_freq speaks of too many layers")
        dense = replace(whole, layers=whole.layers - owners)
        reading = replace(whole, layers=owners, reads=chosen)
        return [*parts, *made[0]], [g for g in (dense, reading, *made[1]) if g.layers]

    def _heads(self, mixers: list[Mixer], cache: list[CacheGroup]) -> tuple[int, ...]:
        own = self.recipe.traits.get("attention") in {"latent", "compressed"}
        kinds = [kind for kind in dict.fromkeys(mixers) if kind in {"full", "window", "chunk"}]
        found: list[int] = []
        for kind in kinds:
            found.append(
                self.config.count("num_attention_heads")
                if own
                else heads_of(self.recipe, kind).queries
            )
        states = [group.state for group in cache if group.state is not None]
        found += [heads for state in states for heads in (state.heads, state.key_heads)]
        return tuple(dict.fromkeys(found))

    def _ends(self) -> list[Part]:
        """The embedding of tokens, and the head: none of its own where it is tied."""
        recipe, plain = self.recipe, self.recipe.plain
        table = self.config.count("vocab_size") * recipe.hidden
        said = self.config.get("tie_word_embeddings")
        tied = bool(recipe.traits.get("tied", False) if said is None else said)
        head = 0 if tied else table
        return [
            Part("embedding", table, table * plain, "even", per_layer=False),
            Part("head", head, head * plain, "even", per_layer=False),
        ]

    def _norms(self, mixers: list[Mixer], feeds: Feeds) -> list[Part]:
        recipe = self.recipe
        each = recipe.traits.get("norms", 2)
        if feeds.experts:
            each = recipe.traits.get("normsBesideExperts", each)
        if recipe.says("residualNorms"):
            each += RESIDUAL_NORMS
        norms = (each * len(mixers) + 1) * recipe.hidden
        for kind, count in Counter(mixers).items():
            if kind in {"full", "window", "chunk"} and "attention" not in recipe.traits:
                norms += head_norms(recipe, kind) * count
        return [Part("norms", norms, norms * recipe.plain, "none")]

    def _drafts(self) -> list[str]:
        """Layers that only speculative decoding loads."""
        if any(self.config.get(key) for key in DRAFTS):
            return ["layers for drafting tokens (MTP) are not counted: they are not loaded"]
        return []


def _copies(parts: list[Part]) -> list[str]:
    copied = sum(part.copied_bytes for part in parts)
    if not copied:
        return []
    return [f"{copied / 2**30:.1f} GiB that decoding copies of the weights are counted beside them"]


def _shared(config: Mapping[str, Any]) -> dict[str, Any]:
    """What a config says beside its text_config and means for that too."""
    keys = ("tie_word_embeddings", "quantization_config", "dtype", "torch_dtype")
    return {key: config[key] for key in keys if config.get(key) is not None}


__all__ = ["DTYPES", "DTYPE_BYTES", "Heads", "ModelShape", "read_shape"]
