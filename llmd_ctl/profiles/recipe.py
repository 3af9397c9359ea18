"""What the parts of a model are made from: its config.json, the traits of its family, its packing.

`shape` makes one and hands it to `attention`, `latent`, `compressed`, `recurrent`, `feed_forward`
and `tower`, each of which answers with parts and cache groups. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from llmd_ctl.profiles.cache import CacheGroup
from llmd_ctl.profiles.config import Config
from llmd_ctl.profiles.part import Matrices, Part
from llmd_ctl.profiles.quantization import Packing, Role

Made = tuple[list[Part], list[CacheGroup]]


class Sayings(Struct, frozen=True):
    """A config.json, and the traits that say how its family means it."""

    config: Config
    traits: Mapping[str, Any]

    def says(self, trait: str) -> bool:
        """Return a trait that is true, false, or the name of a key that says it."""
        value = self.traits.get(trait, False)
        return bool(self.config.get(value)) if isinstance(value, str) else bool(value)

    def key(self, trait: str, default: str) -> str:
        """Return the key of the config that a trait names."""
        return str(self.traits.get(trait, default))


class Recipe(Sayings, frozen=True):
    """The ingredients of one model."""

    packing: Packing
    plain: int  # bytes of a weight that is not packed
    hidden: int

    def matrices(self, role: Role | None) -> Matrices:
        """Return an empty sum of matrices, stored as those of a role; None: never packed."""
        return Matrices(self.plain if role is None else self.packing.bytes(role), self.plain)
