"""Rules of vLLM on Ascend (vllm-ascend): what is set back to its own, and what is refused.

No plan runs it yet; the rules are for lines that somebody else wrote.
"""

from __future__ import annotations

from typing import Any

from llmd_ctl.profiles.rules.line import Line, Platform
from llmd_ctl.profiles.rules.rule import Rule
from llmd_ctl.profiles.rules.scheduling import number

NPU: tuple[Platform, ...] = ("npu",)
PLATFORM = "vllm-ascend of August 2026 (182b75e) platform.py"
BLOCK, COMPRESSED = 128, (32, 64, 128)
LEAST_TIMEOUT = 1836  # seconds that an operator of HCCL may take
TIMEOUT, RUNNER = "VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS", "VLLM_USE_V2_MODEL_RUNNER"
TRANSFER, ATTENTION, EPLB = "--kv-transfer-config", "--attention-config", "--eplb-config"
DECODE, PREFILL = "--decode-context-parallel-size", "--prefill-context-parallel-size"
EXTRA, INTERLEAVE = "--additional-config", "--cp-kv-cache-interleave-size"
BALANCE = (
    "dynamic_eplb", "expert_map_path", "expert_heat_collection_interval",
    "algorithm_execution_interval", "expert_map_record_path", "num_redundant_experts",
    "eplb_policy_type", "eplb_heat_collection_stage",
)  # fmt: skip
BUFFER = 1e9  # bytes, where nothing is said
# Switches that are set back without a refusal.
RESET = (
    "--enable-dbo", "--numa-bind", "--numa-bind-nodes", "--numa-bind-cpus", "--ubatch-size",
    "--disable-cascade-attn", "--enable-layerwise-nvtx-tracing", "--mm-encoder-attn-backend",
)  # fmt: skip
FOREIGN = ("flash_attn_version", "use_trtllm_attention", "use_cudnn_prefill")


def _context(line: Line) -> int:
    return number(line, DECODE, 1) * number(line, PREFILL, 1)


def _waits(line: Line) -> bool:
    seconds = line.env[TIMEOUT].lstrip("0")
    return len(seconds) > len(str(LEAST_TIMEOUT)) or int(f"0{seconds}") >= LEAST_TIMEOUT


def _reset(line: Line) -> bool:
    foreign = any(line.inside(ATTENTION, key) for key in FOREIGN)
    return foreign or any(line.given.get(flag) for flag in RESET)


def _sides(line: Line) -> list[Any]:
    """What a side of a transfer says of its own parallelism."""
    role = line.inside(TRANSFER, "kv_role")
    names = [("prefill", "kv_consumer"), ("decode", "kv_producer")]
    found = (
        line.inside(TRANSFER, "kv_connector_extra_config", name)
        for name, other in names
        if role != other
    )
    return [side for side in found if isinstance(side, dict)]


def _scheduler(line: Line, key: str) -> Any:
    """What --additional-config says of the scheduler, in its new place or in the old one."""
    said = line.inside(EXTRA, "scheduler_config", key)
    return line.inside(EXTRA, key) if said is None else said


def _fine(line: Line) -> list[int]:
    """Sizes by which parts of a model are split over copies."""
    said = line.inside(EXTRA, "finegrained_tp_config")
    sizes = said.values() if isinstance(said, dict) else ()
    return [size for size in sizes if type(size) is int and size > 0]


def _no_balance(line: Line) -> list[str]:
    said = line.inside(EXTRA, "eplb_config")
    return [str(key) for key in said if key not in BALANCE] if isinstance(said, dict) else []


def _agree(line: Line) -> bool:
    return all(
        side.get("tp_size", line.tensor) == line.tensor
        and side.get("dp_size", line.data) == line.data
        for side in _sides(line)
    )


RULES = (
    Rule(
        "D01",
        "A block on Ascend has 128 tokens",
        when=lambda line: (
            line.block_size is not None
            and line.model.traits.kind not in {"hybrid", "deepseek-v4"}
            and not (
                line["--enable-prefix-caching"] is False
                and line["--enable-chunked-prefill"] is False
            )
        ),
        require=lambda line: line.block_size == BLOCK,
        message="blocks of {block_size} tokens are set back to 128 on Ascend",
        remedy="Leave --block-size out.",
        at=("--block-size",),
        severity="warning",
        source="vllm-ascend of August 2026 (182b75e) utils.py:1195",
        platforms=NPU,
    ),
    Rule(
        "D07",
        "A block of a compressed cache has 32, 64 or 128 tokens on Ascend",
        when=lambda line: line.block_size is not None and line.model.traits.kind == "deepseek-v4",
        require=lambda line: line.block_size in COMPRESSED,
        message="blocks of {block_size} tokens are set back to 32 on Ascend",
        remedy="Take one of the three, or leave --block-size out.",
        allowed=lambda _line: COMPRESSED,
        at=("--block-size",),
        severity="warning",
        source="vllm-ascend of August 2026 (182b75e) utils.py:1182",
        platforms=NPU,
    ),
    Rule(
        "D02",
        "What Ascend sets back is not asked of it",
        when=_reset,
        require=lambda _line: False,
        message="such a setting is for other accelerators: Ascend sets it back",
        remedy="Leave it out.",
        at=(*RESET, ATTENTION),
        severity="warning",
        source=f"{PLATFORM}: _fix_incompatible_config",
        platforms=NPU,
    ),
    Rule(
        "D08",
        "The attention backend of Ascend is its own",
        when=lambda line: line.backend is not None,
        require=lambda _line: False,
        message="{backend} is set back: Ascend takes its own",
        remedy="Leave it out.",
        at=("--attention-backend", ATTENTION),
        severity="warning",
        source=f"{PLATFORM}: _fix_incompatible_config",
        platforms=NPU,
    ),
    Rule(
        "D09",
        "A step on Ascend may take as long as its collectives",
        when=lambda line: line.env.get(TIMEOUT, "").isdecimal(),
        require=_waits,
        message="VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS becomes 3000 on Ascend: less than 1836 is"
        " never waited",
        remedy="Leave it unset, or set it to 1836 or more.",
        at=(TIMEOUT,),
        severity="warning",
        source=f"{PLATFORM}:738",
        platforms=NPU,
    ),
    Rule(
        "D10",
        "The buffer of a transfer is not sized on Ascend",
        when=lambda line: line.inside(TRANSFER, "kv_buffer_size") is not None,
        require=lambda line: line.inside(TRANSFER, "kv_buffer_size") == BUFFER,
        message="kv_buffer_size is set back to 1e9 on Ascend",
        remedy="Leave it out of --kv-transfer-config.",
        at=(TRANSFER,),
        severity="warning",
        source=f"{PLATFORM}: _fix_incompatible_config",
        platforms=NPU,
    ),
    Rule(
        "D03",
        "Prompts are not split over Ascends",
        when=lambda line: number(line, PREFILL, 1) > 1,
        require=lambda line: line.switched(RUNNER),
        message="--prefill-context-parallel-size is refused on Ascend",
        remedy="Leave it out, or split decoding with --decode-context-parallel-size.",
        at=(PREFILL,),
        source=f"{PLATFORM}: _validate_parallel_config",
        platforms=NPU,
    ),
    Rule(
        "D11",
        "Experts on Ascend are balanced by the second model runner",
        when=lambda line: line.on_by("--enable-eplb"),
        require=lambda line: line.switched(RUNNER) and line.inside(EPLB, "use_async") is not True,
        message="--enable-eplb is refused on Ascend without VLLM_USE_V2_MODEL_RUNNER=1, and"
        " asynchronous balancing with it",
        remedy="Set the variable and leave use_async out, or leave --enable-eplb out.",
        at=("--enable-eplb", EPLB),
        source=f"{PLATFORM}: _validate_eplb_config",
        platforms=NPU,
    ),
    Rule(
        "K13",
        "KV on Ascend is not handed over by NIXL",
        require=lambda line: not str(line.connector).startswith("Nixl"),
        message="{connector} does not know Ascend's memory",
        remedy="Take a connector of Mooncake; the other side must be Ascend too.",
        allowed=lambda _line: ("MooncakeConnectorV1", "MooncakeHybridConnector"),
        at=(TRANSFER,),
        source="vLLM 0.32.0 kv_connector/v1/nixl/utils.py:18; vllm-ascend of August 2026",
        platforms=NPU,
    ),
    Rule(
        "D12",
        "A side of a transfer says its own parallelism",
        require=_agree,
        message="kv_connector_extra_config has another tp_size or dp_size for this side than"
        " its flags",
        remedy="Write the numbers of --tensor-parallel-size and --data-parallel-size.",
        at=(TRANSFER,),
        source="vllm-ascend of August 2026 (182b75e) utils.py:1222",
        platforms=NPU,
    ),
    Rule(
        "D13",
        "States that were not handed over are not computed again on Ascend",
        when=lambda line: line.inside(TRANSFER, "kv_load_failure_policy") == "recompute",
        require=lambda line: line.model.traits.kind != "hybrid",
        message="kv_load_failure_policy recompute is refused of a model with states",
        remedy="Set it to fail, or leave it out.",
        at=(TRANSFER,),
        source=f"{PLATFORM}: _validate_kv_load_failure_policy",
        platforms=NPU,
    ),
    Rule(
        "D14",
        "A split context is handed over by whole blocks",
        when=lambda line: line.says(TRANSFER) and _context(line) > 1,
        require=lambda line: number(line, INTERLEAVE, 1) == (line.block_size or BLOCK),
        message="a context that is split and handed over has other pieces than blocks",
        remedy="Set --cp-kv-cache-interleave-size to the block size, 128.",
        at=(INTERLEAVE, DECODE, PREFILL),
        source=f"{PLATFORM}: _validate_sfa_dcp_kv_sp",
        platforms=NPU,
    ),
    Rule(
        "D15",
        "Requests are computed again where they are decoded",
        when=lambda line: _scheduler(line, "recompute_scheduler_enable") is True,
        require=lambda line: line.inside(TRANSFER, "kv_role") in ("kv_consumer", "kv_producer"),
        message="recompute_scheduler_enable is refused outside a decode side",
        remedy='Set "kv_role" to kv_consumer, or leave it out.',
        at=(EXTRA, TRANSFER),
        source=f"{PLATFORM}: _check_ascend_config",
        platforms=NPU,
    ),
    Rule(
        "D16",
        "Copies are balanced where prompts and answers are made together",
        when=lambda line: _scheduler(line, "enable_balance_scheduling") is True,
        require=lambda line: line.inside(TRANSFER, "kv_role") in (None, "kv_both"),
        message="enable_balance_scheduling is refused where prefill and decode are apart",
        remedy="Leave it out of --additional-config.",
        at=(EXTRA, TRANSFER),
        source=f"{PLATFORM}: _check_ascend_config",
        platforms=NPU,
    ),
    Rule(
        "D17",
        "Parts of a model on Ascend are split over copies of experts",
        when=lambda line: bool(_fine(line)),
        require=lambda line: (
            bool(line.model.experts) and all(line.data % size == 0 for size in _fine(line))
        ),
        message="finegrained_tp_config is of models with experts, and its sizes divide"
        " --data-parallel-size",
        remedy="Take divisors of the data-parallel size, or leave it out.",
        at=(EXTRA, "--data-parallel-size"),
        source="vllm-ascend of August 2026 (182b75e) ascend_config.py:708",
        platforms=NPU,
    ),
    Rule(
        "D18",
        "What balances experts on Ascend has the keys that there are",
        require=lambda line: not _no_balance(line),
        message="eplb_config of Ascend has no {names}, and the engine refuses it",
        remedy="Correct the key, or leave it out.",
        allowed=lambda _line: BALANCE,
        words=lambda line: {"names": ", ".join(_no_balance(line))},
        at=(EXTRA,),
        source="vllm-ascend 0.23.0.post1 ascend_config.py:856",
        platforms=NPU,
    ),
    Rule(
        "D19",
        "Experts that move on Ascend are switched on by a variable too",
        when=lambda line: line.inside(EXTRA, "eplb_config", "dynamic_eplb") is True,
        require=lambda line: (
            line.env.get("DYNAMIC_EPLB", "").lower() in ("true", "1")
            or line.env.get("EXPERT_MAP_RECORD") == "true"
        ),
        message="dynamic_eplb is refused without DYNAMIC_EPLB=true or EXPERT_MAP_RECORD=true",
        remedy="Set one of the two variables, or leave it out.",
        at=(EXTRA,),
        source="vllm-ascend 0.23.0.post1 ascend_config.py: EplbConfig",
        platforms=NPU,
    ),
)
