"""The rules that keep a command line legal: what an engine refuses, or takes and then ignores.

`check` is what `plan` calls, `RULES` what explanations and documents read. Each rule is one entry
of a table in this folder, by what it is about; `tests/unit/profiles/rules` breaks every one.
"""

from __future__ import annotations

from functools import cache

from llmd_ctl.profiles.rules import (
    adapters,
    amd,
    ascend,
    attention,
    balancing,
    cpu,
    drafts,
    earlier,
    environment,
    expert_kernels,
    experts,
    features,
    gaudi,
    gaudi_buckets,
    hisparse,
    hybrid,
    intel,
    links,
    multimodal,
    neuron,
    neuron_shapes,
    newer,
    nixl,
    parallel,
    quantization,
    rebellions,
    scheduling,
    serving,
    sglang,
    tpu,
    tpu_sharding,
    tpu_weights,
    transfer,
    trtllm,
    values,
)
from llmd_ctl.profiles.rules.line import Line, Platform, given_of
from llmd_ctl.profiles.rules.rule import Finding, Rule

TABLES = (
    values, environment, attention, parallel, experts, expert_kernels, balancing, scheduling,
    hybrid, quantization, features, drafts, adapters, multimodal, serving, transfer, nixl, links,
    hisparse, cpu, tpu, tpu_sharding, tpu_weights, gaudi, gaudi_buckets, amd, intel, ascend,
    rebellions, neuron, neuron_shapes, earlier, newer, trtllm, *sglang.TABLES,
)  # fmt: skip
RULES: tuple[Rule, ...] = tuple(rule for table in TABLES for rule in table.RULES)


def check(line: Line) -> list[Finding]:
    """Return what is wrong with a line, rule by rule."""
    rules = _rules_of(line.engine.name, line.version, line.platform)
    return [rule.finding(line) for rule in rules if rule.is_broken_by(line)]


@cache
def _rules_of(engine: str, version: str, platform: Platform | None) -> tuple[Rule, ...]:
    return tuple(rule for rule in RULES if rule.is_of(engine, version, platform))


__all__ = ["RULES", "Finding", "Line", "Rule", "check", "given_of"]
