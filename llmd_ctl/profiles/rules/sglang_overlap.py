"""Rules of SGLang on graphs, and on work that is done beside other work."""

from __future__ import annotations

from llmd_ctl.profiles.rules.rule import Rule
from llmd_ctl.profiles.rules.scheduling import number
from llmd_ctl.profiles.rules.sglang_asked import (
    A2A,
    RADIX_OFF,
    above,
    clash,
    needs,
    on,
    rule,
    said,
    split_attention,
    text,
)

TWO, DUMP = "--enable-two-batch-overlap", "--debug-tensor-dump-output-folder"
CONTEXT, COMPILED = "--cuda-graph-prefill-max-context", "--torch-compile-max-bs"

RULES: tuple[Rule, ...] = (
    clash(
        "S75", "--disable-cuda-graph-padding", "Compiled steps are padded",
        (("--enable-torch-compile", said("--enable-torch-compile")),),
        "arg_groups/validation_hook.py:187",
    ),
    needs(
        "S76", TWO, "Two batches at once are exchanged, or attention is in groups",
        (("--moe-a2a-backend, or --attn-dp-size above 1", lambda line: (
            text(line, A2A, "none") != "none" or split_attention(line)
        )),),
        "arg_groups/validation_hook.py:767",
    ),
    rule(
        "S77", "A graph of prefill holds some context", CONTEXT,
        lambda line: 0 < line.told(CONTEXT) <= (
            line.told("--context-length") or line.model.max_positions
        ),
        "--cuda-graph-prefill-max-context {--cuda-graph-prefill-max-context} is none, or more"
        " than the model's",
        "Write 1 or more, at most --context-length.", "arg_groups/cuda_graph_hook.py:427, :435",
        when=said(CONTEXT),
    ),
    rule(
        "S78", "Compiled steps have sequences", COMPILED,
        lambda line: number(line, COMPILED, 1) > 0,
        "--torch-compile-max-bs {--torch-compile-max-bs} is none", "Write 1 or more.",
        "arg_groups/memory_hook.py:228", when=said("--enable-torch-compile"),
    ),
    rule(
        "S79", "Prefill in whole graphs is an experiment", "--cuda-graph-backend-prefill",
        lambda line: line["--cuda-graph-backend-prefill"] != "full",
        "--cuda-graph-backend-prefill full is an experiment", "Take breakable.",
        "arg_groups/cuda_graph_hook.py:404", severity="warning",
    ),
    rule(
        "S80", "Tensors are dumped without graphs", DUMP,
        lambda line: False, "--debug-tensor-dump-output-folder turns graphs and the warm-up off",
        "Leave it out.", "arg_groups/serving_hook.py:544", when=said(DUMP), severity="warning",
    ),
    clash(
        "S81", "--ple-offload-embedding", "An embedding lies in main memory by itself",
        (
            ("--cpu-offload-gb", above("--cpu-offload-gb", 0, 0)),
            ("--offload-group-size", above("--offload-group-size", 0, 0)),
        ),
        "arg_groups/memory_hook.py:34", when=on("--ple-offload-embedding"),
    ),
    rule(
        "S82", "Prefixes in an order need prefixes", "--schedule-policy",
        lambda line: line["--schedule-policy"] not in ("lpm", "dfs-weight"),
        "without prefixes --schedule-policy {--schedule-policy} becomes fcfs",
        "Leave --disable-radix-cache or --schedule-policy out.",
        "managers/schedule_policy.py:338", when=said(RADIX_OFF), severity="warning",
    ),
    rule(
        "S83", "The shortest prefill is known by prefixes", "--schedule-policy",
        lambda line: not line.on_by(RADIX_OFF),
        "--schedule-policy shortest-prefill-first needs prefixes",
        "Leave --disable-radix-cache out.", "managers/schedule_policy.py:334",
        when=said("--schedule-policy", "shortest-prefill-first"),
    ),
)  # fmt: skip
