"""Rules of vLLM on Gaudi (vllm-gaudi): blocks, types, weights, drafts, and what is turned off.

The shapes that are compiled before the first request stand in `gaudi_buckets`.
"""

from __future__ import annotations

from llmd_ctl.profiles.rules.line import Line, Platform
from llmd_ctl.profiles.rules.rule import Rule

HPU: tuple[Platform, ...] = ("hpu",)
PLATFORM = "vllm-gaudi 0.26.0 platform.py"
BLOCK, LEAST_BLOCK, CHUNK = 128, 16, 128
COMPILE, QUANTIZATION, DRAFT = "--compilation-config", "--quantization", "--speculative-config"
CONTIGUOUS, LAYOUT, FORK = (
    "VLLM_CONTIGUOUS_PA", "VLLM_HPU_HETERO_KV_LAYOUT", "VLLM_WORKER_MULTIPROC_METHOD",
)  # fmt: skip
TRANSFER, DIRECT = "--kv-transfer-config", "VLLM_NIXL_DEVICE_TO_DEVICE"
COLLECTIVES = "PT_HPU_ENABLE_LAZY_COLLECTIVES"
# Checkpoints that are served only under the plugin's own name for their method.
NAMED = {"awq": "awq_hpu", "gptq": "gptq_hpu"}
UNDRAFTED = ("medusa", "suffix", "draft_model", "ngram_gpu", "mlp_speculator")
METHODS = ("ngram", "eagle", "eagle3", "mtp")
GATED, OWN_BLOCK = "qwen3_5", "granitemoehybrid"  # families whose blocks the plugin sets


def _sets_block(line: Line) -> bool:
    """Whether the plugin sets the model's block, whatever is said."""
    return line.model.family.startswith(GATED) or line.model.family == OWN_BLOCK


def _keeps(line: Line) -> bool:
    return line.model.family.startswith(GATED) and line.block_size == BLOCK


def _least(line: Line) -> int:
    """The tokens that a kernel takes at once, at the least."""
    return BLOCK if line.model.traits.kind in {"mla", "dsa"} else LEAST_BLOCK


def _compiles(line: Line) -> bool:
    keys = ("mode", "cudagraph_mode", "cudagraph_capture_sizes", "custom_ops")
    inside = any(line.inside(COMPILE, key) not in (None, 0, "NONE", []) for key in keys)
    return inside or line.says("--cudagraph-capture-sizes", "--max-cudagraph-capture-size")


RULES = (
    Rule(
        "G01",
        "A block on Gaudi is a multiple of 128 tokens",
        when=lambda line: not _sets_block(line),
        require=lambda line: (
            line.told("--block-size") % BLOCK == 0 or line.told("--block-size") % _least(line) != 0
        ),
        message="blocks of {block_size} tokens are very slow on Gaudi",
        remedy="Take 128, or leave --block-size out.",
        allowed=lambda _line: (BLOCK,),
        at=("--block-size",),
        severity="warning",
        source=f"{PLATFORM}:152",
        platforms=HPU,
        sized=True,
    ),
    Rule(
        "G09",
        "A block on Gaudi is cut into those of its kernels",
        when=lambda line: not _sets_block(line),
        require=lambda line: line.told("--block-size") % _least(line) == 0,
        message="no kernel of Gaudi takes blocks of {block_size} tokens of this model",
        remedy="Take 128, or leave --block-size out.",
        allowed=lambda _line: (BLOCK,),
        at=("--block-size",),
        source="vllm-gaudi 0.26.0 v1/attention/backends/hpu_attn.py:42, attention/backends:95",
        platforms=HPU,
    ),
    Rule(
        "G10",
        "The plugin sets the block of a hybrid model",
        when=lambda line: line.block_size is not None and _sets_block(line),
        require=_keeps,
        message="blocks of {block_size} tokens are overruled: Gaudi sets this model's own",
        remedy="Leave --block-size out.",
        at=("--block-size",),
        severity="warning",
        source=f"{PLATFORM}: check_and_update_config, update_block_size_for_backend",
        platforms=HPU,
    ),
    Rule(
        "G02",
        "Gaudi computes in bf16",
        require=lambda line: line.dtype == "bf16",
        message="{dtype} is not computed with on Gaudi: the engine takes bf16 instead",
        remedy="Say --dtype bfloat16.",
        at=("--dtype",),
        severity="warning",
        source=f"{PLATFORM}: check_and_update_config",
        platforms=HPU,
    ),
    Rule(
        "G03",
        "Contiguous blocks on Gaudi keep no prefixes",
        when=lambda line: line.switched(CONTIGUOUS),
        require=lambda line: line["--enable-prefix-caching"] is False,
        message="prefix caching is turned off: VLLM_CONTIGUOUS_PA lays blocks side by side",
        remedy="Unset the variable, or say --no-enable-prefix-caching.",
        at=("--enable-prefix-caching", CONTIGUOUS),
        severity="warning",
        source=f"{PLATFORM}: check_and_update_config",
        platforms=HPU,
    ),
    Rule(
        "G06",
        "Graphs of several Gaudis need collectives in them",
        when=lambda line: line.env.get("PT_HPU_LAZY_MODE") == "1" and line.tensor > 1,
        require=lambda line: COLLECTIVES not in line.env or line.switched(COLLECTIVES),
        message="several devices cannot talk inside graphs: PT_HPU_ENABLE_LAZY_COLLECTIVES is off",
        remedy="Set it to true, or leave it to the plugin.",
        at=(COLLECTIVES,),
        source=f"{PLATFORM}: set_torch_compile",
        platforms=HPU,
    ),
    Rule(
        "G12",
        "AWQ and GPTQ on Gaudi go by the plugin's names",
        when=lambda line: line.model.traits.quantization in NAMED,
        require=lambda line: line[QUANTIZATION] == NAMED[line.model.traits.quantization],
        message="Gaudi refuses a checkpoint in {model.traits.quantization} under that name",
        remedy="Set --quantization to the plugin's own name for it.",
        allowed=lambda line: (NAMED[line.model.traits.quantization],),
        at=(QUANTIZATION,),
        source="vllm-gaudi 0.26.0 platform.py:66, ops/hpu_awq.py:96",
        platforms=HPU,
    ),
    Rule(
        "G13",
        "Gaudi has no floats of four bits with scales of blocks",
        require=lambda line: line.model.weight_dtype != "nvfp4",
        message="Gaudi does not serve weights in {model.weight_dtype}",
        remedy="Take a checkpoint in fp8 or int4.",
        at=(QUANTIZATION,),
        source="vllm-gaudi 0.26.0 ops/hpu_compressed_tensors.py:145, platform.py:66",
        platforms=HPU,
    ),
    Rule(
        "G14",
        "A way of drafting is one that Gaudi has",
        require=lambda line: line.draft_method not in UNDRAFTED,
        message="tokens are not drafted by {draft_method} on Gaudi",
        remedy="Take another method, or leave drafting out.",
        allowed=lambda _line: METHODS,
        at=(DRAFT, "--spec-method"),
        source="vllm-gaudi 0.26.0 v1/worker/hpu_model_runner.py:1456",
        platforms=HPU,
    ),
    Rule(
        "G15",
        "Drafting on Gaudi is scheduled in step",
        when=lambda line: bool(line.draft),
        require=lambda line: line.given.get("--async-scheduling") is not True,
        message="asynchronous scheduling is turned off on Gaudi while tokens are drafted",
        remedy="Leave --async-scheduling out.",
        at=("--async-scheduling",),
        severity="warning",
        source=f"{PLATFORM}: check_and_update_config",
        platforms=HPU,
    ),
    Rule(
        "G16",
        "Compiling and capturing of vLLM's own are not Gaudi's",
        when=_compiles,
        require=lambda _line: False,
        message="modes of compilation and captured graphs are set back on Gaudi",
        remedy="Leave them out: the plugin compiles by its buckets.",
        at=(COMPILE, "--cudagraph-capture-sizes", "--max-cudagraph-capture-size"),
        severity="warning",
        source=f"{PLATFORM}: check_and_update_config",
        platforms=HPU,
    ),
    Rule(
        "G17",
        "A step of a recurrent model on Gaudi holds whole chunks",
        when=lambda line: line.model.traits.kind == "hybrid",
        require=lambda line: line.told("--max-num-batched-tokens") % CHUNK == 0,
        message="steps of {--max-num-batched-tokens} tokens are no multiple of the model's chunks",
        remedy="Take a multiple of 128, or of 256 for Granite 4.",
        allowed=lambda _line: (2048, 4096, 8192),
        at=("--max-num-batched-tokens",),
        source="vllm-gaudi 0.26.0 extension/bucketing/common.py:100",
        platforms=HPU,
    ),
    Rule(
        "G18",
        "Sparse attention on Gaudi sees everything",
        when=lambda line: line.model.traits.kind == "dsa",
        require=lambda _line: False,
        message="the model attends sparsely; Gaudi lets it see all, which is another answer"
        " for prompts longer than its index",
        remedy="Choose another accelerator for long prompts.",
        severity="warning",
        source=f"{PLATFORM}: get_attn_backend_cls",
        platforms=HPU,
    ),
    Rule(
        "G19",
        "The attention backend of Gaudi is its own",
        when=lambda line: line.backend is not None,
        require=lambda _line: False,
        message="{backend} is passed over: Gaudi takes its own, and says nothing",
        remedy="Leave it out.",
        at=("--attention-backend", "--attention-config"),
        severity="warning",
        source=f"{PLATFORM}: get_attn_backend_cls",
        platforms=HPU,
    ),
    Rule(
        "G20",
        "Workers on Gaudi are spawned",
        when=lambda line: line.env.get(FORK) == "fork",
        require=lambda _line: False,
        message="forked workers on Gaudi may hang when they end",
        remedy="Unset VLLM_WORKER_MULTIPROC_METHOD, or set it to spawn.",
        at=(FORK,),
        severity="warning",
        source=f"{PLATFORM}: check_and_update_config",
        platforms=HPU,
    ),
    Rule(
        "K15",
        "KV for other accelerators is laid out by a word that is read",
        when=lambda line: line.switched(LAYOUT),
        require=lambda line: line.env[LAYOUT].lower() == "true",
        message="VLLM_HPU_HETERO_KV_LAYOUT is read as on only where it is the word true",
        remedy="Set it to true where the other side is not a Gaudi, or unset it.",
        allowed=lambda _line: ("true",),
        at=(LAYOUT,),
        severity="warning",
        source="vllm-gaudi 0.26.0 __init__.py:106",
        platforms=HPU,
    ),
    Rule(
        "G27",
        "NIXL on Gaudi is told whose memory it is",
        when=lambda line: line.inside(TRANSFER, "kv_buffer_device") in ("cpu", "hpu"),
        require=lambda line: (
            line.switched(DIRECT) == (line.inside(TRANSFER, "kv_buffer_device") == "hpu")
        ),
        message="NIXL takes buffers for main memory, or with VLLM_NIXL_DEVICE_TO_DEVICE=1 for the"
        " device's, and kv_buffer_device says the other",
        remedy="Set the variable for hpu, and unset it for cpu.",
        at=(DIRECT, TRANSFER),
        severity="warning",
        source=f"{PLATFORM}: get_nixl_memory_type",
        platforms=HPU,
    ),
)
