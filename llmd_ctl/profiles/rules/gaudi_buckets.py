"""Rules of vLLM on Gaudi (vllm-gaudi) on buckets: the shapes that are compiled before a request.

They are variables of the environment, `VLLM_PROMPT_BS_BUCKET_MIN` and its like. Which are read
depends on the strategy: exponential buckets take nearly none of them.
"""

from __future__ import annotations

import re

from llmd_ctl.profiles.rules.line import Line, Platform
from llmd_ctl.profiles.rules.rule import Rule

HPU: tuple[Platform, ...] = ("hpu",)
FOLDER = "vllm-gaudi 0.26.0 extension/bucketing"
STRATEGY, OLD, FILE = (
    "VLLM_BUCKETING_STRATEGY", "VLLM_EXPONENTIAL_BUCKETING", "VLLM_BUCKETING_FROM_FILE",
)  # fmt: skip
STRATEGIES = ("exp", "lin", "pad")
DIMENSIONS = (
    "PROMPT_BS", "PROMPT_QUERY", "PROMPT_SEQ", "PROMPT_CTX", "DECODE_BS", "DECODE_BLOCK",
)  # fmt: skip
EDGES, PADS = ("MIN", "STEP", "MAX"), ("PAD_MAX", "PAD_PERCENT")
NAMES = tuple(f"VLLM_{each}_BUCKET_{part}" for each in DIMENSIONS for part in (*EDGES, *PADS))
ONE_TOKEN = "VLLM_PROMPT_QUERY_BUCKET_MIN"  # the one that exponential buckets read
WHOLE = re.compile(r"\s*[-+]?[0-9]{1,18}\s*")
MOST_PADDING = 50


def strategy(line: Line) -> str:
    """How buckets are laid out; the older variable overrules."""
    if OLD in line.env:
        return "exp" if line.switched(OLD) else "lin"
    return line.env.get(STRATEGY, "exp")


def _said(line: Line) -> tuple[str, ...]:
    return tuple(name for name in NAMES if name in line.env)


def _number(line: Line, name: str) -> int | None:
    text = line.env.get(name, "")
    return int(text) if WHOLE.fullmatch(text) else None


def _unread(line: Line) -> list[str]:
    """Variables that this strategy passes over."""
    kind = strategy(line)
    if line.env.get(FILE):
        return list(_said(line))
    if kind == "exp":
        alone = _number(line, ONE_TOKEN) == 1
        return [name for name in _said(line) if not (alone and name == ONE_TOKEN)]
    return [name for name in _said(line) if kind == "lin" and name.endswith(PADS)]


def _in_order(line: Line) -> bool:
    for each in DIMENSIONS:
        least, most = (_number(line, f"VLLM_{each}_BUCKET_{part}") for part in ("MIN", "MAX"))
        if least is not None and most is not None and least > most:
            return False
    return True


def _steps(line: Line) -> bool:
    steps = (_number(line, f"VLLM_{each}_BUCKET_STEP") for each in DIMENSIONS)
    return all(step is None or step > 0 for step in steps)


def _pads(line: Line) -> bool:
    shares = (_number(line, f"VLLM_{each}_BUCKET_PAD_PERCENT") for each in DIMENSIONS)
    return all(share is None or 0 <= share <= MOST_PADDING for share in shares)


def _read(line: Line) -> bool:
    return strategy(line) in {"lin", "pad"} and not line.env.get(FILE)


RULES = (
    Rule(
        "G04",
        "Buckets on Gaudi are laid out in a way that there is",
        when=lambda line: STRATEGY in line.env,
        require=lambda line: line.env[STRATEGY] in STRATEGIES,
        message="the plugin lays no buckets out in such a way",
        remedy="Set VLLM_BUCKETING_STRATEGY to one of them, or leave it out.",
        allowed=lambda _line: STRATEGIES,
        at=(STRATEGY,),
        source="vllm-gaudi 0.26.0 extension/features.py:103",
        platforms=HPU,
    ),
    Rule(
        "G21",
        "Buckets on Gaudi are whole numbers",
        require=lambda line: all(_number(line, name) is not None for name in _said(line)),
        message="a bucket on Gaudi is a whole number, and such a variable is none",
        remedy="Write digits alone.",
        at=NAMES,
        source="vllm-gaudi 0.26.0 extension/config.py:161",
        platforms=HPU,
    ),
    Rule(
        "G22",
        "Buckets on Gaudi are set where they are read",
        when=lambda line: strategy(line) in STRATEGIES,
        require=lambda line: not _unread(line),
        message="sizes of buckets are passed over here: exponential ones, or a file's, take none"
        " of them, and linear ones no padding",
        remedy="Set VLLM_BUCKETING_STRATEGY to pad, or to lin without padding, or leave them out.",
        at=NAMES,
        severity="warning",
        source=f"{FOLDER}/exponential.py:18, common.py:159",
        platforms=HPU,
    ),
    Rule(
        "G23",
        "The least bucket is no larger than the largest",
        when=_read,
        require=_in_order,
        message="a bucket's MIN is more than its MAX, and the engine stops while it warms up",
        remedy="Swap them, or leave one of them out.",
        at=NAMES,
        source=f"{FOLDER}/linear.py:144, padding_aware.py:182",
        platforms=HPU,
    ),
    Rule(
        "G24",
        "Buckets on Gaudi grow in steps",
        when=_read,
        require=_steps,
        message="a bucket's STEP is not above zero",
        remedy="Take a power of two, or a multiple of the block size.",
        at=NAMES,
        source=f"{FOLDER}/padding_aware.py:184",
        platforms=HPU,
    ),
    Rule(
        "G25",
        "Padding on Gaudi is at most a half",
        when=lambda line: _read(line) and strategy(line) == "pad",
        require=_pads,
        message="a bucket's PAD_PERCENT is not between 0 and 50",
        remedy="Take 25, which is the plugin's own, or another up to 50.",
        at=NAMES,
        source=f"{FOLDER}/padding_aware.py:185",
        platforms=HPU,
    ),
    Rule(
        "G26",
        "The way of buckets on Gaudi is said once",
        when=lambda line: OLD in line.env,
        require=lambda _line: False,
        message="VLLM_EXPONENTIAL_BUCKETING is deprecated, and overrules VLLM_BUCKETING_STRATEGY",
        remedy="Unset it, and set VLLM_BUCKETING_STRATEGY to exp or lin.",
        at=(OLD,),
        severity="warning",
        source=f"{FOLDER}/common.py:139",
        platforms=HPU,
    ),
)
