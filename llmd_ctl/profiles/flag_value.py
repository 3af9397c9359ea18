"""Whether an engine's flag may be set, and takes a value: by type, choices and range.

Called by plan's `flags` for what a fleet gives, by `catalog` for the settings of a user's profile.
The engine's table knows every flag; nothing here knows one by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from msgspec import Struct

from llmd_ctl.profiles.accelerator import Scalar
from llmd_ctl.profiles.document import Checker
from llmd_ctl.profiles.engine import Engine, Flag, FlagType
from llmd_ctl.spec.json_text import read_json
from llmd_ctl.spec.nodes import Node, Path

WORDS: dict[FlagType, str] = {
    "int": "a whole number", "float": "a number", "bool": "true or false",
    "json": "JSON text", "str": "text",
}  # fmt: skip
KINDS: dict[FlagType, tuple[type, ...]] = {
    "int": (int,), "float": (int, float), "bool": (bool,), "json": (str,), "str": (str, int, float),
}  # fmt: skip
CHOOSE = -1  # as a length: the engine takes the longest that fits, and a plan has to say one
NUMBERS: Mapping[FlagType, Callable[[str], int | float]] = {"int": int, "float": float}
WHOLE = re.compile(r"[-+]?[0-9]{1,400}")  # longer ones Python refuses to convert
# Sizes as vLLM reads them (utils/argparse_utils.py: human_readable_int).
SIZED = re.compile(r"([0-9]{1,300}(?:\.[0-9]{1,300})?)([kKmMgGtT])")
DECIMAL_SUFFIXES, BINARY_SUFFIXES = "kmgt", "KMGT"
# What a role's number may be at most; all of them are above 0.
MOST = {
    "maxModelLen": 2**31 - 1, "maxSequences": 2**20, "maxBatchedTokens": 2**31 - 1,
    "blockSize": 2**20, "kvBytes": 2**50, "tensor": 1024, "pipeline": 1024,
    "data": 1024,
}  # fmt: skip


class Fault(Struct, frozen=True):
    """Why a flag, or its value, is refused."""

    code: str
    message: str
    allowed: tuple[str, ...] = ()
    of_flag: bool = False  # whatever its value
    hint: str | None = None


def whole_of(known: Flag, text: str) -> int | None:
    """Return the whole number that a flag takes a text for; None: it takes it for none."""
    if known.auto and text.strip().casefold() == "auto":
        return CHOOSE
    if WHOLE.fullmatch(text):
        return int(text)
    sized = SIZED.fullmatch(text) if known.suffixes else None
    if sized is None:
        return None
    size, suffix = sized.groups()
    if suffix in DECIMAL_SUFFIXES:
        return int(float(size) * 1000 ** (DECIMAL_SUFFIXES.index(suffix) + 1))
    power = BINARY_SUFFIXES.index(suffix) + 1
    return int(size) * 1024**power if "." not in size else None


def as_text(value: Scalar) -> str:
    """Return a value as engines read it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def unusable(engine: Engine, flag: str) -> Fault | None:
    """Return why nobody may set a flag; None: it may be set."""
    reason, later = engine.spec.reserved.get(flag), engine.spec.not_yet.get(flag)
    if reason is not None:
        return Fault("LC2023", f"{flag} is not yours to set: {reason}", of_flag=True)
    if later is not None:
        return Fault("LC2025", f"{flag} is not built yet ({later})", of_flag=True)
    return None


def unfit(engine: Engine, flag: str, value: Scalar) -> Fault | None:
    """Return why a flag does not take a value; None: it does."""
    if type(value) not in KINDS[engine.spec.flags[flag].type]:
        return wrong_kind(engine, flag)
    return unfit_text(engine, flag, as_text(value))


def unfit_text(engine: Engine, flag: str, text: str) -> Fault | None:
    """Return why a flag does not take a text that is right as a number, if it takes one."""
    known = engine.spec.flags[flag]
    if known.type in NUMBERS:
        return _out_of_range(engine, flag, NUMBERS[known.type](text)) or _unchosen(
            known, flag, text
        )
    if known.type == "json" and not _is_json(text):
        return wrong_kind(engine, flag)
    return _unchosen(known, flag, text)


def _unchosen(known: Flag, flag: str, text: str) -> Fault | None:
    choices = tuple(map(str, known.choices))
    if choices and text not in choices:
        return Fault("LC2022", f"{flag} has no value {text}", choices)
    return None


def wrong_kind(engine: Engine, flag: str) -> Fault:
    """Return the fault of a value that is not of a flag's type."""
    words = WORDS[engine.spec.flags[flag].type]
    return Fault("LC2021", f"{flag} of {engine.name} {engine.spec.version} takes {words}")


def check_settings(checker: Checker, engine: Engine, path: Path) -> None:
    """Report the settings at a path of a profile that the engine would not take.

    Flags that it does not have are left to the plan, which knows the version that runs.
    """
    node = checker.document.root.at(path)
    settings = node.value if node is not None and isinstance(node.value, dict) else {}
    for flag, setting in settings.items():
        value = setting.get("value")
        if flag not in engine.spec.flags:
            continue
        fault = unusable(engine, flag)
        if fault is not None:
            checker.say(fault.code, fault.message, (*path, flag), key=True, found=flag)
            continue
        fault = _unfit_setting(engine, flag, value) if value is not None else None
        if value is not None and fault is not None:
            found = value.written or str(value.value)
            at = (*path, flag, "value")
            checker.say(fault.code, fault.message, at, found=found, allowed=fault.allowed)


def _unfit_setting(engine: Engine, flag: str, node: Node) -> Fault | None:
    value = node.value
    if not isinstance(value, str | int | float):
        return None
    return unfit(engine, flag, value)


def _out_of_range(engine: Engine, flag: str, value: Scalar) -> Fault | None:
    role = next((role for role, named in engine.spec.roles.items() if named == flag), "")
    most = 1 if role == "utilization" else MOST.get(role)
    if most is None or not isinstance(value, int | float) or 0 < value <= most:
        return None
    if role == "maxModelLen" and value == CHOOSE:
        return None
    if engine.spec.unlimited.get(role) == value:
        return None
    if role == "utilization":
        share = f"{_share(value):g}" if 2 <= value <= 100 else "0.92 for 92 %"
        hint = f"Write {share}, or leave it out for the default."
        return Fault("LC2021", f"{flag} is not possible", ("above 0, at most 1",), hint=hint)
    allowed = f"1 to {most}"
    hint = f"Write {allowed}, or leave it out for the default."
    return Fault("LC2021", f"{flag} is not possible", (allowed,), hint=hint)


def _share(value: float) -> float:
    """What is meant by a share that is no share: 92 % as 92, or 0.9 without its 0 and point."""
    return value / 10 if value < 10 else value / 100


def _is_json(text: str) -> bool:
    try:
        read_json(text)
    except ValueError:
        return False
    return True
