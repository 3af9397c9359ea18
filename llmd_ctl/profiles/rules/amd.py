"""Rules of vLLM on AMD GPUs (ROCm): what only it has, and what it turns off."""

from __future__ import annotations

from llmd_ctl.profiles.rules.line import Line, Platform
from llmd_ctl.profiles.rules.rule import Rule
from llmd_ctl.profiles.rules.scheduling import number

ROCM: tuple[Platform, ...] = ("rocm",)
COMPILE = "--compilation-config"
VISIBLE = ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
ASYNC = "--async-scheduling"
PREFILL = "--prefill-context-parallel-size"
HIGH_THROUGHPUT = "deepep_high_throughput"
# Passes of the compiler that ROCm alone has; others turn them off.
FUSIONS = (
    "fuse_act_padding", "fuse_mla_dual_rms_norm", "fuse_rope_kvcache", "fuse_qk_norm_rope_kvcache",
)  # fmt: skip
SHUFFLED = "VLLM_ROCM_SHUFFLE_KV_CACHE_LAYOUT"
MORI = ("mori_high_throughput", "mori_low_latency")


def fused(line: Line, passes: tuple[str, ...]) -> list[str]:
    """Return those of these passes that a line switches on."""
    return [name for name in passes if line.inside(COMPILE, "pass_config", name) is True]


def _same_devices(line: Line) -> bool:
    hip, cuda = (line.env.get(name) for name in VISIBLE)
    return not hip or not cuda or hip == cuda


def _whole_graphs(line: Line) -> bool:
    return "FULL" in str(line.inside(COMPILE, "cudagraph_mode")).upper()


UNTRIED = ("amd-mi300x",)  # of which no recipe of DeepSeek V4 speaks

RULES = (
    Rule(
        "A05",
        "The accelerator is one that the model's recipe names",
        when=lambda line: line.model.traits.kind == "deepseek-v4",
        require=lambda line: line.accelerator.name not in UNTRIED,
        message="the recipes for a model of this kind ({model.traits.kind}) exclude"
        " {accelerator.name}: the engine takes it, untried",
        remedy="Choose MI355X, or measure its answers first.",
        severity="warning",
        source="vLLM recipes (8959cf6): DeepSeek-V4",
    ),
    Rule(
        "A06",
        "KV that is shuffled is read by the backend that does",
        when=lambda line: line.switched(SHUFFLED) and line.backend is not None,
        require=lambda line: line.backend == "ROCM_AITER_FA",
        message="only ROCM_AITER_FA lays KV out as VLLM_ROCM_SHUFFLE_KV_CACHE_LAYOUT says",
        remedy="Take that one, or leave the variable out.",
        allowed=lambda _line: ("ROCM_AITER_FA",),
        at=("--attention-backend", "--attention-config", SHUFFLED),
        severity="warning",
        source="vLLM 0.32.0 v1/attention/backends/rocm_aiter_fa.py:823",
        platforms=ROCM,
    ),
    Rule(
        "A11",
        "Visible GPUs are named alike to HIP and to CUDA",
        require=_same_devices,
        message="HIP_VISIBLE_DEVICES and CUDA_VISIBLE_DEVICES name other GPUs",
        remedy="Set one of them only, or both alike.",
        at=VISIBLE,
        source="vLLM 0.32.0 platforms/rocm.py:138",
        platforms=ROCM,
    ),
    Rule(
        "A12",
        "Split prompts are captured piece by piece",
        when=lambda line: number(line, PREFILL, 1) > 1 and _whole_graphs(line),
        require=lambda _line: False,
        message="cudagraph_mode goes back to PIECEWISE: prompts are split over GPUs",
        remedy="Leave cudagraph_mode out, or set it to PIECEWISE.",
        at=(COMPILE,),
        severity="warning",
        source="vLLM 0.32.0 platforms/rocm.py:1106",
        platforms=ROCM,
    ),
    Rule(
        "A13",
        "Micro batches over DeepEP on AMD are scheduled in step",
        when=lambda line: (
            line.on_by("--enable-dbo") and line["--all2all-backend"] == HIGH_THROUGHPUT
        ),
        require=lambda line: line.given.get(ASYNC) is not True,
        message="asynchronous scheduling is refused with --enable-dbo over deepep_high_throughput",
        remedy="Leave --async-scheduling out: the engine then turns it off.",
        at=(ASYNC,),
        source="vLLM 0.32.0 config/vllm.py:1557",
        platforms=ROCM,
    ),
    Rule(
        "A14",
        "Images that see themselves whole are not cut into chunks",
        when=lambda line: line.given.get("--disable-chunked-mm-input") is False,
        require=lambda line: not line.images_see_whole,
        message="images of this model are never cut: the switch is turned on again",
        remedy="Leave --no-disable-chunked-mm-input out.",
        at=("--disable-chunked-mm-input",),
        severity="warning",
        source="vLLM 0.32.0 platforms/rocm.py:1131, platforms/cuda.py:340",
        platforms=("rocm", "cuda"),
    ),
    Rule(
        "A15",
        "Fusions of ROCm are asked of ROCm",
        when=lambda line: bool(fused(line, FUSIONS)),
        require=lambda _line: False,
        message="such a fusion is AMD's: it is turned off on {accelerator.name}",
        remedy="Leave it out of pass_config.",
        at=(COMPILE,),
        severity="warning",
        source="vLLM 0.32.0 config/compilation.py:270",
        platforms=("cuda", "xpu", "cpu"),
    ),
    Rule(
        "A16",
        "MoRI moves tokens between AMD GPUs",
        when=lambda line: line["--all2all-backend"] in MORI,
        require=lambda _line: False,
        message="--all2all-backend {--all2all-backend} is AMD's own",
        remedy="Take another --all2all-backend, or leave it out.",
        at=("--all2all-backend",),
        source="vLLM 0.32.0 distributed/device_communicators/all2all.py:997",
        platforms=("cuda", "xpu", "cpu"),
    ),
    Rule(
        "A17",
        "Weights in nvfp4 are computed by NVIDIA's GPUs",
        when=lambda line: line.model.weight_dtype == "nvfp4",
        require=lambda _line: False,
        message="weights in nvfp4 are unpacked again in each step on AMD's GPUs, which is slow",
        remedy="Take a checkpoint in fp8 or mxfp4.",
        at=("--quantization",),
        severity="warning",
        source="vLLM 0.32.0 model_executor/kernels/linear/__init__.py:590, nvfp4/emulation.py",
        platforms=ROCM,
    ),
)
