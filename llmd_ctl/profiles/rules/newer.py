"""Rules of vLLM 0.33.0 that earlier versions have not: what it refuses, or takes and passes over.

What it only asks otherwise than 0.32.0 stands where the rule of 0.32.0 does.
"""

from __future__ import annotations

from llmd_ctl.profiles.rules.drafts import NOT_AHEAD
from llmd_ctl.profiles.rules.environment import RUNNER
from llmd_ctl.profiles.rules.line import Line, Platform
from llmd_ctl.profiles.rules.rule import Rule
from llmd_ctl.profiles.rules.transfer import FLAG as TRANSFER
from llmd_ctl.profiles.rules.transfer import uses

SINCE = "0.33.0"
GPUS: tuple[Platform, ...] = ("cuda", "rocm", "xpu", "cpu")
ASYNC, DRAFT, KV, CACHED = (
    "--async-scheduling", "--speculative-config", "--kv-cache-dtype", "--mamba-cache-mode",
)  # fmt: skip
PLAIN = {"float16": "fp16", "bfloat16": "bf16"}
AWAKE = ("MooncakeStoreConnector", "MoRIIOConnector")
MEGA = (
    "deep_gemm_mega_moe", "flashinfer_moe_ep_cutedsl", "flashinfer_moe_ep_mega_deep_gemm",
    "aiter_mega_moe",
)  # fmt: skip
GUIDED, EFFORTS = "--structured-outputs-config", "--reasoning-effort-map"
KNOWN_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


def _count(line: Line, key: str, default: int) -> int:
    value = line.draft.get(key)
    return value if type(value) is int else default


def _fly(line: Line) -> bool:
    return line.draft.get("rejection_sample_method") == "fly"


def _not_efforts(line: Line) -> list[str]:
    said = line.given.get(EFFORTS)
    if not isinstance(said, dict):
        return ["no map"]
    return [
        str(key) for key, value in said.items()
        if key not in KNOWN_EFFORTS or not isinstance(value, str)
    ]  # fmt: skip


def _blocks(line: Line) -> object:
    return line.inside(TRANSFER, "kv_connector_extra_config", "num_cpu_blocks")


RULES = (
    Rule(
        "V162",
        "The old model runner does not prepare every draft ahead",
        when=lambda line: line.given.get(ASYNC) is True and line.env.get(RUNNER) == "0",
        require=lambda line: (
            line.draft.get("method") not in NOT_AHEAD
            and line.draft.get("disable_padded_drafter_batch") is not True
        ),
        message="without the new model runner --async-scheduling does not go with these drafts",
        remedy="Leave --async-scheduling or VLLM_USE_V2_MODEL_RUNNER out.",
        at=(ASYNC, RUNNER),
        source="vLLM 0.33.0 config/vllm.py:1677",
        since=SINCE,
        platforms=GPUS,
    ),
    Rule(
        "V163",
        "A KV cache in a type of the model's own width is in the model's own",
        when=lambda line: line.kv_dtype in PLAIN,
        require=lambda line: PLAIN[line.kv_dtype] == line.dtype,
        message="a KV cache of {kv_dtype} does not go with a model that computes in {dtype}",
        remedy="Take auto, or the model's own type.",
        allowed=lambda line: ("auto", *(name for name, own in PLAIN.items() if own == line.dtype)),
        at=(KV, "--dtype"),
        source="vLLM 0.33.0 config/vllm.py:1505: _reject_mismatched_float_kv_cache",
        since=SINCE,
        platforms=GPUS,
    ),
    Rule(
        "V164",
        "An engine sleeps where its connector lets it",
        when=lambda line: line.on_by("--enable-sleep-mode"),
        require=lambda line: not uses(line, *AWAKE),
        message="--enable-sleep-mode does not go with {names}",
        remedy="Leave out one of the two.",
        words=lambda line: {"names": ", ".join(set(AWAKE) & set(line.connectors))},
        at=("--enable-sleep-mode", TRANSFER),
        source="vLLM 0.33.0 config/vllm.py:1264; kv_connector/v1: supports_sleep_mode",
        since=SINCE,
    ),
    Rule(
        "V165",
        "Drafts in another vocabulary are compared whole",
        when=lambda line: line.draft.get("use_heterogeneous_vocab") is True,
        require=lambda line: line.draft.get("use_local_argmax_reduction") is not True,
        message="use_heterogeneous_vocab does not go with use_local_argmax_reduction",
        remedy="Leave out one of the two.",
        at=(DRAFT,),
        source="vLLM 0.33.0 config/speculative.py:2008",
        since=SINCE,
    ),
    Rule(
        "V166",
        "FLy looks at several drafted tokens",
        when=_fly,
        require=lambda line: (
            line.draft_method != "extract_hidden_states"
            and _count(line, "num_speculative_tokens", 2)
            > max(1, _count(line, "fly_window_size", 1))
        ),
        message="rejection_sample_method fly needs two drafted tokens or more, and more than"
        " fly_window_size",
        remedy="Raise num_speculative_tokens, or lower fly_window_size.",
        at=(DRAFT,),
        source="vLLM 0.33.0 config/speculative.py:2021, :2027",
        since=SINCE,
    ),
    Rule(
        "V167",
        "Drafts are checked so that answers stay the same",
        when=_fly,
        require=lambda _line: False,
        message="rejection_sample_method fly keeps drafted tokens that the model would not have"
        " written",
        remedy="Take standard, or measure the answers first.",
        at=(DRAFT,),
        severity="warning",
        source="vLLM 0.33.0 config/speculative.py:2031",
        since=SINCE,
    ),
    Rule(
        "V168",
        "Adapters do not go with experts that are one kernel",
        when=lambda line: line.on_by("--enable-lora"),
        require=lambda line: line["--moe-backend"] not in MEGA,
        message="--moe-backend {--moe-backend} takes no adapters",
        remedy="Take another --moe-backend, or leave --enable-lora out.",
        at=("--moe-backend", "--enable-lora"),
        source="vLLM 0.33.0 config/lora.py:142",
        since=SINCE,
    ),
    Rule(
        "V169",
        "States are kept as prefixes are",
        when=lambda line: line.says(CACHED),
        require=lambda _line: False,
        message="--mamba-cache-mode has no effect any more: states are kept where prefixes are",
        remedy="Leave it out; --enable-prefix-caching says it.",
        at=(CACHED,),
        severity="warning",
        source="vLLM 0.33.0 engine/arg_utils.py:462",
        since=SINCE,
    ),
    Rule(
        "V170",
        "What shapes answers is going to stay",
        when=lambda line: line.inside(GUIDED, "backend") == "lm-format-enforcer",
        require=lambda _line: False,
        message="lm-format-enforcer is deprecated, and goes with vLLM 0.35.0",
        remedy="Take auto, xgrammar or guidance.",
        allowed=lambda _line: ("auto", "xgrammar", "guidance"),
        at=(GUIDED,),
        severity="warning",
        source="vLLM 0.33.0 config/structured_outputs.py:78",
        since=SINCE,
    ),
    Rule(
        "V171",
        "Blocks in main memory are counted",
        when=lambda line: _blocks(line) is not None and uses(line, "SimpleCPUOffloadConnector"),
        require=lambda line: type(count := _blocks(line)) is int and count > 0,
        message="num_cpu_blocks of SimpleCPUOffloadConnector is a whole number above 0",
        remedy="Write such a number, or leave it out.",
        at=(TRANSFER,),
        source="vLLM 0.33.0 kv_connector/v1/simple_cpu_offload_connector.py:126",
        since=SINCE,
    ),
    Rule(
        "V172",
        "Efforts are renamed that the engine knows",
        when=lambda line: line.says(EFFORTS),
        require=lambda line: not _not_efforts(line),
        message="--reasoning-effort-map has {names}, which is no effort with text for it",
        remedy="Map efforts that there are to texts.",
        allowed=lambda _line: KNOWN_EFFORTS,
        words=lambda line: {"names": ", ".join(_not_efforts(line))},
        at=(EFFORTS,),
        source="vLLM 0.33.0 entrypoints/common/cli_args.py:520; renderers/params.py:27",
        since=SINCE,
    ),
    Rule(
        "C20",
        "A latent on processors is kept as it is computed",
        when=lambda line: line.kind == "mla",
        require=lambda line: line.kv_dtype in ("auto", *PLAIN),
        message="a KV cache of {kv_dtype} is refused of a latent on processors",
        remedy="Leave --kv-cache-dtype out.",
        allowed=lambda _line: ("auto", *PLAIN),
        at=(KV,),
        source="vLLM 0.33.0 platforms/cpu.py:159",
        since=SINCE,
        platforms=("cpu",),
    ),
)
