"""Rules of SGLang on weights that are packed: what a checkpoint has, what an accelerator reads."""

from __future__ import annotations

from collections.abc import Mapping

from llmd_ctl.profiles.rules.line import Line
from llmd_ctl.profiles.rules.quantization import quick_int8, reads_weights
from llmd_ctl.profiles.rules.rule import Rule
from llmd_ctl.profiles.rules.sglang_asked import rule, said, text

FLAG = "--quantization"
ON_AMD = frozenset({
    "awq", "fp8", "compressed-tensors", "w8a8_fp8", "petit_nvfp4", "quark",
    "mxfp4", "mxfp8", "auto-round", "auto-round-int8", "quark_int4fp8_moe", "quark_mxfp4",
})  # fmt: skip
OF_CHECKPOINTS: Mapping[str, frozenset[str]] = {
    "modelopt_fp4": frozenset({"fp8"}), "nvfp4_online": frozenset({"fp8"}),
    "w8a8_int8": frozenset({"compressed-tensors"}), "w8a8_fp8": frozenset({"compressed-tensors"}),
    "auto-round-int8": frozenset({"compressed-tensors"}),
    "awq_marlin": frozenset({"awq"}), "gptq_marlin": frozenset({"gptq"}),
    "moe_wna16": frozenset({"awq", "gptq"}), "humming": frozenset({"awq", "gptq", "fp8"}),
}  # fmt: skip
REPACKED = frozenset({"quark_mxfp4"})
LEAST: Mapping[str, int] = {
    "fp8": 80, "mxfp8": 100, "modelopt_fp8": 89, "w8a8_fp8": 89, "w4afp8": 90, "petit_nvfp4": 90,
    "nvfp4_online": 100, "awq_marlin": 80, "gptq_marlin": 80, "mxfp4": 80, "w8a8_int8": 75,
}  # fmt: skip
HALF_ONLY = ("awq", "gptq")
FILLED = ("deepseek", "kimi_k2", "qwen3_moe", "qwen3_5", "glm4_moe", "glm_moe_dsa")
SLOW = ("awq", "gptq", "bitsandbytes", "gguf", "mxfp4", "mxfp8")


def method(line: Line) -> str | None:
    """Return how weights are packed: what is said, else what the checkpoint says."""
    told = line.given.get(FLAG)
    if told is not None:
        return None if told == "unquant" else str(told)
    return line.model.traits.quantization or None


def of_experts(line: Line) -> str | None:
    """Return how weights are packed, as checks of experts see it.

    Those read flags; what a checkpoint says gets there on Blackwell, for some families.
    """
    filled = line.architecture.startswith("sm10") and line.model.family.startswith(FILLED)
    return method(line) if line.given.get(FLAG) is not None or filled else None


def _capability(line: Line) -> int:
    digits = line.architecture.removeprefix("sm")
    return int(digits) if line.platform == "cuda" and digits.isdigit() else 1000


def _fits(line: Line) -> bool:
    stored, told = line.model.traits.quantization, str(line.given[FLAG])
    if stored == "modelopt":  # which says its type, and overrules all but one
        return told != "nvfp4_online" or line.model.weight_dtype == "fp8"
    known = OF_CHECKPOINTS.get(told, ())
    return told in REPACKED or stored == told or stored in known or not stored


RULES: tuple[Rule, ...] = (
    rule(
        "S107", "Weights are packed as the checkpoint has them", FLAG, _fits,
        "the checkpoint is {model.traits.quantization}, not {--quantization}",
        "Leave --quantization out: the engine reads it in the checkpoint.",
        "configs/model_config.py:2143, layers/quantization/base_config.py:235",
        when=lambda line: said(FLAG)(line) and line[FLAG] != "unquant",
    ),
    rule(
        "S108", "Some packed weights are not read on AMD", FLAG,
        lambda line: method(line) in (None, *ON_AMD),
        "SGLang reads no weights of {packed} on ROCm", "Take a checkpoint in fp8 or bf16.",
        "configs/model_config.py:2157", when=lambda line: line.platform == "rocm",
        allowed=lambda _line: sorted(ON_AMD), words=lambda line: {"packed": method(line)},
    ),
    Rule(
        "S206",
        "Packed weights are of a type that the accelerator reads",
        when=lambda line: method(line) != "petit_nvfp4",  # which has a kernel for it
        require=reads_weights,
        message="SGLang reads no weights in {model.weight_dtype} on {accelerator.name}",
        remedy="Take a checkpoint in one of {types}.",
        words=lambda line: {"types": ", ".join(line.on.weight_dtypes)},
        at=(FLAG,),
        source="SGLang 0.5.23 srt/layers/quantization/mxfp4.py:331, marlin_utils_fp4.py:21",
        engine="sglang",
    ),
    rule(
        "S109", "Packed weights are read by a GPU that is new enough", FLAG,
        lambda line: _capability(line) >= LEAST.get(method(line) or "", 0),
        "weights of {packed} are not read on {architecture}", "Take a checkpoint that is.",
        "model_loader/loader.py:260", words=lambda line: {"packed": method(line)},
    ),
    rule(
        "S110", "AWQ and GPTQ of their own kernels compute in fp16", FLAG,
        lambda line: line.dtype == "fp16",
        "--quantization {--quantization} computes in fp16, not in {dtype}",
        "Leave --quantization out, or add --dtype float16.", "model_loader/loader.py:268",
        when=lambda line: line.platform == "cuda" and line.given.get(FLAG) in HALF_ONLY
        and text(line, "--dtype", "auto") != "auto",
        at=(FLAG, "--dtype"),
    ),
    rule(
        "S111", "Packed weights are not computed in fp32", "--dtype",
        lambda line: line.dtype != "fp32", "weights of {packed} are not computed in fp32",
        "Take bfloat16.", "model_loader/loader.py:268",
        when=lambda line: method(line) not in (None, "bitsandbytes", "gguf"),
        words=lambda line: {"packed": method(line)},
    ),
    rule(
        "S112", "Some packed weights are slow", FLAG,
        lambda line: line[FLAG] not in SLOW
        or (line[FLAG] in ("mxfp4", "mxfp8") and line.architecture.startswith("sm10")),
        "--quantization {--quantization} is not fast: it may be slower than plain weights",
        "Leave it out, so that the engine takes its fast kernels.",
        "configs/model_config.py:2168", severity="warning",
    ),
    rule(
        "S205", "Weights in int8 are computed at speed", FLAG, quick_int8,
        "{accelerator.name} computes int8 more slowly than bf16",
        "Take a checkpoint in fp8 or NVFP4.", "layers/quantization/w8a8_int8.py",
        when=lambda line: line.model.weight_dtype == "int8", severity="warning",
    ),
)  # fmt: skip
