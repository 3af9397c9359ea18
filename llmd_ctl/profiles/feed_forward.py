"""Feed-forward layers: dense ones, experts, those that every token passes, and routers.

Called by `shape` with the number of layers of each kind. Experts may work on a narrower form of the
hidden state (a latent), and a family may have a shared expert of a width of its own. Pure.
"""

from __future__ import annotations

from msgspec import Struct

from llmd_ctl.profiles.layers import Feed
from llmd_ctl.profiles.model import ConfigError
from llmd_ctl.profiles.part import Matrices, Part
from llmd_ctl.profiles.recipe import Recipe


class Feeds(Struct, frozen=True):
    """What the feed-forward layers of a model are made of."""

    parts: list[Part]
    experts: int  # in a layer
    active: int  # that a token visits
    widest: int  # width that one token passes in its widest layer
    dense_width: int  # 0 without dense layers


def feed_forward(recipe: Recipe, feeds: list[Feed]) -> Feeds:
    """Return the feed-forward parts of all layers."""
    dense = sum(kind in {"mlp", "both"} for kind in feeds)
    sparse = sum(kind in {"experts", "both"} for kind in feeds)
    parts: list[Part] = []
    width = recipe.config.count(recipe.key("mlpWidth", "intermediate_size")) if dense else 0
    if dense:
        mlp = _mlp(recipe, recipe.matrices("mlp"), recipe.hidden, width, bias="mlpBias")
        parts.append(mlp.part("mlp", "even", dense))
    if not sparse:
        return Feeds(parts, 0, 0, width, width)
    experts, active, each = _experts(recipe)
    shared = _shared_width(recipe)
    parts += _sparse(recipe, sparse, experts, each)
    if shared:
        always = _mlp(recipe, recipe.matrices("shared"), recipe.hidden, shared, bias="mlpBias")
        always.plain(recipe.hidden if recipe.says("sharedGate") else 0)
        parts.append(always.part("shared", "even", sparse))
    both = any(kind == "both" for kind in feeds)
    passed = each * active + shared + (width if both else 0)
    return Feeds(parts, experts, active, max(passed, width), width)


def _mlp(recipe: Recipe, into: Matrices, hidden: int, width: int, *, bias: str) -> Matrices:
    """Add a feed-forward layer: up, down, and the gate where the family has one."""
    biased = recipe.says(bias)
    into.add(hidden, width, bias=biased, times=1 if recipe.says("ungated") else 2)
    return into.add(width, hidden, bias=biased)


def _experts(recipe: Recipe) -> tuple[int, int, int]:
    """Return experts in a layer, experts that a token visits, and the width of one."""
    experts, active, each = (recipe.config.count(key) for key in recipe.traits["experts"])
    if active > experts:
        raise ConfigError("LC2033", "a token visits more experts than there are")
    return experts, active, each


def _shared_width(recipe: Recipe) -> int:
    """Return the width of the experts that every token visits, all together."""
    key = recipe.traits.get("sharedWidth")
    if key is not None:
        return recipe.config.maybe(key)
    count = recipe.traits.get("shared")
    if count is None:
        return 0
    return recipe.config.maybe(count) * recipe.config.count(recipe.traits["experts"][2])


def _sparse(recipe: Recipe, layers: int, experts: int, each: int) -> list[Part]:
    hidden, config = recipe.hidden, recipe.config
    latent = config.maybe(recipe.traits["expertLatent"]) if "expertLatent" in recipe.traits else 0
    expert = _mlp(recipe, recipe.matrices("experts"), latent or hidden, each, bias="expertBias")
    router = recipe.matrices(None).plain(hidden * experts)
    router.plain(experts if recipe.says("routerBias") else 0)
    router.plain(hidden + experts if recipe.says("routerScales") else 0)
    parts = [
        expert.part("experts", "expert", layers * experts),
        router.part("router", "none", layers),
    ]
    if latent:
        narrow = recipe.matrices("shared").add(hidden, latent).add(latent, hidden)
        narrow.plain(latent if recipe.says("latentNorm") else 0)
        parts.append(narrow.part("latent", "none", layers))
    return parts
