"""Rules of vLLM on quantised weights and caches: methods by platform, what checkpoints hold."""

from __future__ import annotations

from llmd_ctl.profiles.rules.line import Line
from llmd_ctl.profiles.rules.rule import Rule

FLAG = "--quantization"
# vLLM 0.32.0 model_executor/layers/quantization/__init__.py
METHODS = frozenset(
    "awq auto_awq fp8 fbgemm_fp8 fp_quant modelopt modelopt_fp4 modelopt_mxfp8 modelopt_mixed"
    " auto_gptq gptq gptq_marlin awq_marlin humming compressed-tensors experts_int8 quark moe_wna16"
    " torchao inc mxfp4 gpt_oss_mxfp4 deepseek_v4_fp8 online fp8_per_tensor fp8_per_block"
    " fp8_per_channel int8_per_channel_weight_only nvfp4_per_token mxfp8".split()
)
OLD = frozenset({"fbgemm_fp8", "fp_quant"})
# Methods that quantise plain weights while they are loaded.
WHILE_LOADING = frozenset(
    "fp8 mxfp8 experts_int8 online fp8_per_tensor fp8_per_block fp8_per_channel torchao"
    " int8_per_channel_weight_only nvfp4_per_token humming inc".split()
)
# Other names under which a checkpoint of a method is served.
SERVED_AS = {
    "awq": frozenset({"auto_awq", "awq_marlin", "moe_wna16", "humming"}),
    "gptq": frozenset({"auto_gptq", "gptq_marlin", "moe_wna16", "humming"}),
    "modelopt": frozenset({"modelopt_fp4", "modelopt_mxfp8", "modelopt_mixed", "humming"}),
    "mxfp4": frozenset({"gpt_oss_mxfp4", "humming"}),
    "fp8": frozenset({"deepseek_v4_fp8", "humming"}),
}
ROCM = frozenset(
    "awq auto_awq awq_marlin gptq auto_gptq gptq_marlin fp8 deepseek_v4_fp8 compressed-tensors"
    " fbgemm_fp8 inc quark mxfp4 mxfp8 torchao modelopt modelopt_fp4 modelopt_mxfp8 modelopt_mixed"
    " fp8_per_tensor fp8_per_block fp8_per_channel online gpt_oss_mxfp4".split()
)
XPU = frozenset(
    "awq gptq moe_wna16 auto_awq auto_gptq inc fp8 deepseek_v4_fp8 mxfp4 mxfp8 fp8_per_tensor"
    " fp8_per_block fp8_per_channel online gpt_oss_mxfp4 modelopt compressed-tensors".split()
)
# Of plugins, with the names that checkpoints have for what they serve.
TPU = frozenset(
    "compressed-tensors awq auto_awq awq_marlin fp8 mxfp4 gpt_oss_mxfp4 modelopt modelopt_fp4"
    " deepseek_v4_fp8".split()
)
HPU = frozenset(
    "compressed-tensors fp8 inc awq awq_hpu gptq gptq_hpu modelopt mxfp4 gpt_oss_mxfp4".split()
)
NPU = frozenset("ascend compressed-tensors fp8 deepseek_v4_fp8 modelopt_mxfp8 mxfp8".split())
BY_PLATFORM = {"rocm": ROCM, "xpu": XPU, "tpu": TPU, "hpu": HPU, "npu": NPU}
# What a method computes in, where that is less than bf16 and fp16; vLLM 0.32.0
# model_executor/layers/quantization/*.py: get_supported_act_dtypes.
COMPUTES = {
    **dict.fromkeys(METHODS, ("bf16", "fp16")),
    **dict.fromkeys(("mxfp4", "gpt_oss_mxfp4", "modelopt_mxfp8", "fp_quant"), ("bf16",)),
    **dict.fromkeys(("compressed-tensors", "torchao"), ("bf16", "fp16", "fp32")),
}
NO_FP16 = ("gemma2", "gemma3", "gemma3_text", "glm4")


def method(line: Line) -> str:
    """Return the method that counts: what is said, else the checkpoint's own."""
    return str(line[FLAG] or line.model.traits.quantization)


def quick_int8(line: Line) -> bool:
    """Whether int8 is no slower than bf16 here, as far as that is known."""
    figures = (line.accelerator.spec.flops.get(dtype) for dtype in ("int8", "bf16"))
    int8, bf16 = (None if each is None else each.value for each in figures)
    return int8 is None or bf16 is None or int8 >= bf16


def reads_weights(line: Line) -> bool:
    """Whether packed weights are of a type that is read here, as far as that is known."""
    known = line.on.weight_dtypes
    return not line.model.traits.quantization or not known or line.model.weight_dtype in known


def _said(line: Line) -> bool:
    return isinstance(line[FLAG], str)


def _fits_checkpoint(line: Line) -> bool:
    stored, said = line.model.traits.quantization, str(line[FLAG])
    if not stored:
        return said in WHILE_LOADING
    return said == stored or said in SERVED_AS.get(stored, ())


def _legal(line: Line) -> list[str]:
    stored = line.model.traits.quantization
    fits = {stored, *SERVED_AS.get(stored, ())} if stored else WHILE_LOADING
    return sorted((fits & BY_PLATFORM.get(line.platform or "", METHODS)) - OLD)


RULES = (
    Rule(
        "V37",
        "The method of quantisation is one that the engine has",
        when=_said,
        require=lambda line: (
            line[FLAG] in METHODS or line[FLAG] in BY_PLATFORM.get(line.platform or "", ())
        ),
        message="{engine.name} {version} has no quantisation {--quantization}",
        remedy="Leave it out: a quantised checkpoint says its own method.",
        allowed=_legal,
        at=(FLAG,),
        source="vLLM 0.32.0 config/model.py:1453",
        since="0.32.0",
        platforms=("cuda", "rocm", "xpu", "cpu", "tpu", "hpu", "npu"),
    ),
    Rule(
        "V38",
        "The method of quantisation is the checkpoint's",
        when=lambda line: line[FLAG] in METHODS,
        require=_fits_checkpoint,
        message="--quantization {--quantization} does not fit the checkpoint, whose weights are"
        " {model.weight_dtype}",
        remedy="Leave it out, or take a checkpoint of that method.",
        allowed=_legal,
        at=(FLAG,),
        source="vLLM 0.32.0 config/model.py:1444; model_loader/weight_utils.py: get_quant_config",
        platforms=("cuda", "rocm", "xpu", "cpu", "tpu"),
    ),
    Rule(
        "V39",
        "The method of quantisation runs on the platform",
        when=lambda line: method(line) in METHODS,
        require=lambda line: method(line) in BY_PLATFORM.get(line.platform or "", METHODS),
        message="{accelerator.name} does not serve weights of this quantisation",
        remedy="Take another checkpoint.",
        allowed=_legal,
        at=(FLAG,),
        source="vLLM 0.32.0 platforms/rocm.py, platforms/xpu.py: supported_quantization; likewise"
        " tpu-inference 0.32.0, vllm-gaudi 0.26.0, vllm-ascend of August 2026",
        platforms=("rocm", "xpu", "tpu", "hpu", "npu"),
    ),
    Rule(
        "V173",
        "Packed weights are of a type that the accelerator's engine reads",
        require=reads_weights,
        message="{engine.name} reads no weights in {model.weight_dtype} on {accelerator.name}",
        remedy="Take a checkpoint in one of {types}, or another accelerator.",
        words=lambda line: {"types": ", ".join(line.on.weight_dtypes)},
        source="weightDtypes of the accelerator's profile; vLLM 0.32.0"
        " model_executor/kernels/linear/__init__.py:427; vllm-ascend 0.23.0"
        " quantization/methods/fp8.py:47",
        platforms=("xpu", "cpu", "npu", "neuron"),
    ),
    Rule(
        "V40",
        "A method that will go is asked for knowingly",
        when=lambda line: line[FLAG] in OLD,
        require=lambda line: line.on_by("--allow-deprecated-quantization"),
        message="quantisation {--quantization} is deprecated and refused",
        remedy="Take another method.",
        allowed=_legal,
        at=(FLAG,),
        source="vLLM 0.32.0 config/model.py:1467",
        platforms=("cuda", "rocm", "xpu", "cpu"),
    ),
    Rule(
        "V41",
        "An e5m2 cache does not go with an fp8 checkpoint",
        when=lambda line: line.kv_dtype == "fp8_e5m2",
        require=lambda line: (
            line.model.traits.quantization not in ("fp8", "compressed-tensors")
            or line.model.weight_dtype != "fp8"
        ),
        message="a KV cache of fp8_e5m2 is refused of a checkpoint in fp8",
        remedy="Take fp8 or fp8_e4m3.",
        at=("--kv-cache-dtype",),
        source="vLLM 0.32.0 model_executor/layers/attention/attention.py",
    ),
    Rule(
        "V136",
        "The method of quantisation computes in the type that is asked for",
        when=lambda line: method(line) in METHODS,
        require=lambda line: line.dtype in COMPUTES[method(line)],
        message="weights of this quantisation ({what}) are not computed in {dtype}",
        remedy="Leave --dtype out, or take one that they are.",
        allowed=lambda line: COMPUTES[method(line)],
        words=lambda line: {"what": method(line)},
        at=("--dtype",),
        source="vLLM 0.32.0 config/vllm.py:907",
        platforms=("cuda", "rocm", "xpu", "cpu", "tpu"),
    ),
    Rule(
        "V137",
        "Models that float16 cannot hold are not computed in it",
        when=lambda line: line.dtype == "fp16",
        require=lambda line: line.model.family not in NO_FP16,
        message="a model of {model.family} gives wrong numbers in float16, and the engine"
        " refuses it",
        remedy="Take bfloat16, or leave --dtype out.",
        allowed=lambda _line: ("bfloat16", "float32"),
        at=("--dtype",),
        source="vLLM 0.32.0 config/model.py:2380",
        platforms=("cuda", "rocm", "xpu", "cpu"),
    ),
    Rule(
        "V138",
        "A latent is not kept in plain nvfp4",
        when=lambda line: line.kv_dtype in ("nvfp4", "nvfp4_4over6"),
        require=lambda line: line.model.traits.kind not in ("mla", "dsa", "deepseek-v4"),
        message="a KV cache of {kv_dtype} is not for models that keep a latent",
        remedy="Take fp8, or nvfp4_ds_mla of sparse attention.",
        allowed=lambda _line: ("auto", "fp8", "nvfp4_ds_mla"),
        at=("--kv-cache-dtype",),
        source="vLLM 0.32.0 config/vllm.py:3286",
    ),
    Rule(
        "N06",
        "Weights in int8 are computed at speed",
        when=lambda line: line.model.weight_dtype == "int8",
        require=quick_int8,
        message="{accelerator.name} computes int8 more slowly than bf16",
        remedy="Take a checkpoint in fp8 or NVFP4.",
        at=(FLAG,),
        severity="warning",
        source="flops of the accelerator's profile; of B300: aiconfigurator 095f58a b300_sxm.yaml",
        platforms=("cuda",),
    ),
    Rule(
        "V54",
        "The type of the KV cache is one that the accelerator has",
        when=lambda line: bool(line.on.kv_dtypes),
        require=lambda line: line.kv_dtype in line.on.kv_dtypes,
        message="{accelerator.name} has no KV cache of type {kv_dtype}",
        remedy="Take one that it has, or leave it out.",
        allowed=lambda line: line.on.kv_dtypes,
        at=("--kv-cache-dtype",),
        source="kvDtypes of the accelerator's profile; vllm-gaudi 0.26.0, tpu-inference 0.32.0",
    ),
)
