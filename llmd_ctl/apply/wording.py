"""Differences of two plans in the words of the fleet file: its keys and its units.

Called by `changes`. What no key says stands under a name that tells what it is. Pure: where a key
stands is for those to look up who have the file.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

from msgspec import Struct

from llmd_ctl.plan.units import duration

COMMAND, FACTS, SETTINGS = "command", "facts", "settings"
PRICE = f"{FACTS}.pricePerHour"
NOTHING = "nothing"
# The plan's own paths, where they are other ones than the file's. The longest that fits counts.
KEYS = {
    "resilience": "spec.router.resilience",
    "traces": "spec.observability.traces",
    "routerTls": "spec.router.tls",
    "objective": "spec.router.routing.objective",
    "scheduler": "spec.router.routing.scheduler",
    "engine": "engine.name",
    "engineVersion": "engine.version",
    "executable": "engine.executable",
    "endpointUrl": "endpoint.url",
    "endpointTls": "endpoint.tls",
    "servedName": "endpoint.servedName",
}
KEYLESS = {"env", "simulated"}
NO_KEYS = {
    "simulate.speed": "--simulate",
    PRICE: "price an hour of a replica",
    "slo.ttftPercentile": "percentile of slo.ttft",
    "slo.itlPercentile": "percentile of slo.itl",
    "vendor": "vendor (by its profile)",
    "startupSeconds": "seconds to start (by its profile)",
}
MICROSECONDS = {"Us": 1, "Ms": 1_000}  # in one of the unit
SIZES = (("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10), ("", 1))
UNITS = (*MICROSECONDS, "Bytes")


class Difference(Struct, frozen=True):
    """One leaf of the plan that differs, by the plan's own path."""

    path: str
    old: Any
    new: Any

    @property
    def part(self) -> str:
        """The first key of the path."""
        return self.path.partition(".")[0]


class Said(Struct, frozen=True):
    """One reason, and the key of the file that says it; None where none does.

    A key is below its model or variant unless it begins with `spec`; empty, it is that one itself.
    """

    text: str
    key: str | None = None


def differences(old: Any, new: Any, path: str = "") -> Iterator[Difference]:
    """Every leaf that differs; a command's words, and what a flag is set to, are leaves."""
    below: list[Difference] = []
    if _is_open(old) and _is_open(new) and path.rpartition(".")[0] != SETTINGS:
        for key in {**(old or {}), **(new or {})}:
            at = f"{path}.{key}" if path else key
            below += differences((old or {}).get(key), (new or {}).get(key), at)
    if below:
        yield from below
    elif old != new:
        yield Difference(path, old, new)


def _is_open(value: Any) -> bool:
    """Whether it is looked into: a map, or the absence of one."""
    return value is None or isinstance(value, Mapping)


def said(found: Sequence[Difference]) -> list[Said]:
    """All of them in words; computed numbers that differ are one reason."""
    out: list[Said] = []
    computed: list[str] = []
    for one in found:
        if one.part == FACTS and one.path != PRICE:
            name = one.path.removeprefix(f"{FACTS}.")
            computed.append(f"{name} {_shown(one.old)} → {_shown(one.new)}")
        elif one.path == COMMAND:
            out += [Said(text) for text in _words(one.old or [], one.new or [])]
        else:
            out.append(_said(one))
    return [*out, Said(f"what is computed of it: {', '.join(computed)}")] if computed else out


def _said(one: Difference) -> Said:
    if one.part == SETTINGS:
        flag = one.path.removeprefix(f"{SETTINGS}.")
        return Said(f"engine flag {flag}: {_setting(one.old)} → {_setting(one.new)}")
    if one.path in NO_KEYS:
        return Said(f"{NO_KEYS[one.path]}: {_shown(one.old)} → {_shown(one.new)}")
    unit = next((suffix for suffix in UNITS if one.path.endswith(suffix)), None)
    rest = one.path.removeprefix(one.part)
    key = (KEYS.get(one.part, one.part) + rest).removesuffix(unit or "")
    text = f"{key}: {_shown(one.old, unit)} → {_shown(one.new, unit)}"
    return Said(text, None if one.part in KEYLESS else key)


def _words(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    """The words of a command line that differ, each group after the flag that it follows."""
    for tag, i, end, j, stop in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        lead = 1 if i and j and old[i - 1].startswith("-") else 0
        gone, come = shlex.join(old[i - lead : end]), shlex.join(new[j - lead : stop])
        yield f"{COMMAND}: {gone or NOTHING} → {come or NOTHING}"


def _setting(setting: Mapping[str, Any] | None) -> str:
    if setting is None:
        return NOTHING
    over = f", over {', '.join(setting['overruled'])}" if setting["overruled"] else ""
    return f"{setting['value']} ({setting['setBy']}{over})"


def _shown(value: Any, unit: str | None = None) -> str:
    if unit in MICROSECONDS and isinstance(value, int):
        return duration(value * MICROSECONDS[unit])
    if unit is not None and isinstance(value, int):
        name, scale = next((n, s) for n, s in SIZES if value % s == 0 and (value or not n))
        return f"{value // scale}{name}"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or NOTHING
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_shown(item)}" for key, item in value.items()) or NOTHING
    if isinstance(value, float):
        return f"{value:.6g}" if value % 1 else f"{value:.0f}"
    return NOTHING if value is None else str(value)
