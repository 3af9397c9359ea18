"""Rules of SGLang on experts: what computes them, and how tokens get to their devices."""

from __future__ import annotations

from collections.abc import Mapping

from llmd_ctl.profiles.rules.line import Line
from llmd_ctl.profiles.rules.rule import Rule
from llmd_ctl.profiles.rules.scheduling import number
from llmd_ctl.profiles.rules.sglang_asked import (
    A2A,
    EP,
    RUNNER,
    attention_copies,
    clash,
    experts_over,
    major,
    needs,
    rule,
    said,
    text,
)
from llmd_ctl.profiles.rules.sglang_quantization import FLAG as QUANTIZATION
from llmd_ctl.profiles.rules.sglang_quantization import of_experts

MODE, DISPATCH = "--deepep-mode", "--flashinfer-a2a-dispatch-type"
ELASTIC, EPLB, PICK = "--elastic-ep-backend", "--enable-eplb", "--ep-dispatch-algorithm"
FLASHINFER = ("flashinfer_cutlass", "flashinfer_cutedsl")
RUNS: Mapping[str, frozenset[str | None]] = {
    "flashinfer_cutlass": frozenset({"modelopt_fp4", "modelopt_fp8", "modelopt_mixed", None}),
    "flashinfer_cutedsl": frozenset({"modelopt_fp4", "modelopt_mixed", "nvfp4_online"}),
    "flashinfer_trtllm": frozenset({
        "modelopt_fp4", "nvfp4_online", "fp8", "mxfp8", "modelopt_fp8", "modelopt_mixed",
        "compressed-tensors", None,
    }),
    "flashinfer_trtllm_routed": frozenset({
        "fp8", "mxfp8", "modelopt_fp4", "modelopt_mixed", "nvfp4_online", None,
    }),
}  # fmt: skip
MX = ("cutlass", "deep_gemm", "flashinfer_megamoe", "flashinfer_trtllm", "flashinfer_trtllm_routed")
A2A_RUNS = (*FLASHINFER, "flashinfer_trtllm", "flashinfer_trtllm_routed", "deep_gemm")
NV_ONLINE = ("auto", "flashinfer_trtllm", "flashinfer_trtllm_routed", "flashinfer_cutedsl")


def _runner(line: Line) -> str:
    return text(line, RUNNER, "auto")


RULES: tuple[Rule, ...] = (
    rule(
        "N11", "Triton's kernels of experts depend on the driver of a Blackwell", RUNNER,
        lambda line: major(line) not in (10, 12),
        "triton_kernel ends in a crash on Blackwell with drivers from 595 on",
        "Take triton, or leave it out: SGLang then asks the driver.",
        "arg_groups/model_overrides/gpt_oss.py:108", when=said(RUNNER, "triton_kernel"),
        severity="warning",
    ),
    rule(
        "S84", "FlashInfer's experts are on one device or on all", EP,
        lambda line: experts_over(line) in (1, line.tensor),
        "{--moe-runner-backend} has experts on 1 or all {tensor} devices, not on {--ep-size}",
        "Make --ep-size 1 or --tp-size.", "arg_groups/moe_hook.py:89, :102", at=(EP, RUNNER),
        when=said(RUNNER, *FLASHINFER),
    ),
    rule(
        "S85", "What computes experts reads their type", RUNNER,
        lambda line: of_experts(line) in ("modelopt", *RUNS[_runner(line)]),
        "{--moe-runner-backend} does not compute experts of {stored}",
        "Leave --moe-runner-backend out.", "arg_groups/moe_hook.py:81, :96, :124, :138",
        when=said(RUNNER, *RUNS), words=lambda line: {"stored": of_experts(line) or "bf16"},
    ),
    rule(
        "S86", "CUTLASS has fp8 experts on one device", EP,
        lambda line: experts_over(line) == 1,
        "cutlass does not deal experts of fp8 out", "Take another runner, or --ep-size 1.",
        "arg_groups/moe_hook.py:161", at=(EP, A2A),
        when=lambda line: _runner(line) == "cutlass" and of_experts(line) in ("fp8", "mxfp8"),
    ),
    rule(
        "S87", "An exchange deals experts out over all devices", EP,
        lambda line: line.told(EP) == line.tensor,
        "--moe-a2a-backend {--moe-a2a-backend} sets --ep-size to {tensor}",
        "Leave --ep-size out.", "arg_groups/overrides.py:1610", severity="warning",
        when=lambda line: line.says(EP) and text(line, A2A, "none") not in ("none", "ascend_tp"),
    ),
    needs(
        "S88", A2A, "FlashInfer's exchange is between groups of one device",
        (
            ("--attn-dp-size equal to --tp-size", lambda line: (
                attention_copies(line) == line.tensor and line.tensor > 1
            )),
            ("--moe-runner-backend of FlashInfer or deep_gemm", lambda line: (
                _runner(line) in A2A_RUNS
            )),
        ),
        "arg_groups/moe_hook.py:475, :531", when=said(A2A, "flashinfer"),
    ),
    needs(
        "S89", DISPATCH, "What FlashInfer sends is of its exchange",
        (("--moe-a2a-backend flashinfer", said(A2A, "flashinfer")),),
        "arg_groups/moe_hook.py:311", when=lambda line: text(line, DISPATCH, "auto") != "auto",
    ),
    rule(
        "S90", "DeepEP 2 computes by DeepGEMM", RUNNER,
        lambda line: _runner(line) in ("auto", "deep_gemm"),
        "deepep_v2 computes by deep_gemm, not by {--moe-runner-backend}",
        "Leave --moe-runner-backend out.", "arg_groups/moe_hook.py:414",
        when=said(A2A, "deepep_v2"),
    ),
    clash(
        "S91", A2A, "DeepEP 2 does nothing beside itself",
        (
            ("--enable-two-batch-overlap", said("--enable-two-batch-overlap")),
            ("--enable-single-batch-overlap", said("--enable-single-batch-overlap")),
            ("--enforce-shared-experts-fusion", said("--enforce-shared-experts-fusion")),
            ("--deepep-v2-mode direct over machines", lambda line: (
                line["--deepep-v2-mode"] == "direct" and number(line, "--nnodes", 1) > 1
            )),
        ),
        "arg_groups/moe_hook.py:421, :427, :433", when=said(A2A, "deepep_v2"),
    ),
    rule(
        "S92", "DeepEP's normal mode runs without graphs", MODE,
        lambda line: line.on_by("--disable-cuda-graph"),
        "--deepep-mode normal turns graphs off, which is slower", "Take auto.",
        "arg_groups/moe_hook.py:384", severity="warning",
        when=lambda line: line[A2A] == "deepep" and line[MODE] == "normal"
        and _runner(line) != "flashinfer_cutedsl",
    ),
    rule(
        "S93", "CuteDSL's experts get tokens in DeepEP's fast mode", MODE,
        lambda line: line[MODE] != "normal",
        "flashinfer_cutedsl does not take tokens of --deepep-mode normal", "Take low_latency.",
        "arg_groups/moe_hook.py:377",
        when=lambda line: line[A2A] == "deepep" and _runner(line) == "flashinfer_cutedsl",
    ),
    rule(
        "S94", "Only DeepEP and its like have modes", MODE,
        lambda line: text(line, MODE, "auto") == "auto",
        "--deepep-mode is ignored by --moe-a2a-backend flashinfer", "Leave it out.",
        "arg_groups/moe_hook.py:488", when=said(A2A, "flashinfer"), severity="warning",
    ),
    needs(
        "S95", A2A, "PPLX exchanges between groups, fast, for DeepGEMM",
        (
            ("--attn-dp-size of 2 or more", lambda line: attention_copies(line) >= 2),
            ("--deepep-mode low_latency or auto", lambda line: line[MODE] != "normal"),
            ("--moe-runner-backend deep_gemm", lambda line: _runner(line) in ("auto", "deep_gemm")),
        ),
        "arg_groups/moe_hook.py:577, :591, :599", when=said(A2A, "pplx"),
    ),
    needs(
        "S96", EPLB, "Experts that move are dealt out",
        (("--ep-size above 1, or --moe-a2a-backend", lambda line: experts_over(line) > 1),),
        "arg_groups/parallel_hook.py:791",
    ),
    rule(
        "S97", "Each device picks a copy of an expert where tokens are exchanged", PICK,
        lambda line: text(line, A2A, "none") != "none",
        "--ep-dispatch-algorithm {--ep-dispatch-algorithm} picks another copy on each device",
        "Take dynamic, or add --moe-a2a-backend.", "arg_groups/parallel_hook.py:783",
        when=said(PICK, "static", "lp"),
    ),
    rule(
        "S98", "Waterfill is DeepEP's", A2A,
        lambda line: line[A2A] in ("deepep", "megamoe"),
        "--enable-waterfill sets --moe-a2a-backend to deepep", "Add --moe-a2a-backend deepep.",
        "arg_groups/overrides.py:1600", severity="warning", at=(A2A, "--enable-waterfill"),
        when=said("--enable-waterfill"),
    ),
    rule(
        "S99", "Experts in mxfp8 have runners of their own", RUNNER,
        lambda line: (
            _runner(line) in ("auto", *MX)
            or (_runner(line) == "triton" and line.platform == "rocm")
        ),
        "--moe-runner-backend {--moe-runner-backend} is replaced: it has no mxfp8",
        "Leave it out.", "arg_groups/overrides.py:1507", severity="warning",
        when=said(QUANTIZATION, "mxfp8"),
    ),
    rule(
        "S100", "Weights are packed to nvfp4 on Blackwell, for FlashInfer", QUANTIZATION,
        lambda line: major(line) == 10 and _runner(line) in NV_ONLINE,
        "nvfp4_online needs sm100, and a runner of FlashInfer", "Take fp8.",
        "arg_groups/overrides.py:1458, :1471", when=said(QUANTIZATION, "nvfp4_online"),
        at=(QUANTIZATION, RUNNER),
    ),
    clash(
        "S101", ELASTIC, "Devices that come and go have one stage",
        (
            ("stages", lambda line: line.pipeline > 1),
            ("this --eplb-algorithm", lambda line: (
                line.on_by(EPLB) and text(line, "--eplb-algorithm", "auto")
                not in ("auto", "elasticity_aware", "elasticity_aware_hierarchical")
            )),
        ),
        "arg_groups/parallel_hook.py:531, :538",
    ),
    needs(
        "S102", "--elastic-ep-join-mode", "What joins comes and goes",
        ((ELASTIC, said(ELASTIC)),), "arg_groups/parallel_hook.py:547",
    ),
    rule(
        "S103", "OpenAI's experts by Triton's kernels are on one device", EP,
        lambda line: experts_over(line) == 1, "triton_kernel does not deal experts out",
        "Take --ep-size 1, or another --moe-runner-backend.", "arg_groups/model_hook.py:569",
        when=lambda line: _runner(line) == "triton_kernel" and line.model.family == "gpt_oss",
        at=(EP, A2A, RUNNER),
    ),
    needs(
        "S104", A2A, "FlashInfer's MegaMoE is between groups of one device, on Blackwell",
        (
            ("--attn-dp-size equal to --tp-size", lambda line: (
                attention_copies(line) == line.tensor and line.tensor > 1
            )),
            ("--moe-runner-backend flashinfer_megamoe", lambda line: (
                _runner(line) in ("auto", "flashinfer_megamoe")
            )),
            ("an sm100 GPU", lambda line: major(line) == 10),
        ),
        "arg_groups/moe_hook.py:325, :332, :336", when=said(A2A, "flashinfer_megamoe"),
    ),
    clash(
        "S105", "--enable-quant-communications", "What is exchanged is packed on Ascend",
        (("this accelerator", lambda line: line.platform != "npu"),),
        "arg_groups/validation_hook.py:349, :352",
    ),
    rule(
        "S106", "Experts are dealt out evenly", EP,
        lambda line: experts_over(line) > 0 and line.model.experts % experts_over(line) == 0,
        "{model.experts} experts are not dealt out evenly to {over} devices",
        "Take a number that divides the experts.", "layers/moe/fused_moe_triton/layer.py:414",
        when=lambda line: line.told("--ep-num-redundant-experts") == 0,
        words=lambda line: {"over": experts_over(line)}, sized=True,
    ),
)  # fmt: skip
