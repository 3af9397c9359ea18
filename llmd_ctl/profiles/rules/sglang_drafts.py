"""Rules of SGLang on drafted tokens: how they are drafted, checked, and what goes beside it."""

from __future__ import annotations

from llmd_ctl.profiles.rules.line import Line
from llmd_ctl.profiles.rules.rule import Rule, Test
from llmd_ctl.profiles.rules.scheduling import number
from llmd_ctl.profiles.rules.sglang_asked import (
    ALGORITHM,
    BACKEND,
    above,
    algorithm,
    both,
    clash,
    fraction,
    major,
    mode,
    named,
    needs,
    page,
    rule,
    said,
    split_attention,
)

STEPS, WIDTH, TOKENS = (
    "--speculative-num-steps", "--speculative-eagle-topk", "--speculative-num-draft-tokens",
)  # fmt: skip
DRAFT, ADAPTIVE, MIXED = (
    "--speculative-draft-model-path", "--speculative-adaptive", "--enable-mixed-chunk",
)  # fmt: skip
REJECTION, BLOCKS = "--speculative-use-rejection-sampling", "--speculative-use-block-verification"
WINDOW, SINK = "--speculative-draft-window-size", "--speculative-draft-sink-size"
CORPUS, BUDGET = (
    "--speculative-ngram-external-corpus-path", "--speculative-ngram-external-sam-budget",
)  # fmt: skip
BREADTH, HIDDEN = "--speculative-ngram-max-bfs-breadth", "--enable-return-aux-hidden-states"
KNOWN = (
    "EAGLE", "EAGLE3", "NEXTN", "STANDALONE", "NGRAM", "DFLASH", "DSPARK", "FROZEN_KV_MTP", "UNO",
)  # fmt: skip
FAMILY = ("EAGLE", "EAGLE3", "STANDALONE")
WITH_OWN = ("deepseek_v3", "deepseek_v32", "deepseek_v4", "glm4_moe", "glm_moe_dsa")
TREES = ("flashinfer", "fa3", "triton")
CHOOSING = ("minimax_m3", "gemma4")  # families that choose their own attention


def by(*algorithms: str | None) -> Test:
    """Whether tokens are drafted so."""
    return lambda line: algorithm(line) in algorithms


def _block(line: Line) -> str:
    return f"--speculative-{(algorithm(line) or '').lower()}-block-size"


def _block_fits(line: Line) -> bool:
    size, tokens = line[_block(line)], line[TOKENS]
    if type(size) is not int:
        return True
    more = 1 if algorithm(line) == "DSPARK" else 0
    return size > 0 and tokens in (None, size + more)


def _adaptive_stays(line: Line) -> bool:
    beside = split_attention(line) or any(
        line.on_by(flag)
        for flag in ("--enable-multi-layer-eagle", "--enable-two-batch-overlap", "--enable-pdmux")
    )
    return algorithm(line) in ("EAGLE", "EAGLE3") and line[WIDTH] in (None, 1) and not beside


def _verifier(line: Line) -> str | None:
    """The attention backend that checks drafts; None: none is named, nor is it known here."""
    prefill, decode = both(line)
    told = prefill if prefill == decode else line[BACKEND]
    if told is not None or line.kind != "dense" or line.model.family.startswith(CHOOSING):
        return told
    if line.platform == "rocm":
        return "aiter"
    # Chosen before a tree of NGRAM's has got its width.
    return "fa3" if major(line) == 9 and not line.says(WIDTH) else None


def _trees_fit(line: Line) -> bool:
    wide = number(line, BREADTH, 10) if algorithm(line) == "NGRAM" else number(line, WIDTH, 1)
    able = ("flashinfer",) if algorithm(line) == "NGRAM" else TREES
    return wide <= 1 or page(line) <= 1 or _verifier(line) in (None, *able)


def _thresholds(line: Line) -> bool:
    return any(
        fraction(line, f"--speculative-accept-threshold-{which}", 1.0) != 1.0
        for which in ("single", "acc")
    )


def _budget_fits(line: Line) -> bool:
    most = number(line, TOKENS, 12) - 1
    known = number(line, "--speculative-ngram-external-corpus-max-tokens", 1) > 0
    return known and 0 < line.told(BUDGET) <= most


RULES: tuple[Rule, ...] = (
    rule(
        "S113", "Tokens are drafted in a way that there is", ALGORITHM,
        lambda line: str(line[ALGORITHM]).upper() in KNOWN,
        "SGLang drafts no tokens by {--speculative-algorithm}", "Write one that it has.",
        "speculative/spec_info.py:65", when=said(ALGORITHM), allowed=lambda _line: KNOWN,
    ),
    rule(
        "S114", "How many tokens are drafted is said whole", STEPS,
        lambda line: line[STEPS] is not None or (line[WIDTH] is None and line[TOKENS] is None),
        "--speculative-eagle-topk and --speculative-num-draft-tokens need"
        " --speculative-num-steps",
        "Add --speculative-num-steps, or leave the others out.",
        "arg_groups/speculative_hook.py:1159", at=(WIDTH, TOKENS),
        when=lambda line: algorithm(line) in FAMILY and not line.on_by(ADAPTIVE),
    ),
    rule(
        "S115", "A chain of drafts has one token more than steps", TOKENS,
        lambda line: line[TOKENS] == line.told(STEPS) + 1,
        "--speculative-num-draft-tokens becomes --speculative-num-steps + 1 in a chain",
        "Write one more than the steps, or a larger --speculative-eagle-topk.",
        "arg_groups/speculative_hook.py:1258", severity="warning",
        when=lambda line: (
            algorithm(line) in FAMILY and line[WIDTH] == 1
            and line.says(TOKENS) and line.says(STEPS)
        ),
    ),
    clash(
        "S116", ALGORITHM, "Some drafts know no groups of attention",
        (("attention in groups", split_attention),),
        "arg_groups/speculative_hook.py:1081, :1368", when=by("STANDALONE", "NGRAM"),
    ),
    rule(
        "S117", "TensorRT-LLM's attention checks a chain", WIDTH,
        lambda line: number(line, WIDTH, 1) == 1,
        "trtllm_mha checks no more than one token a step, not {--speculative-eagle-topk}",
        "Write --speculative-eagle-topk 1.", "arg_groups/speculative_hook.py:1177",
        when=lambda line: algorithm(line) in FAMILY and "trtllm_mha" in both(line),
    ),
    rule(
        "S118", "Trees of drafts over pages have backends of their own", "--page-size", _trees_fit,
        "a tree of drafts over pages of several tokens is not checked by {backend}",
        "Take --page-size 1, a chain, or flashinfer.",
        "arg_groups/speculative_hook.py:1277, :1360, model_override_base.py:279",
        at=("--page-size", WIDTH, BREADTH, ALGORITHM), when=by(*FAMILY, "NGRAM"),
        words=lambda line: {"backend": _verifier(line)},
    ),
    rule(
        "S119", "Prefill and decode in one step know some drafts", MIXED,
        by("EAGLE", "EAGLE3", "DFLASH", "DSPARK", None),
        "--enable-mixed-chunk is turned off by --speculative-algorithm {--speculative-algorithm}",
        "Leave it out.", "arg_groups/speculative_hook.py:1113, :1007, :1349, :601",
        when=said(MIXED), severity="warning",
    ),
    clash(
        "S120", REJECTION, "Drafts are rejected in a chain of EAGLE's",
        (
            ("this --speculative-algorithm", lambda line: (
                algorithm(line) in (*FAMILY, "UNO") and algorithm(line) not in ("EAGLE", "EAGLE3")
            )),
            ("--speculative-eagle-topk above 1", above(WIDTH, 1)),
            ("thresholds of acceptance", _thresholds),
        ),
        "arg_groups/speculative_hook.py:1215, :1221, :1234",
    ),
    rule(
        "S121", "Blocks are verified for some drafts", BLOCKS,
        by("EAGLE", "EAGLE3", "DFLASH", "DSPARK"),
        "--speculative-use-block-verification is for EAGLE, DFLASH and DSPARK", "Leave it out.",
        "arg_groups/speculative_hook.py:176", when=said(BLOCKS),
    ),
    rule(
        "S122", "A window of drafts is a window", WINDOW,
        lambda line: line.told(WINDOW) > 0,
        "--speculative-draft-window-size {--speculative-draft-window-size} is none",
        "Write 1 or more.", "arg_groups/speculative_hook.py:204", when=said(WINDOW),
    ),
    rule(
        "S123", "A window is of some drafts", WINDOW, by("EAGLE", "EAGLE3", "DFLASH"),
        "--speculative-draft-window-size is ignored by this --speculative-algorithm",
        "Leave it out.", "arg_groups/speculative_hook.py:213",
        when=lambda line: line.told(WINDOW) > 0, severity="warning",
    ),
    needs(
        "S124", SINK, "First tokens are kept beside a window",
        ((WINDOW, said(WINDOW)), ("0 or more", lambda line: line.told(SINK) >= 0)),
        "arg_groups/speculative_hook.py:223, :227", when=lambda line: line[SINK] is not None,
    ),
    needs(
        "S125", ALGORITHM, "DFlash drafts by a model of its own, in one stage",
        ((DRAFT, said(DRAFT)), ("--pp-size 1", lambda line: line.pipeline == 1)),
        "arg_groups/speculative_hook.py:319, :324", when=by("DFLASH"),
    ),
    needs(
        "S126", ALGORITHM, "Drafts between groups of attention need a last layer in each",
        (
            ("--enable-dp-lm-head", said("--enable-dp-lm-head")),
            ("--attn-cp-size 1", lambda line: number(line, "--attn-cp-size", 1) == 1),
        ),
        "arg_groups/speculative_hook.py:304, :308, :674, :697",
        when=lambda line: algorithm(line) in ("DFLASH", "DSPARK") and split_attention(line),
    ),
    rule(
        "S127", "A block of drafts is what is drafted", ALGORITHM, _block_fits,
        "the size of a block is 0, or unlike --speculative-num-draft-tokens",
        "Leave --speculative-num-draft-tokens out.",
        "arg_groups/speculative_hook.py:369, :376, :808, :829",
        at=(TOKENS, "--speculative-dflash-block-size", "--speculative-dspark-block-size"),
    ),
    rule(
        "S128", "Blocks of drafts are one step and one token wide", STEPS,
        lambda line: line[STEPS] in (None, 1) and line[WIDTH] in (None, 1),
        "--speculative-num-steps and --speculative-eagle-topk become 1", "Leave both out.",
        "arg_groups/speculative_hook.py:340, :357, :763, :780", at=(STEPS, WIDTH),
        when=by("DFLASH", "DSPARK"), severity="warning",
    ),
    needs(
        "S129", ALGORITHM, "Uno drafts by an adapter, alone on one device",
        (
            ("--uno-lora-path", said("--uno-lora-path")),
            (TOKENS, lambda line: line.told(TOKENS) >= 1),
            (f"no {DRAFT}", lambda line: not line.says(DRAFT)),
            ("one device", lambda line: line.tensor * line.pipeline == 1),
            ("an NVIDIA or AMD GPU", lambda line: line.platform in ("cuda", "rocm")),
            ("no --enable-lora", lambda line: not line.on_by("--enable-lora")),
            ("fa3", lambda line: named(line) in ((), ("fa3",))),
        ),
        "arg_groups/speculative_hook.py:452-607", when=by("UNO"),
    ),
    rule(
        "S130", "How many tokens are drafted follows what is accepted, for EAGLE's chains",
        ADAPTIVE, _adaptive_stays, "--speculative-adaptive is turned off", "Leave it out.",
        "speculative/adaptive_spec_params.py:56", when=said(ADAPTIVE), severity="warning",
    ),
    rule(
        "S131", "A corpus of drafts has a budget", BUDGET, _budget_fits,
        "the corpus needs a budget of 1 or more, below --speculative-num-draft-tokens",
        "Write such a one.", "arg_groups/speculative_hook.py:1332-1345",
        when=lambda line: algorithm(line) == "NGRAM" and line.says(CORPUS), at=(BUDGET, CORPUS),
    ),
    rule(
        "S132", "A model that drafts by itself needs no other", DRAFT,
        lambda line: False, "{model.family} has layers that draft tokens, and needs no draft model",
        "Leave --speculative-draft-model-path out.", "arg_groups/speculative_hook.py:1153",
        when=lambda line: algorithm(line) in ("EAGLE", "EAGLE3") and line.says(DRAFT)
        and line.model.family in WITH_OWN and line.model.traits.drafts, severity="warning",
    ),
    needs(
        "S133", HIDDEN, "States are returned as drafts would want them, without any",
        (
            (f"{ALGORITHM} EAGLE3, DFLASH or DSPARK", by("EAGLE3", "DFLASH", "DSPARK")),
            (f"no {DRAFT}", lambda line: not line.says(DRAFT)),
            ("--pp-size 1", lambda line: line.pipeline == 1),
        ),
        "arg_groups/validation_hook.py:713-725",
    ),
    rule(
        "S134", "Prefixes on a replica that decodes know some drafts",
        "--disaggregation-decode-enable-radix-cache",
        by(None, "DSPARK", "EAGLE", "EAGLE3"),
        "--disaggregation-decode-enable-radix-cache does not know these drafts", "Leave it out.",
        "arg_groups/speculative_hook.py:168",
        when=lambda line: mode(line) == "decode"
        and line.on_by("--disaggregation-decode-enable-radix-cache"),
    ),
    rule(
        "S135", "DSpark drafts two tokens", TOKENS,
        lambda line: line[TOKENS] is None or number(line, TOKENS, 2) >= 2,
        "DSPARK drafts two tokens or more", "Write 2 or more.",
        "arg_groups/speculative_hook.py:846", when=by("DSPARK"),
    ),
)  # fmt: skip
