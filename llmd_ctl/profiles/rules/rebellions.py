"""Rules of vLLM on Rebellions' ATOM (vllm-rbln): models are compiled whole, for given shapes.

ATOM runs models through optimum-rbln alone. No plan runs it yet; the rules are for lines that
somebody else wrote.
"""

from __future__ import annotations

from typing import cast

from llmd_ctl.profiles.rules.line import Line, Platform
from llmd_ctl.profiles.rules.rule import Rule
from llmd_ctl.profiles.rules.scheduling import length

RBLN: tuple[Platform, ...] = ("rbln",)
PATH = "vllm-rbln 0.12.0 platform/optimum_impl.py"
LIMITS = "optimum-rbln 0.12.0 transformers/modeling_attention_utils.py"
IMPL, OLD_IMPL, BLOCK = "--model-impl", "VLLM_RBLN_USE_VLLM_MODEL", "--block-size"
OVERRIDES = ("--additional-config", "optimum_overrides")
OVERRIDES_FLAG, BLOCK_KEY = ("--rbln-optimum-overrides",), "kvcache_block_size"
CACHED = "--enable-prefix-caching"
IMPLEMENTATIONS = ("auto", "transformers", "optimum")
STEP, CHUNK = "--max-num-batched-tokens", 64
VLLM_SHARE = 0.92  # of memory, where nothing is said
WHOLE, LEAST_PART, MOST_PART = 32768, 1024, 32768  # tokens, on ATOM


def _block(line: Line) -> int | None:
    said = (line.inside(*flag, BLOCK_KEY) for flag in (OVERRIDES, OVERRIDES_FLAG))
    inside = next((each for each in said if each is not None), None)
    return inside if type(inside) is int else line.block_size


def _fits(line: Line) -> bool:
    """As a whole, or in parts that divide it."""
    block, whole = cast(int, _block(line)), length(line)
    if block == whole:
        return whole <= WHOLE
    return LEAST_PART <= block <= MOST_PART and whole % block == 0


def _uncached(line: Line) -> bool:
    return any(group.keep in {"window", "state"} for group in line.model.cache)


RULES = (
    Rule(
        "R01",
        "A model on ATOM is split by the compiler",
        when=lambda line: line.tensor > 1,
        require=lambda _line: False,
        message="--tensor-parallel-size is refused on ATOM",
        remedy='Leave it out, and set "num_devices_per_local_rank" in --additional-config.',
        allowed=lambda _line: (1,),
        at=("--tensor-parallel-size",),
        source=f"{PATH}:66",
        platforms=RBLN,
    ),
    Rule(
        "R02",
        "A model on ATOM is optimum-rbln's",
        when=lambda line: line.says(IMPL),
        require=lambda line: line[IMPL] in IMPLEMENTATIONS,
        message="ATOM does not run models by --model-impl {--model-impl}",
        remedy="Take optimum, or leave --model-impl out.",
        allowed=lambda _line: IMPLEMENTATIONS,
        at=(IMPL,),
        source="vllm-rbln 0.12.0 config.py:327",
        platforms=RBLN,
    ),
    Rule(
        "R07",
        "A model on ATOM is optimum-rbln's, whatever a variable says",
        require=lambda line: not line.switched(OLD_IMPL),
        message="VLLM_RBLN_USE_VLLM_MODEL is refused on ATOM",
        remedy="Unset the variable: --model-impl says it now.",
        at=(OLD_IMPL,),
        source="vllm-rbln 0.12.0 config.py:327",
        platforms=RBLN,
    ),
    Rule(
        "R08",
        "A block on Rebellions is said",
        when=lambda line: not line.model_uri.startswith(("/", ".")),  # such may be compiled
        require=lambda line: _block(line) is not None,
        message="models are compiled for a block size here, and none is said",
        remedy="Set --block-size to --max-model-len, or to a part of it from 1024 tokens on.",
        at=(BLOCK,),
        source="vllm-rbln 0.12.0 utils/optimum/converter/from_vllm.py:92",
        platforms=RBLN,
    ),
    Rule(
        "R03",
        "A block on ATOM is the whole context, or divides it",
        when=lambda line: _block(line) is not None,
        require=_fits,
        message="a context cannot be compiled in such blocks: whole up to 32768 tokens, or in"
        " two or more equal parts of 1024 to 32768",
        remedy="Set --block-size to --max-model-len, or --max-model-len to a multiple of it.",
        at=(BLOCK, "--max-model-len", "--additional-config"),
        source=f"{LIMITS}:119",
        platforms=RBLN,
    ),
    Rule(
        "R04",
        "A chunk of a prompt on Rebellions is a multiple of 64 tokens",
        require=lambda line: line.told(STEP) % CHUNK == 0,
        message="chunks of {--max-num-batched-tokens} tokens are not compiled:"
        " --max-num-batched-tokens is the chunk here",
        remedy="Take a multiple of 64, or leave it out for ATOM's 128.",
        allowed=lambda _line: (128, 256, 512),
        at=("--max-num-batched-tokens",),
        source=f"{LIMITS}:101",
        platforms=RBLN,
    ),
    Rule(
        "R05",
        "Prefixes on Rebellions are kept of plain models",
        when=lambda line: line.given.get(CACHED) is True,
        require=lambda line: not _uncached(line),
        message="prefix caching is turned off for models with windows or states",
        remedy="Leave --enable-prefix-caching out.",
        at=(CACHED,),
        severity="warning",
        source=f"{PATH}: disable_unsupported_prefix_caching",
        platforms=RBLN,
    ),
    Rule(
        "R09",
        "A model on ATOM has one stage",
        when=lambda line: line.pipeline > 1,
        require=lambda _line: False,
        message="--pipeline-parallel-size is refused on ATOM",
        remedy='Leave it out, and set "num_devices_per_local_rank" in --additional-config.',
        allowed=lambda _line: (1,),
        at=("--pipeline-parallel-size",),
        source=f"{PATH}:71",
        platforms=RBLN,
    ),
    Rule(
        "R10",
        "Nothing is drafted on ATOM",
        when=lambda line: bool(line.draft),
        require=lambda _line: False,
        message="drafted tokens are refused on ATOM",
        remedy="Leave out what drafts them.",
        at=("--speculative-config", "--spec-method", "--spec-model"),
        source=f"{PATH}:75",
        platforms=RBLN,
    ),
    Rule(
        "R11",
        "Rebellions have one model runner",
        when=lambda line: line.switched("VLLM_USE_V2_MODEL_RUNNER"),
        require=lambda _line: False,
        message="VLLM_USE_V2_MODEL_RUNNER is refused on Rebellions",
        remedy="Set it to 0, or unset it.",
        at=("VLLM_USE_V2_MODEL_RUNNER",),
        source="vllm-rbln 0.12.0 platform/__init__.py: check_and_update_config",
        platforms=RBLN,
    ),
    Rule(
        "R12",
        "Steps on ATOM are scheduled in turn",
        when=lambda line: line.given.get("--async-scheduling") is True,
        require=lambda _line: False,
        message="asynchronous scheduling is turned off on ATOM",
        remedy="Leave --async-scheduling out.",
        at=("--async-scheduling",),
        severity="warning",
        source=f"{PATH}:56",
        platforms=RBLN,
    ),
    Rule(
        "R13",
        "Devices of Rebellions are named once",
        when=lambda line: "RBLN_DEVICES" in line.env and "RBLN_VISIBLE_DEVICES" in line.env,
        require=lambda line: line.env["RBLN_DEVICES"] == line.env["RBLN_VISIBLE_DEVICES"],
        message="RBLN_DEVICES is passed over: RBLN_VISIBLE_DEVICES is set too",
        remedy="Unset RBLN_DEVICES, which is the older name.",
        at=("RBLN_DEVICES",),
        severity="warning",
        source="vllm-rbln 0.12.0 platform/__init__.py: pre_register_and_update",
        platforms=RBLN,
    ),
    Rule(
        "R14",
        "The share of memory on Rebellions is not vLLM's own",
        when=lambda line: line.given.get("--gpu-memory-utilization") == VLLM_SHARE,
        require=lambda _line: False,
        message="a share of 0.92 is taken for none said, and 0.93 in its place",
        remedy="Say 0.93, or another share than 0.92.",
        at=("--gpu-memory-utilization",),
        severity="warning",
        source="vllm-rbln 0.12.0 platform/__init__.py: apply_config_platform_defaults",
        platforms=RBLN,
    ),
)
