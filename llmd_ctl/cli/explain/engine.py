"""The page of an engine: its roles, what it may not be told, and where it runs.

Called by `ask` and `ci/reference.py`. Each single flag is `flag`'s. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import get_type_hints

from pydantic.alias_generators import to_camel

from llmd_ctl.cli.explain.leaves import leaves
from llmd_ctl.cli.explain.page import Fact, Page, said, section, words
from llmd_ctl.profiles import Catalog, Engine
from llmd_ctl.profiles.engine import EngineOverhead, EngineSpec
from llmd_ctl.profiles.rules import RULES

APART = ("version", "description", "overhead")
TABLES = {
    "env": "set in its environment",
    "local_model_env": "set for a model of this machine",
    "caches": "folders of the cache, by variable",
    "not_on": "where it does not run",
    "auto_dtype": "what dtype auto makes",
    "reserved": "flags that are llmd-ctl's",
    "not_yet": "flags for what is not built yet",
    "breaks": "flags that would break serving",
    "uncounted": "flags whose effect no plan counts",
    "removed": "flags that are gone",
}


def engine_page(engine: Engine, catalog: Catalog) -> Page:
    """Explain an engine."""
    spec = engine.spec
    tables = [
        each for key, title in TABLES.items() for each in section(title, _table(spec, key))
    ]  # fmt: skip
    return Page(
        "engine",
        f"{engine.name}@{spec.version}",
        spec.description,
        (
            *section("engine", _engine(engine)),
            *section("what a plan decides by its flags", _roles(spec)),
            *section("runs on", _places(engine, catalog)),
            *section("time on the host", leaves(spec.overhead, EngineOverhead, "")),
            *tables,
        ),
        see=(f"flag --engine {engine.name}@{spec.version}", "rule"),
    )


def _engine(engine: Engine) -> Iterator[Fact]:
    spec = engine.spec
    yield said("version", spec.version)
    hints = get_type_hints(EngineSpec, include_extras=True)
    for key, hint in hints.items():
        value = getattr(spec, key)
        if key not in APART and not isinstance(value, Mapping):
            yield from leaves(value, hint, to_camel(key))
    yield said("flags that are known", len(spec.flags))
    yield said("variables that are known", len(spec.variables))
    yield (
        said("attention backends", tuple(spec.attention))
        if spec.attention
        else said("attention backends", "no table")
    )
    yield said("rules", sum(rule.engine == engine.name for rule in RULES))
    yield said("profile of", engine.origin)


def _roles(spec: EngineSpec) -> Iterator[Fact]:
    for role, flag in spec.roles.items():
        default = spec.defaults.get(flag)
        yield said(role, flag, note="" if default is None else f"default {words(default)}")
    for role, value in spec.assumed.items():
        yield said(role, value, note="it has no such flag")


def _places(engine: Engine, catalog: Catalog) -> Iterator[Fact]:
    runs_as = engine.spec.stands_for or engine.name
    for name in catalog.names("AcceleratorProfile"):
        on = catalog.accelerator(name).spec.engines.get(runs_as)
        if on is None:
            continue
        version = f" {on.version}" if on.version and on.version != engine.spec.version else ""
        late = f"not built yet: {on.not_yet}" if on.not_yet else ""
        yield said(name, f"{on.package}{version}", note=late)


def _table(spec: EngineSpec, key: str) -> Iterator[Fact]:
    for name, each in getattr(spec, key).items():
        if key == "breaks":
            values = words(each.values) if each.values else "any value"
            yield Fact(name, values, list(each.values), note=each.reason)
        elif key in {"env", "local_model_env"}:
            yield said(name, each.value, note=each.reason)
        else:
            yield said(name, each)
