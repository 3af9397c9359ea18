"""What comes with llmd-ctl: its profiles by kind and name, each whole with what it extends.

Called by `catalog`, and by `user_file` for what a user's profile extends. Only names are read until
a profile is asked for; each is read once. It never reads a file of the user's.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from msgspec import Struct

from llmd_ctl.profiles.document import build, merge
from llmd_ctl.spec.compose import compose
from llmd_ctl.spec.findings import Findings
from llmd_ctl.spec.source import SourceText

BUILT_IN = "llmd-ctl"
FOLDERS = "nvidia amd tpu gaudi intel cpu rebellions ascend aws engines models".split()
FAMILY = "AcceleratorFamily"
# Tables of an engine that lie beside its profile. Those of its own parser are whole; the others lie
# over those of the version that the profile extends, and there null takes an entry away.
WHOLE = (".flags", ".inside", ".variables")
BESIDE = (*WHOLE, ".attention", ".removed")
APART = ("families", "versions")  # no profiles: how families are made, which version is known best

Key = tuple[str, str]  # kind, and the name; an engine's name is NAME@VERSION


class Profile(Struct, frozen=True, eq=False):
    """A whole document's data, merged with what it extends."""

    name: str
    lineage: tuple[str, ...]
    origin: str
    data: Mapping[str, Any]


def _root() -> Traversable:
    return resources.files("llmd_ctl") / "profiles"


@cache
def index() -> Mapping[Key, Traversable]:
    """Return the built-in profiles' files by kind and name; of an engine the best known version."""
    found: dict[Key, Traversable] = {}
    best: Mapping[str, str] = _plain(_root() / "engines" / "versions.yaml")
    for folder in FOLDERS:
        for file in sorted((_root() / folder).iterdir(), key=lambda f: f.name):
            name = file.name.removesuffix(".yaml")
            if name == file.name or name in APART or name.endswith(BESIDE):
                continue
            if folder == "engines":
                engine, _, version = name.rpartition("-")
                found[("EngineProfile", f"{engine}@{version}")] = file
                if best.get(engine, version) == version:
                    found[("EngineProfile", engine)] = file
            elif folder == "models":
                found[("ModelProfile", name.replace("--", "/"))] = file
            elif name.endswith(".family"):
                found[(FAMILY, name.removesuffix(".family"))] = file
            else:
                found[("AcceleratorProfile", name)] = file
    return found


@cache
def built_in(kind: str, name: str) -> Profile | None:
    """Return a profile, or a family, that comes with llmd-ctl; None: none has that name."""
    file = index().get((kind, name))
    if file is None:
        return None
    document = _plain(file)
    data: Mapping[str, Any] = document["spec"]
    lineage = () if kind == FAMILY else (name,)
    under = below(kind, document["extends"]) if "extends" in document else None
    if under is not None:
        data, lineage = merge(under.data, data), (*lineage, *under.lineage)
    if kind == "EngineProfile":
        data = _with_tables(data, document["spec"], file.name.removesuffix(".yaml"))
    return Profile(name, lineage, BUILT_IN, data)


def _with_tables(data: Mapping[str, Any], own: Mapping[str, Any], stem: str) -> Mapping[str, Any]:
    """Return an engine's data with the tables beside it; `own` is what its profile itself says."""
    for table in BESIDE:
        beside, key = _root() / "engines" / f"{stem}{table}.yaml", table[1:]
        if not beside.is_file():
            continue
        under = own.get(key, {}) if table in WHOLE else data.get(key, {})
        laid = merge(under, _plain(beside)[key])
        data = {**data, key: {name: each for name, each in laid.items() if each is not None}}
    return data


def below(kind: str, name: str) -> Profile | None:
    """Return what another profile of this kind may extend: one of its kind, or a family."""
    family = FAMILY if kind == "AcceleratorProfile" else kind
    return built_in(kind, name) or built_in(family, name)


def body(cls: Any, profile: Profile) -> Any:
    """Return what a profile says, as its type; of a built-in one it is made once."""
    if profile.origin == BUILT_IN:
        return _body_of_built_in(cls, profile)
    return build(cls, profile.data, profile.origin)


@cache
def _body_of_built_in(cls: Any, profile: Profile) -> Any:
    return build(cls, profile.data, profile.origin)


@cache
def families() -> Mapping[str, Any]:
    """Return how model families are made (`models/families.yaml`)."""
    loaded: Mapping[str, Any] = _plain(_root() / "models" / "families.yaml")
    return loaded


def _plain(file: Traversable) -> Any:
    source = SourceText(file.name, file.read_text("utf-8"), Path())
    (document,) = compose(Findings(source))
    return document.root.plain()
