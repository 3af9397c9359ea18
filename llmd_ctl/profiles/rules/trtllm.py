"""Rules of TensorRT-LLM: which packed weights a GPU computes with."""

from __future__ import annotations

from fnmatch import fnmatchcase

from llmd_ctl.profiles.rules.line import Line
from llmd_ctl.profiles.rules.rule import Rule

FOUR_BITS = ("awq", "gptq")
MATRIX = "TensorRT-LLM 09d4c79b docs/source/features/quantization.md: Hardware Support Matrix"
BLACKWELL, NO_FP8 = ("sm10?", "sm12?"), "sm80"


def _blackwell(line: Line) -> bool:
    return any(fnmatchcase(line.architecture, each) for each in BLACKWELL)


RULES: tuple[Rule, ...] = (
    Rule(
        "N05",
        "Weights of four bits by AWQ and GPTQ are not for Blackwell in TensorRT-LLM",
        when=_blackwell,
        require=lambda line: line.model.traits.quantization not in FOUR_BITS,
        message="TensorRT-LLM has no weights of {model.traits.quantization} on {architecture}",
        remedy="Take a checkpoint in NVFP4 or fp8, or serve this one with vLLM.",
        source=MATRIX,
        engine="trtllm",
    ),
    Rule(
        "N14",
        "Weights in NVFP4 are for Blackwell in TensorRT-LLM",
        when=lambda line: line.model.weight_dtype == "nvfp4",
        require=_blackwell,
        message="TensorRT-LLM has no weights in nvfp4 on {architecture}",
        remedy="Take a checkpoint in fp8, or serve this one with vLLM.",
        source=MATRIX,
        engine="trtllm",
    ),
    Rule(
        "N15",
        "Weights in fp8 are not for Ampere in TensorRT-LLM",
        when=lambda line: line.model.weight_dtype == "fp8",
        require=lambda line: line.architecture != NO_FP8,
        message="TensorRT-LLM has no weights in fp8 on {architecture}",
        remedy="Take a checkpoint in bf16, or serve this one with vLLM.",
        source=MATRIX,
        engine="trtllm",
    ),
)
