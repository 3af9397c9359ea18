"""Rules of vLLM on processors: blocks, attention, what it turns off."""

from __future__ import annotations

from llmd_ctl.profiles.rules.line import Line, Platform
from llmd_ctl.profiles.rules.rule import Rule

STEP = 32
LATENT_BLOCK, COMPRESSED_BLOCK = 16, 256
UNEVEN = 6  # workers whose collectives over shared memory are not built
OWN = ("CPU_ATTN", "CPU_MLA", "AMX_MLA", "ZENTORCH")
SPACE, BYTES = "VLLM_CPU_KVCACHE_SPACE", "--kv-cache-memory-bytes"
BIND = "VLLM_CPU_OMP_THREADS_BIND"
CPU: tuple[Platform, ...] = ("cpu",)


def _plain_latent(line: Line) -> bool:
    """Latent attention by the plain kernel: without AMX, or where it is asked for."""
    amx = line.architecture == "x86-64" and line.backend != "CPU_MLA"
    return line.model.traits.kind == "mla" and not amx


def _in_fp8_blocks(line: Line) -> bool:
    return line.model.traits.in_blocks and line.model.weight_dtype == "fp8"


def _in_mx(line: Line) -> bool:
    """Whether linear layers are packed in a Microscaling format."""
    packed = line.model.traits.quantization
    in_mxfp4 = packed == "compressed-tensors" and line.model.weight_dtype == "mxfp4"
    return in_mxfp4 or packed == "mxfp8"


def _lists(line: Line) -> list[str]:
    """Lists of cores that are bound, one for each worker; none where they are found."""
    said = line.env.get(BIND, "auto")
    return [] if said in {"auto", "nobind"} else said.split("|")


def _workers(line: Line) -> int:
    return line.tensor * line.pipeline * line.data


RULES = (
    Rule(
        "C01",
        "A block of a processor's cache is a multiple of 32 tokens",
        when=lambda line: (
            line.model.traits.kind in {"dense", "sinks", "hybrid", "mla"}
            and not _plain_latent(line)
        ),
        require=lambda line: (line.block_size or STEP) % STEP == 0,
        message="blocks of {block_size} tokens are no multiple of 32, and the engine stops",
        remedy="Take a multiple of 32.",
        allowed=lambda _line: (32, 64, 128),
        at=("--block-size",),
        source="vLLM 0.32.0 platforms/cpu.py:297; v1/attention/backends/cpu_attn.py",
        platforms=CPU,
    ),
    Rule(
        "C10",
        "A block of a latent cache has 16 tokens on processors",
        when=lambda line: line.block_size is not None and _plain_latent(line),
        require=lambda line: line.block_size == LATENT_BLOCK,
        message="blocks of {block_size} tokens are overruled: latent attention has 16 here",
        remedy="Leave --block-size out.",
        at=("--block-size",),
        severity="warning",
        source="vLLM 0.32.0 platforms/cpu.py:276",
        since="0.24.0",
        platforms=CPU,
    ),
    Rule(
        "C02",
        "Sparse attention is not there on processors",
        when=lambda line: line.model.traits.kind == "dsa",
        require=lambda _line: False,
        message="the model attends sparsely, which {engine.name} cannot on processors",
        remedy="Choose another accelerator, or model.",
        source="vLLM 0.32.0 platforms/cpu.py:149",
        platforms=CPU,
    ),
    Rule(
        "C03",
        "What processors cannot is not asked of them",
        when=lambda line: line.on_by("--async-scheduling") or line.on_by("--enable-dbo"),
        require=lambda _line: False,
        message="asynchronous scheduling and micro batches are turned off on processors",
        remedy="Leave it out.",
        at=("--async-scheduling", "--enable-dbo"),
        severity="warning",
        source="vLLM 0.32.0 platforms/cpu.py:346",
        platforms=CPU,
    ),
    Rule(
        "C09",
        "Prefixes of a latent cache are not kept on processors without AMX",
        when=lambda line: line.given.get("--enable-prefix-caching") is True,
        require=lambda line: not _plain_latent(line),
        message="the engine turns prefix caching off: its kernel for this model cannot",
        remedy="Leave --enable-prefix-caching out.",
        at=("--enable-prefix-caching",),
        severity="warning",
        source="vLLM 0.32.0 platforms/cpu.py:522",
        platforms=CPU,
    ),
    Rule(
        "C11",
        "The attention backend of a processor is its own",
        when=lambda line: line.backend is not None,
        require=lambda line: line.backend in OWN,
        message="{backend} is not for processors: the engine takes its own",
        remedy="Leave it out.",
        at=("--attention-backend", "--attention-config"),
        severity="warning",
        source="vLLM 0.32.0 platforms/cpu.py: get_attn_backend_cls",
        platforms=CPU,
    ),
    Rule(
        "C04",
        "The KV cache of a processor is sized once",
        when=lambda line: bool(line.env.get(SPACE)) and line.says(BYTES),
        require=lambda _line: False,
        message="VLLM_CPU_KVCACHE_SPACE overrules --kv-cache-memory-bytes",
        remedy="Unset the variable: it is the older way.",
        at=(BYTES, SPACE),
        severity="warning",
        source="vLLM 0.32.0 platforms/cpu.py:324",
        platforms=CPU,
    ),
    Rule(
        "C05",
        "Six workers on processors do not go together",
        when=lambda line: line.tensor == UNEVEN,
        require=lambda _line: False,
        message="--tensor-parallel-size 6 is not built on processors",
        remedy="Take one worker for each NUMA node: 2, 4 or 8.",
        allowed=lambda _line: (1, 2, 4, 8),
        at=("--tensor-parallel-size",),
        source="vLLM 0.32.0 docs/getting_started/installation/cpu.md:292",
        platforms=CPU,
    ),
    Rule(
        "C12",
        "The KV cache of a processor is a whole number of GiB",
        when=lambda line: bool(line.env.get(SPACE)),
        require=lambda line: line.env[SPACE].strip().lstrip("+").isdecimal(),
        message="VLLM_CPU_KVCACHE_SPACE is read as whole GiB, and nothing else is",
        remedy="Write it without unit and point, or use --kv-cache-memory-bytes.",
        at=(SPACE,),
        source="vLLM 0.32.0 platforms/cpu.py:324",
        platforms=CPU,
    ),
    Rule(
        "C13",
        "A block of a compressed cache has 256 tokens on processors",
        when=lambda line: line.block_size is not None and line.model.traits.kind == "deepseek-v4",
        require=lambda line: line.block_size == COMPRESSED_BLOCK,
        message="blocks of {block_size} tokens are overruled: this model has 256 here",
        remedy="Leave --block-size out.",
        at=("--block-size",),
        severity="warning",
        source="vLLM 0.32.0 platforms/cpu.py:287",
        since="0.24.0",
        platforms=CPU,
    ),
    Rule(
        "C14",
        "KV that lies in main memory is not moved there",
        when=lambda line: (
            line.says("--kv-offloading-size") or line.connector == "OffloadingConnector"
        ),
        require=lambda _line: False,
        message="KV is offloaded from GPUs only: on processors it lies in main memory already",
        remedy="Leave it out, and give the cache more with --kv-cache-memory-bytes.",
        at=("--kv-offloading-size", "--kv-transfer-config"),
        source="vLLM 0.32.0 v1/kv_offload/cpu/spec.py:201",
        platforms=CPU,
    ),
    Rule(
        "C15",
        "Each worker on processors has its list of cores",
        when=lambda line: bool(_lists(line)),
        require=lambda line: len(_lists(line)) in {_workers(line), line.tensor * line.pipeline},
        message="VLLM_CPU_OMP_THREADS_BIND has not one list of cores for each worker",
        remedy="Give each worker a list, with | between them, or set the variable to auto.",
        at=(BIND,),
        source="vLLM 0.32.0 utils/ompmultiprocessing.py:165",
        platforms=CPU,
    ),
    Rule(
        "C16",
        "A worker on processors has a process of its own",
        when=lambda line: line["--distributed-executor-backend"] == "uni",
        require=lambda line: line.env.get("VLLM_ENABLE_V1_MULTIPROCESSING", "1") != "1",
        message="--distributed-executor-backend uni becomes mp on processors",
        remedy="Say mp, or leave it out.",
        at=("--distributed-executor-backend",),
        severity="warning",
        source="vLLM 0.32.0 platforms/cpu.py:336",
        platforms=CPU,
    ),
    Rule(
        "C17",
        "Adapters on processors run without a compiler",
        when=lambda line: line.on_by("--enable-lora"),
        require=lambda line: line.inside("--compilation-config", "mode") in (None, 0, "NONE"),
        message="compilation is turned off on processors with --enable-lora",
        remedy='Leave "mode" out of --compilation-config.',
        at=("--compilation-config",),
        severity="warning",
        source="vLLM 0.32.0 platforms/cpu.py:379",
        platforms=CPU,
    ),
    Rule(
        "C18",
        "No graphs are captured on processors",
        when=lambda line: (
            line.says("--cudagraph-capture-sizes")
            or bool(line.inside("--compilation-config", "cudagraph_capture_sizes"))
        ),
        require=lambda _line: False,
        message="sizes of captured graphs are dropped on processors",
        remedy="Leave cudagraph_capture_sizes out.",
        at=("--cudagraph-capture-sizes", "--compilation-config"),
        severity="warning",
        source="vLLM 0.32.0 platforms/cpu.py:353",
        platforms=CPU,
    ),
    Rule(
        "C19",
        "Prompts of a latent model are not cut on processors without AMX",
        when=lambda line: line.given.get("--enable-chunked-prefill") is True,
        require=lambda line: not _plain_latent(line),
        message="the engine turns chunked prefill off: its kernel for this model cannot",
        remedy="Leave --enable-chunked-prefill out; a step then holds the longest prompt.",
        at=("--enable-chunked-prefill",),
        severity="warning",
        source="vLLM 0.32.0 platforms/cpu.py:522",
        platforms=CPU,
    ),
    Rule(
        "C21",
        "Weights in fp8 with scales of blocks are computed by AMX",
        when=_in_fp8_blocks,
        require=lambda line: line.architecture == "x86-64",
        message="no kernel of {accelerator.name} computes weights in fp8 with scales of blocks",
        remedy="Take a checkpoint in bf16, or in fp8 with scales of tensors or channels.",
        source="vLLM 0.32.0 model_executor/kernels/linear/__init__.py:493, scaled_mm/cpu.py:241",
        platforms=CPU,
    ),
    Rule(
        "C22",
        "Weights in fp8 with scales of blocks want a processor with AMX",
        when=_in_fp8_blocks,
        require=lambda line: line.architecture == "aarch64",  # which C21 refuses
        message="weights in fp8 with scales of blocks are computed by AMX alone: the engine stops"
        " on a processor without it",
        remedy="Place it on machines with AMX (Sapphire Rapids or newer), or take one in bf16.",
        severity="warning",
        source="vLLM 0.32.0 model_executor/kernels/linear/scaled_mm/cpu.py:241",
        platforms=CPU,
    ),
    Rule(
        "C23",
        "Weights with scales of 32 are computed by GPUs, but for experts of gpt-oss",
        when=_in_mx,
        require=lambda _line: False,
        message="no kernel of processors computes weights of this kind ({method} in"
        " {model.weight_dtype})",
        remedy="Take a checkpoint in bf16, int8 or int4.",
        words=lambda line: {"method": line.model.traits.quantization},
        source="vLLM 0.32.0 model_executor/kernels/linear/__init__.py:552,:607",
        platforms=CPU,
    ),
)
