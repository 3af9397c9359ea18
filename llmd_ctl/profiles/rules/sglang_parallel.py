"""Rules of SGLang on how devices share a model: groups of attention, contexts, stages, nodes."""

from __future__ import annotations

from llmd_ctl.profiles.rules.line import Line
from llmd_ctl.profiles.rules.rule import Rule
from llmd_ctl.profiles.rules.scheduling import number
from llmd_ctl.profiles.rules.sglang_asked import (
    CHUNK,
    EP,
    above,
    algorithm,
    apart,
    attention_copies,
    clash,
    experts_over,
    mode,
    needs,
    on,
    rule,
    said,
    split_attention,
)
from llmd_ctl.profiles.split import tensor_objection

CP, DCP, DP, ATTENTION = "--attn-cp-size", "--dcp-size", "--dp-size", "--attn-dp-size"
PREFILL_CP, NODES, MOE_DP = "--enable-prefill-cp", "--nnodes", "--moe-dp-size"
HEAD, SPLIT_HEAD = "--enable-dp-lm-head", "--enable-tp-lm-head-all-to-all"
DENSE, DWDP, EXCHANGE = "--moe-dense-tp-size", "--dwdp-size", "--dcp-comm-backend"
ASKED = "--enable-dp-attention"


def _divides(of: int, by: int) -> bool:
    return by > 0 and of % by == 0


def _copies(line: Line) -> int:
    """Whole copies of the model."""
    taken = line.on_by(ASKED) and number(line, ATTENTION, 1) == 1
    return 1 if taken else line.told(DP)


def _contexts_fit(line: Line) -> bool:
    contexts = number(line, CP, 1)
    return _divides(line.tensor, contexts * attention_copies(line))


def _expert_copies_fit(line: Line) -> bool:
    copies, experts = number(line, MOE_DP, 1), experts_over(line)
    whole = experts == 1 or experts * copies == line.tensor
    return _divides(line.tensor, copies) and whole and line.pipeline == 1


def _shares(line: Line) -> int:
    """Devices that share one layer of attention."""
    groups = max(1, attention_copies(line)) * max(1, number(line, CP, 1))
    return max(1, line.tensor // groups)


RULES: tuple[Rule, ...] = (
    rule(
        "S203", "Devices share heads evenly", "--tp-size",
        lambda line: tensor_objection(line.model, _shares(line)) is None,
        "{devices} devices cannot share the model evenly: {why}",
        "Take a number of devices that divides them.",
        "models/qwen3.py:166, :172; models assert the same of their heads",
        sized=True,
        words=lambda line: {
            "devices": _shares(line), "why": tensor_objection(line.model, _shares(line)),
        },
    ),
    rule(
        "S48", "Devices are shared evenly among machines", NODES,
        lambda line: _divides(line.tensor * line.pipeline, number(line, NODES, 1)),
        "{tensor} times {pipeline} devices are not shared evenly by {--nnodes} machines",
        "Take as many devices of each machine.", "arg_groups/validation_hook.py:178",
        at=(NODES, "--tp-size"),
    ),
    rule(
        "S49", "Attention is done in groups of as many devices", ATTENTION,
        lambda line: _divides(line.tensor, attention_copies(line)),
        "{tensor} devices are not shared evenly by {copies} groups of attention",
        "Take a number of groups that divides --tp-size.", "arg_groups/parallel_hook.py:326",
        at=(ATTENTION, DP, "--tp-size"),
        words=lambda line: {"copies": attention_copies(line)},
    ),
    rule(
        "S50", "There is one group of attention at least", ATTENTION,
        lambda line: line.told(ATTENTION) >= 1, "--attn-dp-size {--attn-dp-size} is none",
        "Write 1 or more.", "arg_groups/parallel_hook.py:286", when=said(ATTENTION),
    ),
    clash(
        "S51", DP, "Copies of the model have no groups of attention",
        ((ATTENTION, above(ATTENTION, 1)),), "arg_groups/parallel_hook.py:288",
        when=lambda line: _copies(line) > 1,
    ),
    clash(
        "S52", DP, "Copies of the model are on one machine", ((NODES, above(NODES, 1)),),
        "arg_groups/validation_hook.py:198", when=lambda line: _copies(line) > 1,
    ),
    rule(
        "S53", "Groups of attention take chunks in turn", CHUNK,
        lambda line: False, "each of {copies} groups of attention gets its part of a chunk",
        "Count on --chunked-prefill-size over the number of groups.",
        "arg_groups/parallel_hook.py:333", severity="warning",
        when=lambda line: line.says(CHUNK) and split_attention(line),
        words=lambda line: {"copies": attention_copies(line)},
    ),
    rule(
        "S54", "Dense layers are shared by all or by none", DENSE,
        lambda line: line.told(DENSE) in (1, line.tensor),
        "--moe-dense-tp-size {--moe-dense-tp-size} is neither 1 nor {tensor}",
        "Write 1, or leave it out.", "arg_groups/validation_hook.py:206", when=said(DENSE),
    ),
    rule(
        "S55", "A last layer for each group needs groups of attention", HEAD,
        lambda line: split_attention(line),
        "--enable-dp-lm-head is turned off: attention is not done in groups",
        "Add --attn-dp-size, or leave it out.", "arg_groups/overrides.py:1363",
        when=lambda line: line.on_by(HEAD) and _copies(line) == 1, severity="warning",
    ),
    needs(
        "S56", HEAD, "A last layer for each group is not for copies of the model",
        (("--attn-dp-size above 1", split_attention),), "arg_groups/overrides.py:1425",
        when=lambda line: line.on_by(HEAD) and _copies(line) > 1,
    ),
    needs(
        "S57", SPLIT_HEAD, "A last layer that is exchanged needs groups of one device",
        (
            ("--attn-dp-size above 1", split_attention),
            ("as many groups as devices", lambda line: attention_copies(line) == line.tensor),
            (f"{CP} 1", lambda line: number(line, CP, 1) == 1),
            (f"no {HEAD}", lambda line: not line.on_by(HEAD)),
        ),
        "arg_groups/overrides.py:1429-1441",
    ),
    rule(
        "S58", "A context is shared evenly", CP, _contexts_fit,
        "{tensor} devices are not shared evenly by {--attn-cp-size} parts of a context",
        "Take a number that divides --tp-size.", "arg_groups/parallel_hook.py:159, :162",
        when=above(CP, 1),
    ),
    needs(
        "S59", PREFILL_CP, "A prompt is cut by a strategy",
        (("--cp-strategy", said("--cp-strategy")),), "arg_groups/parallel_hook.py:151",
    ),
    clash(
        "S60", PREFILL_CP, "Prompts are cut on AMD for DeepSeek V4 only",
        (("this model on AMD", lambda line: (
            line.platform == "rocm" and line.kind != "deepseek-v4"
        )),),
        "arg_groups/parallel_hook.py:118",
    ),
    rule(
        "S61", "Copies of experts fill the devices", MOE_DP, _expert_copies_fit,
        "--moe-dp-size {--moe-dp-size} times the devices of experts is not {tensor}, or there are"
        " stages",
        "Take sizes whose product is --tp-size, and one stage.",
        "arg_groups/parallel_hook.py:172-183", when=above(MOE_DP, 1), at=(MOE_DP, EP),
    ),
    rule(
        "S62", "Contexts are cut as often as experts are copied", CP,
        lambda line: number(line, CP, 1) == number(line, MOE_DP, 1),
        "--attn-cp-size {contexts} with --moe-dp-size {--moe-dp-size}",
        "Make both the same, or leave --moe-dp-size out.", "arg_groups/parallel_hook.py:190",
        when=above(MOE_DP, 1), at=(CP, MOE_DP),
        words=lambda line: {"contexts": number(line, CP, 1)},
    ),
    rule(
        "S63", "A context is decoded by one device at least", DCP,
        lambda line: line.told(DCP) >= 1, "--dcp-size {--dcp-size} is none",
        "Write 1 or more.", "arg_groups/parallel_hook.py:244", when=said(DCP),
    ),
    clash(
        "S64", DCP, "A context is cut for decoding or for prefill",
        ((PREFILL_CP, said(PREFILL_CP)),), "arg_groups/parallel_hook.py:250", when=above(DCP, 1),
    ),
    needs(
        "S65", EXCHANGE, "An exchange of a cut context has one", ((DCP, above(DCP, 1)),),
        "arg_groups/parallel_hook.py:252", when=said(EXCHANGE, "a2a", "fi_a2a"),
    ),
    rule(
        "S66", "FlashInfer's exchange is NVIDIA's", EXCHANGE,
        lambda line: line.platform == "cuda", "fi_a2a does not run on {accelerator.name}",
        "Take a2a or ag_rs.", "arg_groups/parallel_hook.py:258", when=said(EXCHANGE, "fi_a2a"),
    ),
    needs(
        "S67", "--dcp-replicate-q-proj", "Queries are copied for a cut context",
        ((DCP, above(DCP, 1)), (f"{EXCHANGE} a2a", said(EXCHANGE, "a2a", "fi_a2a"))),
        "arg_groups/parallel_hook.py:267, :269",
    ),
    rule(
        "S68", "Parts of a batch in stages are not empty", "--pp-max-micro-batch-size",
        lambda line: line.told("--pp-max-micro-batch-size") >= 1,
        "--pp-max-micro-batch-size {--pp-max-micro-batch-size} is none", "Write 1 or more.",
        "arg_groups/validation_hook.py:182", when=said("--pp-max-micro-batch-size"),
    ),
    clash(
        "S70", "--pp-size", "Stages check drafts on prefill only, by EAGLE",
        (
            ("this --speculative-algorithm", lambda line: (
                algorithm(line) not in (None, "EAGLE", "DSPARK")
            )),
            ("drafts outside --disaggregation-mode prefill", lambda line: (
                algorithm(line) in ("EAGLE", "DSPARK") and mode(line) != "prefill"
                and not line.switched("SGLANG_ENABLE_PP_SPEC")
            )),
            ("--enable-multi-layer-eagle", lambda line: (
                algorithm(line) == "EAGLE" and line.on_by("--enable-multi-layer-eagle")
            )),
            ("--min-free-slots-delay", said("--min-free-slots-delay")),
        ),
        "arg_groups/validation_hook.py:124, :131, :160, :164", when=lambda line: line.pipeline > 1,
    ),
    rule(
        "S71", "Devices are counted from one of them", "--base-gpu-id",
        lambda line: (
            line.told("--base-gpu-id") >= 0 and number(line, "--gpu-id-step", 1) >= 1
        ),
        "the first device is 0 or later, and steps are 1 or more", "Leave both out.",
        "arg_groups/validation_hook.py:203, :204", at=("--base-gpu-id", "--gpu-id-step"),
    ),
    clash(
        "S72", DWDP, "Weights that are fetched are of one simple group",
        (
            ("another --tp-size", lambda line: line[DWDP] != line.tensor),
            ("decoding alone", lambda line: mode(line) == "decode"),
            ("--enable-eplb", said("--enable-eplb")),
            ("--speculative-algorithm", lambda line: algorithm(line) is not None),
            ("stages", lambda line: line.pipeline > 1),
            ("--enable-two-batch-overlap", said("--enable-two-batch-overlap")),
        ),
        "arg_groups/parallel_hook.py:438-455", when=above(DWDP, 1),
    ),
    clash(
        "S73", "--enable-pdmux", "Prefill and decode side by side are alone",
        (
            ("stages", lambda line: line.pipeline > 1),
            (f"chunks (add {CHUNK} -1)", lambda line: line[CHUNK] != -1),
            ("prefill and decode apart", apart),
            ("steps prepared beside one another (add --disable-overlap-schedule)", lambda line: (
                not line.on_by("--disable-overlap-schedule")
            )),
        ),
        "arg_groups/validation_hook.py:249-258",
    ),
    rule(
        "S74", "Images are shared by several devices", "--mm-enable-dp-encoder",
        lambda line: line.tensor > 1, "--mm-enable-dp-encoder has nothing to share on one device",
        "Leave it out.", "arg_groups/parallel_hook.py:297", when=on("--mm-enable-dp-encoder"),
        severity="warning",
    ),
)  # fmt: skip
