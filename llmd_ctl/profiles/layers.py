"""Which layer of a model is of which kind: what mixes tokens in it, and what feeds forward.

Called by `shape`. Configs say it in many ways: lists of names, strings of letters, intervals, the
number of first layers that are dense. Each is turned into one list of words here, a word a layer.
A word that is not known is refused: a number computed as if it were another kind would be wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Literal

from llmd_ctl.profiles.config import Config, told
from llmd_ctl.profiles.model import ConfigError
from llmd_ctl.profiles.quantization import Role
from llmd_ctl.profiles.recipe import Sayings

# "linear" is the family's own kind of recurrent state (trait `linear`), "none" a layer without any.
Mixer = Literal["full", "window", "chunk", "linear", "none"]
Feed = Literal["mlp", "experts", "both", "none"]

MIXERS: dict[str, Mixer] = {
    "full_attention": "full", "attention": "full", "sliding_attention": "window",
    "chunked_attention": "chunk", "linear_attention": "linear", "mamba": "linear",
}  # fmt: skip
SPARSE = "deepseek_sparse_attention"  # full attention that an index chooses from
# Models whose blocks are one thing each, by name or by letter.
BLOCKS: dict[str, tuple[Mixer, Feed]] = {
    "mamba": ("linear", "none"), "M": ("linear", "none"),
    "attention": ("full", "none"), "*": ("full", "none"),
    "moe": ("none", "experts"), "E": ("none", "experts"),
    "mlp": ("none", "mlp"), "-": ("none", "mlp"),
}  # fmt: skip
FEEDS: dict[Any, Feed] = {"dense": "mlp", "sparse": "experts", 0: "mlp", 1: "experts"}
MOST_LAYERS = 10_000
CHUNK = "attention_chunk_size"
LAYER = re.compile(r"\s*[0-9]{1,9}\s*")  # a layer's number, as text


def layers_of(sayings: Sayings) -> tuple[list[Mixer], list[Feed]]:
    """Return the kinds of all layers, first to last."""
    blocks = sayings.traits.get("blocks")
    if blocks is not None:
        written = next((sayings.config.get(key) for key in blocks if sayings.config.get(key)), None)
        if not isinstance(written, str | list):
            raise _refused(f"one of {', '.join(blocks)} must say what each layer is")
        pairs = [_word(BLOCKS, block) for block in written[: MOST_LAYERS + 1]]
        _check(len(pairs))
        return [mixer for mixer, _ in pairs], [feed for _, feed in pairs]
    count = sayings.config.count("num_hidden_layers")
    _check(count)
    return _mixers(sayings, count), _feeds(sayings, count)


def roles_of(mixers: list[Mixer], feeds: list[Feed]) -> dict[Role, list[int]]:
    """Return the numbers of the layers that have each kind of matrix."""
    attending = [n for n, kind in enumerate(mixers) if kind in {"full", "window", "chunk"}]
    sparse = [n for n, kind in enumerate(feeds) if kind in {"experts", "both"}]
    return {
        "attention": attending,
        "mixer": [n for n, kind in enumerate(mixers) if kind == "linear"],
        "mlp": [n for n, kind in enumerate(feeds) if kind in {"mlp", "both"}],
        "shared": sparse,
        "experts": sparse,
    }


def _check(count: int) -> None:
    if not 0 < count <= MOST_LAYERS:
        raise _refused(f"a model has 1 to {MOST_LAYERS} layers, not {count}")


# --- what mixes tokens ---


def _mixers(sayings: Sayings, count: int) -> list[Mixer]:
    config, traits = sayings.config, sayings.traits
    found = _said(sayings, count)
    known = {"full", "window"} | ({"linear"} & set(traits))
    known |= {"chunk"} if CHUNK in traits.get("knows", ()) else set()
    for strange in sorted(set(found) - known):
        raise ConfigError("LC2031", f"layers of type {strange} are not known of this family")
    windows = config.maybe(sayings.key("windowTokens", "sliding_window"))
    switch = traits.get("windowIf")
    if not windows or (switch and not config.get(switch)) or "window" not in traits:
        return ["full" if kind == "window" else kind for kind in found]
    return found


def _said(sayings: Sayings, count: int) -> list[Mixer]:
    """Return the kinds as the config says them, else as the family has them."""
    config, traits = sayings.config, sayings.traits
    types = config.list("layer_types")
    if types:
        known = {**MIXERS, SPARSE: "full"} if "index_topk" in traits.get("knows", ()) else MIXERS
        return [_word(known, word) for word in _cut(types, count, "layer_types")]
    marks = traits.get("marks", {})
    written = config.list(marks["key"]) if marks else []
    if written:
        cut = _cut(written, count, marks["key"])
        return [marks["one"] if mark == 1 else "full" for mark in cut]
    if "linearLayers" in traits:
        linear = _numbers(config.list(traits["linearLayers"]))
        return ["linear" if n + 1 in linear else "full" for n in range(count)]
    if "everyFull" in traits:
        key, default, other = traits["everyFull"]
        every = config.count(key, default)
        kind: Mixer = "chunk" if other == "chunk" else "linear"
        return ["full" if (n + 1) % every == 0 else kind for n in range(count)]
    return _windows(config, traits.get("window"), count)


def _windows(config: Config, rule: Any, count: int) -> list[Mixer]:
    if rule == "all":
        return ["window"] * count
    if rule == "after":
        first = config.count("max_window_layers", count)
        return ["window" if n >= first else "full" for n in range(count)]
    every = config.count("sliding_window_pattern", int(rule)) if rule else 1
    return ["full" if (n + 1) % every == 0 else "window" for n in range(count)]


# --- what feeds forward ---


def _feeds(sayings: Sayings, count: int) -> list[Feed]:
    config, traits = sayings.config, sayings.traits
    switch = traits.get("expertsIf")
    if "experts" not in traits or (switch and not config.get(switch)):
        return ["mlp"] * count
    if sayings.says("mlpBesideExperts"):
        return ["both"] * count
    frequency = config.get("moe_layer_freq")
    for key, words in (("mlp_layer_types", None), ("moe_layer_freq", frequency)):
        if words is None or isinstance(words, list):
            written = config.list(key)
            if written:
                return [_word(FEEDS, word) for word in _cut(written, count, key)]
    chosen = _chosen(config, count)
    return ["experts" if n in chosen else "mlp" for n in range(count)]


def _chosen(config: Config, count: int) -> frozenset[int]:
    """Return the numbers of the layers that have experts."""
    enumerated = config.get("moe_layers_enum")
    if enumerated:
        if not isinstance(enumerated, str | list):
            raise _refused("moe_layers_enum must be a list of layers")
        words = enumerated.split(",") if isinstance(enumerated, str) else enumerated
        return _numbers(int(w) if isinstance(w, str) and LAYER.fullmatch(w) else w for w in words)
    step = config.count("interleave_moe_layer_step", config.count("decoder_sparse_step", 1))
    dense = _numbers(config.list("mlp_only_layers"))
    first = config.maybe("first_k_dense_replace")
    every = config.count("moe_layer_freq", 1)
    return frozenset(
        n for n in range(first, count) if n not in dense and (n + 1) % step == 0 and n % every == 0
    )


# --- words ---


def _word(known: Any, word: Any) -> Any:
    if isinstance(word, str | int) and word in known:
        return known[word]
    raise ConfigError("LC2031", f"layers of type {word} are not built yet", found=told(word))


def _cut(values: list[Any], count: int, key: str) -> list[Any]:
    """Return the words of the model's own layers; what stands behind them is of draft layers."""
    if len(values) < count:
        raise _refused(f"{key} speaks of {len(values)} layers, and the model has {count}")
    return values[:count]


def _numbers(values: Iterable[Any]) -> frozenset[int]:
    found = list(values)
    if any(type(value) is not int for value in found):
        raise _refused("a list of layers must hold whole numbers")
    return frozenset(found)


def _refused(message: str) -> ConfigError:
    return ConfigError("LC2033", message)
