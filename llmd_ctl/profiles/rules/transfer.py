"""Rules of vLLM on KV that leaves the engine: connectors, what they need, events, main memory.

One line shows one side; whether two sides agree is a matter of plans.
"""

from __future__ import annotations

from typing import Any

from llmd_ctl.profiles.rules.hybrid import cached
from llmd_ctl.profiles.rules.line import Line, Platform
from llmd_ctl.profiles.rules.rule import Rule

FLAG, EVENTS, OFFLOAD = "--kv-transfer-config", "--kv-events-config", "--kv-offloading-size"
HYBRID = "--disable-hybrid-kv-cache-manager"
NIXL = ("NixlConnector", "NixlPullConnector", "NixlPushConnector")
# vLLM 0.32.0 distributed/kv_transfer/kv_connector/factory.py; False: one kind of cache alone.
CONNECTORS = {
    **dict.fromkeys(
        (*NIXL, "MultiConnector", "HiSparseConnector", "MoRIIOConnector", "OffloadingConnector",
         "DecodeBenchConnector", "MooncakeConnector", "MooncakeStoreConnector",
         "SimpleCPUOffloadConnector", "ExampleHiddenStatesConnector"),
        True,
    ),
    **dict.fromkeys(
        ("LMCacheConnectorV1", "FlexKVConnectorV1", "HF3FSKVConnector", "ExampleConnector"), False
    ),
    "LMCacheMPConnector": None,  # lmcache's own, which says it itself
}  # fmt: skip
OWN: tuple[Platform, ...] = ("cuda", "rocm", "xpu", "cpu")
NOT_BESIDE = ("ROCM_ATTN", "ROCM_SEGMENTED_ATTN")


def uses(line: Line, *names: str) -> bool:
    """Whether one of these connectors is in use."""
    return any(name in line.connectors for name in names)


def _extra(line: Line, key: str) -> Any:
    extra = line.transfer.get("kv_connector_extra_config")
    return extra.get(key) if isinstance(extra, dict) else None


def _single(line: Line) -> bool:
    """Whether a connector of the engine's own holds one kind of cache alone."""
    own = not line.transfer.get("kv_connector_module_path")
    return own and any(CONNECTORS.get(name) is False for name in line.connectors)


def _expandable(line: Line) -> bool:
    said = line.env.get("PYTORCH_CUDA_ALLOC_CONF", "")
    safe = line.on_by("--enable-cumem-allocator") or line.on_by("--enable-sleep-mode")
    return "expandable_segments:True" in said and not safe


RULES = (
    Rule(
        "K39",
        "KV is handed over by a connector that is named",
        when=lambda line: line.says(FLAG),
        require=lambda line: isinstance(line.transfer.get("kv_connector"), str),
        message="--kv-transfer-config names no connector",
        remedy='Add "kv_connector", or leave the flag out.',
        allowed=lambda _line: sorted(CONNECTORS),
        at=(FLAG,),
        source="vLLM 0.32.0 distributed/kv_transfer/kv_connector/factory.py:106",
        platforms=OWN,
    ),
    Rule(
        "K19",
        "The KV connector is one that the engine has",
        when=lambda line: not line.transfer.get("kv_connector_module_path"),
        require=lambda line: all(name in CONNECTORS for name in line.connectors),
        message="{engine.name} {version} has no KV connector {names}",
        remedy="Name one of its own, or say where it is found in kv_connector_module_path.",
        allowed=lambda _line: sorted(CONNECTORS),
        words=lambda line: {"names": ", ".join(n for n in line.connectors if n not in CONNECTORS)},
        at=(FLAG,),
        source="vLLM 0.32.0 distributed/kv_transfer/kv_connector/factory.py:118",
        platforms=OWN,
    ),
    Rule(
        "K20",
        "A KV connector knows which side it is",
        when=lambda line: bool(line.connectors),
        require=lambda line: line.transfer.get("kv_role") is not None,
        message="a KV connector is named without its role",
        remedy='Add "kv_role": kv_producer where prompts are read, kv_consumer where answers are'
        " written, kv_both where KV is only kept.",
        allowed=lambda _line: ("kv_producer", "kv_consumer", "kv_both"),
        at=(FLAG,),
        source="vLLM 0.32.0 config/kv_transfer.py:120",
    ),
    Rule(
        "V175",
        "KV is moved to main memory where the engine can",
        when=lambda line: line.says(OFFLOAD) or line.connector == "OffloadingConnector",
        require=lambda line: isinstance(_extra(line, "spec_module_path"), str),
        message="KV is moved to main memory by the engine's own connector on GPUs and Gaudi, not on"
        " {accelerator.name}",
        remedy="Leave it out, or name the connector that is made for it.",
        at=(OFFLOAD, FLAG),
        source="vLLM 0.32.0 v1/kv_offload/cpu/spec.py:199; vllm-ascend 0.23.0"
        " docs: kv_cache_cpu_offload.md (its own spec)",
        platforms=("npu", "neuron", "rbln"),
    ),
    Rule(
        "K06",
        "The attention backend leaves its KV where connectors find it",
        when=lambda line: bool(line.connectors),
        require=lambda line: line.backend not in NOT_BESIDE,
        message="{backend} lays its KV out in a way that no connector reads",
        remedy="Name another backend, or leave it to the engine.",
        at=("--attention-backend", "--attention-config", FLAG),
        source="vLLM 0.32.0 v1/attention/backends/rocm_attn.py:180",
        platforms=("rocm",),
    ),
    Rule(
        "K22",
        "Memory that connectors have registered stays where it is",
        when=lambda line: bool(line.connectors),
        require=lambda line: not _expandable(line),
        message="with expandable_segments:True the KV that a connector has registered may move",
        remedy="Remove it from PYTORCH_CUDA_ALLOC_CONF, or add --enable-cumem-allocator.",
        at=("PYTORCH_CUDA_ALLOC_CONF", FLAG),
        source="vLLM 0.32.0 config/vllm.py:1194: _verify_kv_transfer_compat",
        platforms=("cuda", "rocm", "xpu", "cpu"),
    ),
    Rule(
        "K23",
        "Recurrent states need a connector that knows several kinds of cache",
        when=lambda line: _single(line) and line.model.traits.kind == "hybrid",
        require=lambda _line: False,
        message="{names} holds one kind of cache, and this model keeps recurrent states too",
        remedy="Take another connector.",
        allowed=lambda _line: sorted(name for name, several in CONNECTORS.items() if several),
        words=lambda line: {"names": ", ".join(line.connectors)},
        at=(FLAG,),
        source="vLLM 0.32.0 config/vllm.py:2177",
    ),
    Rule(
        "K24",
        "Windows are kept short by a connector that knows them",
        when=lambda line: (
            _single(line) and bool(line.model.window_layers) and line.given.get(HYBRID) is None
        ),
        require=lambda _line: False,
        message="{names} holds one kind of cache: layers with a window keep the whole context",
        remedy="Take another connector, or add --disable-hybrid-kv-cache-manager knowingly.",
        words=lambda line: {"names": ", ".join(line.connectors)},
        at=(FLAG,),
        severity="warning",
        source="vLLM 0.32.0 config/vllm.py:2177",
    ),
    Rule(
        "K25",
        "Several kinds of cache are not asked of a connector that knows one",
        when=lambda line: line.given.get(HYBRID) is False,
        require=lambda line: not _single(line),
        message="--no-disable-hybrid-kv-cache-manager asks {names} for what it cannot",
        remedy="Leave it out: the engine decides by the connector.",
        words=lambda line: {"names": ", ".join(line.connectors)},
        at=(HYBRID, FLAG),
        source="vLLM 0.32.0 distributed/kv_transfer/kv_connector/factory.py:57",
    ),
    Rule(
        "K26",
        "Main memory for KV comes without another connector",
        when=lambda line: line.inside(FLAG, "kv_connector") is not None,
        require=lambda line: line.inside(FLAG, "kv_connector") == line.transfer["kv_connector"],
        message="--kv-offloading-size puts {connector} in the place of {said}, whose KV goes"
        " nowhere",
        remedy="Leave it out, and name both connectors inside a MultiConnector.",
        words=lambda line: {
            "connector": line.transfer["kv_connector"],
            "said": line.inside(FLAG, "kv_connector"),
        },
        at=(OFFLOAD, FLAG),
        severity="warning",
        source="vLLM 0.32.0 config/vllm.py:1099: _post_init_kv_transfer_config",
        platforms=OWN,
    ),
    Rule(
        "K31",
        "Several kinds of cache are handed over only while they are kept apart",
        when=lambda line: bool(line.connectors) and line.model.traits.kind == "hybrid",
        require=lambda line: not line.on_by(HYBRID),
        message="recurrent states cannot be handed over without the manager of several caches",
        remedy="Leave --disable-hybrid-kv-cache-manager out.",
        at=(HYBRID, FLAG),
        source="vLLM 0.32.0 kv_connector/v1/nixl/base_worker.py:601",
    ),
    Rule(
        "K32",
        "A store of Mooncake keeps states only at the ends of blocks",
        when=lambda line: (
            uses(line, "MooncakeStoreConnector") and line.model.traits.kind == "hybrid"
        ),
        require=cached,
        message="MooncakeStoreConnector keeps recurrent states only with prefix caching",
        remedy="Leave out --no-enable-prefix-caching.",
        at=("--enable-prefix-caching", "--mamba-cache-mode", FLAG),
        source="vLLM 0.32.0 kv_connector/v1/mooncake/store/connector.py:146",
        since="0.24.0",
    ),
    Rule(
        "K33",
        "A MultiConnector has connectors in it",
        when=lambda line: line.transfer.get("kv_connector") == "MultiConnector",
        require=lambda line: len(line.connectors) > 1,
        message='a MultiConnector holds no connectors: "connectors" is missing',
        remedy='List them in "kv_connector_extra_config": {{"connectors": [...]}}.',
        at=(FLAG,),
        source="vLLM 0.32.0 kv_connector/v1/multi_connector.py",
    ),
    Rule(
        "K34",
        "KV on a disk has a place there",
        when=lambda line: (
            uses(line, "SimpleCPUOffloadConnector")
            and _extra(line, "kv_offload_backend") is not None
        ),
        require=lambda line: (
            _extra(line, "kv_offload_backend") == "cpu"
            or (_extra(line, "kv_offload_backend") == "disk" and bool(_extra(line, "disk_path")))
        ),
        message='"kv_offload_backend" is cpu, or disk with a "disk_path"',
        remedy="Add the folder of the disk, or keep KV in main memory.",
        allowed=lambda _line: ("cpu", "disk"),
        at=(FLAG,),
        source="vLLM 0.32.0 kv_connector/v1/simple_cpu_offload_connector.py:108",
    ),
    Rule(
        "K35",
        "Events of the KV cache come of a cache",
        when=lambda line: line.inside(EVENTS, "enable_kv_cache_events") is True,
        require=lambda line: line["--enable-prefix-caching"] is not False,
        message="events of the KV cache are on, and prefix caching is off: none are ever sent",
        remedy="Leave out --no-enable-prefix-caching, or the events.",
        at=("--enable-prefix-caching", EVENTS),
        severity="warning",
        source="vLLM 0.32.0 config/vllm.py:1971",
    ),
)
