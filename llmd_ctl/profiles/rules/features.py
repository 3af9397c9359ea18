"""Rules of vLLM on what is switched on beside serving: drafts, structured output, logs."""

from __future__ import annotations

from llmd_ctl.profiles.rules.drafts import OLD_MTP, WITH_MODEL
from llmd_ctl.profiles.rules.line import Line
from llmd_ctl.profiles.rules.rule import Rule

DRAFT = "--speculative-config"
OUTPUT = "--structured-outputs-config"
# Ways of drafting that need no model of their own.
MODELLESS = ("mtp", "dspark", "ngram", "ngram_gpu", "suffix", "extract_hidden_states")


def _ngram(line: Line, key: str) -> int | None:
    value = line.inside(DRAFT, key)
    return value if type(value) is int else None


def _ngram_in_order(line: Line) -> bool:
    least, most = _ngram(line, "prompt_lookup_min"), _ngram(line, "prompt_lookup_max")
    return least is None or most is None or least <= most


def _with_hc_sp(line: Line) -> tuple[str, ...]:
    return ("cuda", "rocm") if line.at_least("0.33.0") else ("cuda",)


RULES = (
    Rule(
        "V42",
        "Drafted tokens come of a model or of a method",
        when=lambda line: (
            line.draft.get("num_speculative_tokens") is not None
            and line.draft.get("method") not in WITH_MODEL
        ),
        require=lambda line: (
            bool(line.draft.get("model")) or line.draft.get("method") in (*MODELLESS, *OLD_MTP)
        ),
        message="a number of drafted tokens is set, and nothing that drafts them",
        remedy='Add "model", or a "method" that needs none.',
        allowed=lambda _line: MODELLESS,
        at=(DRAFT,),
        source="vLLM 0.32.0 config/speculative.py:1188",
    ),
    Rule(
        "V139",
        "A fused prefill of KDA layers is AMD's",
        when=lambda line: line["--kda-prefill-backend"] == "fused",
        require=lambda line: line.platform == "rocm",
        message="--kda-prefill-backend fused is for AMD alone",
        remedy="Leave it out.",
        at=("--kda-prefill-backend",),
        source="vLLM 0.32.0 engine/arg_utils.py:2830",
    ),
    Rule(
        "V43",
        "The shortest match of prompt lookup is no longer than the longest",
        require=_ngram_in_order,
        message="prompt_lookup_min is more than prompt_lookup_max",
        remedy="Swap them.",
        at=(DRAFT,),
        source="vLLM 0.32.0 config/speculative.py",
    ),
    Rule(
        "V44",
        "Numbers about drafts come with drafts",
        when=lambda line: line["--per-request-spec-decode-metrics"] not in (None, "none"),
        require=lambda line: bool(line.draft),
        message="--per-request-spec-decode-metrics counts drafted tokens, and none are drafted",
        remedy="Leave it out, or add --speculative-config.",
        at=("--per-request-spec-decode-metrics",),
        source="vLLM 0.32.0 config/vllm.py:1659",
    ),
    Rule(
        "V45",
        "Whitespace is left out by a grammar that can",
        when=lambda line: line.inside(OUTPUT, "disable_any_whitespace") is True,
        require=lambda line: line.inside(OUTPUT, "backend") in ("xgrammar", "guidance"),
        message="disable_any_whitespace needs a grammar that can leave it out",
        remedy='Set "backend" to one of them.',
        allowed=lambda _line: ("xgrammar", "guidance"),
        at=(OUTPUT,),
        source="vLLM 0.32.0 config/structured_outputs.py:62",
    ),
    Rule(
        "V46",
        "Unnamed properties are refused by a grammar that can",
        when=lambda line: line.inside(OUTPUT, "disable_additional_properties") is True,
        require=lambda line: line.inside(OUTPUT, "backend") == "guidance",
        message="disable_additional_properties is a switch of guidance alone",
        remedy='Set "backend" to guidance.',
        at=(OUTPUT,),
        source="vLLM 0.32.0 config/structured_outputs.py:67",
    ),
    Rule(
        "V47",
        "Answers are logged only beside requests",
        when=lambda line: line.on_by("--enable-log-outputs"),
        require=lambda line: line.on_by("--enable-log-requests"),
        message="--enable-log-outputs needs --enable-log-requests",
        remedy="Add it, or leave both out.",
        at=("--enable-log-outputs",),
        source="vLLM 0.32.0 entrypoints/openai/cli_args.py: validate_parsed_serve_args",
    ),
    Rule(
        "V48",
        "The sizes of captured graphs are given once",
        when=lambda line: line.says("--cudagraph-capture-sizes"),
        require=lambda line: line.inside("--compilation-config", "cudagraph_capture_sizes") is None,
        message="--cudagraph-capture-sizes is also in --compilation-config",
        remedy="Keep one of them.",
        at=("--cudagraph-capture-sizes",),
        source="vLLM 0.32.0 engine/arg_utils.py:2789",
    ),
    Rule(
        "V49",
        "Sleep is for accelerators that can",
        when=lambda line: line.on_by("--enable-sleep-mode"),
        require=lambda _line: False,
        message="{accelerator.name} has no sleep mode",
        remedy="Leave it out.",
        at=("--enable-sleep-mode",),
        source="vLLM 0.32.0 config/model.py:657",
        platforms=("cpu", "tpu", "rbln"),
    ),
    Rule(
        "V50",
        "Events of the KV cache are sent only where they are switched on",
        when=lambda line: line.inside("--kv-events-config", "publisher") not in (None, "null"),
        require=lambda line: line.inside("--kv-events-config", "enable_kv_cache_events") is True,
        message="--kv-events-config names a publisher and does not switch events on:"
        " the engine warns and sends nothing",
        remedy='Add "enable_kv_cache_events": true.',
        at=("--kv-events-config",),
        severity="warning",
        source="vLLM 0.32.0 config/vllm.py:1980",
    ),
    Rule(
        "V51",
        "Loading in parallel is no more",
        when=lambda line: line.says("--max-parallel-loading-workers"),
        require=lambda _line: False,
        message="--max-parallel-loading-workers is not supported: the engine ignores it",
        remedy="Leave it out.",
        at=("--max-parallel-loading-workers",),
        severity="warning",
        source="vLLM 0.32.0 config/vllm.py",
    ),
    Rule(
        "V52",
        "A version of FlashAttention exists on the accelerator",
        when=lambda line: line.inside("--attention-config", "flash_attn_version") == 3,
        require=lambda line: line.architecture.startswith("sm9"),
        message="FlashAttention 3 does not exist on {architecture}: the engine takes another",
        remedy="Leave it out.",
        at=("--attention-config",),
        severity="warning",
        source="vLLM 0.32.0 v1/attention/backends/fa_utils.py",
        platforms=("cuda",),
    ),
    Rule(
        "V53",
        "The prefill of KDA layers is one of the platform",
        when=lambda line: line["--kda-prefill-backend"] == "flashkda",
        require=lambda line: line.platform == "cuda",
        message="flashkda is for NVIDIA alone",
        remedy="Leave it out.",
        at=("--kda-prefill-backend",),
        source="vLLM 0.32.0 engine/arg_utils.py:2822",
    ),
    Rule(
        "V159",
        "Sequence parallelism of hyper-connections is for CUDA, in one stage",
        when=lambda line: line.on_by("--enable-hc-sp"),
        require=lambda line: line.platform in _with_hc_sp(line) and line.pipeline == 1,
        message="--enable-hc-sp is for NVIDIA, and AMD from vLLM 0.33.0 on, in one pipeline stage",
        remedy="Leave it out, or set --pipeline-parallel-size 1 on such a GPU.",
        at=("--enable-hc-sp",),
        source="vLLM 0.32.0 config/model.py:1538; vLLM 0.33.0 config/model.py:1551",
    ),
)
