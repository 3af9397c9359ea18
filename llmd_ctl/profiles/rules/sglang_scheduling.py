"""Rules of SGLang on steps: chunks of prompts, priorities, workers, lengths."""

from __future__ import annotations

from llmd_ctl.profiles.rules.line import Line
from llmd_ctl.profiles.rules.rule import Rule
from llmd_ctl.profiles.rules.scheduling import number
from llmd_ctl.profiles.rules.sglang_asked import (
    CHUNK,
    PAGE,
    above,
    clash,
    fraction,
    mode,
    needs,
    page,
    rule,
    said,
    text,
)

PRIORITY, POLICY, DEFAULT = (
    "--enable-priority-scheduling", "--schedule-policy", "--default-priority-value",
)  # fmt: skip
LENGTH, LONGER = "--context-length", "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"
OVERRIDES = "--json-model-override-args"
WORKERS = {
    "--tokenizer-worker-num": 1, "--detokenizer-worker-num": 1, "--mm-processor-worker-num": 0,
    "--mm-io-worker-num": 0,
}  # fmt: skip
INTERVALS = ("--prefill-decode-interval", "--prefill-decode-interval-min-bs")


def _too_few(line: Line) -> list[str]:
    return [flag for flag, least in WORKERS.items() if number(line, flag, least) < least]


RULES: tuple[Rule, ...] = (
    rule(
        "S136", "A chunk of a prompt is whole pages", CHUNK,
        lambda line: page(line) > 0 and max(line.told(CHUNK), 0) % page(line) == 0,
        "chunks of {--chunked-prefill-size} tokens are not whole pages of {size}",
        "Take a multiple of the page, or another --page-size.",
        "arg_groups/validation_hook.py:243", at=(CHUNK, PAGE),
        when=lambda line: mode(line) != "decode",
        words=lambda line: {"size": page(line)},
    ),
    rule(
        "S137", "Requests with priorities come first, or by the longest output", POLICY,
        lambda line: text(line, POLICY, "fcfs") in ("fcfs", "lof"),
        "--enable-priority-scheduling goes with fcfs or lof, not {--schedule-policy}",
        "Leave --schedule-policy out.", "arg_groups/validation_hook.py:281", when=said(PRIORITY),
        allowed=lambda _line: ("fcfs", "lof"),
    ),
    rule(
        "S138", "Priorities are for a scheduler that has them", DEFAULT,
        lambda line: line.on_by(PRIORITY),
        "it has no effect without --enable-priority-scheduling", "Add that, or leave it out.",
        "arg_groups/validation_hook.py:295, :299", severity="warning",
        at=(DEFAULT, "--disable-priority-preemption"),
        when=lambda line: line[DEFAULT] is not None or line.on_by("--disable-priority-preemption"),
    ),
    needs(
        "S139", "--retraction-policy", "Requests give way by priority where there are some",
        ((PRIORITY, said(PRIORITY)),), "arg_groups/validation_hook.py:303",
        when=said("--retraction-policy", "priority"),
    ),
    rule(
        "S140", "Care for memory is not below nothing", "--schedule-conservativeness",
        lambda line: fraction(line, "--schedule-conservativeness", 1) >= 0,
        "--schedule-conservativeness {--schedule-conservativeness} is below 0",
        "Write 0 or more.", "arg_groups/validation_hook.py:313",
    ),
    rule(
        "S141", "There are workers", "--tokenizer-worker-num",
        lambda line: not _too_few(line), "{flags} has too few", "Write 1 or more.",
        "arg_groups/validation_hook.py:272-275", at=tuple(WORKERS),
        words=lambda line: {"flags": ", ".join(_too_few(line))},
    ),
    rule(
        "S142", "Prefill waits some steps, or none", INTERVALS[0],
        lambda line: all(line.told(flag) >= 0 for flag in INTERVALS),
        "an interval between prefills is below 0", "Write 0 or more.",
        "arg_groups/validation_hook.py:659, :661", at=INTERVALS,
    ),
    rule(
        "S143", "A context is no longer than the model's", LENGTH,
        lambda line: line.told(LENGTH) <= line.model.max_positions
        or line.switched(LONGER)
        or line.says(OVERRIDES),
        "--context-length {--context-length} is more than the model's {model.max_positions}",
        "Lower it, or set SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1.",
        "configs/model_config.py:1314",
        allowed=lambda line: (f"at most {line.model.max_positions}",),
    ),
    clash(
        "S144", "--enable-tokenizer-batch-encode", "Prompts become tokens in one kind of batch",
        (("--enable-dynamic-batch-tokenizer", said("--enable-dynamic-batch-tokenizer")),),
        "arg_groups/serving_hook.py:756",
    ),
    rule(
        "S145", "Without a tokenizer there are no batches of it", "--skip-tokenizer-init",
        lambda line: number(line, "--detokenizer-worker-num", 1) == 1
        and not line.on_by("--enable-tokenizer-batch-encode")
        and not line.on_by("--enable-dynamic-batch-tokenizer"),
        "--skip-tokenizer-init leaves no work for workers and batches of a tokenizer",
        "Leave them out.", "arg_groups/serving_hook.py:765, :774, :784",
        when=said("--skip-tokenizer-init"), severity="warning",
    ),
    needs(
        "S146", "--enable-http-worker-reuseport", "A port is shared by several workers",
        (
            ("--tokenizer-worker-num above 1", above("--tokenizer-worker-num", 1)),
            ("no --enable-http2", lambda line: not line.on_by("--enable-http2")),
        ),
        "arg_groups/serving_hook.py:90",
    ),
    rule(
        "S147", "Garbage is collected by one to three thresholds", "--gc-threshold",
        lambda line: len(str(line["--gc-threshold"]).split()) <= 3,
        "--gc-threshold has one to three numbers", "Write three at most.",
        "arg_groups/validation_hook.py:369",
    ),
)  # fmt: skip
