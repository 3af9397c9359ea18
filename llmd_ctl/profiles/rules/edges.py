"""What is known by a number and is no rule of that number: what keeps it, instead.

`edges.yaml`, one folder up, is the table; `explain rule` reads it. Many a thing that is easily
done wrong is kept by a rule of another number, by what a profile says, or is a thing of the
machines that no fleet tells. It judges nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

import yaml
from msgspec import Struct

from llmd_ctl.profiles.built_in import built_in

KINDS = ("AcceleratorProfile", "EngineProfile", "ModelProfile")


class Edge(Struct, frozen=True):
    """A row of the table; what each part means stands at its top."""

    id: str
    title: str
    rules: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    node: str = ""
    absent: str = ""
    manifests: bool = False  # of objects in a folder: docs/manifests.md


@cache
def edges() -> Mapping[str, Edge]:
    """Return the table, by number."""
    text = resources.files("llmd_ctl").joinpath("profiles/edges.yaml").read_text("utf-8")
    rows: Mapping[str, Mapping[str, Any]] = yaml.CSafeLoader(text).get_single_data()
    return {name: _edge(name, row) for name, row in rows.items()}


def _edge(name: str, row: Mapping[str, Any]) -> Edge:
    listed: dict[str, Any] = {
        key: tuple(said) if isinstance(said, list) else said for key, said in row.items()
    }
    return Edge(name, **listed)


def fact(where: str) -> Any:
    """Return what a built-in profile says at NAME PATH. Raises `KeyError` where it says nothing."""
    name, _, path = where.partition(" ")
    found = next(each for each in (built_in(kind, name) for kind in KINDS) if each is not None)
    value: Any = found.data
    for key in path.split("."):
        value = value[key]
    return value
