"""The page of an engine's flag: its type and values, what a profile sets and why, what rules say.

Called by `ask` and `field`. With an accelerator it says what is legal there. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from llmd_ctl.cli.explain.leaves import leaves
from llmd_ctl.cli.explain.page import Fact, Page, said, section, words
from llmd_ctl.cli.explain.rule import versions
from llmd_ctl.profiles import Accelerator, Catalog, Engine, EngineOn
from llmd_ctl.profiles.accelerator import ProfileSetting
from llmd_ctl.profiles.engine import argument_name
from llmd_ctl.profiles.inside import Inside
from llmd_ctl.profiles.kernel import Kernel
from llmd_ctl.profiles.rules import RULES, Rule
from llmd_ctl.profiles.rules.attention import NAMED
from llmd_ctl.profiles.rules.line import platform_of

TYPES = {"str": "text", "int": "a whole number", "float": "a number", "bool": "a switch"}
KV_ROLE = "kvDtype"


class Flagged(Struct, frozen=True):
    """A flag, or a key inside its JSON (`--x.a.b`), of an engine, on an accelerator or on any."""

    engine: Engine
    flag: str
    inside: str
    accelerator: Accelerator | None
    catalog: Catalog

    @property
    def name(self) -> str:
        """As it is written."""
        return f"{self.flag}.{self.inside}" if self.inside else self.flag

    @property
    def on(self) -> EngineOn | None:
        """How the engine runs on the accelerator."""
        runs_as = self.engine.spec.stands_for or self.engine.name
        return None if self.accelerator is None else self.accelerator.spec.engines.get(runs_as)


def removed_page(engine: Engine, flag: str) -> Page:
    """Explain a flag that the engine has no more."""
    facts = [said("in its place", engine.spec.removed[flag])]
    return Page("flag", flag, f"{engine.name} {engine.spec.version} has it no more",
                section("flag", facts))  # fmt: skip


def flag_page(asked: Flagged) -> Page:
    """Explain a flag."""
    on = f" on {asked.accelerator.name}" if asked.accelerator is not None else ""
    engine = asked.engine
    return Page(
        "flag",
        asked.name,
        f"a flag of {engine.name} {engine.spec.version}{on}",
        (
            *section("flag", _flag(asked)),
            *section("what is inside", _keys(asked)),
            *section("what profiles set", _profiles(asked)),
            *section(f"legal{on}", _legal(asked)),
            *section("rules that speak of it", _rules(asked)),
        ),
        see=(f"engine {engine.name}@{engine.spec.version}",),
    )


def _flag(asked: Flagged) -> Iterator[Fact]:
    spec, flag = asked.engine.spec, asked.flag
    known = spec.flags.get(flag)
    if known is not None and not asked.inside:
        kind = "JSON" if known.type == "json" else TYPES[known.type]
        yield said("type", f"{kind}, several" if known.nargs in {"+", "*"} else kind)
        if known.suffixes:
            yield said("sizes", "k m g t for thousands, K M G T for 1,024s: 16k is 16,000")
        if known.auto:
            yield said("auto", "stands for -1")
        if known.choices:
            yield said("choices", known.choices)
        if known.aliases:
            yield said("also written", known.aliases)
        if known.negatable:
            yield said("turned off by", f"--no-{flag.removeprefix('--')}")
        if known.opposites:
            yield said("turned off by", known.opposites)
    if not asked.inside:
        default = spec.defaults.get(flag)
        unread = "the engine's own, which no plan reads"
        yield said("default", unread if default is None else default)
        if flag not in spec.reserved and flag not in spec.not_yet:
            yield said("in a fleet", f"engineArgs: {{{argument_name(flag)}: …}}")
    for role, name in spec.roles.items():
        if name == flag:
            yield said(
                "a plan's", role, note="what a plan goes by, and decides where nobody said it"
            )
    tables = {"llmd-ctl's own": spec.reserved, "not built yet": spec.not_yet,
              "not counted by a plan": spec.uncounted}  # fmt: skip
    for title, table in tables.items():
        if flag in table:
            yield said(title, table[flag])
    if flag in spec.breaks:
        values = spec.breaks[flag].values
        which = words(values) if values else "any value"
        yield said("breaks serving", which, note=spec.breaks[flag].reason)


def _keys(asked: Flagged) -> Iterator[Fact]:
    found = inside_of(asked.engine, asked.flag, asked.inside)
    if found is None:
        return
    if asked.inside or found.type or found.limits:
        yield said("value", _value(found))
    for key, each in found.keys.items():
        yield said(key, _value(each))


def inside_of(engine: Engine, flag: str, path: str) -> Inside | None:
    """Return what may stand at a path inside a flag's value; None where nothing is known."""
    found = engine.spec.inside.get(flag)
    for key in path.split(".") if path else ():
        found = found.keys.get(key) if found is not None else None
    return found


def _value(inside: Inside) -> str:
    parts = [inside.type or "", *inside.limits]
    if inside.keys:
        parts = [f"{inside.type or 'map'} of {len(inside.keys)} keys"]
    return ", ".join(part for part in parts if part) or "anything"


def _profiles(asked: Flagged) -> Iterator[Fact]:
    names = asked.catalog.names("AcceleratorProfile")
    if asked.accelerator is not None:
        names = (asked.accelerator.name,)
    same: dict[tuple[Any, ...], list[str]] = {}
    for name in names:
        on = asked.catalog.accelerator(name).spec.engines.get(asked.engine.name)
        setting = on.settings.get(asked.name) if on is not None else None
        if setting is not None:
            one = (setting.value, setting.reason, setting.must, setting.multiple_of)
            same.setdefault(one, []).append(name)
    for (value, reason, must, multiple), where in same.items():
        setting = ProfileSetting(value, reason, must, multiple)
        yield from leaves(setting, ProfileSetting, ", ".join(where))


def _legal(asked: Flagged) -> Iterator[Fact]:
    spec, on = asked.engine.spec, asked.on
    if asked.accelerator is None:
        yield from _everywhere(asked)
        return
    if on is None:
        yield said(asked.engine.name, f"does not run on {asked.accelerator.name}, as far as known")
        return
    if on.not_yet:
        yield said("not built yet", on.not_yet)
    if spec.roles.get(KV_ROLE) == asked.flag:
        known = spec.flags.get(asked.flag)
        yield said("values", on.kv_dtypes or (known.choices if known is not None else ()))
    if asked.flag in NAMED:
        yield from _backends(asked, on)


def _everywhere(asked: Flagged) -> Iterator[Fact]:
    """The backends of attention, and the architectures that each runs on."""
    for name, kernels in asked.engine.spec.attention.items() if asked.flag in NAMED else ():
        rows = [each for kernel in kernels for each in kernel.architectures or ("any",)]
        yield said(name, tuple(dict.fromkeys(rows)) if kernels else "runs nowhere")


def _backends(asked: Flagged, on: EngineOn) -> Iterator[Fact]:
    assert asked.accelerator is not None
    architecture = asked.accelerator.spec.architecture
    for name, backend in on.attention.items():
        yield from leaves(backend, None, f"the engine's order, {name}")
    others = []
    for name in asked.engine.spec.attention:
        kernel = asked.engine.kernel(name, architecture)
        if kernel is None:
            others.append(name)
        else:
            yield from leaves(kernel, Kernel, name)
    if others:
        yield said(f"not for {architecture}", others)


def _rules(asked: Flagged) -> Iterator[Fact]:
    accelerator = asked.accelerator
    platform = platform_of(accelerator.spec) if accelerator is not None else None
    for rule in RULES:
        if not _speaks_of(rule, asked.name):
            continue
        if accelerator is None and rule.engine == asked.engine.name:
            where = ", ".join(rule.platforms)
            of = "" if versions(rule) == "all" else f", {versions(rule)}"
            yield said(rule.id, rule.title, note=f"on {where}{of}" if where else of.lstrip(", "))
        elif rule.is_of(asked.engine.name, asked.engine.spec.version, platform):
            yield said(rule.id, rule.title)


def variable(engine: Engine, name: str) -> Iterator[Fact]:
    """Yield what is known of a variable of an engine's environment."""
    known = engine.spec.variables.get(name)
    if name in engine.spec.removed:
        yield said(f"gone from {engine.name}", engine.spec.removed[name])
    elif known is not None:
        yield said(f"read by {engine.name}", known.limits or ("any text",))
    for rule in RULES:
        if rule.engine == engine.name and name in rule.at:
            yield said(rule.id, rule.title, note=", ".join(rule.platforms))


def _speaks_of(rule: Rule, name: str) -> bool:
    return any(place == name or place.startswith(f"{name}.") for place in rule.at)
