"""Bytes that one weight of a large matrix takes, by the `quantization_config` of a config.json.

Called by `shape`. Embeddings, heads, norms, routers and biases stay as they are; only linear layers
are packed, but for those that the config leaves out, layer by layer. Which that are is told by the
name of one matrix of each kind. A method whose packing is not known is refused with the way out:
the bytes as a figure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal

from msgspec import Struct, field

from llmd_ctl.profiles.model import ConfigError

SCALE_BYTES = 2  # of a group's scale, as a 16-bit float
MXFP4_BYTES = 17 / 32  # 32 weights of 4 bits share a scale of 8 bits (OCP Microscaling format)
MXFP8_BYTES = 33 / 32
NVFP4_BYTES = 9 / 16  # 16 weights of 4 bits share a scale of 8 bits
LONGEST_PATTERN = 200
# Regular expressions that can take for ever are refused: those with many repeats, with repeats of
# repeats, or with one right after the other; and a list of too many of them.
MOST_REPEATS = 4
MOST_PATTERNS = 64
ENDLESS = re.compile(r"\)[*+{]|[*+}][*+{]|\.[*+]\.[*+]")

# Linear layers that a config may leave out, with names that checkpoints have for them.
Role = Literal["attention", "mixer", "mlp", "shared", "experts"]
NAMES: Mapping[Role, tuple[str, ...]] = {
    "attention": ("layers.0.self_attn.q_proj",),
    "mixer": (
        "layers.0.linear_attn.in_proj_qkv", "layers.0.mixer.in_proj", "layers.0.mamba.in_proj",
    ),
    "mlp": ("layers.0.mlp.gate_proj", "layers.0.feed_forward.gate_proj"),
    "shared": ("layers.0.mlp.shared_experts.gate_proj", "layers.0.mlp.shared_expert.gate_proj"),
    "experts": ("layers.0.mlp.experts.0.gate_proj",),
}  # fmt: skip
Names = Mapping[Role, tuple[str, ...]]
NUMBER = re.compile(r"layers\.(\d{1,5})(?=[.*]|$)")
Layers = Mapping[Role, Sequence[int]]  # the numbers of the layers that have a kind of matrix


class Packing(Struct, frozen=True):
    """How the weights of linear layers are stored."""

    dtype: str
    packed_bytes: float
    plain_bytes: int
    expert_bytes: float
    left_out: Mapping[Role, float] = field(default_factory=dict)  # share of the layers

    def bytes(self, role: Role) -> float:
        """Return the bytes of one weight, on average over the layers."""
        packed = self.expert_bytes if role == "experts" else self.packed_bytes
        left_out = self.left_out.get(role, 0.0)
        return left_out * self.plain_bytes + (1 - left_out) * packed


def packing_of(
    packed: Mapping[str, Any], plain_bytes: int, dtype: str, layers: Layers, names: Names
) -> Packing:
    """Return how linear layers are stored; `packed` is empty where weights are plain.

    `names` are what a family calls its matrices, where that is not as in `NAMES`.
    """
    if not packed or (packed.get("config_groups") == {} and packed.get("kv_cache_scheme")):
        # The second is compressed-tensors with scales of KV alone.
        return Packing(dtype, plain_bytes, plain_bytes, plain_bytes)
    method = str(packed.get("quant_method", "")).lower()
    if method == "mxfp4":
        return Packing("mxfp4", plain_bytes, plain_bytes, MXFP4_BYTES)
    name, size = _packed(method, packed)
    return Packing(name, size, plain_bytes, size, _left_out(packed, layers, {**NAMES, **names}))


def with_experts(packing: Packing, dtype: Any) -> Packing:
    """Return a packing whose experts are of another dtype: `expert_dtype` of a config."""
    if dtype is None:
        return packing
    if dtype not in ("fp4", "fp8"):
        raise _not_yet(f"experts of {str(dtype)[:40]}")
    size = MXFP4_BYTES if dtype == "fp4" else packing.packed_bytes
    name = "mxfp4" if dtype == "fp4" else packing.dtype
    return Packing(name, packing.packed_bytes, packing.plain_bytes, size, packing.left_out)


def _packed(method: str, packed: Mapping[str, Any]) -> tuple[str, float]:
    if method == "fp8":
        return "fp8", 1 + _block_scale(packed.get("weight_block_size"))
    if method == "mxfp8":
        return "fp8", MXFP8_BYTES
    if method in {"gptq", "awq"}:
        bits, group = _whole(packed, "bits"), _whole(packed, "group_size")
        return f"int{bits}", bits / 8 + (SCALE_BYTES + bits / 8) / group
    if method == "compressed-tensors":
        return _compressed(packed)
    if method == "modelopt":
        return _modelopt(packed)
    raise _not_yet(method)


def _block_scale(block: Any) -> float:
    """Return the bytes per weight of scales, one 32-bit float for each block of a matrix."""
    known = isinstance(block, list) and len(block) == 2 and all(_positive(side) for side in block)
    return 4 / (block[0] * block[1]) if known else 0.0


def _modelopt(packed: Mapping[str, Any]) -> tuple[str, float]:
    algorithm = str(packed.get("quant_algo", "")).upper()
    if algorithm == "FP8":
        return "fp8", 1.0
    if algorithm == "NVFP4":
        return "nvfp4", NVFP4_BYTES
    raise _not_yet(f"modelopt {algorithm}")


def _compressed(packed: Mapping[str, Any]) -> tuple[str, float]:
    found = packed.get("config_groups")
    groups = list(found.values()) if isinstance(found, Mapping) else []
    weights = [group.get("weights") for group in groups if isinstance(group, Mapping)]
    if len(weights) != 1 or not isinstance(weights[0], Mapping):
        raise _not_yet("compressed-tensors with several groups")
    layout = str(groups[0].get("format") or packed.get("format"))
    if layout == "mxfp4-pack-quantized":
        return "mxfp4", MXFP4_BYTES
    if layout == "nvfp4-pack-quantized":
        return "nvfp4", NVFP4_BYTES
    bits = _whole(weights[0], "num_bits")
    kind = "fp8" if weights[0].get("type") == "float" and bits == 8 else f"int{bits}"
    block = _block_scale(weights[0].get("block_structure"))
    group = weights[0].get("group_size")
    scale = SCALE_BYTES / group if isinstance(group, int) and group > 0 else block
    return kind, bits / 8 + scale  # without group or block it is one scale a channel


# --- what is left out ---


def _left_out(packed: Mapping[str, Any], layers: Layers, names: Names) -> dict[Role, float]:
    """Return the share of each kind's layers that the config's lists of exceptions leave out."""
    keys = ("ignore", "exclude_modules", "modules_to_not_convert")
    lists = (packed.get(key) for key in keys)
    said = {p for found in lists if isinstance(found, list) for p in found if isinstance(p, str)}
    if sum(pattern.startswith("re:") for pattern in said) > MOST_PATTERNS:
        raise _not_yet(f"a list of more than {MOST_PATTERNS} regular expressions")
    out: dict[Role, float] = {}
    for role, numbers in layers.items():
        if numbers:
            left = {n for pattern in said for n in _matched(pattern, names[role], numbers)}
            out[role] = len(left) / len(numbers)
    return out


def _matched(pattern: str, names: tuple[str, ...], numbers: Sequence[int]) -> Sequence[int]:
    """Return the layers that an exception means."""
    if pattern.startswith("re:"):
        found = _regex(pattern[3:])
        return [n for n in numbers if any(found.match(_named(name, n)) for name in names)]
    at = pattern.find("layers.")
    named = NUMBER.match(pattern, at) if at >= 0 else None
    if named:
        # `layers.1*` is meant for layer 1 alone, though as a pattern it means layer 10 too.
        rest = "layers.0" + pattern[named.end() :]
        number = int(named[1])
        return [number] if number in numbers and _fits(rest, names) else []
    return numbers if _fits(pattern[at:] if at >= 0 else pattern, names) else []


def _named(name: str, number: int) -> str:
    return "model." + name.replace("layers.0.", f"layers.{number}.", 1)


def _fits(wanted: str, names: tuple[str, ...]) -> bool:
    if len(wanted) > LONGEST_PATTERN:
        return False
    if "*" in wanted:
        globs = (wanted, f"{wanted}.*", f"model.{wanted}")
        return any(
            fnmatchcase(name, glob) for n in names for name in (n, f"model.{n}") for glob in globs
        )
    return any(f".{wanted}." in f".{name}." for name in names)


def _regex(text: str) -> re.Pattern[str]:
    repeats = len(re.findall(r"[*+{]", text))
    bounded = repeats <= MOST_REPEATS and not ENDLESS.search(text)
    if bounded and len(text) <= LONGEST_PATTERN:
        try:
            return re.compile(text)
        except (re.error, RecursionError, OverflowError):
            pass
    raise _not_yet(f"a list of exceptions with {text[:40]!r}")


# --- values ---


def _whole(packed: Mapping[str, Any], key: str) -> int:
    value: Any = packed.get(key)
    if not _positive(value):
        raise _not_yet(f"{packed.get('quant_method', 'a method')} without a positive {key}")
    return int(value)


def _positive(value: Any) -> bool:
    return type(value) is int and value > 0


def _not_yet(what: str) -> ConfigError:
    return ConfigError(
        "LC2031",
        f"how much weights quantised by {what or 'an unnamed method'} take is not built yet",
        found=what,
        hint="Give a ModelProfile with weightBytes, the size of the model's weight files.",
    )
