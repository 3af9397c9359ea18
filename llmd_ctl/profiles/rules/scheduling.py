"""Rules of vLLM on steps: tokens and sequences at once, chunks of prompts, lengths."""

from __future__ import annotations

from llmd_ctl.profiles.rules.line import Line
from llmd_ctl.profiles.rules.rule import Rule

TOKENS, SEQUENCES = "--max-num-batched-tokens", "--max-num-seqs"
ACTIVE, THRESHOLD = "--max-num-active-seqs", "--long-prefill-token-threshold"
WHOLE = "--no-enable-chunked-prefill"
CAPTURED = "--max-cudagraph-capture-size"


def number(line: Line, flag: str, default: int) -> int:
    """Return a flag's whole number; where nobody says one, what the engine takes."""
    value = line[flag]
    return value if type(value) is int else default


def _captures(line: Line) -> bool:
    """Whether graphs are captured, as far as the line says it."""
    mode = line.inside("--compilation-config", "cudagraph_mode")
    return not line.on_by("--enforce-eager") and str(mode or "unsaid").upper() != "NONE"


def length(line: Line) -> int:
    """Return the longest context: what is said, else the model's own."""
    said = line.told("--max-model-len")
    return said if said > 0 else line.model.max_positions


def _most_tokens(line: Line) -> int:
    return line.told(SEQUENCES) * length(line)


RULES = (
    Rule(
        "V134",
        "A step is no larger than all sequences",
        when=lambda line: line.says(TOKENS) and line.says(SEQUENCES),
        require=lambda line: line.told(TOKENS) <= _most_tokens(line),
        message="a step of {--max-num-batched-tokens} tokens is more than {--max-num-seqs}"
        " sequences"
        " ever hold",
        remedy="Lower --max-num-batched-tokens to --max-num-seqs times --max-model-len.",
        allowed=lambda line: (f"at most {_most_tokens(line)}",),
        at=(TOKENS, SEQUENCES),
        severity="warning",
        source="vLLM 0.32.0 config/scheduler.py:344",
    ),
    Rule(
        "V135",
        "Sampling is shared by devices that there are",
        when=lambda line: line.on_by("--enable-batch-sharded-sampling"),
        require=lambda line: (
            line.tensor > 1
            and line.told(SEQUENCES) >= line.tensor
            and line.told("--max-logprobs") >= 0
            and not line.on_by("--return-sampling-mask")
            and line.draft.get("enable_adaptive_verification") is not True
        ),
        message="--enable-batch-sharded-sampling needs several devices and as many sequences, a"
        " bound on --max-logprobs, and neither sampling masks nor adaptive verification",
        remedy="Leave it out.",
        at=("--enable-batch-sharded-sampling",),
        source="vLLM 0.32.0 config/vllm.py:3030",
    ),
    Rule(
        "V32",
        "A step holds a token of each sequence",
        when=lambda line: line.says(SEQUENCES),  # unsaid, they are no more than the tokens
        require=lambda line: line.told(TOKENS) >= line.told(SEQUENCES),
        message="a step of {--max-num-batched-tokens} tokens cannot hold a token of each of"
        " {--max-num-seqs} sequences",
        remedy="Raise --max-num-batched-tokens to at least --max-num-seqs, or lower that.",
        at=(SEQUENCES, TOKENS),
        source="vLLM 0.32.0 config/scheduler.py:328",
    ),
    Rule(
        "V33",
        "Without chunks a step holds the longest prompt",
        # Where nobody says how many tokens a step has, the engine raises them.
        when=lambda line: line["--enable-chunked-prefill"] is False and line.says(TOKENS),
        require=lambda line: line.told(TOKENS) >= length(line),
        message="without chunked prefill a step of {--max-num-batched-tokens} tokens cannot hold"
        " the longest sequence",
        remedy="Raise --max-num-batched-tokens to --max-model-len, or leave chunks on.",
        at=(TOKENS, "--enable-chunked-prefill"),
        source="vLLM 0.32.0 config/scheduler.py:315; engine/arg_utils.py:3140",
    ),
    Rule(
        "V176",
        "Graphs are captured of a batch of one token or more",
        when=lambda line: line.says(CAPTURED) and _captures(line),
        require=lambda line: line.told(CAPTURED) >= 1,
        message="the largest batch that is captured cannot be {--max-cudagraph-capture-size}",
        remedy="Take 1 or more, or say --enforce-eager to have no graphs.",
        at=(CAPTURED,),
        source="vLLM 0.32.0 config/vllm.py:2448",
        since="0.32.0",
        platforms=("cuda", "rocm"),
    ),
    Rule(
        "V34",
        "Active sequences are among all sequences",
        require=lambda line: line.told(ACTIVE) <= line.told(SEQUENCES),
        message="{--max-num-active-seqs} active sequences are more than all {--max-num-seqs}",
        remedy="Lower --max-num-active-seqs, or raise --max-num-seqs.",
        at=(ACTIVE,),
        source="vLLM 0.32.0 config/scheduler.py:335",
    ),
    Rule(
        "V35",
        "A prompt that counts as long fits into the context",
        require=lambda line: line.told(THRESHOLD) <= length(line),
        message="{--long-prefill-token-threshold} tokens are more than the longest context",
        remedy="Take at most --max-model-len.",
        at=(THRESHOLD,),
        source="vLLM 0.32.0 config/scheduler.py:352",
    ),
    Rule(
        "V36",
        "A recurrent state is cached in chunks",
        when=lambda line: (
            line.model.traits.kind == "hybrid"
            and line.on_by("--enable-prefix-caching")
            and line.says("--enable-prefix-caching")
        ),
        require=lambda line: line["--enable-chunked-prefill"] is not False,
        message="cached states of this model need chunked prefill",
        remedy="Leave chunked prefill on, or turn prefix caching off.",
        at=("--enable-chunked-prefill",),
        source="vLLM 0.32.0 model_executor/models/config.py",
    ),
    Rule(
        "V16",
        "States are aligned only where prefixes are cached",
        when=lambda line: line["--mamba-cache-mode"] == "align",
        require=lambda line: line["--enable-prefix-caching"] is not False,
        message="--mamba-cache-mode align goes back to none without prefix caching",
        remedy="Leave out one of the two.",
        at=("--mamba-cache-mode",),
        severity="warning",
        source="vLLM 0.32.0 config/cache.py",
        before="0.33.0",
    ),
)
