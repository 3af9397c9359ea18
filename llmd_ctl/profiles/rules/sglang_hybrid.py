"""Rules of SGLang on layers with a state: how prefixes are kept, which kernels, which types."""

from __future__ import annotations

from llmd_ctl.profiles.rules.line import Line
from llmd_ctl.profiles.rules.rule import Rule
from llmd_ctl.profiles.rules.scheduling import number
from llmd_ctl.profiles.rules.sglang_asked import (
    PAGE,
    RADIX_OFF,
    above,
    apart,
    clash,
    major,
    mode,
    named,
    needs,
    page,
    rule,
    said,
    text,
)

KEPT, EVERY, STATE = "--mamba-radix-cache-strategy", "--mamba-track-interval", "--mamba-ssm-dtype"
ROUNDED, PACKED = "--enable-mamba-cache-stochastic-rounding", "--enable-int8-mamba-checkpoint"
LINEAR, DECODE, VERIFY = (
    "--linear-attn-backend", "--linear-attn-decode-backend", "--linear-attn-verify-backend",
)  # fmt: skip
REPLAY, REPLAY_DRAFTS = "--enable-linear-replayssm", "--enable-linear-replayssm-spec"
BUFFERED = ("extra_buffer", "extra_buffer_lazy")


def _states(line: Line) -> bool:
    return line.kind == "hybrid" and not line.on_by(RADIX_OFF)


def _decode(line: Line) -> str:
    return text(line, DECODE) or text(line, LINEAR, "triton")


def _tracked(line: Line) -> bool:
    every = number(line, EVERY, 256)
    drafted = line.told("--speculative-num-draft-tokens")
    return page(line) > 0 and every % page(line) == 0 and every >= drafted


RULES: tuple[Rule, ...] = (
    clash(
        "S183", KEPT, "Prefixes without a buffer are of single tokens",
        (
            (f"{PAGE} above 1", above(PAGE, 1)),
            ("steps prepared beside one another (add --disable-overlap-schedule)", lambda line: (
                not line.on_by("--disable-overlap-schedule") and line.pipeline == 1
            )),
            ("trtllm_mha", lambda line: "trtllm_mha" in named(line)),
        ),
        "arg_groups/mamba_hook.py:155-160",
        when=lambda line: _states(line) and line[KEPT] == "no_buffer",
    ),
    rule(
        "S184", "States are kept of models that have some", KEPT,
        lambda line: line.kind == "hybrid",
        "--mamba-radix-cache-strategy {--mamba-radix-cache-strategy} needs a model with states",
        "Leave it out.", "arg_groups/model_hook.py:1063", when=said(KEPT, *BUFFERED),
    ),
    rule(
        "S185", "States are kept at ends of pages", EVERY, _tracked,
        "states every {every} tokens do not fall on ends of pages of {size}, or drafts are longer",
        "Take a multiple of the page.", "arg_groups/mamba_hook.py:131, :133", at=(EVERY, PAGE),
        when=lambda line: _states(line) and text(line, KEPT, "auto") in ("auto", *BUFFERED),
        words=lambda line: {"every": number(line, EVERY, 256), "size": page(line)},
    ),
    clash(
        "S186", KEPT, "States are kept late where all is done in one place",
        (("prefill and decode apart", apart),), "arg_groups/mamba_hook.py:124",
        when=lambda line: _states(line) and line[KEPT] == "extra_buffer_lazy",
    ),
    needs(
        "S187", ROUNDED, "States are rounded by chance in fp16, on NVIDIA",
        (
            (f"{STATE} float16", said(STATE, "float16")),
            ("an NVIDIA GPU", lambda line: line.platform == "cuda"),
            ("--mamba-backend flashinfer, or sm100", lambda line: (
                text(line, "--mamba-backend", "triton") != "triton" or major(line) == 10
            )),
        ),
        "arg_groups/mamba_hook.py:31, :38, :44",
    ),
    rule(
        "S188", "States on a path are some, or all", "--mamba-max-states-per-path",
        lambda line: number(line, "--mamba-max-states-per-path", 1) >= -1
        and line["--mamba-max-states-per-path"] != 0
        and line.told("--mamba-cache-philox-rounds") >= 0,
        "--mamba-max-states-per-path is -1 or above 0, --mamba-cache-philox-rounds 0 or more",
        "Write such a number.", "arg_groups/mamba_hook.py:21, :24",
        at=("--mamba-max-states-per-path", "--mamba-cache-philox-rounds"),
    ),
    clash(
        "S189", PACKED, "Packed states lie on the accelerator",
        (
            ("--enable-hierarchical-cache", said("--enable-hierarchical-cache")),
            ("--radix-cache-backend", said("--radix-cache-backend")),
            ("--enable-lmcache", said("--enable-lmcache")),
        ),
        "arg_groups/mamba_hook.py:83, :89, :95",
    ),
    rule(
        "S190", "FlashKDA prefills only", DECODE, lambda line: line[DECODE] != "flashkda",
        "--linear-attn-decode-backend flashkda does not decode", "Leave it out.",
        "arg_groups/attention_hook.py:318",
    ),
    rule(
        "S191", "FlashInfer's states on Blackwell are bf16", STATE,
        lambda line: line[STATE] == "bfloat16",
        "flashinfer's linear attention on {architecture} needs --mamba-ssm-dtype bfloat16",
        "Add it.", "arg_groups/attention_hook.py:340, :372", at=(STATE, DECODE, VERIFY, LINEAR),
        when=lambda line: major(line) >= 10 and "flashinfer" in (_decode(line), line[VERIFY]),
    ),
    clash(
        "S192", REPLAY, "States are replayed by Triton, without buffers",
        (
            ("this backend of linear attention", lambda line: (
                _decode(line) not in ("triton", "helion")
            )),
            (f"{KEPT} extra_buffer", said(KEPT, *BUFFERED)), ("prefill and decode apart", apart),
            ("--linear-replayssm-cache-len below 1", lambda line: (
                number(line, "--linear-replayssm-cache-len", 1) < 1
            )),
        ),
        "arg_groups/attention_hook.py:410-434",
    ),
    clash(
        "S193", REPLAY_DRAFTS, "States are replayed for a chain of drafts",
        (
            ("--speculative-eagle-topk above 1", above("--speculative-eagle-topk", 1)),
            ("this backend of linear attention", lambda line: (
                _decode(line) not in ("triton", "flashinfer")
            )),
            ("--disaggregation-mode prefill", lambda line: mode(line) == "prefill"),
            (REPLAY, said(REPLAY)),
        ),
        "arg_groups/attention_hook.py:451-499",
    ),
)  # fmt: skip
