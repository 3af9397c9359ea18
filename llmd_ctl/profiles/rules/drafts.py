"""Rules of vLLM on drafted tokens (speculative decoding): who drafts, how many, beside what."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from llmd_ctl.profiles.rules.line import DRAFT_FLAGS, Line
from llmd_ctl.profiles.rules.rule import Rule

FLAG = "--speculative-config"
AT = (FLAG, "--spec-method", "--spec-model", "--spec-tokens")
NGRAM = ("ngram", "ngram_gpu")
# vLLM 0.32.0 config/speculative.py:41: names of one method, mtp.
OLD_MTP = frozenset(
    "deepseek_mtp dots3_note_mtp mimo_mtp mimo_v2_mtp glm4_moe_mtp glm4_moe_lite_mtp glm_ocr_mtp"
    " ernie_mtp nemotron_h_mtp exaone_moe_mtp exaone4_5_mtp qwen3_next_mtp qwen4_exp_mtp"
    " qwen3_5_mtp longcat_flash_mtp bailing_hybrid_v3_mtp minimax_m3_mtp bailing_hybrid_mtp"
    " kimi_k3_mtp pangu_ultra_moe_mtp step3p5_mtp hy_v3_mtp hy_v4_mtp gemma4_mtp inkling_mtp"
    " glm5_next_mtp".split()
)
# Families for which vLLM 0.32.0 knows no such layers (config/speculative.py:661).
NO_LAYERS = frozenset(
    "llama llama4_text qwen2 qwen2_moe qwen3 qwen3_moe gpt_oss mistral ministral3 mistral4 mixtral"
    " gemma3_text phi3 phimoe kimi_k2 granite granitemoehybrid".split()
)
NOT_AHEAD = ("ngram", "suffix", "medusa", "mlp_speculator", "custom_class")
# Ways of drafting that say themselves how many tokens they draft.
COUNTS_ITSELF = ("suffix", "mtp", *OLD_MTP)
WITH_MODEL = ("draft_model", "eagle", "eagle3", "medusa", "mlp_speculator", "dflash")


def _says(line: Line) -> bool:
    return bool(line.draft)


def _method(line: Line) -> str | None:
    said = line.draft.get("method")
    return "ngram" if said is None and line.draft.get("model") == "ngram" else _text(said)


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _count(line: Line) -> int | None:
    value = line.draft.get("num_speculative_tokens")
    return value if type(value) is int else None


def _counts_itself(line: Line) -> bool:
    """Whether the way of drafting, or the model that drafts by itself, says how many tokens."""
    method, own = _method(line), line.model.traits.kind == "deepseek-v4"
    return method in COUNTS_ITSELF or (method == "dspark" and own)


def _own_layers(line: Line) -> bool:
    return _method(line) in ("mtp", *OLD_MTP) and not line.draft.get("model")


def _twice(line: Line) -> list[str]:
    said = line.given.get(FLAG)
    inside = said if isinstance(said, dict) else {}
    return [flag for flag, key in DRAFT_FLAGS.items() if line.says(flag) and key in inside]


def _rates_fit(line: Line) -> bool:
    """Acceptance that is made up is one list of rates, or one length."""
    rates, length = (line.draft.get(f"synthetic_acceptance_{key}") for key in ("rates", "length"))
    count = _count(line)
    if line.draft.get("rejection_sample_method") != "synthetic":
        return rates is None and length is None
    if (rates is None) == (length is None):
        return False
    if not isinstance(rates, list):
        return count is None or not isinstance(length, int | float) or 1 <= length <= count + 1
    if not all(type(rate) in (int, float) for rate in rates):
        return False
    falling = all(one >= other for one, other in pairwise(rates))
    return falling and (count is None or len(rates) == count)


RULES = (
    Rule(
        "V90",
        "What drafts tokens is said once",
        require=lambda line: not _twice(line),
        message="{names} says what --speculative-config says too",
        remedy="Keep one of them.",
        words=lambda line: {"names": ", ".join(_twice(line))},
        at=("--spec-method", "--spec-model", "--spec-tokens"),
        source="vLLM 0.32.0 engine/arg_utils.py:2077",
    ),
    Rule(
        "V91",
        "How many tokens are drafted is said",
        when=lambda line: _says(line) and not _counts_itself(line),
        require=lambda line: "num_speculative_tokens" in line.draft or _unread(line),
        message="drafts are on, and num_speculative_tokens is not said",
        remedy='Add "num_speculative_tokens": 3, say.',
        at=AT,
        source="vLLM 0.32.0 config/speculative.py:1819",
    ),
    Rule(
        "V92",
        "The draft model's parallelism has its own name",
        require=lambda line: line.draft.get("tensor_parallel_size") is None,
        message="tensor_parallel_size is no key of --speculative-config",
        remedy="Write draft_tensor_parallel_size.",
        at=(FLAG,),
        source="vLLM 0.32.0 config/speculative.py:1813",
    ),
    Rule(
        "V93",
        "The draft model runs on one device or on all",
        when=lambda line: line.draft.get("draft_tensor_parallel_size") is not None,
        require=lambda line: line.draft["draft_tensor_parallel_size"] in (1, line.tensor),
        message="the draft model runs on 1 device, or on the {tensor} of the model",
        remedy="Set draft_tensor_parallel_size to one of them, or leave it out.",
        allowed=lambda line: sorted({1, line.tensor}),
        at=(FLAG,),
        source="vLLM 0.32.0 config/speculative.py:1735",
    ),
    Rule(
        "V94",
        "A model drafts by layers that it has",
        when=_own_layers,
        require=lambda line: line.model.family not in NO_LAYERS,
        message="the model has no layers of its own that draft tokens (MTP)",
        remedy='Take "method": "ngram", or add a "model" that drafts.',
        at=AT,
        source="vLLM 0.32.0 config/speculative.py:1388",
    ),
    Rule(
        "V95",
        "Layers that draft have one name",
        require=lambda line: _method(line) not in OLD_MTP,
        message="{method} is an old name of mtp, which is what the engine takes",
        remedy='Write "method": "mtp".',
        words=lambda line: {"method": _method(line)},
        at=AT,
        severity="warning",
        source="vLLM 0.32.0 config/speculative.py:1141",
    ),
    Rule(
        "V96",
        "A way of drafting that needs a model has one",
        when=lambda line: _method(line) in WITH_MODEL,
        require=lambda line: bool(line.draft.get("model")),
        message="{method} drafts by a model, and none is named",
        remedy='Add "model".',
        words=lambda line: {"method": _method(line)},
        at=AT,
        source="vLLM 0.32.0 config/speculative.py:1187",
    ),
    Rule(
        "V97",
        "Acceptance that is made up is said whole",
        require=_rates_fit,
        message="made-up acceptance is rejection_sample_method synthetic with either"
        " synthetic_acceptance_rates, one for each drafted token and none above the one before,"
        " or synthetic_acceptance_length",
        remedy="Correct them, or leave all three out: this is for tests.",
        at=(FLAG,),
        source="vLLM 0.32.0 config/speculative.py:565, :1840",
    ),
    Rule(
        "V98",
        "Only a draft model has words of its own",
        when=lambda line: line.draft.get("use_heterogeneous_vocab") is True,
        require=lambda line: (
            _method(line) in (None, "draft_model")
            and line.draft.get("draft_sample_method") in (None, "greedy")
        ),
        message="use_heterogeneous_vocab is for draft_model, and for greedy drafts",
        remedy="Leave it out.",
        at=(FLAG,),
        source="vLLM 0.32.0 config/speculative.py:1854",
    ),
    Rule(
        "V99",
        "Drafts that the next step cannot wait for are not prepared ahead",
        when=lambda line: line.given.get("--async-scheduling") is True,
        require=lambda line: (
            _method(line) not in NOT_AHEAD
            and line.draft.get("disable_padded_drafter_batch") is not True
        ),
        message="--async-scheduling does not go with these drafts",
        remedy="Leave --async-scheduling out: the engine turns it off by itself.",
        at=("--async-scheduling", *AT),
        source="vLLM 0.32.0 config/vllm.py:1563",
        before="0.33.0",
    ),
    Rule(
        "V100",
        "Drafts are checked adaptively in one stage",
        when=lambda line: line.draft.get("enable_adaptive_verification") is True,
        require=lambda line: line.pipeline == 1 and not line.on_by("--enforce-eager"),
        message="enable_adaptive_verification needs captured graphs, and no pipeline",
        remedy="Leave it out.",
        at=(FLAG,),
        source="vLLM 0.32.0 config/vllm.py:3013",
    ),
    Rule(
        "V101",
        "Layers that skip prompts do not draft",
        when=lambda line: line.on_by("--kv-sharing-fast-prefill"),
        require=lambda line: _method(line) not in ("eagle", "eagle3", "mtp", "dflash", *OLD_MTP),
        message="--kv-sharing-fast-prefill gives prompts logits that these drafts cannot use",
        remedy="Leave out one of the two.",
        at=("--kv-sharing-fast-prefill", *AT),
        source="vLLM 0.32.0 config/vllm.py:1942",
    ),
    Rule(
        "V102",
        "Another number of drafts for every load is not for data parallelism",
        when=lambda line: line.draft.get("num_speculative_tokens_per_batch_size") is not None,
        require=lambda line: line.data == 1,
        message="with data parallelism num_speculative_tokens_per_batch_size is turned off",
        remedy="Leave it out.",
        at=(FLAG,),
        severity="warning",
        source="vLLM 0.32.0 config/vllm.py:1058",
    ),
    Rule(
        "V103",
        "Keys of one way of drafting belong to it",
        require=lambda line: not _foreign(line),
        message="{names} is not for this way of drafting",
        remedy="Leave it out.",
        words=lambda line: {"names": ", ".join(_foreign(line))},
        at=(FLAG,),
        source="vLLM 0.32.0 config/speculative.py:1509, :1574",
    ),
    Rule(
        "V104",
        "Suffixes are bounded by sensible numbers",
        when=lambda line: _method(line) == "suffix",
        require=lambda line: not _suffix(line),
        message="{names} of suffix drafts is out of its limits",
        remedy="Leave it out: the engine has a number of its own.",
        words=lambda line: {"names": ", ".join(_suffix(line))},
        allowed=lambda _line: ("max_tree_depth at least 1", "others at least 0", "prob at most 1"),
        at=(FLAG,),
        source="vLLM 0.32.0 config/speculative.py:1611",
    ),
)


def _unread(line: Line) -> bool:
    """A draft model may say itself how many tokens it drafts."""
    return bool(line.draft.get("model")) and _method(line) not in (*NGRAM, "draft_model")


def _foreign(line: Line) -> list[str]:
    method = _method(line)
    by_model = method in ("mtp", *WITH_MODEL, *OLD_MTP)
    topk = line.draft.get("dspark_draft_topk") is not None
    shared = line.draft.get("index_share_for_mtp_iteration") is not None
    pairs = (
        ("dspark_draft_topk", topk and by_model),
        ("index_share_for_mtp_iteration", shared and method not in (None, "mtp", *OLD_MTP)),
    )
    return [name for name, amiss in pairs if amiss]


def _suffix(line: Line) -> list[str]:
    bounds = (
        ("max_tree_depth", 1, None), ("max_cached_requests", 0, None),
        ("max_spec_factor", 0, None), ("min_token_prob", 0, 1),
    )  # fmt: skip
    found = []
    for name, least, most in bounds:
        value = line.draft.get(f"suffix_decoding_{name}")
        if isinstance(value, int | float) and (
            value < least or (most is not None and value > most)
        ):
            found.append(f"suffix_decoding_{name}")
    return found
