"""The weights of a tower that turns images into tokens, counted from its own config.

The blocks are counted matrix by matrix, what joins the tower to the language model by its usual
form: within a few percent, of a part that is a few percent of the model. It is never packed, and
each device is counted to hold all of it. Called by `shape`. Pure.
"""

from __future__ import annotations

from llmd_ctl.profiles.config import Config
from llmd_ctl.profiles.part import Part
from llmd_ctl.profiles.recipe import Recipe

KEYS = ("vision_config", "vision_encoder")
OTHERS = {"audio_config": "audio"}
DEPTH = ("num_hidden_layers", "depth", "vt_num_hidden_layers", "layers")
WIDTH = ("hidden_size", "vt_hidden_size", "width")
INNER = ("intermediate_size", "vt_intermediate_size")
COLOURS = 3


def tower(recipe: Recipe, whole: Config) -> tuple[list[Part], list[str]]:
    """Return the part of the tower of the whole model's config, and what is not counted."""
    notes = [
        f"the weights that take in {what} are not counted"
        for key, what in OTHERS.items()
        if whole.map(key)
    ]
    config = next((whole.inner(key) for key in KEYS if whole.map(key)), None)
    if config is None:
        return [], notes
    if not all(_first(config, keys) for keys in (DEPTH, WIDTH, INNER)):
        return [], [*notes, "the weights that take in images are not counted"]
    blocks = recipe.matrices(None)
    depth, width, inner = (_first(config, keys) for keys in (DEPTH, WIDTH, INNER))
    attention = config.count("qkv_hidden_size", width)
    gated = 3 if recipe.says("towerGated") else 2
    blocks.add(width, attention, times=4 * depth).add(width, inner, times=gated * depth)
    blocks.plain(_ends(config, width) + _joint(recipe, config, width))
    part = Part("tower", blocks.parameters, blocks.bytes, "none", per_layer=False)
    return [part], [*notes, "the weights that take in images are counted within a few percent"]


def _first(config: Config, keys: tuple[str, ...]) -> int:
    return next((config.count(key) for key in keys if config.get(key)), 0)


def _ends(config: Config, width: int) -> int:
    """Patches to vectors, and a vector for each position."""
    patch = config.count("patch_size", 1) ** 2 * config.count("temporal_patch_size", 1)
    positions = config.maybe("num_position_embeddings") or 2 * config.maybe(
        "position_embedding_size"
    )
    return (COLOURS * patch + positions) * width


def _joint(recipe: Recipe, config: Config, width: int) -> int:
    """The matrices between tower and model; patches that are merged first pass a wider one."""
    side = config.maybe("spatial_merge_size")
    sides = config.list("merge_kernel_size") or [side, side]
    merged = width
    for side in sides:
        merged *= side if type(side) is int and 0 < side <= 16 else 1
    return (merged * merged if merged > width else 0) + merged * recipe.hidden
