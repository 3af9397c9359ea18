"""Rules of SGLang on answers that are the same each time, and on scoring several items at once."""

from __future__ import annotations

from llmd_ctl.profiles.rules.line import Line
from llmd_ctl.profiles.rules.rule import Rule
from llmd_ctl.profiles.rules.sglang_asked import (
    BACKEND,
    CHUNK,
    RADIX_OFF,
    both,
    latent,
    major,
    rule,
    said,
)

SAME, ITEMS, SAMPLING = "--enable-deterministic-inference", "--enable-mis", "--sampling-backend"
BACKENDS = ("ascend", "fa3", "fa4", "flashinfer", "intel_xpu", "triton")
WITH_PREFIXES = ("ascend", "fa3", "fa4", "triton")
FUSIONS = ("--flashinfer-allreduce-fusion-backend", "--enable-aiter-allreduce-fusion")


def _same(line: Line) -> bool:
    return line.on_by(SAME) or line["--rl-on-policy-target"] is not None


def _backend(line: Line) -> str:
    """The backend that a line has under SAME."""
    said_so = line[BACKEND]
    if said_so is not None:
        return str(said_so)
    if line.platform == "cuda" and major(line) >= 10:
        return "triton" if latent(line) else "flashinfer"
    return "fa3"


RULES: tuple[Rule, ...] = (
    rule(
        "S21", "The same answer each time has backends of its own", BACKEND,
        lambda line: _backend(line) in BACKENDS,
        "{--attention-backend} does not give the same answer each time",
        "Name one that does, or leave --enable-deterministic-inference out.",
        "arg_groups/overrides.py:1119", when=_same, allowed=lambda _line: BACKENDS,
    ),
    rule(
        "S22", "The same answer from a latent has fewer", BACKEND,
        lambda line: _backend(line) in WITH_PREFIXES,
        "{--attention-backend} does not give the same answer each time from a latent",
        "Name one that does.", "arg_groups/attention_hook.py:644",
        when=lambda line: _same(line) and latent(line) and _backend(line) in BACKENDS,
        allowed=lambda _line: WITH_PREFIXES,
    ),
    rule(
        "S23", "Prefixes are found again by some backends that give the same answer", BACKEND,
        lambda line: _backend(line) in WITH_PREFIXES or line.on_by(RADIX_OFF),
        "prefixes are not found again: {chosen} cannot under --enable-deterministic-inference",
        "Take fa3 or triton, or say --disable-radix-cache.",
        "arg_groups/attention_hook.py:662", severity="warning", at=(BACKEND, SAME),
        when=lambda line: _same(line) and not latent(line) and _backend(line) in BACKENDS,
        words=lambda line: {"chosen": _backend(line)},
    ),
    rule(
        "S24", "The same answer each time is sampled by PyTorch", SAMPLING,
        lambda line: line[SAMPLING] in (None, "pytorch", "ascend"),
        "--enable-deterministic-inference sets --sampling-backend to pytorch",
        "Leave --sampling-backend out.", "arg_groups/overrides.py:1032",
        when=_same, severity="warning",
    ),
    rule(
        "S25", "Sums of three GPUs of AMD are the same each time by their own all-reduce",
        "--disable-custom-all-reduce", lambda line: line.tensor <= 2,
        "without the custom all-reduce, {tensor} devices do not give the same answer each time",
        "Leave --disable-custom-all-reduce out.", "arg_groups/overrides.py:1084",
        when=lambda line: (
            _same(line) and line.platform == "rocm" and line.on_by("--disable-custom-all-reduce")
        ),
    ),
    rule(
        "S26", "The same answer each time has no fused all-reduce", FUSIONS[0],
        lambda line: not (said(FUSIONS[0])(line) or said(FUSIONS[1])(line)),
        "--enable-deterministic-inference turns a fused all-reduce off", "Leave it out.",
        "arg_groups/overrides.py:1067, attention_hook.py:600", at=FUSIONS,
        when=_same, severity="warning",
    ),
    rule(
        "S27", "Several items are scored at once by flashinfer", ITEMS,
        lambda line: both(line) == ("flashinfer", "flashinfer")
        or (both(line) == (None, None) and line.platform == "cuda" and major(line) in (8, 12)),
        "--enable-mis needs flashinfer's mask", "Add --attention-backend flashinfer.",
        "arg_groups/attention_hook.py:572", when=said(ITEMS), at=(BACKEND, ITEMS),
    ),
    rule(
        "S28", "Several items at once are one prompt in one step", CHUNK,
        lambda line: line[CHUNK] == -1, "--enable-mis sets --chunked-prefill-size to -1",
        "Leave --chunked-prefill-size out.", "arg_groups/attention_hook.py:564",
        when=lambda line: line.on_by(ITEMS) and line.says(CHUNK), severity="warning",
    ),
    rule(
        "S29", "Intel's sampling is on Intel's GPUs", SAMPLING,
        lambda line: line[SAMPLING] != "intel_xpu",
        "--sampling-backend intel_xpu does not run on {accelerator.name}",
        "Take flashinfer or pytorch.", "arg_groups/validation_hook.py:483",
    ),
)  # fmt: skip
