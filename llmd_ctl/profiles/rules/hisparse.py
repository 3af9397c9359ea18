"""Rules of vLLM on HiSparse: KV of sparse attention that lies in main memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llmd_ctl.profiles.rules.line import Line
from llmd_ctl.profiles.rules.rule import Rule
from llmd_ctl.profiles.rules.scheduling import number

NAME, FLAG = "HiSparseConnector", "--kv-transfer-config"
RESERVE, HYBRID = "--scheduler-reserve-full-isl", "--disable-hybrid-kv-cache-manager"


def _used(line: Line) -> bool:
    return (
        NAME in line.connectors or line.inside("--attention-config", "hisparse_config") is not None
    )


def _pool(line: Line) -> Any:
    """What the connector, which the line has once, may take of main memory."""
    extra = line.transfer.get("kv_connector_extra_config")
    extra = extra if isinstance(extra, Mapping) else {}
    if line.transfer.get("kv_connector") != "MultiConnector":
        return extra.get("host_pool_gib")
    inner = [each for each in extra["connectors"] if isinstance(each, Mapping)]
    own = next(each for each in inner if each.get("kv_connector") == NAME)
    said = own.get("kv_connector_extra_config")
    return said.get("host_pool_gib") if isinstance(said, Mapping) else None


def _cannot(line: Line) -> list[str]:
    full = line.inside("--compilation-config", "cudagraph_mode") == "FULL"
    pairs = (
        ("pipelines", line.pipeline > 1),
        ("decode context parallelism", number(line, "--decode-context-parallel-size", 1) > 1),
        ("cudagraph_mode FULL", full),
        ("--no-scheduler-reserve-full-isl", line.given.get(RESERVE) is False),
        ("--disable-hybrid-kv-cache-manager", line.on_by(HYBRID)),
        ("VLLM_USE_V2_MODEL_RUNNER=0", line.env.get("VLLM_USE_V2_MODEL_RUNNER") == "0"),
    )
    return [what for what, asked in pairs if asked]


RULES = (
    Rule(
        "K36",
        "HiSparse is of NVIDIA alone, and of sparse attention",
        when=_used,
        require=lambda line: line.platform == "cuda" and line.model.traits.kind == "dsa",
        message="HiSparse holds KV of sparse attention (index_topk) on NVIDIA, and of nothing else",
        remedy="Leave it out, and keep KV in main memory by OffloadingConnector.",
        at=(FLAG, "--attention-config"),
        source="vLLM 0.32.0 config/vllm.py:1807",
    ),
    Rule(
        "K37",
        "HiSparse is not put beside what it cannot",
        when=_used,
        require=lambda line: not _cannot(line),
        message="HiSparse does not go with {what}",
        remedy="Leave that out, or HiSparse.",
        words=lambda line: {"what": ", ".join(_cannot(line))},
        at=(FLAG, "--attention-config"),
        source="vLLM 0.32.0 config/vllm.py:1810-1833, :2209",
        platforms=("cuda",),
    ),
    Rule(
        "K38",
        "HiSparse has a pool of main memory, once",
        when=lambda line: NAME in line.connectors,
        require=lambda line: line.connectors.count(NAME) == 1 and _positive(_pool(line)),
        message='HiSparseConnector stands once, with a "host_pool_gib" above 0',
        remedy='Set "host_pool_gib" in its kv_connector_extra_config to the GiB it may take.',
        at=(FLAG,),
        source="vLLM 0.32.0 config/kv_transfer.py:37",
    ),
)


def _positive(value: Any) -> bool:
    return type(value) in (int, float) and value > 0
