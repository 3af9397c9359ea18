"""Rules of two sides on the handshake of NIXL: what it compares, and refuses where it differs.

The table of `pairs` has them beside its own.
"""

from __future__ import annotations

from llmd_ctl.profiles.rules.line import Line
from llmd_ctl.profiles.rules.pair import Pair, PairRule
from llmd_ctl.profiles.rules.transfer import FLAG, HYBRID, NIXL, NOT_BESIDE

SOURCE = "vLLM 0.32.0 kv_connector/v1/nixl"
OWN = frozenset({"bfloat16", "float16"})  # the model's own type, where it has that


def by_nixl(pair: Pair) -> bool:
    """Whether NIXL hands KV over: by the lines' own words, else by what the plan chose."""
    said = {name for line in pair.lines for name in line.connectors}
    return bool(said & set(NIXL)) if said else pair.connector in NIXL


def _same_model(pair: Pair) -> bool:
    return not pair.differ(lambda line: line.model_uri)


def _kv_type(line: Line) -> str:
    """The type of the cache as the engine settles it: auto is the model's own."""
    return "auto" if line.kv_dtype in OWN else line.kv_dtype


def _backends(line: Line) -> tuple[str, ...]:
    """The attention that may run: the one that is named, else what the engine tries."""
    if line.backend is not None:
        return (line.backend,)
    return tuple(name for name, _ in line.choices if name not in NOT_BESIDE)


def _common(pair: Pair) -> tuple[str, ...]:
    first, second = (_backends(line) for line in pair.lines)
    return tuple(name for name in first if name in second)


def _attention_known(pair: Pair) -> bool:
    return by_nixl(pair) and all(_backends(line) for line in pair.lines)


def _apart(line: Line) -> str:
    return " or ".join(_backends(line)[:3])


def _draft(line: Line) -> tuple[object, ...] | None:
    """What of drafting changes the KV: eagle and its like, with the model and their number."""
    method = str(line.draft_method)
    if not any(name in method for name in ("eagle", "mtp", "dflash")):
        return None
    return method, line.draft.get("model")


def _pushes(line: Line) -> bool:
    return "NixlPushConnector" in line.connectors


RULES = (
    PairRule(
        "K01",
        "What the handshake of NIXL compares is alike: the engine's version",
        when=by_nixl,
        require=lambda pair: not pair.differ(lambda line: line.version),
        message="prefill runs version {prefill} and decode {decode}: the handshake refuses that",
        remedy="Take one version on both sides.",
        words=lambda pair: pair.words(lambda line: line.version),
        source=f"{SOURCE}/metadata.py:187",
    ),
    PairRule(
        "K46",
        "What the handshake of NIXL compares is alike: the model",
        when=by_nixl,
        require=_same_model,
        message="prefill serves {prefill} and decode {decode}: the handshake refuses that",
        remedy="Serve one checkpoint on both sides, under one name.",
        words=lambda pair: pair.words(lambda line: line.model_uri.removeprefix("hf://")),
        at=("--model",),
        source=f"{SOURCE}/metadata.py:190",
    ),
    PairRule(
        "K47",
        "What the handshake of NIXL compares is alike: the types",
        when=by_nixl,
        require=lambda pair: not pair.differ(lambda line: (line.dtype, _kv_type(line))),
        message="prefill keeps KV as {prefill} and decode as {decode}: the handshake refuses that",
        remedy="Say the same --dtype and --kv-cache-dtype on both sides.",
        words=lambda pair: pair.words(lambda line: f"{_kv_type(line)} beside {line.dtype}"),
        at=("--kv-cache-dtype", "--dtype"),
        source=f"{SOURCE}/metadata.py:191",
    ),
    PairRule(
        "K48",
        "What the handshake of NIXL compares is alike: the attention",
        when=_attention_known,
        require=lambda pair: bool(_common(pair)),
        message="prefill attends with {prefill}, decode with {decode}: the handshake refuses that",
        remedy="Name one --attention-backend that both accelerators have; where there is none, keep"
        " the two roles on one accelerator.",
        words=lambda pair: pair.words(_apart),
        at=("--attention-backend", "--attention-config"),
        source=f"{SOURCE}/metadata.py:196",
    ),
    PairRule(
        "K40",
        "Both sides of NIXL name their attention where the engine might choose differently",
        when=lambda pair: (
            _attention_known(pair) and bool(_common(pair)) and pair.differ(lambda x: x.architecture)
        ),
        require=lambda pair: not pair.differ(lambda line: _backends(line)[0]),
        message="the engine tries {prefill} first for prefill and {decode} for decode: with two"
        " kinds of attention the handshake refuses",
        remedy="Name one --attention-backend on both sides.",
        words=lambda pair: pair.words(lambda line: _backends(line)[0]),
        allowed=_common,
        at=("--attention-backend", "--attention-config"),
        severity="warning",
        source=f"{SOURCE}/metadata.py:196",
    ),
    PairRule(
        "K49",
        "What the handshake of NIXL compares is alike: drafts that share the cache",
        when=by_nixl,
        require=lambda pair: not pair.differ(_draft),
        message="prefill and decode draft differently: the handshake refuses that",
        remedy="Say the same --speculative-config on both sides.",
        at=("--speculative-config", "--spec-method", "--spec-model"),
        source=f"{SOURCE}/metadata.py:199",
    ),
    PairRule(
        "K50",
        "What the handshake of NIXL compares is alike: who starts, and how many kinds of cache",
        when=by_nixl,
        require=lambda pair: (
            not pair.differ(_pushes) and not pair.differ(lambda line: line.on_by(HYBRID))
        ),
        message="one side pushes KV or holds one kind of cache, and the other does not",
        remedy="Name one connector, and say --disable-hybrid-kv-cache-manager on both sides or on"
        " none.",
        at=(HYBRID, FLAG),
        source=f"{SOURCE}/metadata.py:201",
    ),
)
