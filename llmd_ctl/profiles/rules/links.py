"""Rules on what KV travels by: bundles of variables, hashes and blocks that routers compare.

Which connector is in use is ruled on in `transfer` and `nixl`.
"""

from __future__ import annotations

from collections.abc import Mapping

from llmd_ctl.profiles.rules.line import Line
from llmd_ctl.profiles.rules.rule import Rule
from llmd_ctl.profiles.rules.transfer import EVENTS, uses

EFA, PROVIDER = "efa", "FI_PROVIDER"
PEERMEM = "WITH_NVIDIA_PEERMEM"
HASH, SEED = "--prefix-caching-hash-algo", "PYTHONHASHSEED"


def _bundle(line: Line) -> Mapping[str, str]:
    transport = line.accelerator.spec.transports.get(EFA)
    return transport.env if transport is not None else {}


def _missing(line: Line) -> list[str]:
    """What of the bundle is not set as it has to be."""
    wanted = _bundle(line).items()
    return [f"{name}={value}" for name, value in wanted if line.env.get(name) != value]


def _publishes(line: Line) -> bool:
    return line.inside(EVENTS, "enable_kv_cache_events") is True


RULES = (
    Rule(
        "K11",
        "Variables for EFA are set all together",
        when=lambda line: line.env.get(PROVIDER) == EFA,
        require=lambda line: not _missing(line),
        message="of the variables that EFA needs, some are not set: {names}",
        remedy="Set all of them: half of the bundle falls back to TCP, or garbles KV.",
        words=lambda line: {"names": ", ".join(_missing(line))},
        at=(PROVIDER,),
        source="aiconfigurator 095f58a templates; llm-d v0.8 overlay for AWS",
    ),
    Rule(
        "K12",
        "Mooncake on a superchip registers memory without peermem",
        when=lambda line: (
            uses(line, "MooncakeConnector", "MooncakeStoreConnector")
            and line.accelerator.spec.kubernetes is not None
            and line.accelerator.spec.kubernetes.domain is not None
        ),
        require=lambda line: line.env.get(PEERMEM) == "0",
        message="Mooncake on {accelerator.name} needs WITH_NVIDIA_PEERMEM=0",
        remedy="Set WITH_NVIDIA_PEERMEM=0 in the environment.",
        at=(PEERMEM, "--kv-transfer-config"),
        source="vLLM 0.32.0 docs: MooncakeConnector on GB200",
    ),
    Rule(
        "V15",
        "Hashes of prefixes that are published mean the same in every replica",
        when=lambda line: _publishes(line) and str(line[HASH]).startswith("xxhash"),
        require=lambda line: bool(line.env.get(SEED)),
        message="{--prefix-caching-hash-algo} starts from a random seed in each replica, so a"
        " router finds no prefix twice",
        remedy="Set PYTHONHASHSEED to one number everywhere, or leave the algorithm out.",
        at=(HASH, EVENTS),
        source="vLLM 0.32.0 v1/core/kv_cache_utils.py:164",
    ),
    Rule(
        "T04",
        "A TPU that publishes its prefixes says its block size",
        when=_publishes,
        require=lambda line: line.block_size is not None,
        message="the size of a block follows --max-model-len on TPUs, and a router counts prefixes"
        " in it",
        remedy="Set --block-size, and the same in the router.",
        at=(EVENTS,),
        severity="warning",
        source="tpu-inference 0.32.0 platforms/tpu_platform.py",
        platforms=("tpu",),
    ),
)
