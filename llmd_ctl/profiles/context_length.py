"""How long a model's context is: its positions, and what rope scaling makes of them.

Called by `shape`. Rule of vLLM 0.32.0 (config/model.py, `_get_and_verify_max_len`). Pure.
"""

from __future__ import annotations

from typing import Any

from llmd_ctl.profiles.config import LARGEST, Config, told
from llmd_ctl.profiles.model import ConfigError

# Rope types whose context length is already counted in max_position_embeddings.
ROPE_COUNTED = frozenset(
    {
        "default", "llama3", "longrope", "su", "yarn", "deepseek_yarn", "deepseek_llama_scaling",
        "proportional",
    }
)  # fmt: skip
FULL = "full_attention"  # rope_parameters may hold a map for each kind of layer


def max_positions(config: Config, family: str) -> int:
    """Return the longest context.

    It is max_position_embeddings times the factor of linear or dynamic scaling. Of yarn and the
    others in `ROPE_COUNTED`, and of Gemma 3, the engine says that the factor is counted in already:
    a longer --max-model-len ends it at its start.
    """
    positions = config.count("max_position_embeddings")
    kind, factor = rope_of(config, family)
    if kind in ROPE_COUNTED or factor is None or "gemma3" in family:
        return positions
    if type(factor) not in {int, float} or not 1 <= factor <= LARGEST / positions:
        message = f"the factor of rope_scaling must be a number from 1 to {LARGEST / positions:g}"
        raise ConfigError("LC2033", message, found=told(factor))
    return int(positions * factor)


def rope_of(config: Config, family: str) -> tuple[str, Any]:
    """Return the type of rope scaling and its factor."""
    rope = config.map("rope_scaling") or config.map("rope_parameters")
    if FULL in rope:
        rope = config.inner("rope_parameters").map(FULL) or config.inner("rope_scaling").map(FULL)
    kind = rope.get("rope_type", rope.get("type", "default"))
    if not isinstance(kind, str):
        message = "rope_type of the model's config must be text"
        raise ConfigError("LC2033", message, found=told(kind))
    return kind, rope.get("factor")
