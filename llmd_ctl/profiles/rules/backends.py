"""What an attention backend of vLLM 0.32.0 cannot beside what its table says (`Kernel`).

A table has a row by architecture; here stands what depends on other flags, the environment, or
several traits of a model at once. `attention` asks `hindrances` of named backends and of those that
the engine would try. Pure.
"""

from __future__ import annotations

from llmd_ctl.profiles.rules.environment import INVARIANT, numbered_on
from llmd_ctl.profiles.rules.line import Line
from llmd_ctl.profiles.rules.scheduling import number
from llmd_ctl.profiles.rules.transfer import NOT_BESIDE

# v1/attention/backend.py:343. FLASH_ATTN_MLA has another class on XPU, which cannot.
SPLITS_CONTEXT = (
    "FLASH_ATTN", "FLASH_ATTN_DIFFKV", "FLASHINFER", "FLASH_ATTN_MLA", "FLASHMLA", "FLASHINFER_MLA",
    "TOKENSPEED_MLA", "CUTLASS_MLA", "TRITON_MLA", "ROCM_AITER_MLA", "ROCM_AITER_TRITON_MLA",
    "FLASHMLA_SPARSE", "FLASHINFER_MLA_SPARSE",
)  # fmt: skip
NO_WINDOW = ("HPC_ATTN", "TURBOQUANT", "ULTRAQUANT")  # v1/attention/backend.py:329
FP8 = ("fp8", "fp8_e4m3")
FA4_WIDE, FA4_FP8_SM90, FA4_BLOCK = 128, 512, 64
FA4_PAGED, FA4_PAGE = 256, 128
FA3_WIDE = 256
FA2, FA4 = 2, 4
NVFP4_NARROW = 64
V4_NAMES = (
    "FLASHMLA_SPARSE", "FLASHMLA_SPARSE_DSV4", "FLASHINFER_MLA_SPARSE_DSV4",
    "ROCM_FLASHMLA_SPARSE_DSV4",
)  # fmt: skip
V4_REFUSES = ("FLASHINFER_MLA_SPARSE", "FLASHINFER_MLA_SPARSE_SM120")


def passed_over(line: Line) -> bool:
    """Whether the model chooses by itself: the engine neither uses nor refuses what is named."""
    name, family = line.backend, line.model.family
    if name is None:
        return False
    if line.model.traits.kind == "deepseek-v4":
        return line.platform != "cuda" or name not in (*V4_NAMES, *V4_REFUSES)
    return family.startswith("mimo_v2") and not name.endswith("_DIFFKV")


def packed(line: Line) -> bool:
    """Whether some layers keep a packed KV and others, at both ends, the model's own type."""
    kind = line.kv_dtype.startswith("turboquant_") or line.kv_dtype == "ultraquant_4bit"
    return kind and line.model.traits.kind != "hybrid"


def hindrances(name: str, line: Line) -> list[str]:
    """Return what a backend cannot of what a line asks."""
    return [what for what, amiss in (*_of_all(name, line), *_of_one(name, line)) if amiss]


def _of_all(name: str, line: Line) -> tuple[tuple[str, bool], ...]:
    split = number(line, "--decode-context-parallel-size", 1) > 1
    prompts = number(line, "--prefill-context-parallel-size", 1) > 1
    mla = "MLA" in name
    hybrid, latent = line.kind == "hybrid", line.latent
    cannot_split = name not in SPLITS_CONTEXT or (
        name == "FLASH_ATTN_MLA" and line.platform == "xpu"
    )
    return (
        ("split a context while decoding", split and cannot_split),
        ("split prompts by context", prompts and not mla),
        ("see a window alone", name in NO_WINDOW and line.model.window_layers > 0),
        ("keep latents", hybrid and latent and not mla),
        ("keep keys and values that are no latents", hybrid and mla and not latent),
    )


def elsewhere(name: str, line: Line) -> bool:
    """Whether another rule speaks of what hinders a named backend."""
    invariant = numbered_on(line, "VLLM_BATCH_INVARIANT") and name not in INVARIANT
    return invariant or (bool(line.connectors) and name in NOT_BESIDE)


def _of_one(name: str, line: Line) -> tuple[tuple[str, bool], ...]:
    if name in ("FLASH_ATTN", "TRITON_FLASH_ATTN") and line.platform == "cuda":
        return _flash(name, line)
    if name == "FLASHINFER":
        return _flashinfer(line)
    if name == "B12X":
        return (("use blocks other than 64 and 128", line.block_size not in (None, 64, 128)),)
    return ()


def hopper_takes_four(line: Line) -> bool:
    """Whether Hopper has FlashAttention 4 in each layer: fa_utils.py:145; models/config.py:270."""
    named = line.inside("--attention-config", "flash_attn_version")
    sizes = set(line.model.traits.head_sizes)
    return named == FA4 or (named is None and len(sizes) > 1) or min(sizes) > FA3_WIDE


def _flash(name: str, line: Line) -> tuple[tuple[str, bool], ...]:
    widest = max(line.model.traits.head_sizes)
    forced = line.inside("--attention-config", "flash_attn_version")
    newest = line.architecture.startswith("sm10")
    hopper = line.architecture == "sm90"
    # Version 4 computes otherwise in another batch: 2 takes its place.
    invariant = numbered_on(line, "VLLM_BATCH_INVARIANT")
    old = forced == FA2 or (invariant and (newest or (hopper and hopper_takes_four(line))))
    fp8, sinks = line.kv_dtype in FP8, line.model.traits.kind == "sinks"
    forced_four = hopper and forced == FA4 and widest != FA4_FP8_SM90
    narrow = line.block_size is not None and line.block_size % FA4_BLOCK != 0
    whole = line.images_see_whole
    wide = newest and widest > FA4_WIDE
    split = number(line, "--decode-context-parallel-size", 1) > 1
    paged = (
        newest and widest == FA4_PAGED and not (old or whole or split or line.kv_dtype != "auto")
    )
    cut = line.block_size is not None and line.block_size % FA4_PAGE != 0
    return (
        ("read fp8 KV as FlashAttention 2", fp8 and old),
        ("have sinks as FlashAttention 2", sinks and old),
        ("let images see themselves as FlashAttention 2", whole and old),
        ("be FlashAttention 2 itself", name == "TRITON_FLASH_ATTN" and old),
        ("read fp8 KV of these heads as FlashAttention 4", fp8 and forced_four),
        ("read fp8 KV of heads wider than 128", fp8 and wide),
        ("let images see themselves with heads wider than 128", whole and wide),
        ("read fp8 KV where images see themselves", fp8 and whole and hopper),
        ("cut heads of 256 into blocks that are no multiple of 128", paged and cut),
        (
            "cut fp8 KV of heads of 512 into blocks that are no multiple of 64",
            fp8 and hopper and widest == FA4_FP8_SM90 and narrow,
        ),
    )


def _flashinfer(line: Line) -> tuple[tuple[str, bool], ...]:
    nvfp4, sinks = line.kv_dtype.startswith("nvfp4"), line.model.traits.kind == "sinks"
    newest = line.architecture.startswith("sm10")
    split = number(line, "--decode-context-parallel-size", 1) > 1
    plain = line.inside("--attention-config", "use_trtllm_attention") is False
    plain = plain or numbered_on(line, "VLLM_BATCH_INVARIANT")
    narrow = NVFP4_NARROW in line.model.traits.head_sizes
    return (
        ("read nvfp4 KV of heads of 64", nvfp4 and narrow and not newest),
        ("read nvfp4 KV beside sinks", nvfp4 and sinks and not newest),
        ("read nvfp4 KV of a context that is split", nvfp4 and split and not newest),
        ("read nvfp4 KV without TensorRT-LLM's kernels", nvfp4 and newest and plain),
        ("have sinks without TensorRT-LLM's kernels", sinks and plain),
        ("have sinks in a context that is split", sinks and split and not newest),
    )
