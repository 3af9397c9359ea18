"""Layers that keep a state of constant size: Mamba 2, gated delta nets, Kimi delta attention.

Called by `shape`. The shapes of the states are those of vLLM 0.32.0, layers/mamba/mamba_utils.py;
the dtype of a state is what the config asks for, as `--mamba-ssm-cache-dtype auto` takes it. Pure.
"""

from __future__ import annotations

from msgspec import Struct

from llmd_ctl.profiles.cache import CacheGroup, State
from llmd_ctl.profiles.config import told
from llmd_ctl.profiles.model import ConfigError
from llmd_ctl.profiles.recipe import Made, Recipe

STATE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


def recurrent(recipe: Recipe, layers: int) -> Made:
    """Return the parts and states of `layers` layers of the family's kind."""
    kind = recipe.traits.get("linear")
    if kind == "mamba2":
        return _mamba2(recipe, layers)
    if kind == "gdn":
        return _gated_delta(recipe, layers)
    if kind == "kda":
        return _kimi_delta(recipe, layers)
    raise ConfigError("LC2031", "layers with a recurrent state are not known of this family")


def _state_bytes(recipe: Recipe, key: str, default: int) -> int:
    asked = recipe.config.get(key)
    if asked in (None, "auto"):
        return default
    if not isinstance(asked, str) or asked not in STATE_BYTES:
        message = f"{key} of the model's config is not known"
        raise ConfigError("LC2033", message, found=told(asked), allowed=tuple(STATE_BYTES))
    return STATE_BYTES[asked]


def _group(what: str, layers: int, state: State) -> list[CacheGroup]:
    return [CacheGroup(keep="state", layers=layers, what=what, state=state)]


class _Mamba(Struct, frozen=True):
    heads: int
    width: int
    state: int
    groups: int
    taps: int


def _mamba2(recipe: Recipe, layers: int) -> Made:
    config, keys = recipe.config, recipe.traits["mamba"]
    m = _Mamba(
        heads=config.count(keys["heads"]), width=config.count(keys["width"]),
        state=config.count(keys["state"]), groups=config.count(keys["groups"], 1),
        taps=config.count(keys["taps"], 4),
    )  # fmt: skip
    inner = m.heads * m.width
    channels = inner + 2 * m.groups * m.state
    mixer = recipe.matrices("mixer")
    mixer.add(recipe.hidden, inner + channels + m.heads, bias=recipe.says("mambaBias"))
    mixer.add(inner, recipe.hidden, bias=recipe.says("mambaBias"))
    bias = 1 if config.get(keys["convBias"]) is not False else 0
    mixer.plain(channels * (m.taps + bias) + 3 * m.heads + inner)
    state = State(
        heads=m.heads, key_heads=m.heads, head_elements=m.width * m.state,
        head_bytes=_state_bytes(recipe, keys["dtype"], recipe.plain),
        channels=inner, groups=m.groups, group_channels=2 * m.state,
        taps=m.taps - 1, channel_bytes=recipe.plain,
    )  # fmt: skip
    return [mixer.part("mixer", "even", layers)], _group("mamba", layers, state)


def _gated_delta(recipe: Recipe, layers: int) -> Made:
    config = recipe.config
    heads, values = config.count("linear_num_key_heads"), config.count("linear_num_value_heads")
    key_width = config.count("linear_key_head_dim")
    value_width = config.count("linear_value_head_dim")
    taps = config.count("linear_conv_kernel_dim")
    inner, channels = values * value_width, 2 * heads * key_width + values * value_width
    mixer = recipe.matrices("mixer")
    mixer.add(recipe.hidden, channels + inner + 2 * values).add(inner, recipe.hidden)
    mixer.plain(channels * taps + 2 * values + value_width)
    state = State(
        heads=values, key_heads=heads, head_elements=key_width * value_width,
        head_bytes=_state_bytes(recipe, "mamba_ssm_dtype", recipe.plain),
        channels=channels, groups=0, group_channels=0,
        taps=taps - 1, channel_bytes=recipe.plain,
    )  # fmt: skip
    return [mixer.part("mixer", "even", layers)], _group("gated delta", layers, state)


def _kimi_delta(recipe: Recipe, layers: int) -> Made:
    config = recipe.config.inner("linear_attn_config")
    heads, width = config.count("num_heads"), config.count("head_dim")
    taps, inner, hidden = config.count("short_conv_kernel_size"), heads * width, recipe.hidden
    mixer = recipe.matrices("attention")
    mixer.add(hidden, inner, times=3).add(inner, hidden)
    mixer.add(hidden, width).add(width, inner).add(hidden, heads)
    if config.get("use_full_rank_gate"):
        mixer.add(hidden, inner)
    else:
        mixer.add(hidden, width).add(width, inner)
    # Convolutions, decay and its bias are kept in 32 bits.
    mixer.plain(3 * inner * taps + heads + inner, 4).plain(width)
    state = State(
        heads=heads, key_heads=heads, head_elements=width * width, head_bytes=4,
        channels=3 * inner, groups=0, group_channels=0,
        taps=taps - 1, channel_bytes=recipe.plain,
    )  # fmt: skip
    return [mixer.part("mixer", "even", layers)], _group("kimi delta", layers, state)
