"""Rules of vLLM on Intel GPUs (XPU): what is reset or turned off there, and what is refused."""

from __future__ import annotations

from typing import cast

from llmd_ctl.profiles.rules.amd import COMPILE, PREFILL, fused
from llmd_ctl.profiles.rules.line import Line, Platform
from llmd_ctl.profiles.rules.quantization import method
from llmd_ctl.profiles.rules.rule import Rule
from llmd_ctl.profiles.rules.scheduling import number

XPU: tuple[Platform, ...] = ("xpu",)
INVARIANT, SPAWN = "VLLM_BATCH_INVARIANT", "VLLM_WORKER_MULTIPROC_METHOD"
PLAIN_KV = ("auto", "float16", "bfloat16")
# Passes of the compiler that other GPUs have.
FUSIONS = ("fuse_allreduce_rms", "fuse_attn_quant", "fuse_rope_kvcache_cat_mla")
PARALLEL = ("--tensor-parallel-size", "--pipeline-parallel-size", PREFILL)


def _split(line: Line) -> int:
    return line.tensor * line.pipeline * number(line, PREFILL, 1)


def _captures(line: Line) -> bool:
    mode = line.inside(COMPILE, "cudagraph_mode")
    return str(mode).upper() != "NONE"


RULES = (
    Rule(
        "X03",
        "Fusions that Intel GPUs have not are not asked of them",
        when=lambda line: bool(fused(line, FUSIONS)),
        require=lambda _line: False,
        message="such a fusion is turned off on Intel GPUs",
        remedy="Leave it out of pass_config.",
        at=(COMPILE,),
        severity="warning",
        source="vLLM 0.32.0 platforms/xpu.py:383",
        platforms=XPU,
    ),
    Rule(
        "X04",
        "Answers that no batch changes come of plain weights and a plain cache",
        when=lambda line: line.switched(INVARIANT),
        require=lambda line: not method(line) and line.kv_dtype in PLAIN_KV,
        message="VLLM_BATCH_INVARIANT is refused on Intel GPUs with quantised weights or KV",
        remedy="Take a plain checkpoint and leave --kv-cache-dtype out, or unset the variable.",
        at=("--quantization", "--kv-cache-dtype", INVARIANT),
        source="vLLM 0.32.0 platforms/xpu.py:334",
        since="0.24.0",
        platforms=XPU,
    ),
    Rule(
        "X05",
        "Workers on Intel GPUs are spawned",
        when=lambda line: SPAWN in line.env,
        require=lambda line: line.env[SPAWN] == "spawn",
        message="Intel GPUs work in spawned processes only: a forked one may not open them",
        remedy="Unset VLLM_WORKER_MULTIPROC_METHOD, or set it to spawn.",
        at=(SPAWN,),
        severity="warning",
        source="vLLM 0.32.0 platforms/xpu.py:438",
        platforms=XPU,
    ),
    Rule(
        "X07",
        "Intel GPUs capture no graphs where they may sleep",
        when=lambda line: line.on_by("--enable-sleep-mode"),
        require=lambda line: not _captures(line),
        message="graphs are turned off on Intel GPUs with --enable-sleep-mode",
        remedy="Leave cudagraph_mode out, or the sleep.",
        at=(COMPILE,),
        severity="warning",
        source="vLLM 0.32.0 platforms/xpu.py:376",
        since="0.24.0",
        platforms=XPU,
    ),
    Rule(
        "X08",
        "Answers that no batch changes come of an attention that was tried for it",
        when=lambda line: line.switched(INVARIANT),
        require=lambda line: line.backend != "FLASH_ATTN",
        message="FLASH_ATTN is taken, and may answer otherwise in another batch",
        remedy="Leave it out: the engine takes TRITON_ATTN with VLLM_BATCH_INVARIANT.",
        at=("--attention-backend", "--attention-config"),
        severity="warning",
        source="vLLM 0.32.0 platforms/xpu.py:195",
        since="0.24.0",
        platforms=XPU,
    ),
    Rule(
        "X09",
        "UCX keeps no table of memory on Intel GPUs",
        when=lambda line: "UCX_MEMTYPE_CACHE" in line.env,
        require=lambda line: line.env["UCX_MEMTYPE_CACHE"] == "n",
        message="UCX_MEMTYPE_CACHE is set to n, whatever is said",
        remedy="Leave the variable unset.",
        at=("UCX_MEMTYPE_CACHE",),
        severity="warning",
        source="vLLM 0.32.0 platforms/xpu.py:436",
        platforms=XPU,
    ),
    Rule(
        "X10",
        "A server on Intel GPUs takes time to end",
        require=lambda line: line["--shutdown-timeout"] != 0,
        message="a server ends after 5 s at the soonest: 0 is raised",
        remedy="Say 1 or more, or leave --shutdown-timeout out.",
        at=("--shutdown-timeout",),
        severity="warning",
        source="vLLM 0.32.0 platforms/xpu.py:445",
        since="0.24.0",
        platforms=XPU,
    ),
    Rule(
        "X11",
        "A copy on Intel GPUs takes no more than its machine shows",
        when=lambda line: line.devices is not None and number(line, "--nnodes", 1) == 1,
        require=lambda line: _split(line) <= cast(int, line.devices),
        message="one copy is split over more Intel GPUs than the {devices} that are there",
        remedy="Lower --tensor-parallel-size, or set --nnodes where there are several machines.",
        allowed=lambda line: (line.devices,),
        at=PARALLEL,
        source="vLLM 0.32.0 v1/worker/xpu_worker.py:101",
        since="0.24.0",
        platforms=XPU,
        sized=True,
    ),
    Rule(
        "X12",
        "Weights of ModelOpt on Intel GPUs are in fp8",
        when=lambda line: line.model.traits.quantization == "modelopt",
        require=lambda line: line.model.weight_dtype != "nvfp4",
        message="Intel GPUs serve ModelOpt's fp8, and not its nvfp4",
        remedy="Take a checkpoint in fp8, mxfp4 or int4.",
        at=("--quantization",),
        source="vLLM 0.32.0 platforms/xpu.py:117, quantization/modelopt.py:772",
        platforms=XPU,
    ),
    Rule(
        "X13",
        "Two kernels of attention on Intel GPUs are for images that see themselves whole",
        when=lambda line: line.backend == "TRITON_FLASH_ATTN",
        require=lambda line: line.images_see_whole,
        message="TRITON_FLASH_ATTN on Intel GPUs serves models whose images see themselves whole",
        remedy="Leave the backend to the engine.",
        allowed=lambda _line: ("FLASH_ATTN", "TRITON_ATTN"),
        at=("--attention-backend", "--attention-config"),
        source="vLLM 0.33.0 platforms/xpu.py:227,:261",
        since="0.33.0",
        platforms=XPU,
    ),
)
