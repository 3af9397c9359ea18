"""Rules of vLLM on NIXL: KV that one engine hands over to another, from device to device."""

from __future__ import annotations

from collections.abc import Mapping

from llmd_ctl.profiles.rules.line import Line
from llmd_ctl.profiles.rules.rule import Rule
from llmd_ctl.profiles.rules.scheduling import number
from llmd_ctl.profiles.rules.transfer import FLAG, HYBRID, NIXL, OWN, uses

BUFFERS: Mapping[str | None, tuple[str, ...]] = {
    "cuda": ("cuda", "cpu"), "rocm": ("cuda", "cpu"), "xpu": ("cpu", "xpu"), "cpu": ("cpu",),
    "tpu": ("cpu",), "hpu": ("cpu", "hpu"), "rbln": ("rbln", "cpu"),
}  # fmt: skip


def _kinds(line: Line) -> bool:
    return bool(line.model.window_layers) or line.model.traits.kind == "hybrid"


def _context(line: Line) -> tuple[int, int]:
    decode = number(line, "--decode-context-parallel-size", 1)
    return decode, number(line, "--prefill-context-parallel-size", 1)


RULES = (
    Rule(
        "K07",
        "KV is handed over in memory that the accelerator can",
        when=lambda line: uses(line, *NIXL) and line.transfer.get("kv_buffer_device") is not None,
        require=lambda line: (
            line.transfer["kv_buffer_device"]
            in BUFFERS.get(line.platform, (line.transfer["kv_buffer_device"],))
        ),
        message="NIXL cannot hand KV over in memory of {device} on {accelerator.name}",
        remedy="Set kv_buffer_device to one that it can, or leave it out.",
        allowed=lambda line: BUFFERS.get(line.platform, ()),
        words=lambda line: {"device": line.transfer["kv_buffer_device"]},
        at=(FLAG,),
        source="vLLM 0.32.0 kv_connector/v1/nixl/utils.py:18, base_worker.py:684",
    ),
    Rule(
        "K09",
        "A side of NIXL is one side",
        when=lambda line: uses(line, *NIXL),
        require=lambda line: line.transfer.get("kv_role") != "kv_both",
        message="kv_both is deprecated for NIXL, and will be refused",
        remedy="Say kv_producer where prompts are read, and kv_consumer where answers are written.",
        allowed=lambda _line: ("kv_producer", "kv_consumer"),
        at=(FLAG,),
        severity="warning",
        source="vLLM 0.32.0 kv_connector/v1/nixl/connector.py:97",
    ),
    Rule(
        "K04",
        "Pipelines that hand over several kinds of cache push them",
        when=lambda line: uses(line, "NixlConnector", "NixlPullConnector") and line.pipeline > 1,
        require=lambda line: not _kinds(line) or line.on_by(HYBRID),
        message="the connector cannot pull a model's several kinds of cache out of a pipeline",
        remedy="Take NixlPushConnector, or tensor parallelism alone.",
        at=(FLAG, "--pipeline-parallel-size"),
        source="vLLM 0.32.0 kv_connector/v1/nixl/base_worker.py:761",
        since="0.24.0",
    ),
    Rule(
        "K21",
        "Pipelines only hand KV over, and no states",
        when=lambda line: uses(line, *NIXL) and line.pipeline > 1,
        require=lambda line: (
            line.transfer.get("kv_role") != "kv_consumer" and line.model.traits.kind != "hybrid"
        ),
        message="NIXL has no pipeline where answers are written, and none with recurrent states",
        remedy="Take tensor parallelism alone.",
        at=("--pipeline-parallel-size",),
        source="vLLM 0.32.0 kv_connector/v1/nixl/base_worker.py:769",
        since="0.24.0",
    ),
    Rule(
        "K08",
        "A quantised cache of processors goes to processors alone",
        when=lambda line: uses(line, *NIXL),
        require=lambda line: not line.kv_dtype.startswith("fp8"),
        message="a KV cache of {kv_dtype} cannot be handed over between processors and other"
        " devices",
        remedy="Leave --kv-cache-dtype out, unless both sides are processors.",
        at=("--kv-cache-dtype", FLAG),
        severity="warning",
        source="vLLM 0.32.0 platforms/cpu.py:766; nixl/base_worker.py:2520",
        platforms=("cpu",),
    ),
    Rule(
        "K27",
        "Context parallelism and NIXL split a latent over all devices or over none",
        when=lambda line: uses(line, "NixlConnector") and _context(line)[0] > 1,
        require=lambda line: (
            line.is_latent and _context(line)[0] == max(line.tensor, _context(line)[1])
        ),
        message="NIXL hands over a context that is split {--decode-context-parallel-size} ways only"
        " of latents, and over all {tensor} devices",
        remedy="Leave --decode-context-parallel-size out, or set it to all devices.",
        at=("--decode-context-parallel-size", FLAG),
        source="vLLM 0.32.0 config/vllm.py:1474",
        since="0.24.0",
    ),
    Rule(
        "K28",
        "Pushed KV is not split by context",
        when=lambda line: uses(line, "NixlPushConnector"),
        require=lambda line: _context(line)[0] == 1,
        message="NixlPushConnector knows no decode context parallelism",
        remedy="Leave --decode-context-parallel-size out.",
        at=("--decode-context-parallel-size", FLAG),
        source="vLLM 0.32.0 kv_connector/v1/nixl/connector.py:383",
        since="0.24.0",
    ),
    Rule(
        "K29",
        "Prompts are split by context only where they are read",
        when=lambda line: uses(line, *NIXL) and _context(line)[1] > 1,
        require=lambda line: line.transfer.get("kv_role") == "kv_producer",
        message="NIXL has prefill context parallelism only on the side that reads prompts",
        remedy="Leave --prefill-context-parallel-size out on this side.",
        at=("--prefill-context-parallel-size", FLAG),
        source="vLLM 0.32.0 kv_connector/v1/nixl/connector.py:108",
        since="0.24.0",
    ),
    Rule(
        "K30",
        "States that NIXL hands over lie as it reads them",
        when=lambda line: uses(line, *NIXL) and line.model.traits.kind == "hybrid",
        require=lambda line: line.env.get("VLLM_SSM_CONV_STATE_LAYOUT") == "DS",
        message="NIXL reads recurrent states only where VLLM_SSM_CONV_STATE_LAYOUT is DS",
        remedy="Set VLLM_SSM_CONV_STATE_LAYOUT=DS in the environment of both sides.",
        at=("VLLM_SSM_CONV_STATE_LAYOUT", FLAG),
        source="vLLM 0.32.0 kv_connector/v1/nixl/base_worker.py:606",
        platforms=OWN,
    ),
)
