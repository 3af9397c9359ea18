"""What several levels may say of a variant: which value counts, who said it, and over whom.

    engine default < profile < plan < defaults < target < model < variant

Called by `effective`, key by key. Values are the plan's; here it is only found who set them. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec import to_builtins
from msgspec.structs import replace

from llmd_ctl.cli.explain.case import Case, Level
from llmd_ctl.cli.explain.page import Effective, plain, words
from llmd_ctl.cli.plan_view import size
from llmd_ctl.plan.command import HUGGING_FACE, Served, environment_of
from llmd_ctl.plan.disaggregation import variables
from llmd_ctl.plan.report import Path
from llmd_ctl.plan.units import counted

DEFAULT = "default"
OWN_ADDRESS = "the address of the replica's own pod"
NOT_HERE = "nothing on this machine"


def row(
    case: Case, name: str, value: Any, keys: tuple[str, ...], otherwise: str, text: str = ""
) -> Effective:
    """One effective value: set by the highest level that says the keys, else by `otherwise`."""
    levels = [level for level in case.levels if case.said(level, *keys) is not None]
    setter = levels[-1] if levels else None
    over = [f"{low.title}: {words(case.said(low, *keys))}" for low in levels[:-1]]
    return Effective(
        of=case.title,
        name=name,
        text=text or words(value),
        value=plain(value),
        set_by=setter.title if setter is not None else otherwise,
        overruled=tuple(over),
        place=_place(case, (*setter.path, *keys)) if setter is not None else None,
    )


def _place(case: Case, path: Path) -> Any:
    return case.loaded.place(path)


def _profile(case: Case, value: Any) -> str:
    """Who set what no level says: the profile where it has something."""
    return f"profile {case.variant.accelerator}" if value not in (None, (), {}) else DEFAULT


# --- environment ---


def environment(case: Case, own: str) -> Iterator[Effective]:
    """Every variable of its engine, or one."""
    known = dict(_of_profiles(case))
    said = {name for level in case.levels for name in case.said(level, "env") or ()}
    for name in sorted({*known, *said}):
        if own in {"", name}:
            value, by = known.get(name, ("", DEFAULT))
            effective = case.planned.env.get(name, value)
            made = row(case, f"env.{name}", effective, ("env", name), by)
            under = (f"{by}: {value}",) if made.set_by != by and name in known else ()
            yield replace(made, overruled=(*under, *made.overruled))
    transfer = case.planned.place.transfer if case.planned.place is not None else None
    address = transfer.address_variable if transfer is not None else None
    if address is not None and address not in said and own in {"", address}:
        by = f"profile {case.variant.accelerator}"
        yield Effective(case.title, f"env.{address}", OWN_ADDRESS, None, by)


def _of_profiles(case: Case) -> Iterator[tuple[str, tuple[str, str]]]:
    chosen = case.chosen
    if chosen is None or chosen.is_simulated:
        return
    local = not case.model.uri.startswith(HUGGING_FACE)
    place = case.planned.place
    hosts = place.hosts if place is not None else 1
    values = environment_of(chosen.engine, chosen.on, Served("", (), local), hosts)
    several = chosen.on.several
    of_profile = {*chosen.on.env, *(several.env if several is not None else ())}
    for name, value in values.items():
        by = f"profile {case.variant.accelerator}"
        yield name, (value, by if name in of_profile else f"engine {chosen.engine.name}")
    transfer = place.transfer if place is not None else None
    if transfer is not None and case.accelerator is not None:
        role = case.variant.role
        for name, one in variables(chosen, case.accelerator, role, transfer.transport).items():
            yield name, (one.value, one.by)


# --- where it runs ---


def resources(case: Case, own: str) -> Iterator[Effective]:
    """Cores, memory and shared memory."""
    place = case.planned.place
    have = place.container if place is not None else None
    known = {
        "cpu": None if have is None else have.cpu,
        "memory": None if have is None else have.memory_bytes,
        "shm": None if have is None else have.shm_bytes,
    }
    for key, value in known.items():
        if own in {"", key}:
            is_size = key != "cpu" and value is not None
            text = size(int(value or 0)) if is_size else words(value)
            here = NOT_HERE if have is None else text
            keys = ("resources", key)
            yield row(case, f"resources.{key}", value, keys, _profile(case, value), here)


def selector(case: Case, own: str) -> Iterator[Effective]:
    """Labels that a node must have."""
    place = case.planned.place
    nodes = place.nodes if place is not None else None
    labels: dict[str, Any] = dict(nodes.selector) if nodes is not None else {}
    labels |= {each.key: each.values for each in nodes.labels} if nodes is not None else {}
    for key, value in labels.items():
        if own in {"", key}:
            by = _profile(case, value)
            yield row(case, f"nodeSelector.{key}", value, ("nodeSelector", key), by)


def _of_place(key: str, read: Callable[[Any], Any]) -> Callable[[Case, str], Iterator[Effective]]:
    """One value of a place as a whole, of which the highest level that says it counts."""

    def rows(case: Case, _own: str) -> Iterator[Effective]:
        place = case.planned.place
        value = None if place is None else read(place)
        text = NOT_HERE if place is None else ""
        yield row(case, key, value, (key,), _profile(case, value), text)

    return rows


def _records(items: Any) -> list[dict[str, Any]]:
    return [
        {key: each for key, each in to_builtins(item).items() if each is not None} for item in items
    ]


def cache(case: Case, _own: str) -> Iterator[Effective]:
    """Where weights are kept."""
    place = case.planned.place
    found = {} if place is None else to_builtins(place.cache)
    value = {key: each for key, each in found.items() if each is not None}
    unsaid = "a volume that goes with the replica, or a folder of the machine"
    text = NOT_HERE if place is None else "" if value else unsaid
    yield row(case, "cache", value or None, ("cache",), DEFAULT, text)


def replicas(case: Case, _own_key: str) -> Iterator[Effective]:
    """How many run; a rule for that takes the place of what nobody said."""
    rule = case.planned.place.autoscale if case.planned.place is not None else None
    if rule is None or case.said(case.levels[-1], "replicas") is not None:
        yield _own(case, "replicas", case.variant.replicas)
    else:
        text = f"{rule.min} to {rule.max}, by autoscale"
        yield row(case, "replicas", None, ("autoscale",), DEFAULT, text)


def autoscale(case: Case, _own_key: str) -> Iterator[Effective]:
    """By which rule replicas scale. A variant that says replicas has none."""
    rule = case.planned.place.autoscale if case.planned.place is not None else None
    if rule is not None:
        value = {"min": rule.min, "max": rule.max, "scaler": rule.scaler}
        yield row(case, "autoscale", value, ("autoscale",), DEFAULT)
    else:
        fixed = f"none: {counted(case.variant.replicas, 'replica')}, fixed"
        yield replace(_own(case, "replicas", None), name="autoscale", text=fixed)


def _own(case: Case, key: str, value: Any) -> Effective:
    """A key that only the variant has."""
    said = case.said(case.levels[-1], key) is not None
    by = case.levels[-1].title if said else DEFAULT
    at = _place(case, (*case.path, key)) if said else None
    return Effective(case.title, key, words(value), plain(value), by, (), at)


# --- the engine ---


def engine(case: Case, own: str) -> Iterator[Effective]:
    """Its name, version, program and image. The nearest level that names an engine counts."""
    chosen = case.chosen
    if chosen is None:
        return
    levels = [level for level in case.levels if case.said(level, "engine") is not None]
    by = levels[-1] if levels else None
    own_words, profile = f"engine {chosen.engine.name}", f"profile {case.variant.accelerator}"
    program = chosen.executable or " ".join(chosen.engine.spec.launch)
    known = {
        "name": (chosen.engine.name, DEFAULT),
        "version": (chosen.version, profile if chosen.on.version else own_words),
        "executable": (program, profile if chosen.on.executable else own_words),
    }
    for key, (value, otherwise) in known.items():
        if own in {"", key}:
            yield _of_engine(case, key, value, by, otherwise)
    if own in {"", "image"}:
        yield _image(case)


def _of_engine(case: Case, key: str, value: Any, by: Level | None, otherwise: str) -> Effective:
    said = by is not None and case.said(by, "engine", key) is not None
    at = _place(case, (*by.path, "engine", key)) if by is not None and said else None
    setter = by.title if by is not None and said else otherwise
    return Effective(case.title, f"engine.{key}", words(value), value, setter, (), at)


def _image(case: Case) -> Effective:
    """Its image, as a target that runs containers would get it."""
    chosen, place = case.chosen, case.planned.place
    assert chosen is not None
    value = place.image.pinned if place is not None and place.image is not None else None
    named = [
        level
        for level in case.levels
        if case.said(level, "engine", "image") is not None
        and case.said(level, "engine", "name") == chosen.engine.name
    ]
    otherwise = f"profile {case.variant.accelerator}" if value is not None else DEFAULT
    made = _of_engine(case, "image", value, named[-1] if named else None, otherwise)
    none = "no image is known" if place is not None else NOT_HERE
    return made if value is not None else replace(made, text=none)


INHERITED: Mapping[str, Callable[[Case, str], Iterator[Effective]]] = {
    "env": environment,
    "resources": resources,
    "nodeSelector": selector,
    "tolerations": _of_place("tolerations", lambda place: _records(place.nodes.tolerations)),
    "imagePullSecrets": _of_place(
        "imagePullSecrets", lambda place: list(place.nodes.image_pull_secrets)
    ),
    "secretRefs": _of_place("secretRefs", lambda place: _records(place.secrets)),
    "cache": cache,
    "autoscale": autoscale,
    "replicas": replicas,
    "engine": engine,
}
"""By key of a level: its effective values for a variant."""
