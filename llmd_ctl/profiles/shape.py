"""A model's config.json as numbers: parameters part by part, and the bytes each takes.

Called by `plan`. What differs between families is data (`models/families.yaml`). A model whose
cache is of a kind not known here is refused: numbers computed as if it were ordinary attention
would be wrong. Pure: it gets the content of a config.json and reads no file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from llmd_ctl.profiles.model import ConfigError
from llmd_ctl.profiles.part import Matrices, Part, scaled
from llmd_ctl.profiles.quantization import Linear, linear_weights

DTYPES = {
    "float32": "fp32", "float": "fp32", "bfloat16": "bf16", "float16": "fp16", "half": "fp16",
}  # fmt: skip
DTYPE_BYTES = {"fp32": 4, "bf16": 2, "fp16": 2}
# Rope types whose context length is already counted in max_position_embeddings (vLLM 0.32.0,
# config/model.py `_get_and_verify_max_len`).
ROPE_COUNTED = frozenset(
    {"default", "llama3", "longrope", "su", "yarn", "deepseek_yarn", "deepseek_llama_scaling"}
)
LARGEST = 10**9  # no count in a config.json is above this


@dataclass(frozen=True)
class ModelShape:
    """What the formulas of a plan need to know of a model."""

    family: str
    layers: int
    window_layers: int  # of `layers`, those that see only the last `window` tokens
    window: int  # in tokens; 0 without window layers
    hidden: int
    intermediate: int  # width of the widest feed-forward layer that one token passes
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    positions: int  # max_position_embeddings as the config says it
    max_positions: int  # the longest context, with rope scaling where vLLM counts it
    rope_type: str  # "default" without rope scaling
    experts: int
    experts_per_token: int
    dtype: str  # bf16, fp16 or fp32: what is computed with, and the KV where nothing is said
    weight_dtype: str  # of the large matrices; also fp8, int8, int4, mxfp4
    parts: tuple[Part, ...]

    @property
    def parameters(self) -> int:
        """All parameters."""
        return sum(part.parameters for part in self.parts)

    @property
    def weight_bytes(self) -> float:
        """The bytes of all weights."""
        return sum(part.weight_bytes for part in self.parts)

    @property
    def full_layers(self) -> int:
        """Layers that see the whole context."""
        return self.layers - self.window_layers


def read_shape(
    config: Mapping[str, Any],
    families: Mapping[str, Any],
    *,
    dtype: str | None = None,
    weight_bytes: float | None = None,
) -> ModelShape:
    """Return the shape of a model. `dtype` and `weight_bytes` overrule what the config says."""
    return _Reader(config, families).shape(dtype, weight_bytes)


class _Reader:
    def __init__(self, config: Mapping[str, Any], families: Mapping[str, Any]) -> None:
        self.config = config
        self._refuse_foreign(families["foreign"])
        self.family = self._family(families["families"])
        self.traits: Mapping[str, Any] = families["families"][self.family]

    def shape(self, dtype: str | None, weight_bytes: float | None) -> ModelShape:
        layers, hidden = self._count("num_hidden_layers"), self._count("hidden_size")
        heads = self._count("num_attention_heads")
        kv_heads = self._count("num_key_value_heads", heads)
        head_dim = self._count("head_dim", max(1, hidden // heads))
        experts, active, width = self._experts()
        window = self._window(layers)
        stored = dtype or self._dtype()
        packed = self._map("quantization_config") or self._map("compression_config")
        linear = linear_weights(packed, DTYPE_BYTES[stored], stored)
        shape = ModelShape(
            family=self.family,
            layers=layers,
            window_layers=window[0],
            window=window[1],
            hidden=hidden,
            intermediate=width * active if experts else self._count("intermediate_size"),
            heads=heads,
            kv_heads=kv_heads,
            head_dim=head_dim,
            vocabulary=self._count("vocab_size"),
            positions=self._count("max_position_embeddings"),
            max_positions=self._max_positions(),
            rope_type=self._rope()[0],
            experts=experts,
            experts_per_token=active,
            dtype=stored,
            weight_dtype=linear.dtype,
            parts=(),
        )
        self._check(shape)
        parts = self._parts(shape, linear, width)
        counted = sum(part.weight_bytes for part in parts)
        scale = 1.0 if weight_bytes is None else weight_bytes / counted
        return ModelShape(**{**vars(shape), "parts": tuple(scaled(part, scale) for part in parts)})

    # --- kinds of model ---

    def _refuse_foreign(self, foreign: Mapping[str, str]) -> None:
        for key, what in foreign.items():
            if self.config.get(key) not in (None, False, 0, {}):
                raise ConfigError(
                    "LC2031",
                    f"the model has {what} ({key}), which is not built yet",
                    found=key,
                    hint="Serve it with an engine that runs already (endpoint), or wait for it.",
                )
        types = self._list("layer_types")
        strange = sorted({str(t) for t in types} - {"full_attention", "sliding_attention"})
        if strange:
            raise ConfigError(
                "LC2031", f"layers of type {strange[0]} are not built yet", found=strange[0]
            )

    def _family(self, families: Mapping[str, Any]) -> str:
        family = self.config.get("model_type")
        if not isinstance(family, str) or family not in families:
            raise ConfigError(
                "LC2032",
                f"the model family {family!r} is not known",
                found=str(family),
                allowed=sorted(families),
                hint="If it is built like a known family, give a ModelProfile whose config says "
                "model_type of that family.",
            )
        return family

    def _check(self, shape: ModelShape) -> None:
        if shape.heads % shape.kv_heads:
            raise ConfigError(
                "LC2033",
                f"num_key_value_heads {shape.kv_heads} does not divide "
                f"num_attention_heads {shape.heads}",
            )
        if shape.experts_per_token > shape.experts:
            raise ConfigError("LC2033", "a token visits more experts than there are")

    # --- values ---

    def _count(self, key: str, default: int | None = None) -> int:
        value = self.config.get(key)
        if value is None and default is not None:
            return default
        if type(value) is not int or not 0 < value <= LARGEST:
            found = "nothing" if value is None else str(value)[:80]
            message = f"{key} of the model's config must be a whole number above 0"
            raise ConfigError("LC2033", message, found=found)
        return value

    def _map(self, key: str) -> Mapping[str, Any]:
        value = self.config.get(key) or {}
        if not isinstance(value, Mapping):
            message = f"{key} of the model's config must be a map"
            raise ConfigError("LC2033", message, found=str(value)[:80])
        return value

    def _list(self, key: str) -> list[Any]:
        value = self.config.get(key) or []
        if not isinstance(value, list):
            message = f"{key} of the model's config must be a list"
            raise ConfigError("LC2033", message, found=str(value)[:80])
        return value

    def _says(self, trait: str) -> bool:
        """Return a trait that is true, false, or the name of a key that says it."""
        value = self.traits.get(trait, False)
        return bool(self.config.get(value)) if isinstance(value, str) else bool(value)

    def _dtype(self) -> str:
        written = str(self.config.get("dtype") or self.config.get("torch_dtype") or "bfloat16")
        name = written.removeprefix("torch.")
        if name not in DTYPES:
            message = "the dtype of the model's config is not known"
            raise ConfigError("LC2033", message, found=written, allowed=tuple(DTYPES))
        return DTYPES[name]

    def _max_positions(self) -> int:
        """Return the longest context, by the rule of vLLM 0.32.0 (`_get_and_verify_max_len`).

        It is max_position_embeddings times the factor of linear or dynamic scaling. Of yarn and the
        others in `ROPE_COUNTED`, and of Gemma 3, it says that the factor is counted in already: a
        longer --max-model-len ends the engine at its start.
        """
        positions = self._count("max_position_embeddings")
        kind, factor = self._rope()
        if kind in ROPE_COUNTED or not isinstance(factor, int | float) or "gemma3" in self.family:
            return positions
        if not 1 <= factor <= LARGEST / positions:
            message = "the factor of rope_scaling is not possible"
            raise ConfigError("LC2033", message, found=str(factor))
        return int(positions * factor)

    def _rope(self) -> tuple[str, Any]:
        """Return the type of rope scaling and its factor."""
        rope = self._map("rope_scaling") or self._map("rope_parameters")
        return str(rope.get("rope_type", rope.get("type", "default"))), rope.get("factor")

    def _experts(self) -> tuple[int, int, int]:
        """Return experts, experts per token and the width of one; zeros for a dense model."""
        keys = self.traits.get("experts")
        if not keys:
            return 0, 0, 0
        if self.config.get("mlp_only_layers") or self.config.get("decoder_sparse_step", 1) != 1:
            raise ConfigError("LC2031", "experts in only some layers are not built yet")
        experts, active, width = (self._count(key) for key in keys)
        return experts, active, width

    def _window(self, layers: int) -> tuple[int, int]:
        """Return how many layers have a sliding window, and how wide it is."""
        rule, width = self.traits.get("window"), self.config.get("sliding_window")
        switch = self.traits.get("windowIf")
        if rule is None or not width or (switch and not self.config.get(switch)):
            return 0, 0
        window = self._count("sliding_window")
        types = self._list("layer_types")
        if types:
            count = sum(kind == "sliding_attention" for kind in types)
        elif rule == "all":
            count = layers
        elif rule == "after":
            count = max(0, layers - self._count("max_window_layers", layers))
        else:
            count = layers - layers // int(rule)
        return (min(count, layers), window) if count else (0, 0)

    # --- parts ---

    def _parts(self, s: ModelShape, linear: Linear, width: int) -> tuple[Part, ...]:
        plain = DTYPE_BYTES[s.dtype]
        query, key = s.heads * s.head_dim, s.kv_heads * s.head_dim
        biased, out = self._says("qkvBias"), self._says("outputBias")
        table = s.vocabulary * s.hidden
        tied = bool(self.config.get("tie_word_embeddings", self.traits.get("tied", False)))
        attention = Matrices(linear, plain).add(s.hidden, query, bias=biased)
        attention.add(query, s.hidden, bias=out).plain(s.heads if self._says("sinks") else 0)
        keys = Matrices(linear, plain).add(s.hidden, key, bias=biased, times=2)
        norms = self.traits.get("norms", 2) * s.hidden + (2 * s.head_dim * self._says("qkNorm"))
        parts = [
            Part("embedding", table, table * plain, "even", per_layer=False),
            Part(
                "head", 0 if tied else table, 0 if tied else table * plain, "even", per_layer=False
            ),
            attention.part("attention", "even", s.layers),
            keys.part("kv", "kv", s.layers),
            Part(
                "norms", norms * s.layers + s.hidden, (norms * s.layers + s.hidden) * plain, "none"
            ),
        ]
        return (*parts, *self._feed_forward(s, linear, width))

    def _feed_forward(self, s: ModelShape, linear: Linear, width: int) -> list[Part]:
        plain = DTYPE_BYTES[s.dtype]
        if not s.experts:
            mlp = Matrices(linear, plain).add(
                s.hidden, s.intermediate, bias=self._says("mlpBias"), times=2
            )
            mlp.add(s.intermediate, s.hidden, bias=self._says("mlpBias"))
            return [mlp.part("mlp", "even", s.layers)]
        bias = self._says("expertBias")
        expert = Matrices(linear, plain, expert=True).add(s.hidden, width, bias=bias, times=2)
        expert.add(width, s.hidden, bias=bias)
        router = s.hidden * s.experts + (s.experts if self._says("routerBias") else 0)
        return [
            expert.part("experts", "expert", s.layers * s.experts),
            Part("router", router * s.layers, router * s.layers * plain, "none"),
        ]
