"""Rules of vLLM on AWS Trainium (vllm-neuron): graphs are compiled for given shapes, in buckets.

Its settings stand in --additional-config under `neuron_config`. Inferentia has an older plugin, of
which two rules are. No plan runs either yet; the rules are for lines that somebody else wrote.
"""

from __future__ import annotations

from typing import Any

from llmd_ctl.profiles.rules.line import Line, Platform
from llmd_ctl.profiles.rules.rule import Rule, Test, always
from llmd_ctl.profiles.rules.scheduling import SEQUENCES, TOKENS, length

NEURON: tuple[Platform, ...] = ("neuron",)
PLATFORM = "vllm-neuron 0.29.0 vllm/platform.py"
DOCS = "AWS Neuron docs 2.33.0 vllm-neuron/docs/guides/reference-configuration"
EXTRA, DECODE = "--additional-config", "--decode-context-parallel-size"
TRANSFER, EXECUTOR = "--kv-transfer-config", "--distributed-executor-backend"
SHARES = ("attention_dp_size", "embedding_dp_size", "mlp_dp_size", "lm_head_dp_size")
BLOCK, MOST_SAMPLED = 32, 256
OLDER = "vllm-neuron of November 2025 (a5ef7c8) vllm_neuron/platform.py"
STEP = 131072  # tokens, of the older plugin's own scheduler
UNPACKED = ("mxfp8",)  # weights that are unpacked while they are loaded


def _trainium(test: Test = always) -> Test:
    """A question that is asked of Trainium alone."""
    return lambda line: line.architecture.startswith("trn") and test(line)


def _older(line: Line) -> bool:
    """Whether the older plugin runs, with its own scheduler."""
    own = not line.switched("DISABLE_NEURON_CUSTOM_SCHEDULER")
    return own and not line.architecture.startswith("trn")


def _setting(line: Line, key: str) -> Any:
    return line.inside(EXTRA, "neuron_config", key)


def _sampled(line: Line) -> Any:
    """Among how many tokens the device chooses, where the line says it."""
    return line.inside(EXTRA, "neuron_config", "on_device_sampling_config", "top_k")


def _buckets(line: Line, key: str) -> list[Any]:
    said = _setting(line, key)
    return said if isinstance(said, list) else []


def _ends_at(line: Line, key: str, flag: str) -> bool:
    """Whether the largest bucket is what the flag says."""
    sizes = [size for size in _buckets(line, key) if type(size) is int]
    return not sizes or not line.says(flag) or max(sizes) == line[flag]


def _shared(line: Line) -> bool:
    sizes = (_setting(line, key) for key in SHARES)
    return any(type(size) is int and size > 1 for size in sizes)


def _may_share(line: Line) -> bool:
    return line.data > 1 and line.inside(TRANSFER, "kv_role") in ("kv_consumer", "kv_both")


def _context(line: Line) -> int:
    value = line[DECODE]
    return value if type(value) is int else 1


def _threshold(line: Line) -> int:
    value = line["--long-prefill-token-threshold"]
    return value if type(value) is int else 0


def _packed(line: Line) -> bool:
    return (
        line.model.traits.quantization == "compressed-tensors"
        and line.model.weight_dtype not in {"bf16", "fp16", "fp32"}
    )


RULES = (
    Rule(
        "U01",
        "The method of quantisation is the checkpoint's own on Trainium",
        when=_trainium(lambda line: line.says("--quantization")),
        require=lambda _line: False,
        message="--quantization is not for Trainium: the plugin reads what the checkpoint says",
        remedy="Leave it out, or write quantization into neuron_config.",
        at=("--quantization",),
        source=DOCS,
        platforms=NEURON,
    ),
    Rule(
        "U06",
        "A model on Trainium has one stage",
        when=_trainium(lambda line: line.pipeline > 1),
        require=lambda _line: False,
        message="vllm-neuron has no pipeline parallelism",
        remedy="Raise --tensor-parallel-size in its place.",
        allowed=lambda _line: (1,),
        at=("--pipeline-parallel-size",),
        source="AWS Neuron docs 2.33.0 vllm-neuron/docs/guides/features-guide",
        platforms=NEURON,
    ),
    Rule(
        "U03",
        "The largest bucket on Trainium is the largest step",
        when=_trainium(lambda line: line.says(EXTRA)),
        require=lambda line: _ends_at(line, "num_batched_tokens_buckets", TOKENS),
        message="num_batched_tokens_buckets does not end at --max-num-batched-tokens",
        remedy="Make the largest bucket equal to it.",
        allowed=lambda line: (line[TOKENS],),
        at=(EXTRA, TOKENS),
        source=DOCS,
        platforms=NEURON,
    ),
    Rule(
        "U07",
        "The largest bucket on Trainium is the most sequences",
        when=_trainium(lambda line: line.says(EXTRA)),
        require=lambda line: _ends_at(line, "num_seqs_buckets", SEQUENCES),
        message="num_seqs_buckets does not end at --max-num-seqs",
        remedy="Make the largest bucket equal to it.",
        allowed=lambda line: (line[SEQUENCES],),
        at=(EXTRA, SEQUENCES),
        source=DOCS,
        platforms=NEURON,
    ),
    Rule(
        "U08",
        "Trainium has one model runner",
        when=_trainium(lambda line: line.switched("VLLM_USE_V2_MODEL_RUNNER")),
        require=lambda _line: False,
        message="VLLM_USE_V2_MODEL_RUNNER is refused on Trainium",
        remedy="Set it to 0, or unset it.",
        at=("VLLM_USE_V2_MODEL_RUNNER",),
        source=f"{PLATFORM}: _reject_v2_model_runner",
        platforms=NEURON,
    ),
    Rule(
        "U09",
        "Weights on Trainium are not those of compressed-tensors",
        when=_trainium(_packed),
        require=lambda line: _setting(line, "quantization") in UNPACKED,
        message="Trainium reads scales of KV alone from compressed-tensors, and no weights in"
        " {model.weight_dtype}",
        remedy="Take a checkpoint in bf16, or in fp8 of another kind.",
        at=("--quantization",),
        source=f"{PLATFORM}: _validate_quantization_config",
        platforms=NEURON,
    ),
    Rule(
        "U10",
        "Workers on Trainium are processes of one machine",
        when=_trainium(lambda line: line.says(EXECUTOR)),
        require=lambda line: line[EXECUTOR] in {"mp", "uni"},
        message="--distributed-executor-backend becomes mp on Trainium",
        remedy="Say mp or uni, or leave it out.",
        allowed=lambda _line: ("mp", "uni"),
        at=(EXECUTOR,),
        severity="warning",
        source=f"{PLATFORM}: check_and_update_config",
        platforms=NEURON,
    ),
    Rule(
        "U11",
        "A split context on Trainium is handed over by its own connector",
        when=_trainium(lambda line: _context(line) > 1 and line.connector is not None),
        require=lambda line: line.connector == "NeuronNixlConnector",
        message="{connector} does not hand over a context that is split",
        remedy="Name the plugin's own connector, or leave the flag out.",
        allowed=lambda _line: ("NeuronNixlConnector",),
        at=(TRANSFER, DECODE),
        source=f"{PLATFORM}: _validate_dcp_config",
        platforms=NEURON,
    ),
    Rule(
        "U12",
        "Long prompts on Trainium are cut where the context is",
        when=_trainium(lambda line: _context(line) > 1 and _threshold(line) > 0),
        require=lambda line: _threshold(line) % (_context(line) * (line.block_size or BLOCK)) == 0,
        message="--long-prefill-token-threshold is no multiple of the blocks of all devices that"
        " share the context",
        remedy="Take a multiple of --decode-context-parallel-size times --block-size.",
        at=("--long-prefill-token-threshold", DECODE),
        source=f"{PLATFORM}: _validate_dcp_config",
        platforms=NEURON,
    ),
    Rule(
        "U13",
        "Parts of a model on Trainium are shared by decoding copies",
        when=_trainium(_shared),
        require=_may_share,
        message="parts are shared between copies only while they decode for others, two or more",
        remedy='Add --data-parallel-size and --kv-transfer-config with "kv_role": "kv_consumer".',
        at=(EXTRA,),
        source=f"{PLATFORM}: _validate_component_dp_config",
        platforms=NEURON,
    ),
    Rule(
        "U02",
        "Trainium samples among 256 tokens",
        when=_trainium(lambda line: type(_sampled(line)) is int),
        require=lambda line: 0 < _sampled(line) <= MOST_SAMPLED,
        message="top_k {top_k} of on_device_sampling_config becomes 256 on Trainium",
        remedy="Take 1 to 256, or leave it out.",
        allowed=lambda _line: ("1 to 256",),
        words=lambda line: {"top_k": _sampled(line)},
        at=(EXTRA,),
        severity="warning",
        source="AWS Neuron docs 2.33.0 vllm-neuron/docs/guides/features-guide",
        platforms=NEURON,
    ),
    Rule(
        "U15",
        "Weights in MXFP4 are computed by Trainium 3",
        when=_trainium(lambda line: _setting(line, "quantization") == "mxfp4"),
        require=lambda line: line.architecture == "trn3",
        message="Trainium 2 refuses quantization mxfp4, and serves gpt-oss in bf16",
        remedy="Leave it out of neuron_config.",
        at=(EXTRA,),
        source="AWS Neuron docs 2.33.0 vllm-neuron/docs/guides/features-guide",
        platforms=NEURON,
    ),
    Rule(
        "U16",
        "Drafted tokens on Trainium are EAGLE 3's",
        when=_trainium(lambda line: line.draft_method is not None),
        require=lambda line: line.draft_method == "eagle3",
        message="tokens are not drafted by {draft_method} on Trainium",
        remedy="Take eagle3, or leave drafting out.",
        allowed=lambda _line: ("eagle3",),
        at=("--speculative-config", "--spec-method"),
        source="AWS Neuron docs 2.33.0 vllm-neuron/docs/guides/features-guide",
        platforms=NEURON,
    ),
    Rule(
        "U17",
        "Drafting on Trainium is scheduled in step",
        when=_trainium(lambda line: bool(line.draft)),
        require=lambda line: line.given.get("--async-scheduling") is not True,
        message="asynchronous scheduling is turned off on Trainium while tokens are drafted",
        remedy="Leave --async-scheduling out.",
        at=("--async-scheduling",),
        severity="warning",
        source="AWS Neuron docs 2.33.0 vllm-neuron/docs/guides/features-guide",
        platforms=NEURON,
    ),
    Rule(
        "U04",
        "A block on Inferentia is the whole context where no prefix is kept",
        when=lambda line: _older(line) and line["--enable-prefix-caching"] is False,
        require=lambda line: line.block_size in {None, length(line)},
        message="blocks of {block_size} tokens are overruled: without prefix caching a block is"
        " the whole context",
        remedy="Leave --block-size out, or keep prefixes.",
        at=("--block-size",),
        severity="warning",
        source=f"{OLDER}: check_and_update_config",
        platforms=NEURON,
    ),
    Rule(
        "U14",
        "A step on Inferentia is as large as its scheduler makes it",
        when=lambda line: _older(line) and line.says(TOKENS),
        require=lambda line: line[TOKENS] == STEP,
        message="steps of {--max-num-batched-tokens} tokens are overruled: they hold 131072",
        remedy="Leave --max-num-batched-tokens out.",
        at=(TOKENS,),
        severity="warning",
        source=f"{OLDER}: check_and_update_config",
        platforms=NEURON,
    ),
)
