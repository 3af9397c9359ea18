"""What is known of a model: the content of its config.json, and what it is made of.

The types of `kind: ModelProfile`, and `LocalModel`, which `model_files` reads from a disk. What the
numbers of a config.json mean is `shape`'s business.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct, field

from llmd_ctl.profiles import number


class ConfigError(Exception):
    """A config.json that gives no numbers: `hint` says what to do, `allowed` what is known."""

    def __init__(self, code: str, message: str, *, hint: str | None = None, **more: Any) -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint
        self.found: str | None = more.get("found")
        self.allowed: tuple[str, ...] = tuple(more.get("allowed", ()))


class ModelSpec(Struct, frozen=True):
    """The body of a model profile. `weight_bytes` overrides what is counted from the config.

    `confidence` is that of the config: how near it is known to be to what is published.
    `unconfirmed` says what of it is not confirmed, and what that changes. `min_version` is the
    first version of each engine that serves the model.
    """

    config: Mapping[str, Any]
    source: str
    description: str = ""
    weight_bytes: number.Size | None = None
    confidence: Literal["high", "medium", "low"] = "high"
    unconfirmed: str = ""
    min_version: Mapping[str, str] = field(default_factory=dict)


class ModelProfile(Struct, frozen=True):
    """A model profile; the name is ORG/NAME as Hugging Face has it, or a path."""

    name: str
    origin: str
    spec: ModelSpec


class LocalModel(Struct, frozen=True):
    """A model on this machine: where it lies, and its configuration as JSON text.

    A folder can hold both forms of the weights. None: that form is not there.
    """

    path: str | None = None  # the folder that Hugging Face engines are started with
    config: str | None = None
    gguf_path: str | None = None
    gguf_config: str | None = None  # the GGUF header, in the words of a config.json
    problem: str | None = None  # why something that is there could not be read
