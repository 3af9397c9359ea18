"""Rules of vLLM on TPUs (tpu-inference) on packed weights and on blocks: what its kernels take.

tpu-inference has models of its own and can run vLLM's; packed weights are read by these, by those,
or by both. What is only untried there stands in `tpu`.
"""

from __future__ import annotations

from llmd_ctl.profiles.rules.line import Line, Platform
from llmd_ctl.profiles.rules.quantization import FLAG, method
from llmd_ctl.profiles.rules.rule import Rule

TPU: tuple[Platform, ...] = ("tpu",)
IMPLEMENTATION = "MODEL_IMPL_TYPE"
AWQ = ("awq", "auto_awq", "awq_marlin")
# Families that run as vLLM's models where nothing is said, and those that have one of its own.
PREFERRED = ("gpt_oss", "qwen3_moe", "qwen3_5_moe_text")
OWN = ("llama", "llama4_text", "qwen2", "qwen3", "deepseek_v3", "gemma4_text")
UNREAD = ("int8", "nvfp4")  # by these
BLOCK = "--block-size"


def _as_vllm(line: Line) -> bool:
    """Whether the model runs as vLLM has it."""
    said = line.env.get(IMPLEMENTATION, "").lower() or "auto"
    return said == "vllm" or (said == "auto" and line.model.family in PREFERRED)


def _unread(line: Line) -> bool:
    """Whether tpu-inference's own models do not read the weights, and do not leave them to vLLM's.

    A family that it has no model of runs as vLLM's, but only where the method is known to both.
    """
    of_both = line.model.traits.quantization == "compressed-tensors"
    odd = line.model.weight_dtype in UNREAD and (line.model.family in OWN or not of_both)
    return odd or method(line) in AWQ


def _rows(line: Line) -> int:
    """The rows of KV that fill a word."""
    return 4 if line.kv_dtype.startswith("fp8") else 2


RULES = (
    Rule(
        "T38",
        "AWQ on TPUs is computed in bf16",
        when=lambda line: method(line) in AWQ,
        require=lambda line: line.dtype == "bf16",
        message="weights in AWQ are not computed in {dtype} on TPUs, only in bf16",
        remedy="Say --dtype bfloat16: a checkpoint in AWQ says float16.",
        allowed=lambda _line: ("bfloat16",),
        at=("--dtype",),
        source="tpu-inference 0.32.0 layers/vllm/quantization/awq.py:74; vLLM 0.32.0"
        " config/vllm.py:907",
        platforms=TPU,
    ),
    Rule(
        "T39",
        "Packed weights that only vLLM's models read are served by those",
        when=_unread,
        require=_as_vllm,
        message="tpu-inference's own models read no such weights ({what} in {model.weight_dtype}),"
        " and it stops while it loads",
        remedy="Set MODEL_IMPL_TYPE to vllm in env of the variant.",
        words=lambda line: {"what": method(line)},
        at=(IMPLEMENTATION, FLAG),
        allowed=lambda _line: ("vllm",),
        source="tpu-inference 0.32.0 layers/jax/quantization/__init__.py:42,"
        " compressed_tensors.py:197, models/common/model_loader.py:325",
        platforms=TPU,
    ),
    Rule(
        "T41",
        "Adapters on TPUs are of vLLM's models",
        when=lambda line: line.on_by("--enable-lora"),
        require=lambda line: _as_vllm(line) or line.model.family not in OWN,
        message="tpu-inference's own model of this family takes no adapters",
        remedy="Set MODEL_IMPL_TYPE to vllm in env of the variant.",
        allowed=lambda _line: ("vllm",),
        allowed_of=(IMPLEMENTATION,),
        at=(IMPLEMENTATION, "--enable-lora"),
        source="tpu-inference 0.32.0 models/common/model_loader.py:541",
        platforms=TPU,
    ),
    Rule(
        "T42",
        "Graphs are no matter of TPUs",
        require=lambda line: (
            str(line.inside("--compilation-config", "cudagraph_mode")).upper() == "NONE"
        ),
        message="cudagraph_mode is set to NONE on TPUs",
        remedy="Leave it out.",
        at=("--compilation-config",),
        severity="warning",
        source="vLLM 0.32.0 config/vllm.py:1940",
        platforms=TPU,
    ),
    Rule(
        "T43",
        "Stages on TPUs are scheduled in step",
        when=lambda line: line.pipeline > 1,
        require=lambda line: line.given.get("--async-scheduling") is not True,
        message="without the new model runner, which needs Triton, --async-scheduling does not go"
        " with pipelines",
        remedy="Leave --async-scheduling out.",
        at=("--async-scheduling",),
        source="vLLM 0.32.0 config/vllm.py:2974",
        since="0.32.0",
        platforms=TPU,
    ),
    Rule(
        "T40",
        "A block on TPUs fills whole words",
        when=lambda line: not line.latent,
        require=lambda line: line.told(BLOCK) % _rows(line) == 0,
        message="blocks of {block_size} tokens are no multiple of {rows}, and the engine stops",
        remedy="Take a power of two, 16 to 256, or leave --block-size out.",
        allowed=lambda _line: (16, 32, 64, 128, 256),
        words=lambda line: {"rows": _rows(line)},
        at=(BLOCK,),
        source="tpu-inference 0.32.0 kernels/ragged_paged_attention/v3/kernel.py:1452,"
        " kernel_hd64.py:1292",
        platforms=TPU,
    ),
)
