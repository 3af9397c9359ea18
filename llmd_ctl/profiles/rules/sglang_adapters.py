"""Rules of SGLang on adapters (LoRA): how many, which layers, beside which drafts."""

from __future__ import annotations

from llmd_ctl.profiles.rules.line import Line
from llmd_ctl.profiles.rules.rule import Rule
from llmd_ctl.profiles.rules.scheduling import number
from llmd_ctl.profiles.rules.sglang_asked import (
    A2A,
    RUNNER,
    algorithm,
    attention_copies,
    clash,
    fraction,
    needs,
    rule,
    said,
    text,
    words,
)

ON, PATHS, RANK = "--enable-lora", "--lora-paths", "--max-lora-rank"
LAYERS = "--lora-target-modules"
AT_ONCE, LOADED = "--max-loras-per-batch", "--max-loaded-loras"
EARLY, BACKEND = "--enable-lora-overlap-loading", "--lora-backend"
DRAFTS = (None, "NGRAM", "EAGLE", "EAGLE3", "DFLASH", "DSPARK")


def serves(line: Line) -> bool:
    """Whether adapters are served."""
    return line.on_by(ON) or bool(words(line, PATHS))


def _fit(line: Line) -> bool:
    loaded = line.told(LOADED)
    return loaded >= max(number(line, AT_ONCE, 8), len(words(line, PATHS)))


def _of_adapters(line: Line) -> bool:
    return text(line, RUNNER, "auto").startswith("lora")


RULES: tuple[Rule, ...] = (
    rule(
        "S174", "There is an adapter in a batch", AT_ONCE,
        lambda line: number(line, AT_ONCE, 8) > 0,
        "--max-loras-per-batch {--max-loras-per-batch} is none", "Write 1 or more.",
        "arg_groups/lora_hook.py:36",
    ),
    rule(
        "S175", "Adapters are named, or room is made for some", ON,
        lambda line: bool(words(line, PATHS)) or (
            line.told(RANK) > 0 and bool(words(line, LAYERS))
        ),
        "--enable-lora needs --lora-paths, or --max-lora-rank and --lora-target-modules",
        "Add them.", "arg_groups/lora_hook.py:151", when=serves,
    ),
    rule(
        "S176", "More adapters are loaded than are in a batch", LOADED, _fit,
        "--max-loaded-loras {--max-loaded-loras} is fewer than those in a batch, or than are named",
        "Write as many, or lower --max-loras-per-batch.", "arg_groups/lora_hook.py:157, :161",
        when=lambda line: serves(line) and line.says(LOADED),
    ),
    rule(
        "S177", "All layers are all layers", LAYERS,
        lambda line: "all" not in words(line, LAYERS) or len(words(line, LAYERS)) == 1,
        "--lora-target-modules all stands alone", "Write all, or the layers.",
        "arg_groups/lora_hook.py:146", when=serves,
    ),
    rule(
        "S178", "Adapters wait some seconds, or none", "--lora-drain-wait-threshold",
        lambda line: fraction(line, "--lora-drain-wait-threshold", 0) >= 0,
        "--lora-drain-wait-threshold {--lora-drain-wait-threshold} is below 0", "Write 0 or more.",
        "arg_groups/lora_hook.py:175", when=serves,
    ),
    clash(
        "S179", ON, "Adapters know some drafts",
        (
            ("this --speculative-algorithm", lambda line: algorithm(line) not in DRAFTS),
            ("--speculative-adaptive", lambda line: (
                algorithm(line) not in (None, "NGRAM") and line.on_by("--speculative-adaptive")
            )),
            ("--moe-runner-backend experimental_sgl_trtllm", lambda line: (
                algorithm(line) not in (None, "NGRAM") and line[RUNNER] == "experimental_sgl_trtllm"
            )),
        ),
        "arg_groups/lora_hook.py:259, :298", when=serves,
    ),
    rule(
        "S180", "Adapters that are loaded beside steps are few", EARLY,
        lambda line: 0 < line.told(LOADED) <= 2 * number(line, AT_ONCE, 8),
        "--enable-lora-overlap-loading needs --max-loaded-loras, at most twice those in a batch",
        "Add --max-loaded-loras.", "arg_groups/lora_hook.py:63",
        when=lambda line: serves(line) and line.on_by(EARLY),
    ),
    needs(
        "S181", RUNNER, "Experts with adapters need adapters",
        (
            (ON, serves), (f"{BACKEND} triton_v2", said(BACKEND, "triton_v2")),
            ("no --moe-a2a-backend", lambda line: text(line, A2A, "none") == "none"),
            ("no --enable-eplb", lambda line: not line.on_by("--enable-eplb")),
        ),
        "arg_groups/lora_hook.py:200, :204, :220, :233", when=_of_adapters,
    ),
    clash(
        "S182", BACKEND, "The second Triton of adapters is alone",
        (
            ("attention in groups", lambda line: attention_copies(line) > 1),
            ("--enable-pdmux", said("--enable-pdmux")),
            ("--enable-two-batch-overlap", said("--enable-two-batch-overlap")),
            ("AMD", lambda line: line.platform == "rocm"),
        ),
        "arg_groups/lora_hook.py:29",
        when=lambda line: serves(line) and line[BACKEND] == "triton_v2",
    ),
)  # fmt: skip
