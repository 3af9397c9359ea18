"""Rules of vLLM on the kernels of experts: what each takes, and on whose devices it runs.

What is named by --moe-backend has no fallback: where it does not fit, the engine stops while it
loads. Experts that move tokens themselves stand in `experts`. Pure.
"""

from __future__ import annotations

from llmd_ctl.profiles.rules.line import Line
from llmd_ctl.profiles.rules.quantization import method
from llmd_ctl.profiles.rules.rule import Rule

FLAG, AITER = "--moe-backend", "VLLM_ROCM_USE_AITER"
ORACLE = "vLLM 0.32.0 model_executor/layers/fused_moe/oracle"
PLAIN = ("bf16", "fp16", "fp32")
# By the weights: the names that are mapped to a kernel for them.
TAKES = {
    "plain": "triton batched_triton flashinfer_trtllm flashinfer_cutlass aiter humming".split(),
    "fp8": "triton deep_gemm cutlass flashinfer_trtllm flashinfer_cutlass marlin humming aiter"
    " hpc".split(),
    "nvfp4": "b12x cutlass flashinfer_trtllm flashinfer_cutlass flashinfer_cutedsl"
    " flashinfer_moe_ep_cutedsl flashinfer_b12x marlin humming emulation".split(),
    "int8": "triton humming".split(),
    "int4": "triton marlin humming flashinfer_trtllm emulation rdna3".split(),
}
ON_CUDA = frozenset(
    "deep_gemm deep_gemm_mega_moe cutlass flashinfer_trtllm flashinfer_cutlass flashinfer_cutedsl"
    " flashinfer_moe_ep_cutedsl flashinfer_b12x flashinfer_moe_ep_mega_deep_gemm b12x marlin"
    " hpc".split()
)
ON_ROCM = frozenset("aiter aiter_mega_moe aiter_triton_mxfp4_bf16 flydsl rdna3".split())


def _named(line: Line) -> bool:
    """Whether experts have a kernel by name."""
    return line[FLAG] not in (None, "auto") and line.model.experts > 0


def _weights(line: Line) -> str:
    """The kind of weights that experts have, once they are loaded; "" where no table is of it."""
    if line.model.traits.kind == "deepseek-v4":
        return ""  # it has kernels of its own
    stored = line.model.weight_dtype
    loaded = "fp8" if method(line) == "fp8" else stored
    if loaded in PLAIN:
        return "" if method(line) else "plain"
    return loaded if loaded in TAKES else ""


RULES = (
    Rule(
        "V178",
        "Experts have a kernel for their weights",
        when=lambda line: _named(line) and bool(_weights(line)),
        require=lambda line: line[FLAG] in TAKES[_weights(line)],
        message="--moe-backend {--moe-backend} has no kernel for experts of this kind ({kind_})",
        remedy="Name one that has, or leave it to the engine.",
        words=lambda line: {"kind_": _weights(line)},
        allowed=lambda line: TAKES[_weights(line)],
        at=(FLAG,),
        source=f"{ORACLE}: unquantized.py:192, fp8.py:282, nvfp4.py:179, int8.py:96,"
        " int_wna16.py:250",
        since="0.32.0",
        platforms=("cuda", "rocm"),
    ),
    Rule(
        "V179",
        "Kernels of experts are for the accelerator's maker",
        when=_named,
        require=lambda line: line[FLAG] not in (ON_ROCM if line.platform == "cuda" else ON_CUDA),
        message="--moe-backend {--moe-backend} does not run on {accelerator.name}",
        remedy="Name another one, or leave it to the engine.",
        at=(FLAG,),
        source="vLLM 0.32.0 model_executor/layers/fused_moe/experts: _supports_current_device;"
        " platforms/interface.py:1368",
        platforms=("cuda", "rocm"),
    ),
    Rule(
        "V180",
        "AITER's experts are switched on",
        when=lambda line: _named(line) and line[FLAG] == "aiter",
        require=lambda line: line.switched(AITER),
        message="--moe-backend aiter is refused where VLLM_ROCM_USE_AITER is not 1",
        remedy="Set VLLM_ROCM_USE_AITER to 1 in env, or leave --moe-backend out.",
        at=(FLAG, AITER),
        source="vLLM 0.32.0 model_executor/layers/fused_moe/experts/rocm_aiter_moe.py:479",
        platforms=("rocm",),
    ),
    Rule(
        "V181",
        "Kernels of experts are chosen on GPUs and processors",
        when=_named,
        require=lambda _line: False,
        message="--moe-backend has no effect on {accelerator.name}",
        remedy="Leave it out.",
        at=(FLAG,),
        severity="warning",
        source=f"{ORACLE}/unquantized.py:228",
        platforms=("tpu", "hpu", "npu"),
    ),
)
