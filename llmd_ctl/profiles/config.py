"""The values of a config.json, asked for by key: what cannot be is refused with its key.

Used by `shape` and what it puts together. A key may be dotted, for a map inside the map. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from llmd_ctl.profiles.model import ConfigError

LARGEST = 10**9  # no count in a config.json is above this
MOST_TOLD = 80


class Config(Struct, frozen=True):
    """A config.json, or the part of it that speaks of the language model."""

    values: Mapping[str, Any]

    def get(self, key: str) -> Any:
        """Return a value as it stands; None where nothing does."""
        value: Any = self.values
        for name in key.split("."):
            value = value.get(name) if isinstance(value, Mapping) else None
        return value

    def count(self, key: str, default: int | None = None) -> int:
        """Return a whole number above 0."""
        value = self.get(key)
        if value is None and default is not None:
            return default
        if type(value) is not int or not 0 < value <= LARGEST:
            message = f"{key} of the model's config must be a whole number above 0"
            raise ConfigError("LC2033", message, found=told(value))
        return value

    def maybe(self, key: str) -> int:
        """Return a whole number, or 0 where nothing is said."""
        return 0 if self.get(key) in (None, 0, False) else self.count(key)

    def map(self, key: str) -> Mapping[str, Any]:
        """Return a map; empty where nothing is said."""
        value = self.get(key) or {}
        if not isinstance(value, Mapping):
            raise _not("a map", key, value)
        return value

    def list(self, key: str) -> list[Any]:
        """Return a list; empty where nothing is said."""
        value = self.get(key) or []
        if not isinstance(value, list):
            raise _not("a list", key, value)
        return value

    def inner(self, key: str) -> Config:
        """Return the map at a key as a config of its own."""
        return Config(self.map(key))


def told(value: Any) -> str:
    """Say what a config.json holds, as it stands there."""
    if value is None:
        return "nothing"
    return json.dumps(value, ensure_ascii=False, default=str)[:MOST_TOLD]


def _not(wanted: str, key: str, value: Any) -> ConfigError:
    message = f"{key} of the model's config must be {wanted}"
    return ConfigError("LC2033", message, found=told(value))
