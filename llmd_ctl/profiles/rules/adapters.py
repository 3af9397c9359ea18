"""Rules of vLLM on adapters (LoRA): how many, for which models, beside what."""

from __future__ import annotations

from llmd_ctl.profiles.rules.environment import numbered_on
from llmd_ctl.profiles.rules.line import Line
from llmd_ctl.profiles.rules.multimodal import takes_images
from llmd_ctl.profiles.rules.rule import Rule
from llmd_ctl.profiles.rules.scheduling import SEQUENCES, TOKENS, number

ON, MOST, KEPT = "--enable-lora", "--max-loras", "--max-cpu-loras"
UPDATING, DUAL = "VLLM_ALLOW_RUNTIME_LORA_UPDATING", "VLLM_LORA_ENABLE_DUAL_STREAM"
# What only LoRA reads.
OF_ADAPTERS = (
    MOST, KEPT, "--max-lora-rank", "--lora-dtype", "--lora-target-modules", "--fully-sharded-loras",
    "--specialize-active-lora", "--enable-mixed-moe-lora-format", "--enable-moe-shared-loras",
    "--enable-tower-connector-lora",
)  # fmt: skip


def _adapts(line: Line) -> bool:
    return line.on_by(ON)


def _servers(line: Line) -> int:
    """API servers: one for each data-parallel rank where nobody says otherwise."""
    balanced = line.says("--data-parallel-rank") or line.on_by("--data-parallel-external-lb")
    rust = numbered_on(line, "VLLM_USE_RUST_FRONTEND")
    return number(line, "--api-server-count", 1 if balanced or rust else line.data)


def _drafted(line: Line) -> int:
    value = line.draft.get("num_speculative_tokens")
    return value if type(value) is int else 0


RULES = (
    Rule(
        "V72",
        "As many adapters are kept as are used at once",
        when=lambda line: _adapts(line) and line.told(KEPT) > 0,
        require=lambda line: line.told(KEPT) >= number(line, MOST, 1),
        message="--max-cpu-loras {--max-cpu-loras} keeps fewer adapters than --max-loras uses",
        remedy="Raise it to at least --max-loras, or leave it out.",
        at=(KEPT, MOST),
        source="vLLM 0.32.0 config/lora.py:122",
    ),
    Rule(
        "V73",
        "Adapters of images belong to a model that takes images",
        when=lambda line: bool(line.given.get("--default-mm-loras")),
        require=takes_images,
        message="--default-mm-loras is for models with images or sounds, and this one has text"
        " alone",
        remedy="Leave it out, or name the adapters in --lora-modules.",
        at=("--default-mm-loras",),
        source="vLLM 0.32.0 engine/arg_utils.py:2644",
    ),
    Rule(
        "V74",
        "Adapters run beside the model only on GPUs",
        when=lambda line: _adapts(line) and numbered_on(line, DUAL),
        require=lambda _line: False,
        message="VLLM_LORA_ENABLE_DUAL_STREAM is for NVIDIA and AMD, not for {accelerator.name}",
        remedy="Leave the variable out.",
        at=(DUAL,),
        source="vLLM 0.32.0 config/lora.py:127",
        platforms=("xpu", "cpu", "tpu", "hpu"),
    ),
    Rule(
        "V75",
        "Adapters run beside the model only where devices hold them whole",
        when=lambda line: _adapts(line) and numbered_on(line, DUAL),
        require=lambda line: not line.on_by("--fully-sharded-loras"),
        message="VLLM_LORA_ENABLE_DUAL_STREAM is turned off by --fully-sharded-loras",
        remedy="Leave out one of the two.",
        at=("--fully-sharded-loras", DUAL),
        severity="warning",
        source="vLLM 0.32.0 config/lora.py:129",
        platforms=("cuda", "rocm"),
    ),
    Rule(
        "V76",
        "Adapters change while the engine runs behind one API server",
        when=lambda line: line.env.get(UPDATING, "0").strip().lower() in ("1", "true"),
        require=lambda line: _servers(line) <= 1,
        message="adapters that change at run time (VLLM_ALLOW_RUNTIME_LORA_UPDATING) need one API"
        " server, and there are {servers}",
        remedy="Add --api-server-count 1.",
        words=lambda line: {"servers": _servers(line)},
        at=("--api-server-count", "--data-parallel-size", UPDATING),
        source="vLLM 0.32.0 entrypoints/cli/serve.py:315",
    ),
    Rule(
        "V77",
        "A step of adapters holds every drafted token",
        when=lambda line: (
            _adapts(line) and _drafted(line) > 0 and line.says(TOKENS) and line.says(SEQUENCES)
        ),
        require=lambda line: line.told(TOKENS) >= line.told(SEQUENCES) * (_drafted(line) + 1),
        message="with adapters a step must hold {need} tokens: each sequence and what it drafts",
        remedy="Raise --max-num-batched-tokens to that, or draft fewer.",
        words=lambda line: {"need": line.told(SEQUENCES) * (_drafted(line) + 1)},
        at=(TOKENS, SEQUENCES),
        source="vLLM 0.32.0 engine/arg_utils.py:2671",
    ),
    Rule(
        "V78",
        "What is said of adapters is read where they are on",
        when=lambda line: line.says(*OF_ADAPTERS),
        require=_adapts,
        message="without --enable-lora nothing reads {names}",
        remedy="Add --enable-lora, or leave them out.",
        words=lambda line: {"names": ", ".join(f for f in OF_ADAPTERS if line.says(f))},
        at=OF_ADAPTERS,
        severity="warning",
        source="vLLM 0.32.0 engine/arg_utils.py:2650",
    ),
    Rule(
        "V79",
        "Named adapters are loaded by an engine that takes them",
        when=lambda line: line.says("--lora-modules"),
        require=_adapts,
        message="--lora-modules names adapters, and the engine takes none",
        remedy="Add --enable-lora, or leave the adapters out.",
        at=("--lora-modules",),
        source="vLLM 0.32.0 v1/worker/lora_model_runner_mixin.py:81",
    ),
    Rule(
        "V80",
        "Adapters do not go with drafts that are checked adaptively",
        when=_adapts,
        require=lambda line: line.draft.get("enable_adaptive_verification") is not True,
        message="enable_adaptive_verification does not go with adapters",
        remedy="Leave out one of the two.",
        at=("--speculative-config", ON),
        source="vLLM 0.32.0 config/vllm.py:3006",
    ),
)
