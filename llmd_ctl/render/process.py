"""From a plan to replicas: names, command lines, environments and engine.json.

Called by the controller, which starts them, and by `apply`, which counts them. Pure. A replica's
name ends in a digest of all that its process depends on: the same name means that a running
replica can stay, another name means that it has to be replaced.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from llmd_ctl.plan import CONFIG, HOST, PORT, PYTHON, Plan, PlannedModel, PlannedVariant
from llmd_ctl.render.layout import Layout

Json = dict[str, Any]
LOOPBACK = "127.0.0.1"
DIGEST_LENGTH = 6
# For a plan that does not say. A large model on a cold disk takes minutes to load.
DEFAULT_STARTUP_SECONDS = 600.0


class ReplicaSpec(Struct, frozen=True):
    """One replica that should run. `command` has host and port still open."""

    name: str
    model: str
    variant: str
    index: int
    command: tuple[str, ...]
    env: Mapping[str, str]
    engine_document: Json | None
    startup_seconds: float

    @property
    def slot(self) -> tuple[str, str, int]:
        """The seat it takes: two replicas of one seat replace each other."""
        return (self.model, self.variant, self.index)

    def argv(self, port: int) -> tuple[str, ...]:
        """The command line for a port."""
        return _filled(self.command, {HOST: LOOPBACK, PORT: str(port)})

    def engine_config(self, port: int) -> bytes | None:
        """The text of engine.json for a port; None for a real engine."""
        if self.engine_document is None:
            return None
        document = {**self.engine_document, "listen": f"{LOOPBACK}:{port}"}
        return (json.dumps(document, indent=2) + "\n").encode()


def replica_specs(plan: Plan, layout: Layout, python: str) -> tuple[ReplicaSpec, ...]:
    """All replicas of the plan in its order; what runs already elsewhere has none."""
    return tuple(
        _replica(model, variant, index, layout, python)
        for model in plan.models
        for variant in model.variants
        if variant.endpoint_url is None
        for index in range(variant.replicas)
    )


def _replica(
    model: PlannedModel, variant: PlannedVariant, index: int, layout: Layout, python: str
) -> ReplicaSpec:
    slot = (model.name, variant.name, index)
    document = engine_document(model, variant, index) if variant.simulated else None
    # A real engine doesn't read the facts: new numbers in a profile are no reason to restart it.
    digest = _digest([*slot, document, list(variant.command), dict(variant.env)])
    name = f"{model.name}-{variant.name}-{index}-{digest}"
    if document is not None:
        document = {**document, "name": name, "accessLog": layout.access_log(name)}
    startup = variant.startup_seconds
    return ReplicaSpec(
        name=name,
        model=model.name,
        variant=variant.name,
        index=index,
        command=_filled(variant.command, {PYTHON: python, CONFIG: layout.engine_config(name)}),
        env=dict(variant.env),
        engine_document=document,
        startup_seconds=DEFAULT_STARTUP_SECONDS if startup is None else float(startup),
    )


def _filled(command: tuple[str, ...], values: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(values.get(argument, argument) for argument in command)


def engine_document(model: PlannedModel, variant: PlannedVariant, index: int) -> Json:
    """Everything of engine.json that does not depend on its name, port and folder."""
    return {
        "version": 1,
        "model": model.name,
        "aliases": list(model.aliases),
        "accelerator": variant.accelerator,
        "facts": _without_price(variant.facts),
        # Replicas must not all make the same filler text; any number that stays the same will do.
        "seed": int(_digest([model.name, variant.name, index]), 16),
    }


def _without_price(facts: Mapping[str, Any] | None) -> Json:
    """What an engine is: it has no use for its price, and a new one is no reason to restart it."""
    return {key: value for key, value in (facts or {}).items() if key != "pricePerHour"}


def _digest(content: object) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_LENGTH]
