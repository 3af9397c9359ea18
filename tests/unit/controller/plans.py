"""Small plans, as the planner would make them, for tests of what happens to a plan later."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from llmd_ctl.plan import (
    CONFIG,
    HOST,
    PORT,
    PYTHON,
    Parallel,
    Plan,
    PlannedModel,
    PlannedVariant,
    Simulate,
    Summary,
)


def variant(name: str, replicas: int = 1, **fields: Any) -> PlannedVariant:
    """A simulated variant; `speed` tells one version of its facts from another."""
    speed = fields.pop("speed", 1.0)
    made = PlannedVariant(
        name=name,
        accelerator="nvidia-h100",
        vendor="nvidia",
        target="here",
        engine="vllm",
        engine_version="0.32.0",
        executable=None,
        simulated=True,
        replicas=replicas,
        parallelism=Parallel(),
        devices_per_replica=1,
        endpoint_url=None,
        served_name=None,
        max_model_len=8192,
        command=(PYTHON, "-m", "llmd_ctl.sim", "--config", CONFIG),
        startup_seconds=30,
        facts={"speed": speed},
    )
    return replace(made, **fields)


def real_variant(name: str, flag: str = "8", replicas: int = 1) -> PlannedVariant:
    """A variant with an engine of its own command line."""
    command = ("vllm", "serve", "m", "--host", HOST, "--port", PORT, "--max-num-seqs", flag)
    return variant(name, replicas, simulated=False, command=command)


def external(name: str, url: str) -> PlannedVariant:
    """A variant that runs already."""
    return variant(name, 1, simulated=False, endpoint_url=url, command=(), target=None, facts=None)


def model(name: str, *variants: PlannedVariant, **fields: Any) -> PlannedModel:
    made = PlannedModel(
        name=name,
        aliases=(),
        uri="hf://org/model",
        revision=None,
        max_model_len=8192,
        slo=None,
        objective="latency",
        scheduler="expected-finish",
        variants=variants,
    )
    return replace(made, **fields)


def plan(*models: PlannedModel) -> Plan:
    return Plan(
        fleet="prod",
        spec_hash="h",
        simulate=Simulate(1.0),
        summary=Summary(fits=True, price_per_hour=None, replicas=1, devices=1),
        models=models,
    )
