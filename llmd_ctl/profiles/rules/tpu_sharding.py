"""Rules of vLLM on TPUs (tpu-inference): how a model is split over chips and machines.

A line says it by flags of vLLM and by `sharding_strategy` inside --additional-config; a device is
what JAX calls one: a chip, or each of two TensorCores.
"""

from __future__ import annotations

import math
from typing import Any, cast

from llmd_ctl.profiles.rules.line import Line, Platform
from llmd_ctl.profiles.rules.rule import Rule

TPU: tuple[Platform, ...] = ("tpu",)
EXTRA, NEW_DESIGN, BY_PROCESS = "--additional-config", "NEW_MODEL_DESIGN", "TPU_MULTIPROCESS_DP"
TENSOR, DATA = "--tensor-parallel-size", "--data-parallel-size"
DECODE, PREFILL = "--decode-context-parallel-size", "--prefill-context-parallel-size"
SHARDING = "tpu-inference 0.32.0 layers/common/sharding.py"
NARROW_HEAD, WORD_BYTES = 64, 4
CORES = {"v7x": 2}  # of a chip, each a device


def latent(line: Line) -> bool:
    """Whether the engine sees latent attention, in all layers or in some."""
    return any(group.what == "latent" for group in line.model.cache)


def strategy(line: Line, key: str) -> Any:
    """What --additional-config says of how to split; None: nothing."""
    return line.inside(EXTRA, "sharding", "sharding_strategy", key)


def _count(value: Any) -> int:
    return value if type(value) is int and value > 0 else 1


def _tensor(line: Line) -> int:
    return _count(strategy(line, "tensor_parallelism") or line.tensor)


def _sharing_heads(line: Line) -> int:
    """Devices that share heads; those that share a context for decoding are some of the same."""
    return _tensor(line) // _count(line[DECODE])


def _other_copies(line: Line) -> int:
    """Devices of one copy that tensor parallelism does not count."""
    kinds = ("expert_parallelism", "sequence_parallelism")
    return math.prod(_count(strategy(line, kind)) for kind in kinds) * _count(line[PREFILL])


def needed(line: Line) -> int:
    """Devices that a line takes on its machines."""
    local = line.given.get("--data-parallel-size-local")
    data = _count(local if local is not None else line.data)
    return _tensor(line) * _other_copies(line) * line.pipeline * data


def attention_copies(line: Line) -> int:
    """Copies of attention that are made where heads of KV are fewer than devices."""
    said = strategy(line, "attn_dp_size")
    if strategy(line, "enable_dp_attention") is not True:
        return 1
    if said is not None:
        return _count(said)
    wide = 1 if line.kv_dtype.startswith("fp8") else 2
    packed = WORD_BYTES // wide * (2 if NARROW_HEAD in line.model.traits.head_sizes else 1)
    # A latent has no heads of KV, and is kept as one.
    shared = max((1.0, *(heads * 2 / packed for heads in line.model.kv_heads)))
    return max(1, int(_sharing_heads(line) // shared))


def _one_process(line: Line) -> bool:
    """Whether data-parallel copies share a process, as they do beside copies of attention."""
    off = line.env.get(BY_PROCESS, "").lower() in {"0", "false"}
    return off or strategy(line, "enable_dp_attention") is True


def _named(line: Line) -> list[Any]:
    """Devices by their numbers, where the line has them in an order of its own."""
    said = strategy(line, "device_indexes")
    return said if isinstance(said, list) else []


def _of_one_process(line: Line) -> int:
    return _tensor(line) * _other_copies(line) * (line.data if _one_process(line) else 1)


def _whole_chips(line: Line) -> int:
    """Devices that copies take where each has chips of its own; a chip of v7x is two devices."""
    cores = CORES.get(line.architecture, 1)
    each = math.ceil(_tensor(line) * _other_copies(line) / cores) * cores
    return each * line.data


def _at_hand(line: Line) -> int:
    return line.devices or int(line.accelerator.spec.devices_per_node.value or 1)


def _copies(line: Line) -> int:
    return attention_copies(line) * (line.data if _one_process(line) else 1)


RULES = (
    Rule(
        "T02",
        "A line on TPUs takes the devices that it has",
        when=lambda line: line.devices is not None,
        require=lambda line: needed(line) <= cast(int, line.devices),
        message="the line takes more devices than the {devices} that it has",
        remedy="Lower --tensor-parallel-size: one for each chip of v5e, v5p and v6e, two of v7x.",
        allowed=lambda line: (line.devices,),
        at=(TENSOR, DATA, EXTRA),
        source="tpu-inference 0.32.0 runner/tpu_runner.py:1011",
        platforms=TPU,
    ),
    Rule(
        "T24",
        "A line on TPUs leaves no device idle",
        when=lambda line: line.devices is not None and needed(line) < line.devices,
        require=lambda _line: False,
        message="the line takes fewer devices than the {devices} that it has: the others idle",
        remedy="Raise --tensor-parallel-size: one for each chip of v5e, v5p and v6e, two of v7x.",
        allowed=lambda line: (line.devices,),
        at=(TENSOR, DATA, EXTRA),
        severity="warning",
        source="tpu-inference 0.32.0 runner/tpu_runner.py:1008",
        platforms=TPU,
    ),
    Rule(
        "T25",
        "Several machines of TPUs are joined by Ray",
        when=lambda line: line.devices is None and needed(line) > _at_hand(line),
        require=lambda line: line.env.get("TPU_MULTIHOST_BACKEND") == "ray",
        message="the line takes more devices than a machine of {accelerator.name} has",
        remedy="Set TPU_MULTIHOST_BACKEND=ray, or lower --tensor-parallel-size.",
        allowed=lambda line: (line.accelerator.spec.devices_per_node.value,),
        at=(TENSOR, DATA, EXTRA),
        source="tpu-inference 0.32.0 platforms/tpu_platform.py; runner/tpu_runner.py:1011",
        platforms=TPU,
        sized=True,
    ),
    Rule(
        "T26",
        "Copies of attention on TPUs are of the new model design",
        when=lambda line: attention_copies(line) > 1 and not latent(line),
        require=lambda line: line.switched(NEW_DESIGN),
        message="enable_dp_attention makes copies of attention, which the old model design has not",
        remedy="Set NEW_MODEL_DESIGN=1 in the environment.",
        at=(EXTRA,),
        source=f"{SHARDING}: validate",
        platforms=TPU,
    ),
    Rule(
        "T27",
        "Copies of attention divide tensor parallelism",
        when=lambda line: strategy(line, "enable_dp_attention") is True,
        require=lambda line: _sharing_heads(line) % _count(strategy(line, "attn_dp_size")) == 0,
        message="attn_dp_size does not divide the {devices} devices that share heads",
        remedy="Take a divisor of it, or leave attn_dp_size out.",
        allowed=lambda line: [
            n for n in range(1, _sharing_heads(line) + 1) if _sharing_heads(line) % n == 0
        ],
        words=lambda line: {"devices": _sharing_heads(line)},
        at=(EXTRA,),
        source=f"{SHARDING}: from_vllm_config",
        platforms=TPU,
    ),
    Rule(
        "T28",
        "Tensor parallelism on TPUs is said once",
        when=lambda line: bool(strategy(line, "tensor_parallelism")) and line.says(TENSOR),
        require=lambda line: strategy(line, "tensor_parallelism") == line.tensor,
        message="tensor_parallelism in --additional-config overrules --tensor-parallel-size",
        remedy="Say the number in one of the two places only.",
        at=(EXTRA, TENSOR),
        severity="warning",
        source=f"{SHARDING}: from_vllm_config",
        platforms=TPU,
    ),
    Rule(
        "T29",
        "Adapters on TPUs have one copy of the model",
        when=lambda line: line.on_by("--enable-lora"),
        require=lambda line: _copies(line) == 1,
        message="adapters do not go with data parallelism on TPUs",
        remedy="Leave out --enable-lora, or enable_dp_attention and the data-parallel size.",
        at=("--enable-lora", EXTRA, DATA),
        source=f"{SHARDING}: validate",
        platforms=TPU,
    ),
    Rule(
        "T30",
        "Copies in processes of their own do not share attention",
        when=lambda line: line.data > 1 and line.switched(BY_PROCESS),
        require=lambda line: strategy(line, "enable_dp_attention") is not True,
        message="TPU_MULTIPROCESS_DP=1 does not go with enable_dp_attention",
        remedy="Set TPU_MULTIPROCESS_DP=0, or leave it to the engine.",
        at=(BY_PROCESS,),
        source="tpu-inference 0.32.0 platforms/tpu_platform.py: _resolve_multiprocess_dp",
        platforms=TPU,
    ),
    Rule(
        "T31",
        "Context parallelism on TPUs is of the new model design",
        when=lambda line: max(_count(line[DECODE]), _count(line[PREFILL])) > 1,
        require=lambda line: line.switched(NEW_DESIGN),
        message="the old model design has no context parallelism on TPUs",
        remedy="Set NEW_MODEL_DESIGN=1 in the environment, or leave it out.",
        at=(DECODE, PREFILL),
        source=f"{SHARDING}: validate",
        platforms=TPU,
    ),
    Rule(
        "T32",
        "Prompts are split over pairs of TPUs",
        require=lambda line: _count(line[PREFILL]) == 1 or _count(line[PREFILL]) % 2 == 0,
        message="{--prefill-context-parallel-size} TPUs cannot rotate KV in pairs",
        remedy="Take an even --prefill-context-parallel-size.",
        at=(PREFILL,),
        source=f"{SHARDING}: validate",
        platforms=TPU,
    ),
    Rule(
        "T33",
        "Splitting prompts on TPUs goes with no other copies",
        when=lambda line: _count(line[PREFILL]) > 1,
        require=lambda line: (
            _count(line[DECODE]) == 1 and (line.data == 1 or not _one_process(line))
        ),
        message="prompts that are split over TPUs do not go with --decode-context-parallel-size"
        " or with data parallelism in one process",
        remedy="Keep one of them.",
        at=(PREFILL, DECODE, DATA),
        source=f"{SHARDING}: validate",
        platforms=TPU,
    ),
    Rule(
        "T34",
        "TPUs that split prompts do nothing else",
        when=lambda line: _count(line[PREFILL]) > 1,
        require=lambda line: line.inside("--kv-transfer-config", "kv_role") == "kv_producer",
        message="with --prefill-context-parallel-size TPUs only prefill: the first decoding step"
        " stops the engine",
        remedy='Make it a prefill side, with "kv_role": "kv_producer", or leave the flag out.',
        at=(PREFILL,),
        source="tpu-inference 0.32.0 runner/pcp_utils.py:213",
        platforms=TPU,
    ),
    Rule(
        "T35",
        "Devices that are named are as many as the line takes",
        when=lambda line: bool(_named(line)),
        require=lambda line: len(_named(line)) == _of_one_process(line),
        message="device_indexes names more or fewer devices than the line takes",
        remedy="Name as many as the product of all parallelism, or leave device_indexes out.",
        allowed=lambda line: (_of_one_process(line),),
        at=(EXTRA,),
        source=f"{SHARDING}: ShardingConfigManager",
        platforms=TPU,
    ),
    Rule(
        "T37",
        "A copy in a process of its own has whole chips",
        when=lambda line: (
            line.data > 1
            and not _one_process(line)
            and not line.says("--data-parallel-size-local", "--data-parallel-rank")
        ),
        require=lambda line: _whole_chips(line) <= _at_hand(line),
        message="each of {data} copies takes whole chips, and there are not so many",
        remedy="Lower --data-parallel-size, or set --tensor-parallel-size to the cores of a chip.",
        allowed=lambda line: (_at_hand(line) // (_whole_chips(line) // line.data),),
        at=(DATA, TENSOR),
        source="tpu-inference 0.32.0 worker/tpu_worker.py:290",
        platforms=TPU,
    ),
)
