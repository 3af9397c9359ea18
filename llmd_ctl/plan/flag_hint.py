"""What to write for an engine's flag instead of what was written: hints.

Called by `flags`. It goes by the flag's type in the engine's table; it judges nothing. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from llmd_ctl.plan.records import Scalar
from llmd_ctl.profiles.accelerator import EngineOn
from llmd_ctl.profiles.engine import Engine, FlagType, argument_name
from llmd_ctl.spec import meant

KINDS: dict[FlagType, str] = {
    "int": "Write digits alone, without quotes or unit.",
    "float": "Write a number such as 0.5, without quotes or unit.",
    "bool": "Write true or false, without quotes.",
    "json": """Write it as JSON in single quotes, such as '{"key": 1}'.""",
    "str": "Write it as text, in quotes.",
}

NATIVE = "OffloadingConnector"  # which vLLM's own flag for a size means
READ: dict[FlagType, Callable[[str], tuple[str, ...]]] = {"int": meant.whole, "float": meant.share}


def for_kind(flag: str, kind: FlagType, written: str) -> str:
    """Say what to write for a value that is not of a flag's type."""
    sized = meant.quantity(written)
    if (
        kind in READ
        and flag.endswith("-gb")
        and sized
        and re.fullmatch("g(i?b)?", sized[1].lower())
    ):
        return f"Write {sized[0]}, without quotes or unit."
    if kind == "bool":
        return f"Write {written}, without quotes." if written in {"true", "false"} else KINDS[kind]
    words = READ[kind](written) if kind in READ else ()
    return f"Write {' or '.join(words)}, without quotes or unit." if words else KINDS[kind]


def for_negated(engine: Engine, name: str, value: Scalar) -> str | None:
    """Say what to write for the name of --no-…, which `engineArgs` has as the flag with false."""
    positive = re.fullmatch(r"no([A-Z])(\w*)", name)
    argument = positive[1].lower() + positive[2] if positive else ""
    flag = engine.spec.flags.get(engine.by_argument.get(argument, ""))
    if flag is None or flag.type != "bool":
        return None
    on = str(value).lower() == "false"
    if not on and not flag.negatable:
        return f"Remove it: {argument} is off where it is left out."
    return f"Write {argument}: {'true' if on else 'false'}."


def for_connector(engine: Engine, on: EngineOn) -> Mapping[str, str]:
    """Say what to write for the flag that names a connector of KV, by that flag."""
    flag = engine.spec.roles.get("kvTransfer")
    if flag is None or flag not in engine.spec.reserved:
        return {}
    own = None if on.offload is None else on.offload.connector
    if own is None:
        kept = "In main memory KV is not kept here."
    elif own == NATIVE:
        kept = f"To keep KV in main memory ({own}) write kvOffloadingSize: GIB."
    else:
        kept = (
            f"To keep KV in main memory takes {own} here, of an engine that you start yourself:"
            " endpoint: {url: …}."
        )
    return {flag: f"For prefill and decode apart give variants their role. {kept}"}


def for_unknown(engine: Engine, near: str | None, *, raw: bool) -> str:
    """Say what to write for a flag that the engine does not have; `near`: what it may be."""
    if near is not None:
        hint = f"Write {near}, or remove it."
    else:
        flag = engine.spec.roles.get("maxSequences", next(iter(engine.spec.flags), ""))
        form = f"{flag} is one" if raw else f"{argument_name(flag)} stands for {flag}"
        hint = f"Remove it, or write a flag of {engine.name} as its own help has it: {form}."
    return f"{hint} {engine.spec.beside_flags}".rstrip()


def for_stray(flag: str | None, *, has_value: bool) -> str | None:
    """Say what to do with a word that no flag takes; `flag` stands before it."""
    if flag is None:
        return None
    return f"Remove it: {flag} {'has its value already' if has_value else 'takes no value'}."
