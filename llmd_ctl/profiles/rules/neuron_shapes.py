"""Rules of vLLM on AWS Trainium (vllm-neuron) on compiled shapes, and on splits of experts.

They are asked of what --additional-config says under `neuron_config`; what else it says is judged
in `neuron`. Of AWS's own docs: its source was not read for them.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from llmd_ctl.profiles.rules.line import Line
from llmd_ctl.profiles.rules.neuron import BLOCK, EXTRA, NEURON
from llmd_ctl.profiles.rules.rule import Rule, Test
from llmd_ctl.profiles.rules.scheduling import length

OPTIONS = "AWS Neuron docs 2.33.0 vllm-neuron/docs/guides/reference-configuration"
GUIDE = "AWS Neuron docs 2.33.0 vllm-neuron/docs/guides/features-guide"
SEGMENTS, TILE = (512, 1024, 2048, 4096, 8192), 128
PARALLEL, ENCODER, LANGUAGE = (
    "--enable-expert-parallel", "--mm-encoder-only", "mm_language_model_only",
)  # fmt: skip


def _sizes(line: Line, key: str) -> list[int]:
    """The whole numbers of a list in neuron_config."""
    said = line.inside(EXTRA, "neuron_config", key)
    return [size for size in said if type(size) is int] if isinstance(said, list) else []


def _says(key: str) -> Test:
    return lambda line: line.architecture.startswith("trn") and bool(_sizes(line, key))


def _rises(sizes: list[int]) -> bool:
    return all(first < second for first, second in pairwise(sizes))


def _degree(line: Line) -> Any:
    return line.inside(EXTRA, "neuron_config", "ep_degree")


def _split(line: Line) -> bool:
    degree = _degree(line)
    return line.architecture.startswith("trn") and type(degree) is int and degree > 1


RULES = (
    Rule(
        "U18",
        "Experts on Trainium are split where that is switched on",
        when=_split,
        require=lambda line: line.on_by(PARALLEL),
        message="ep_degree {degree} of neuron_config is refused without --enable-expert-parallel",
        remedy="Add --enable-expert-parallel, or leave ep_degree out.",
        words=lambda line: {"degree": _degree(line)},
        at=(EXTRA,),
        source=GUIDE,
        platforms=NEURON,
    ),
    Rule(
        "U19",
        "Experts of copies on Trainium are split over all devices",
        when=lambda line: _split(line) and line.data > 1,
        require=lambda line: _degree(line) == line.tensor * line.data,
        message="ep_degree {degree} is not --tensor-parallel-size times --data-parallel-size",
        remedy="Make it so, or leave it out.",
        words=lambda line: {"degree": _degree(line)},
        allowed=lambda line: (line.tensor * line.data,),
        at=(EXTRA,),
        source=GUIDE,
        platforms=NEURON,
    ),
    Rule(
        "U20",
        "Contexts of decoding on Trainium rise in tiles, below the whole one",
        when=_says("decode_context_length_buckets"),
        require=lambda line: (
            _rises(sizes := _sizes(line, "decode_context_length_buckets"))
            and all(TILE <= size < length(line) and size % TILE == 0 for size in sizes)
        ),
        message="decode_context_length_buckets rise in multiples of 128, each below the context",
        remedy="Correct them, or leave them out.",
        at=(EXTRA,),
        source=OPTIONS,
        platforms=NEURON,
    ),
    Rule(
        "U21",
        "Segments of KV on Trainium are of five sizes",
        when=_says("kv_segment_size_buckets"),
        require=lambda line: all(
            size in SEGMENTS and size % (line.block_size or BLOCK) == 0
            for size in _sizes(line, "kv_segment_size_buckets")
        ),
        message="kv_segment_size_buckets are 512 to 8192, powers of two that blocks divide",
        remedy="Take some of these, or leave them out.",
        allowed=lambda _line: SEGMENTS,
        at=(EXTRA,),
        source=OPTIONS,
        platforms=NEURON,
    ),
    Rule(
        "U22",
        "Steps of prompts on Trainium are as segments of KV are",
        when=lambda line: (
            _says("kv_segment_size_buckets")(line)
            and bool(_sizes(line, "num_batched_tokens_buckets"))
        ),
        require=lambda line: (
            _sizes(line, "num_batched_tokens_buckets") == _sizes(line, "kv_segment_size_buckets")
        ),
        message="num_batched_tokens_buckets are not kv_segment_size_buckets, as segments need",
        remedy="Make the two lists equal.",
        at=(EXTRA,),
        source=OPTIONS,
        platforms=NEURON,
    ),
    Rule(
        "U23",
        "An engine on Trainium holds the encoder or the language model, or both",
        when=lambda line: line.inside(EXTRA, LANGUAGE) is True,
        require=lambda line: not line.on_by(ENCODER),
        message="--mm-encoder-only and mm_language_model_only leave nothing to build",
        remedy="Leave out one of the two.",
        at=(ENCODER, EXTRA),
        source=OPTIONS,
        platforms=NEURON,
    ),
)
